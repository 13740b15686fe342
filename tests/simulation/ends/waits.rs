//! The waits: futures that are polled by hand, when they begin, and then only after their wakers were
//! called.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{CallFuture, Durability, Ending, Error, Receipt, Result};

use super::{Simulation, Status, draw_timeout};
use crate::model::Micros;
use crate::rng::Rng;

/// What a wait waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Waited {
    /// The end of a task.
    Task(u64),
    /// A tube that is drained.
    Drained(usize),
    /// A tube with a task that can be taken.
    Ready(usize),
}

pub(super) struct Wait {
    future: Waiting,
    woken: Arc<WokenFlag>,
    waited: Waited,
    until: Micros,
    /// Its answer, once what it waits for has happened.
    answer: Option<Ending>,
}

enum Waiting {
    Done(CallFuture<Option<Ending>>),
    Put(CallFuture<(Receipt, Option<Ending>)>),
    Tube(CallFuture<bool>),
}

#[derive(Default)]
struct WokenFlag {
    is_woken: AtomicBool,
}

impl Wake for WokenFlag {
    fn wake(self: Arc<WokenFlag>) {
        self.is_woken.store(true, Ordering::SeqCst);
    }
}

impl Wait {
    fn new(future: Waiting, waited: Waited, until: Micros) -> Wait {
        Wait { future, woken: Arc::default(), waited, until, answer: None }
    }

    /// Polls it. The end of a wait for a tube is said to be `Gone`.
    fn poll(&mut self) -> Poll<Result<Option<Ending>>> {
        let waker = Waker::from(self.woken.clone());
        let context = &mut Context::from_waker(&waker);
        match &mut self.future {
            Waiting::Done(future) => Pin::new(future).poll(context),
            Waiting::Put(future) => {
                let id = self.waited;
                Pin::new(future).poll(context).map_ok(|(receipt, ending)| {
                    assert_eq!(Waited::Task(receipt.id), id);
                    ending
                })
            }
            Waiting::Tube(future) => {
                Pin::new(future).poll(context).map_ok(|is_so| is_so.then_some(Ending::Gone))
            }
        }
    }

    /// Polls it until it has its answer, or until `is_enough`. The thread that writes a commit calls the
    /// waker of a wait for it, whatever becomes of the commit.
    fn poll_until(&mut self, is_enough: impl Fn() -> bool) -> Poll<Result<Option<Ending>>> {
        loop {
            let polled = self.poll();
            if polled.is_ready() || is_enough() {
                return polled;
            }
            thread::yield_now();
        }
    }

    fn is_woken(&self) -> bool {
        self.woken.is_woken.swap(false, Ordering::SeqCst)
    }
}

impl Waited {
    fn labels(self) -> [&'static str; 4] {
        match self {
            Waited::Task(_) => {
                ["waits: task", "ended: task", "ended before: task", "timed out: task"]
            }
            Waited::Drained(_) => {
                ["waits: drained", "ended: drained", "ended before: drained", "timed out: drained"]
            }
            Waited::Ready(_) => {
                ["waits: ready", "ended: ready", "ended before: ready", "timed out: ready"]
            }
        }
    }
}

impl Simulation {
    /// Puts a task and waits for its end.
    pub(super) fn put_and_wait(&mut self, nth: usize, rng: &mut Rng) {
        let tube = self.world.tubes[nth].clone();
        // The thread of a commit would run beside the next calls.
        let is_relaxed = matches!(self.durability[nth], Durability::Relaxed { .. });
        if self.is_unsure || !is_relaxed || rng.one_in(4) {
            let answer = tube.put_and_wait("work", Duration::ZERO);
            if let (Some((receipt, ending)), _) = self.done("put_and_wait", answer) {
                assert_eq!(ending, None);
                self.added(receipt.id, nth);
            }
            return;
        }
        let (timeout, until) = draw_timeout(self.world.now, rng);
        let id = self.world.store.next_id();
        let future = Waiting::Put(tube.put_and_wait_async("work", timeout));
        let mut wait = Wait::new(future, Waited::Task(id), until);
        match wait.poll() {
            Poll::Pending => {
                self.added(id, nth);
                let (verb, no_timeout) = ("put_and_wait", "put_and_wait without a timeout");
                self.world.cover(if timeout.is_some() { verb } else { no_timeout });
                self.waits.push(wait);
            }
            Poll::Ready(Ok(ending)) => {
                assert_eq!((ending, timeout), (None, Some(Duration::ZERO)));
                self.added(id, nth);
            }
            Poll::Ready(Err(error)) => drop(self.done("put_and_wait", Err::<(), _>(error))),
        }
    }

