//! When a worker that runs until it is idle ends: no task is ready, and none of its jobs runs.
//!
//! Invariant: a lane that waits has found no task after the last job ended, so the worker is idle
//! as soon as all of its lanes wait.

use std::mem::take;
use std::sync::Arc;

use crate::base::signal::{Signal, raised, unless_raised};
use crate::base::sync::{Mutex, MutexGuard};

pub(super) struct Idle(Mutex<State>);

struct State {
    /// The lanes that take or work.
    busy: usize,
    waiting: usize,
    /// How many jobs have ended.
    jobs: u64,
    /// Raised when the next job has ended, or when the worker is idle.
    changed: Arc<Signal>,
}

impl Idle {
    pub(super) fn new(lanes: usize) -> Idle {
        let changed = Arc::default();
        Idle(Mutex::new(State { busy: lanes, waiting: 0, jobs: 0, changed }))
    }

    /// How many jobs have ended. A lane asks before it takes.
    pub(super) fn jobs(&self) -> u64 {
        self.0.lock().jobs
    }

    /// A job has ended, and may have left a ready task: the waiting lanes take again.
    pub(super) fn job_ended(&self) {
        let mut state = self.0.lock();
        state.jobs += 1;
        if state.waiting == 0 {
            return;
        }
        state.busy += take(&mut state.waiting);
        let changed = take(&mut state.changed);
        drop(state);
        changed.raise();
    }

    /// A lane ends.
    pub(super) fn lane_ended(&self) {
        let mut state = self.0.lock();
        state.busy -= 1;
        raise_if_idle(state);
    }

    /// A lane has found no task, when `jobs` had ended. Returns whether it should take again, and
    /// not end.
    pub(super) async fn wait(&self, jobs: u64, stop: &Arc<Signal>) -> bool {
        let changed = {
            let mut state = self.0.lock();
            if state.jobs != jobs {
                return true;
            }
            (state.busy, state.waiting) = (state.busy - 1, state.waiting + 1);
            let changed = state.changed.clone();
            raise_if_idle(state);
            changed
        };
        unless_raised(stop, raised(&changed)).await;
        let mut state = self.0.lock();
        if state.jobs == jobs {
            // Idle, or stopped: it ends as a busy lane does.
            (state.busy, state.waiting) = (state.busy + 1, state.waiting - 1);
            return false;
        }
        true
    }
}

fn raise_if_idle(state: MutexGuard<'_, State>) {
    let changed = (state.busy == 0).then(|| state.changed.clone());
    drop(state);
    if let Some(changed) = changed {
        changed.raise();
    }
}
