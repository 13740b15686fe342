//! A batch: the calls that share one commit, and how they learn its outcome.

use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::sync::{Condvar, Mutex};
use crate::{Error, Result};

/// What became of a batch; an error is the same for all its calls.
pub(crate) type Outcome = Result<()>;

/// The calls that share one commit.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The number of the commit that holds it.
    pub(crate) number: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    outcome: Option<Outcome>,
    wakers: Vec<Waker>,
    sleepers: usize,
    /// The last leader is done and hands its role to one of the sleepers.
    lead: bool,
}

/// A batch whose commit is being led. If it goes without an outcome, its leader has panicked: nobody
/// knows it then, and everyone is told so.
pub(crate) struct Led(pub(crate) Arc<Batch>);

impl Drop for Led {
    fn drop(&mut self) {
        if self.0.outcome().is_none() {
            let why = "a commit was broken off by a defect".to_owned();
            self.0.finish(Err(Error::OutcomeUnknown { why }));
        }
    }
}

/// Why a sleeper of a batch woke.
pub(crate) enum Woken {
    Done(Outcome),
    /// It is this caller's turn to commit.
    Lead,
}

impl Batch {
    pub(crate) fn new(number: u64) -> Arc<Batch> {
        Arc::new(Batch { number, state: Mutex::default(), changed: Condvar::new() })
    }

    /// Sleeps until the batch is done or its commit is to be led.
    pub(crate) fn wait_or_lead(&self) -> Woken {
        let mut state = self.state.lock();
        loop {
            // Before the outcome: a role that was handed over must be taken, or given back.
            if std::mem::take(&mut state.lead) {
                return Woken::Lead;
            }
            if let Some(outcome) = &state.outcome {
                return Woken::Done(outcome.clone());
            }
            state.sleepers += 1;
            self.changed.wait(&mut state);
            state.sleepers -= 1;
        }
    }

    /// Asks one sleeper to lead; false if nobody sleeps here.
    pub(crate) fn hand_over(&self) -> bool {
        let mut state = self.state.lock();
        // A caller that is about to sleep will see the mark, but it may also never come.
        if state.sleepers == 0 {
            return false;
        }
        state.lead = true;
        self.changed.notify_one();
        true
    }

    /// Tells everyone.
    pub(crate) fn finish(&self, outcome: Outcome) {
        let wakers = {
            let mut state = self.state.lock();
            state.outcome = Some(outcome);
            if state.sleepers > 0 {
                self.changed.notify_all();
            }
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// The outcome, if it is known.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        self.state.lock().outcome.clone()
    }

    /// The outcome, or a wake-up when it is known.
    pub(crate) fn poll(&self, waker: &Waker) -> Poll<Outcome> {
        let mut state = self.state.lock();
        if let Some(outcome) = &state.outcome {
            return Poll::Ready(outcome.clone());
        }
        if !state.wakers.iter().any(|known| known.will_wake(waker)) {
            state.wakers.push(waker.clone());
        }
        Poll::Pending
    }
}