    /// Begins to wait for the end of a task, or for a tube.
    pub(super) fn wait(&mut self, nth: usize, rng: &mut Rng) {
        let ids: Vec<u64> = self.tasks.keys().copied().collect();
        if ids.is_empty() || self.waits.len() > 8 || self.is_unsure {
            return;
        }
        let (timeout, until) = draw_timeout(self.world.now, rng);
        let (future, waited, answer) = match rng.below(6) {
            0 => {
                let future = self.world.tubes[nth].wait_drained_async(timeout);
                let is_drained = self.is_drained(nth);
                (Waiting::Tube(future), Waited::Drained(nth), is_drained.then_some(Ending::Gone))
            }
            1 => {
                let future = self.world.tubes[nth].wait_ready_async(timeout);
                let has_ready = !self.of(nth, &Status::Ready).is_empty();
                (Waiting::Tube(future), Waited::Ready(nth), has_ready.then_some(Ending::Gone))
            }
            _ => {
                let id = ids[ids.len() - 1 - rng.index(ids.len().min(10))];
                let task = &self.tasks[&id];
                let future = self.world.tubes[task.tube].wait_done_async(id, timeout);
                (Waiting::Done(future), Waited::Task(id), ending_of(&task.status))
            }
        };
        let mut wait = Wait::new(future, waited, until);
        let [waits, _, before, timed_out] = waited.labels();
        // In a written tube, the answer of a wait that begins after the end waits for the write.
        let polled = wait.poll_until(|| answer.is_none());
        match polled {
            Poll::Pending => {
                assert!(
                    answer.is_none() && timeout != Some(Duration::ZERO),
                    "{waited:?} waits, {timeout:?}, {answer:?}"
                );
                self.world.cover(waits);
                self.waits.push(wait);
            }
            Poll::Ready(Ok(ending)) => {
                let is_over = ending.is_some() || timeout == Some(Duration::ZERO);
                assert!(is_over && ending == answer, "{ending:?} of {waited:?}, not {answer:?}");
                self.world.cover(if ending.is_some() { before } else { timed_out });
                self.world.trace.push(format!("{waited:?} has ended before: {ending:?}"));
            }
            // It reads the file.
            Poll::Ready(Err(error)) => drop(self.done("wait", Err::<(), _>(error))),
        }
    }

    /// What these waits wait for has happened.
    pub(super) fn tell(&mut self, is_told: impl Fn(&Waited) -> bool, ending: Ending) {
        let told = self.waits.iter_mut().filter(|wait| is_told(&wait.waited));
        for wait in told.filter(|wait| wait.answer.is_none()) {
            wait.answer = Some(ending.clone());
        }
    }

    /// Polls the waits that were woken: those, and no others, whose time has elapsed or for which
    /// something has happened. A failed storage ends them all.
    pub(super) fn poll_waits(&mut self) {
        let mut waits = std::mem::take(&mut self.waits);
        waits.retain_mut(|wait| {
            let must_end = wait.answer.is_some() || wait.until <= self.world.now;
            if !wait.is_woken() {
                assert!(self.is_unsure || !must_end, "{:?} is not woken", wait.waited);
                return true;
            }
            // A put that waits may have been woken by its commit.
            match wait.poll_until(|| !must_end) {
                Poll::Pending => return true,
                Poll::Ready(answer) => self.finish_wait(wait, answer),
            }
            false
        });
        self.waits = waits;
    }

    fn finish_wait(&mut self, wait: &Wait, answer: Result<Option<Ending>>) {
        let (waited, is_tripped) = (wait.waited, self.world.disk.tripped());
        let [_, ended, _, timed_out] = waited.labels();
        self.world.trace.push(format!("{waited:?}: {answer:?}"));
        match answer {
            Ok(ending) => {
                let is_right = ending == wait.answer && (ending.is_some() || self.is_late(wait));
                assert!(self.is_unsure || is_right, "{ending:?} of {waited:?}, {:?}", wait.answer);
                self.world.cover(if ending.is_some() { ended } else { timed_out });
                // The end is known to a caller, though the call that has ended the task may have failed.
                if let (Waited::Task(id), Some(_)) = (waited, ending)
                    && let Some(task) = self.tasks.get(&id)
                {
                    self.over.insert(id, task.tube);
                }
            }
            Err(error) => {
                let is_failure = matches!(
                    error,
                    Error::Unavailable { .. } | Error::Io { .. } | Error::OutcomeUnknown { .. }
                );
                assert!(is_failure && is_tripped, "{waited:?}: {error}");
                self.world.cover("wait that the storage ends");
            }
        }
    }

    fn is_late(&self, wait: &Wait) -> bool {
        wait.until <= self.world.now
    }

    /// A close has ended the waits.
    pub(super) fn waits_are_closed(&mut self) {
        for mut wait in std::mem::take(&mut self.waits) {
            assert!(wait.is_woken(), "{:?} is not woken by a close", wait.waited);
            assert_eq!(wait.poll(), Poll::Ready(Err(Error::Closed)), "{:?}", wait.waited);
            self.world.cover("wait that a close ends");
        }
    }
}

/// What a wait returns that begins after the end.
fn ending_of(status: &Status) -> Option<Ending> {
    match status {
        Status::Ready | Status::Taken => None,
        Status::Buried => Some(Ending::Buried { failure: None }),
        Status::Done(result) => Some(Ending::Done { result: result.clone() }),
        Status::Gone => Some(Ending::Gone),
    }
}
