//! A batch: the calls that share one commit, and how they learn its outcome.

use std::collections::HashSet;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::sync::Mutex;
use crate::sync::thread::{self, Thread};
use crate::user_code;
use crate::{Error, Result};

/// What became of a batch; an error is the same for all its calls.
pub(crate) type Outcome = Result<()>;

/// What is told when a leader has panicked.
pub(crate) const BROKEN_OFF: &str = "a commit was broken off by a defect";

/// The calls that share one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The number of the commit that holds it.
    pub(crate) number: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    wakers: Wakers,
    parked: ParkedThreads,
    /// The last leader is done and hands its role to one of the sleepers.
    lead: bool,
}

/// The tasks that await a batch, in order of arrival, each once: one may await hundreds of calls,
/// and so may thousands one each.
#[derive(Debug, Default)]
struct Wakers {
    each: Vec<Waker>,
    /// Their names.
    known: HashSet<(usize, usize)>,
}

/// Wakers of one name wake the same task.
fn name_of(waker: &Waker) -> (usize, usize) {
    (waker.data().addr(), std::ptr::from_ref(waker.vtable()).addr())
}

/// A batch whose commit is being led. If it goes without an outcome, its leader has panicked: nobody
/// knows it then, and everyone is told so.
pub(crate) struct BatchGuard(pub(crate) Arc<Batch>);

impl Drop for BatchGuard {
    fn drop(&mut self) {
        if self.0.outcome().is_none() {
            self.0.finish(Err(Error::OutcomeUnknown { why: BROKEN_OFF.to_owned() }));
        }
    }
}

/// Who is to lead a commit, and sleeps.
pub(crate) struct NextLeader(Thread);

impl NextLeader {
    pub(crate) fn wake(self) {
        self.0.unpark();
    }
}

/// Why a sleeper of a batch woke.
pub(crate) enum Wakeup {
    Done(Outcome),
    /// It is this caller's turn to commit.
    Lead,
}

impl Batch {
    pub(crate) fn new(number: u64) -> Arc<Batch> {
        Arc::new(Batch { number, state: Mutex::default() })
    }

    /// Sleeps until the batch is done or its commit is to be led.
    pub(crate) fn wait_or_lead(&self) -> Wakeup {
        let mut place = None;
        loop {
            let mut state = self.state.lock();
            // Before the outcome: a role that was handed over must be taken, or given back.
            if std::mem::take(&mut state.lead) {
                state.parked.leave(place);
                return Wakeup::Lead;
            }
            if let Some(outcome) = state.outcome.clone() {
                state.parked.leave(place);
                let next = state.parked.next_two();
                drop(state);
                wake(next);
                return Wakeup::Done(outcome);
            }
            place = Some(state.parked.park_here(place));
            drop(state);
            thread::park();
        }
    }

    /// Asks one sleeper to lead, who is to be woken then; `None` if nobody sleeps here.
    pub(crate) fn choose_leader(&self) -> Option<NextLeader> {
        let mut state = self.state.lock();
        // A caller that is about to sleep will see the mark, but it may also never come.
        let sleeper = state.parked.next()?;
        state.lead = true;
        Some(NextLeader(sleeper))
    }

    /// Tells everyone.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let (parked, wakers) = {
            let mut state = self.state.lock();
            state.outcome = Some(outcome);
            (state.parked.next_two(), std::mem::take(&mut state.wakers))
        };
        wake(parked);
        wakers.each.into_iter().for_each(user_code::wake);
    }

    /// The outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.lock().outcome.clone()
    }

    /// The outcome, or a wake-up when it is known.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        // Others' code: not under the lock.
        let waker = waker.clone();
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        if state.wakers.known.insert(name_of(&waker)) {
            state.wakers.each.push(waker);
        }
        Poll::Pending
    }
}

/// The threads that sleep on a batch, in order of arrival.
///
/// To wake one costs several microseconds, and who is told late misses the next commit. So each
/// who wakes and finds the batch done wakes two more: all cores wake, and no caller wakes many.
/// That reaches everybody because nobody leaves without his place, and each place is woken once.
#[derive(Debug, Default)]
struct ParkedThreads {
    places: Vec<Option<Thread>>,
    /// Before this place nobody sleeps any more.
    woken: usize,
}

impl ParkedThreads {
    /// The caller is about to sleep; `place` is where it did before, if it has.
    fn park_here(&mut self, place: Option<usize>) -> usize {
        match place {
            Some(place) if self.places[place].is_some() => place,
            _ => {
                self.places.push(Some(thread::current()));
                self.places.len() - 1
            }
        }
    }

    /// The caller will not sleep here again.
    fn leave(&mut self, place: Option<usize>) {
        if let Some(place) = place {
            self.places[place] = None;
        }
    }

    /// The one that has slept for the longest, who is to be woken.
    fn next(&mut self) -> Option<Thread> {
        while let Some(place) = self.places.get_mut(self.woken) {
            self.woken += 1;
            if let Some(sleeper) = place.take() {
                return Some(sleeper);
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
    fn a_task_that_awaits_several_calls_is_woken_once() {
        struct Counted(std::sync::atomic::AtomicU32);
        impl std::task::Wake for Counted {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
        let batch = Batch::new(1);
        let tasks = [0, 0].map(|none| Arc::new(Counted(none.into())));
        for task in tasks.iter().chain(&tasks) {
            assert!(batch.poll(&task.clone().into()).is_pending());
        }
        batch.finish(Ok(()));
        assert_eq!(tasks.map(|task| task.0.load(std::sync::atomic::Ordering::Relaxed)), [1, 1]);
    }

    /// A thread may wake without having been woken. Who is woken in its place would be lost.
    #[test]
    fn whoever_leaves_by_himself_is_not_woken_in_the_place_of_another() {
        let mut parked = ParkedThreads::default();
        let places = [None; 4].map(|place| parked.park_here(place));
        assert_eq!(parked.park_here(Some(places[1])), places[1], "still there");
        parked.leave(Some(places[0]));
        parked.leave(Some(places[2]));
        assert_eq!(parked.next_two().iter().flatten().count(), 2);
        assert!(parked.next().is_none());
        assert_eq!(parked.park_here(Some(places[3])), 4, "it was woken, and sleeps again");
        assert!(parked.next().is_some());
    }
}
