//! How long the jobs of a worker that is a future may go on after a stop.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use super::timer::call_after;
use crate::base::micros::within;
use crate::base::signal::{Signal, SignalWait};

/// The time after a stop.
pub(super) struct StopTimer {
    stop: SignalWait,
    /// `None` without a limit.
    time: Option<Duration>,
    /// Raised when the time has elapsed. `None` before the stop.
    elapsed: Option<SignalWait>,
    /// Raised when the worker has ended: the thread ends, too.
    ended: Arc<Signal>,
}

impl StopTimer {
    pub(super) fn new(stop: &Arc<Signal>, time: Duration) -> StopTimer {
        let time = within(time).map(|_| time);
        StopTimer { stop: SignalWait::new(stop), time, elapsed: None, ended: Arc::default() }
    }

    /// Whether the worker stops, and its time has elapsed.
    pub(super) fn poll(&mut self, waker: &Waker) -> Poll<()> {
        let Some(time) = self.time else { return Poll::Pending };
        if self.elapsed.is_none() {
            ready!(self.stop.poll(waker));
        }
        let begin = || begin(time, &self.ended);
        self.elapsed.get_or_insert_with(begin).poll(waker)
    }
}

impl Drop for StopTimer {
    fn drop(&mut self) {
        self.ended.raise();
    }
}

/// Begins the time, and returns the wait for its end. A worker stops once, so it is one thread.
fn begin(time: Duration, ended: &Arc<Signal>) -> SignalWait {
    let elapsed = Arc::<Signal>::default();
    let wait = SignalWait::new(&elapsed);
    call_after("tubewell-worker-stop", time, ended, move || elapsed.raise());
    wait
}
