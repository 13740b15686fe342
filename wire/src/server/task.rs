//! A call whose answer comes later: its future or stream, and its scheduling.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};

use futures_core::Stream;

use super::connection::Connection;
use super::queue::Queue;
use super::service::Reply;
use super::state::{Call, Outcome};
use crate::limits::WINDOW;
use crate::sync::{Arc, Mutex};
use crate::user_code::{catch_panic, drop_caught};

/// How many items one stream gives before others have their turn.
const ITEMS_AT_ONCE: usize = 64;

/// What is polled.
pub(crate) enum Work {
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    Many { stream: Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>, sent: u64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Waits to be woken.
    Idle,
    /// Woken; in the queue of the executor.
    Queued,
    /// A thread polls it.
    Running,
    /// A thread polls it, and it was woken since.
    Woken,
    /// It has ended.
    Done,
}

/// A call in flight.
pub(crate) struct Task {
    number: u64,
    pub(crate) connection: Arc<Connection>,
    queue: Arc<Queue<Arc<Task>>>,
    /// The longest answer that the client takes.
    limit: usize,
    state: Mutex<State>,
}

struct State {
    phase: Phase,
    /// `None` while a thread polls it, and when it has ended.
    work: Option<Work>,
    ending: Ending,
    /// Items that the client has taken.
    taken: u64,
}

/// Whether a future is dropped before it has an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ending {
    No,
    /// When it was polled, and not woken since.
    OncePolled,
    /// When the thread that polls it has polled it.
    Now,
}

/// What came of polling.
enum Polled {
    Pending,
    /// Other tasks have their turn first.
    Again,
    Over(Outcome),
}

impl Wake for Task {
    fn wake(self: Arc<Task>) {
        Task::wake_by_ref(&self);
    }

    fn wake_by_ref(self: &Arc<Task>) {
        let mut state = self.state.lock();
        match state.phase {
            Phase::Idle => {
                state.phase = Phase::Queued;
                drop(state);
                self.queue.push(self.clone());
            }
            Phase::Running => state.phase = Phase::Woken,
            Phase::Queued | Phase::Woken | Phase::Done => {}
        }
    }
}

impl Task {
    /// A task that only its creator knows, and polls with [`run`](Task::run).
    pub(crate) fn new(
        number: u64,
        connection: Arc<Connection>,
        queue: Arc<Queue<Arc<Task>>>,
        limit: usize,
        work: Work,
    ) -> Arc<Task> {
        let state = State { phase: Phase::Queued, work: Some(work), ending: Ending::No, taken: 0 };
        Arc::new(Task { number, connection, queue, limit, state: Mutex::new(state) })
    }

    /// Polls the task once. Its answers are then in the outbox of the connection, not yet written.
    pub(crate) fn run(self: &Arc<Task>) {
        let mut state = self.state.lock();
        if state.phase != Phase::Queued {
            return;
        }
        let Some(mut work) = state.work.take() else { return };
        state.phase = Phase::Running;
        drop(state);
        let waker = Waker::from(self.clone());
        let polled = catch_panic(|| self.poll(&mut work, &mut Context::from_waker(&waker)));
        let polled = polled.unwrap_or(Polled::Over(Outcome::Panicked));
        match polled {
            Polled::Over(outcome) => self.end(work, outcome),
            Polled::Pending | Polled::Again => self.put_back(work, matches!(polled, Polled::Again)),
        }
    }

    /// Drops the future now, if no thread polls it and it need not be polled before.
    fn give_up(&self, ending: Ending) {
        let mut state = self.state.lock();
        state.ending = state.ending.max(ending);
        let waits = match state.phase {
            Phase::Idle => true,
            Phase::Queued => state.ending == Ending::Now,
            Phase::Running | Phase::Woken | Phase::Done => false,
        };
        if waits && let Some(work) = state.work.take() {
            drop(state);
            self.end(work, Outcome::End);
        }
    }

    fn put_back(self: &Arc<Task>, work: Work, again: bool) {
        let mut state = self.state.lock();
        let goes_on = again || state.phase == Phase::Woken;
        if state.ending == Ending::Now || (state.ending == Ending::OncePolled && !goes_on) {
            drop(state);
            return self.end(work, Outcome::End);
        }
        state.work = Some(work);
        if goes_on {
            state.phase = Phase::Queued;
            drop(state);
            self.queue.push(self.clone());
        } else {
            state.phase = Phase::Idle;
        }
    }

    /// Drops the future, then answers the call.
    fn end(&self, work: Work, outcome: Outcome) {
        self.state.lock().phase = Phase::Done;
        let outcome = match drop_caught(work) {
            Ok(()) => outcome,
            Err(_) => outcome.and_panicked(),
        };
        self.connection.complete(self.number, outcome, self.limit);
    }

    /// While the client does not read, answers would pile up: the connection wakes the task later.
    fn may_poll(self: &Arc<Task>) -> bool {
        let call = || -> Arc<dyn Call> { self.clone() };
        self.connection.may_poll(call)
    }

    fn poll(self: &Arc<Task>, work: &mut Work, context: &mut Context<'_>) -> Polled {
        if !self.may_poll() {
            return Polled::Pending;
        }
        let (stream, sent) = match work {
            Work::Later(future) => {
                return match future.as_mut().poll(context) {
                    Poll::Ready(reply) => Polled::Over(Outcome::Reply(reply)),
                    Poll::Pending => Polled::Pending,
                };
            }
            Work::Many { stream, sent } => (stream, sent),
        };
        for _ in 0..ITEMS_AT_ONCE {
            // The client wakes the task when it has taken items.
            let taken = self.state.lock().taken;
            if sent.saturating_sub(taken) >= WINDOW || !self.may_poll() {
                return Polled::Pending;
            }
            match stream.as_mut().poll_next(context) {
                Poll::Ready(Some(item)) => {
                    if self.connection.item(self.number, &item, self.limit).is_err() {
                        return Polled::Over(Outcome::Ended);
                    }
                    *sent += 1;
                }
                Poll::Ready(None) => return Polled::Over(Outcome::End),
                Poll::Pending => return Polled::Pending,
            }
        }
        Polled::Again
    }
}

impl Call for Task {
    fn number(&self) -> u64 {
        self.number
    }

    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn cancel(&self) {
        self.give_up(Ending::Now);
    }

    fn finish(&self) {
        self.give_up(Ending::OncePolled);
    }

    fn taken(self: Arc<Self>, count: u64) {
        let mut state = self.state.lock();
        state.taken = state.taken.max(count);
        drop(state);
        self.wake_by_ref();
    }
}
