//! A worker as a future, for any runtime or none.

use std::fmt;
use std::future::Future;
use std::mem::{swap, take};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;

use super::lane;
use super::pool::Pool;
use super::report::Tally;
use super::stop_timer::StopTimer;
use crate::base::sync::Mutex;
use crate::base::user_code;
use crate::handle::call::CallFuture;
use crate::{Error, Result};

/// A worker as a future; from [`Worker::run_async`](super::Worker::run_async).
///
/// It resolves when the worker has ended: by its [limit](super::Worker::limit), by a
/// [stop](super::Stopper), because the store was closed, or because of an error. After a stop it
/// resolves when the last job has ended, or when the time of [`stop_timeout`](WorkerFuture::stop_timeout) has
/// elapsed.
///
/// Dropping it, or the runtime that polls it, ends the worker at once. It drops the handlers that it polls. Handlers
/// that [`spawn_with`](super::Worker::spawn_with) has handed out go on, and see that the worker stops. In both cases
/// the tasks are given back as by a stop: they are ready again, and their attempts do not count. The drop does not
/// block. Through a connection it only sends this, ahead of later calls of the connection; an owner that it does not
/// reach ends the session of the worker, and the attempts count.
///
/// # Errors
/// [`Invalid`](Error::Invalid) and the other errors of [`Worker::start`](super::Worker::start);
/// those of [`WorkerHandle::wait`](super::WorkerHandle::wait).
#[must_use = "a future does nothing until it is polled"]
pub struct WorkerFuture {
    state: State,
    stop_timeout: Duration,
}

enum State {
    Refused(Error),
    Beginning(CallFuture<Pool>),
    Running(Lanes),
}

impl WorkerFuture {
    pub(super) fn new(pool: Result<CallFuture<Pool>>) -> WorkerFuture {
        let state = pool.map_or_else(State::Refused, State::Beginning);
        WorkerFuture { state, stop_timeout: Duration::MAX }
    }

    /// How long the jobs that run may go on once a [`Stopper`](super::Stopper) has asked the worker to stop. Default:
    /// without a limit.
    ///
    /// When the time has elapsed, the future resolves. The jobs that still run are left, as by
    /// [`WorkerHandle::stop`](super::WorkerHandle::stop): their tasks are ready again, the attempts do not count, and
    /// [`Tally::left`] counts them. The handlers that this future polls are dropped, so what must be undone belongs
    /// into a `Drop`. Those that [`spawn_with`](super::Worker::spawn_with) has handed out go on, and see that the worker
    /// stops; what they return is ignored. Jobs see the stop before by [`Job::check`](super::Job::check) and
    /// [`Job::cancelled`](super::Job::cancelled). An end that is being stored at that moment may be stored or not.
    ///
    /// Measured on the clock of the machine, by a thread that begins with the stop and ends with the worker: a future
    /// has no timer. Nothing blocks.
    ///
    /// # Example: a deploy while a job hangs
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{AsyncJob, Worker};
    /// use tubewell::{Store, TubeOptions};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(1))?;
    /// let id = jobs.put("hangs")?.id;
    /// let worker = Worker::new(&store);
    /// let stopper = worker.stopper();
    /// let hang = move |_: AsyncJob| {
    ///     stopper.stop(); // in a service: a signal
    ///     std::future::pending::<()>()
    /// };
    /// let worker = worker.on_async(&jobs, hang).run_async();
    /// assert_eq!(worker.stop_timeout(Duration::from_millis(10)).await?.left, 1);
    /// assert_eq!(jobs.query().task(id)?.info.attempts_left, Some(1));
    /// # Ok::<(), tubewell::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "shutdown_timeout")]
    #[doc(alias = "graceful shutdown")]
    pub fn stop_timeout(mut self, timeout: Duration) -> WorkerFuture {
        self.stop_timeout = timeout;
        self
    }
}

impl Future for WorkerFuture {
    type Output = Result<Tally>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Tally>> {
        let WorkerFuture { state, stop_timeout } = self.get_mut();
        loop {
            *state = match state {
                State::Beginning(pool) => match ready!(Pin::new(pool).poll(context)) {
                    Ok(pool) => State::Running(Lanes::new(pool, *stop_timeout)),
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
    stop_timer: StopTimer,
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
    fn new(pool: Pool, stop_timeout: Duration) -> Lanes {
        let pool = Arc::new(pool);
        let stop_timer = StopTimer::new(&pool.stop, stop_timeout);
        let count = pool.lanes.len();
        let woken = Arc::new(Woken(Mutex::new(((0..count).collect(), None))));
        let lane = |lane| {
            let waker = Waker::from(Arc::new(LaneWaker { lane, woken: woken.clone() }));
            Some(LaneFuture { future: Box::pin(lane::run(pool.clone(), lane)), waker })
        };
        let futures = (0..count).map(lane).collect();
        Lanes { pool, futures, running: count, woken, polled: Vec::new(), stop_timer }
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
        if self.stop_timer.poll(context.waker()).is_ready() {
            self.give_back();
            return Poll::Ready(self.pool.result());
        }
        // Lanes that were woken meanwhile have called the waker; so does each lane after a job. Other
        // tasks of this executor get their turn before them.
        Poll::Pending
    }

    /// Leaves the jobs that run, and gives their tasks back.
    fn give_back(&mut self) {
        // The lanes that take are dropped first: their takes would get the tasks that the other lanes give back.
        for (lane, future) in self.pool.lanes.iter().zip(&mut self.futures) {
            if !lane.forgive_jobs() {
                *future = None;
            }
        }
        // This releases the tasks. Handlers that were handed out see that.
        self.futures.clear();
        self.running = 0;
        // Ends the thread of a pause.
        self.pool.out_of_time.raise();
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.give_back();
        // Handlers that were handed out see it.
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
