//! How long the jobs of a worker that is a future may go on after a stop.

use std::sync::Arc;
use std::task::{Poll, Waker, ready};
use std::time::Duration;

use crate::base::micros::within;
use crate::base::park::block_on_for;
use crate::base::signal::{Signal, SignalWait, raised};
use crate::base::sync::thread;

/// The time after a stop. A thread measures it, since a future has no other source of time, and a worker stops once.
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
        let ended = &self.ended;
        self.elapsed.get_or_insert_with(|| SignalWait::new(&begin(time, ended))).poll(waker)
    }
}

impl Drop for StopTimer {
    fn drop(&mut self) {
        self.ended.raise();
    }
}

/// Begins the time, and returns the signal of its end. Without a thread it has elapsed.
fn begin(time: Duration, ended: &Arc<Signal>) -> Arc<Signal> {
    let elapsed = Arc::<Signal>::default();
    let (raises, ends) = (elapsed.clone(), ended.clone());
    let wait = move || {
        if block_on_for(raised(&ends), time).is_none() {
            raises.raise();
        }
    };
    if time.is_zero()
        || thread::Builder::new().name("tubewell-worker-stop".into()).spawn(wait).is_err()
    {
        elapsed.raise();
    }
    elapsed
}
