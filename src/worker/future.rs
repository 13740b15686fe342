//! A worker as a future, for any runtime or none.

use std::fmt;
use std::future::Future;
use std::mem::{swap, take};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};

use super::lane;
use super::pool::Pool;
use super::report::Tally;
use crate::base::sync::Mutex;
use crate::base::user_code;
use crate::handle::call::CallFuture;
use crate::{Error, Result};

/// A worker as a future; from [`Worker::run_async`](super::Worker::run_async).
///
/// It resolves when the worker has ended: by its [limit](super::Worker::limit), by a
/// [stop](super::Stopper), because the store was closed, or because of an error. After a stop it
/// resolves when the last job has ended; to set a limit of time, drop it.
///
/// Dropping it drops the handlers that it polls. Handlers that
/// [`spawn_with`](super::Worker::spawn_with) has handed out go on, and see that the worker stops.
/// In both cases the tasks are released.
///
/// # Errors
/// [`Invalid`](Error::Invalid) and the other errors of [`Worker::start`](super::Worker::start);
/// those of [`WorkerHandle::wait`](super::WorkerHandle::wait).
#[must_use = "a future does nothing until it is polled"]
pub struct WorkerFuture(State);

enum State {
    Refused(Error),
    Beginning(CallFuture<Pool>),
    Running(Lanes),
}

impl WorkerFuture {
    pub(super) fn new(pool: Result<CallFuture<Pool>>) -> WorkerFuture {
        WorkerFuture(pool.map_or_else(State::Refused, State::Beginning))
    }
}

impl Future for WorkerFuture {
    type Output = Result<Tally>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Tally>> {
        let state = &mut self.get_mut().0;
        loop {
            *state = match state {
                State::Beginning(pool) => match ready!(Pin::new(pool).poll(context)) {
                    Ok(pool) => State::Running(Lanes::new(pool)),
                    Err(error) => State::Refused(error),
                },
                State::Running(lanes) => return lanes.poll(context),
                State::Refused(error) => return Poll::Ready(Err(error.clone())),
            };
        }
    }
}

impl fmt::Debug for WorkerFuture {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerFuture").finish_non_exhaustive()
    }
}

/// The lanes of a worker, each polled only when it was woken.
struct Lanes {
    pool: Arc<Pool>,
    /// `None` once it has ended.
    futures: Vec<Option<LaneFuture>>,
    running: usize,
    woken: Arc<Woken>,
    /// Empty between polls. It is kept, so that a wake-up allocates nothing.
    polled: Vec<usize>,
}

struct LaneFuture {
    future: Pin<Box<dyn Future<Output = ()> + Send>>,
    waker: Waker,
}

/// The lanes that were woken, and the waker of the worker's future.
struct Woken(Mutex<(Vec<usize>, Option<Waker>)>);

struct LaneWaker {
    lane: usize,
    woken: Arc<Woken>,
}

impl Lanes {
    fn new(pool: Pool) -> Lanes {
        let pool = Arc::new(pool);
        let count = pool.lanes.len();
        let woken = Arc::new(Woken(Mutex::new(((0..count).collect(), None))));
        let lane = |lane| {
            let waker = Waker::from(Arc::new(LaneWaker { lane, woken: woken.clone() }));
            Some(LaneFuture { future: Box::pin(lane::run(pool.clone(), lane)), waker })
        };
        let futures = (0..count).map(lane).collect();
        Lanes { pool, futures, running: count, woken, polled: Vec::new() }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<Tally>> {
        let mut polled = take(&mut self.polled);
        self.woken.next(context.waker(), &mut polled);
        for index in polled.drain(..) {
            let Some(lane) = self.futures.get_mut(index) else { continue };
            let Some(running) = lane else { continue };
            let mut context = Context::from_waker(&running.waker);
            if running.future.as_mut().poll(&mut context).is_ready() {
                *lane = None;
                self.running -= 1;
            }
        }
        self.polled = polled;
        if self.running == 0 {
            return Poll::Ready(self.pool.result());
        }
        // Lanes that were woken meanwhile have called the waker; so does each lane after a job. Other
        // tasks of this executor get their turn before them.
        Poll::Pending
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        // This releases the tasks. Handlers that were handed out see that, and then the stop, which
        // also ends the thread of a pause.
        self.futures.clear();
        self.pool.stop.raise();
    }
}

impl Woken {
    /// Moves the lanes that were woken to `woken`, which is empty. `waker` is called for the next one.
    fn next(&self, waker: &Waker, woken: &mut Vec<usize>) {
        let mut waker = Some(waker.clone());
        let mut state = self.0.lock();
        swap(&mut state.1, &mut waker);
        swap(&mut state.0, woken);
        drop(state);
        woken.sort_unstable();
        woken.dedup();
    }
}

impl Wake for LaneWaker {
    fn wake(self: Arc<Self>) {
        let mut state = self.woken.0.lock();
        state.0.push(self.lane);
        let waker = state.1.take();
        drop(state);
        if let Some(waker) = waker {
            user_code::wake(waker);
        }
    }
}
