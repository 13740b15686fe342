//! A batch: the calls that share one flush, or one write. Each leads the commit or waits for its outcome.
//!
//! Invariant: every call of a batch gets an outcome, even if the leader panics.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, Thread, ThreadId};
use crate::base::user_code;
use crate::{Error, Result};

/// The result of a commit, the same for all calls of its batch.
pub(crate) type Outcome = Result<()>;

/// The reason given after a leader has panicked.
pub(crate) const LEADER_PANICKED: &str = "a defect interrupted a commit: its leader panicked";

/// A flush of a write buffer, counted from the first one of this run. It is not the number of a commit:
/// there are commits without a flush of their own, and flushes of several commits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FlushNo(u64);

impl FlushNo {
    /// That of what is written without a flush.
    pub(crate) const NONE: FlushNo = FlushNo(0);
    pub(crate) const FIRST: FlushNo = FlushNo(1);

    pub(crate) fn next(self) -> FlushNo {
        FlushNo(self.0 + 1)
    }
}

/// The calls that share one flush, or one write.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The flush that they wait for.
    pub(crate) flush: FlushNo,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    /// The outcome as its leader knows it, before the waiters are woken.
    announced: Option<(ThreadId, Outcome)>,
    wakers: Wakers,
    parked: ParkedThreads,
    /// The last leader has finished, and a parked thread must lead the next commit.
    needs_leader: bool,
}

/// The wakers of the futures that await a batch, in order of arrival, without duplicates. One
/// executor task may await hundreds of calls, or thousands of tasks one call each.
#[derive(Debug, Default)]
struct Wakers {
    in_order: Vec<Waker>,
    identities: HashSet<(usize, usize)>,
}

/// Wakers of equal identity wake the same executor task.
fn identity_of(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

/// Held by the leader of a commit. If it is dropped before the batch has an outcome, the leader has
/// panicked: the calls of the batch get [`OutcomeUnknown`](Error::OutcomeUnknown).
pub(crate) struct BatchGuard(pub(crate) Arc<Batch>);

impl Drop for BatchGuard {
    fn drop(&mut self) {
        let is_finished = self.0.state.lock().outcome.is_some();
        if !is_finished {
            self.0.finish(Err(Error::OutcomeUnknown { why: LEADER_PANICKED.to_owned() }));
        }
    }
}

/// A parked thread that was chosen to lead a commit.
pub(crate) struct NextLeader(Thread);

impl NextLeader {
    pub(crate) fn wake(self) {
        self.0.unpark();
    }
}

/// Why a parked thread of a batch was woken.
pub(crate) enum Wakeup {
    Done(Outcome),
    /// The thread must lead the commit.
    Lead,
}

impl Batch {
    pub(crate) fn new(flush: FlushNo) -> Arc<Batch> {
        Arc::new(Batch { flush, state: Mutex::default() })
    }

    /// Parks until the batch is done or its commit needs a leader.
    pub(crate) fn wait_or_lead(&self) -> Wakeup {
        let mut slot = None;
        loop {
            let mut state = self.state.lock();
            // Checked before the outcome: a leadership that was handed over must be accepted.
            if std::mem::take(&mut state.needs_leader) {
                state.parked.leave(slot);
                return Wakeup::Lead;
            }
            if let Some(outcome) = state.announced_to_this_thread() {
                return Wakeup::Done(outcome);
            }
            if let Some(outcome) = state.outcome.clone() {
                state.parked.leave(slot);
                let next = state.parked.next_two();
                drop(state);
                wake(next);
                return Wakeup::Done(outcome);
            }
            slot = Some(state.parked.join(slot));
            drop(state);
            thread::park();
        }
    }

    /// Chooses the parked thread that leads next; the caller wakes it. `None` if none is parked.
    pub(crate) fn choose_leader(&self) -> Option<NextLeader> {
        let mut state = self.state.lock();
        // `needs_leader` is not set for a thread that is about to park: it may never arrive.
        let thread = state.parked.next()?;
        state.needs_leader = true;
        Some(NextLeader(thread))
    }

    /// Makes the outcome known to this thread, which has led the commit. It wakes takers before it
    /// finishes the batch, so that they are awake when the calls of the batch return; a waker of
    /// theirs may wait for this very commit.
    pub(crate) fn announce_to_leader(&self, outcome: Outcome) {
        self.state.lock().announced = Some((thread::current().id(), outcome));
    }

    /// Sets the outcome, and wakes the waiters.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let (parked, wakers) = {
            let mut state = self.state.lock();
            state.outcome = Some(outcome);
            state.announced = None;
            (state.parked.next_two(), std::mem::take(&mut state.wakers))
        };
        wake(parked);
        wakers.in_order.into_iter().for_each(user_code::wake);
    }

    /// The outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.lock().known_outcome()
    }

    /// The outcome, or `Pending`; then `waker` is woken when the outcome is known.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        // Cloning a waker is user code and must not run under the lock.
        let waker = waker.clone();
        let mut state = self.state.lock();
        if let Some(outcome) = state.known_outcome() {
            return Poll::Ready(outcome);
        }
        if state.wakers.identities.insert(identity_of(&waker)) {
            state.wakers.in_order.push(waker);
        }
        Poll::Pending
    }
}

