//! The pause of a worker after an error: all of it pauses, so that an error that lasts is reported
//! once a pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::timer::call_after;
use crate::base::park::block_on_for;
use crate::base::signal::{Signal, raised, unless_raised};
use crate::base::sync::Mutex;

/// The first pause; it doubles from error to error,
const FIRST: Duration = Duration::from_millis(100);
/// up to this.
const LONGEST: Duration = Duration::from_secs(5);
/// How long the ends of jobs are repeated once the worker stops.
const AFTER_STOP: Duration = Duration::from_secs(5);

/// The pause of a worker.
pub(super) struct Pause {
    /// An error has begun a pause, and no job has ended well since then. Read for each job, so that
    /// a worker without errors shares no lock.
    has_failed: AtomicBool,
    state: Mutex<State>,
    stop: Arc<Signal>,
}

struct State {
    /// Raised when the pause ends. `None` without a pause.
    end: Option<Arc<Signal>>,
    next: Duration,
    /// How long the pauses may still be, once the worker stops. `None` before.
    left: Option<Duration>,
}

/// The begin of a pause.
pub(super) enum Begun {
    /// It is this long. The caller ends it with [`pass`](Pause::pass) or
    /// [`pass_on_thread`](Pause::pass_on_thread).
    Now(Duration),
    /// There is one already.
    Before,
    /// The worker stops, and has paused for long enough.
    TooLate,
}

impl Pause {
    pub(super) fn new(stop: &Arc<Signal>) -> Arc<Pause> {
        let state = Mutex::new(State { end: None, next: FIRST, left: None });
        Arc::new(Pause { has_failed: AtomicBool::new(false), state, stop: stop.clone() })
    }

    /// Begins a pause, unless there is one already.
    pub(super) fn begin(&self) -> Begun {
        let is_stopping = self.stop.is_raised();
        let mut state = self.state.lock();
        if state.end.is_some() {
            return Begun::Before;
        }
        if is_stopping && state.left.is_none() {
            (state.next, state.left) = (FIRST, Some(AFTER_STOP));
        }
        let length = state.next;
        if let Some(left) = &mut state.left {
            let Some(rest) = left.checked_sub(length) else { return Begun::TooLate };
            *left = rest;
        }
        state.end = Some(Arc::default());
        self.has_failed.store(true, Ordering::SeqCst);
        state.next = (length * 2).min(LONGEST);
        Begun::Now(length)
    }

    /// Blocks for the pause, and ends it. `early` ends it before.
    pub(super) fn pass(&self, length: Duration, early: &Arc<Signal>) {
        let _ = block_on_for(raised(early), length);
        self.end();
    }

    /// As `pass`, and blocks nothing. Errors are rare.
    pub(super) fn pass_on_thread(self: &Arc<Self>, length: Duration, early: &Arc<Signal>) {
        let pause = self.clone();
        call_after("tubewell-worker-pause", length, early, move || pause.end());
    }

    fn end(&self) {
        let end = self.state.lock().end.take();
        if let Some(end) = end {
            end.raise();
        }
    }

    /// Waits for the end of the pause, if there is one, or for `early`.
    pub(super) async fn wait(&self, early: &Arc<Signal>) {
        if !self.has_failed.load(Ordering::SeqCst) {
            return;
        }
        let end = self.state.lock().end.clone();
        let Some(end) = end else { return };
        unless_raised(early, raised(&end)).await;
    }

    /// The store works: the next pause is a first one.
    pub(super) fn reset(&self) {
        if !self.has_failed.load(Ordering::SeqCst) {
            return;
        }
        let mut state = self.state.lock();
        state.next = FIRST;
        if state.end.is_none() {
            self.has_failed.store(false, Ordering::SeqCst);
        }
    }
}