impl State {
    /// The outcome, if this thread may know it.
    fn known_outcome(&self) -> Option<Outcome> {
        self.outcome.clone().or_else(|| self.announced_to_this_thread())
    }

    fn announced_to_this_thread(&self) -> Option<Outcome> {
        let (leader, outcome) = self.announced.as_ref()?;
        (*leader == thread::current().id()).then(|| outcome.clone())
    }
}

/// The threads that are parked on a batch, in order of arrival.
///
/// Waking a thread takes several microseconds, and a thread that is woken late misses the next
/// commit. So each thread that finds the batch done wakes two more: the wake-ups spread over all
/// cores, and no thread makes many of them.
///
/// Invariant: every parked thread has a slot, leaves it before it returns, and is woken once. So
/// every thread is woken.
#[derive(Debug, Default)]
struct ParkedThreads {
    slots: Vec<Option<Thread>>,
    /// All slots before this one are empty.
    woken: usize,
}

impl ParkedThreads {
    /// Gives the current thread a slot before it parks. It keeps `slot` if it was not woken since.
    fn join(&mut self, slot: Option<usize>) -> usize {
        match slot {
            Some(slot) if self.slots[slot].is_some() => slot,
            _ => {
                self.slots.push(Some(thread::current()));
                self.slots.len() - 1
            }
        }
    }

    /// Empties the slot of a thread that does not park again.
    fn leave(&mut self, slot: Option<usize>) {
        if let Some(slot) = slot {
            self.slots[slot] = None;
        }
    }

    /// Removes the thread that was parked first; the caller wakes it.
    fn next(&mut self) -> Option<Thread> {
        while let Some(slot) = self.slots.get_mut(self.woken) {
            self.woken += 1;
            if let Some(thread) = slot.take() {
                return Some(thread);
            }
        }
        None
    }

    fn next_two(&mut self) -> [Option<Thread>; 2] {
        [self.next(), self.next()]
    }
}

fn wake(parked: [Option<Thread>; 2]) {
    parked.iter().flatten().for_each(Thread::unpark);
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn executor_task_that_awaits_several_calls_is_woken_once() {
        struct Counted(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Counted {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let batch = Batch::new(FlushNo::FIRST);
        let tasks = [0, 0].map(|none| Arc::new(Counted(none.into())));
        for task in tasks.iter().chain(&tasks) {
            assert!(batch.poll(&task.clone().into()).is_pending());
        }
        batch.finish(Ok(()));
        assert_eq!(tasks.map(|task| task.0.load(std::sync::atomic::Ordering::Relaxed)), [1, 1]);
    }

    /// `park` may return spuriously. A wake-up spent on a thread that has left is lost.
    #[test]
    fn next_skips_threads_that_have_left() {
        let mut parked = ParkedThreads::default();
        let slots = [None; 4].map(|slot| parked.join(slot));
        assert_eq!(parked.join(Some(slots[1])), slots[1], "it keeps its slot");
        parked.leave(Some(slots[0]));
        parked.leave(Some(slots[2]));
        assert_eq!(parked.next_two().iter().flatten().count(), 2);
        assert!(parked.next().is_none());
        assert_eq!(parked.join(Some(slots[3])), 4, "it was woken, and parks again");
        assert!(parked.next().is_some());
    }
}
