//! Stores, the forms of a worker, and what it reports.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use tubewell::worker::{Ended, Job, Report, Stopper, Tally, Worker, WorkerHandle};
use tubewell::{Backoff, FIFOTTL, IntoOutcome, Result, Store, TaskState, Tube, TubeOptions};

use super::executor::{block_on, with_timeout};
use crate::stores::{self, ManualClock};

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// How long a call takes on the clock of the machine, and its result.
#[expect(clippy::disallowed_methods, reason = "the limit is one of the clock of the machine")]
pub fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let begun = Instant::now();
    let result = call();
    (begun.elapsed(), result)
}

/// Jobs whose claims have ended. The process of a worker knows by its own clock which of them have timed out.
pub fn lost(tally: Tally) -> u64 {
    tally.lost + tally.timed_out
}

/// A store with a clock that the test moves, and a tube.
pub struct Case {
    pub store: Store,
    pub clock: ManualClock,
    pub tube: Tube,
}

impl Case {
    pub fn new() -> Case {
        Case::with(FIFOTTL, TubeOptions::new())
    }

    pub fn with(driver: &str, options: TubeOptions) -> Case {
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let tube = store.create_tube("case", options.driver(driver)).unwrap();
        Case { store, clock, tube }
    }

    pub fn another(&self, name: &str) -> Tube {
        self.store.create_tube(name, TubeOptions::new().driver(FIFOTTL)).unwrap()
    }

    pub fn put(&self, body: &str) -> u64 {
        self.tube.put(body).unwrap().id
    }

    /// The state of a task; `None` if it was removed.
    pub fn state(&self, id: u64) -> Option<TaskState> {
        self.tube.query().task(id).ok().map(|task| task.info.state)
    }
}

impl Drop for Case {
    fn drop(&mut self) {
        if !thread::panicking() {
            assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
        }
    }
}

/// How a worker runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Threads,
    /// One thread polls the future of the worker, which polls its handlers.
    Future,
    /// As `Future`, and each handler has a thread of its own.
    Spawned,
}

/// Runs a test in every form, each within a time limit.
pub fn in_every_form(test: fn(Form)) {
    for form in [Form::Threads, Form::Future, Form::Spawned] {
        with_timeout(move || test(form));
    }
}

/// A worker that runs.
pub enum Running {
    Handle(WorkerHandle),
    Thread(Stopper, Option<JoinHandle<Result<Tally>>>),
}

impl Form {
    /// Adds a handler that does not wait.
    pub fn on<T: Send + Sync + 'static, R: IntoOutcome + Send + 'static>(
        self,
        worker: Worker,
        tube: &Tube<T>,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> Worker {
        if self == Form::Threads {
            return worker.on(tube, handler);
        }
        let handler = Arc::new(handler);
        worker.on_async(tube, move |job| {
            let handler = handler.clone();
            async move { handler(&job.into_blocking()) }
        })
    }

    pub fn start(self, worker: Worker) -> Running {
        if self == Form::Threads {
            return Running::Handle(worker.start().unwrap());
        }
        let stopper = worker.stopper();
        let worker = match self {
            Form::Spawned => worker.spawn_with(|handler| {
                thread::spawn(move || block_on(handler));
            }),
            _ => worker,
        };
        let future = worker.run_async();
        Running::Thread(stopper, Some(thread::spawn(move || block_on(future))))
    }

    /// Runs a worker with one handler until it has done this many jobs.
    pub fn work<T: Send + Sync + 'static, R: IntoOutcome + Send + 'static>(
        self,
        case: &Case,
        tube: &Tube<T>,
        jobs: u64,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> (Tally, Vec<Report>) {
        let (reports, watch) = reports();
        // A failed task is ready again at once: the clock stands still.
        let worker = Worker::new(&case.store).backoff(Backoff::none());
        let worker = self.on(worker, tube, handler).limit(jobs).watch(watch);
        let tally = self.start(worker).wait().unwrap();
        assert_eq!(tally.jobs(), jobs);
        (tally, reports.lock().unwrap().drain(..).collect())
    }
}

impl Running {
    /// Waits for the end of the worker.
    pub fn wait(mut self) -> Result<Tally> {
        match &mut self {
            Running::Handle(handle) => handle.wait(),
            Running::Thread(_, thread) => thread.take().unwrap().join().unwrap(),
        }
    }

    /// Stops the worker, and waits for its jobs.
    pub fn stop(self) -> Result<Tally> {
        match &self {
            Running::Handle(handle) => assert_eq!(handle.stop(Duration::MAX).unwrap(), []),
            Running::Thread(stopper, _) => stopper.stop(),
        }
        self.wait()
    }
}

pub type Reports = Arc<Mutex<Vec<Report>>>;

/// The reports of a worker, and the function that collects them.
pub fn reports() -> (Reports, impl Fn(&Report) + Send + Sync + 'static) {
    let reports = Reports::default();
    let collected = reports.clone();
    (reports, move |report: &Report| collected.lock().unwrap().push(report.clone()))
}

/// The end, the state of the task, and the failure of a job that has ended.
pub fn ended(report: &Report) -> (u64, Ended, TaskState, Option<(String, String)>) {
    match report {
        Report::Ended { id, end, state, failure, .. } => {
            let texts = |failure: &tubewell::Failure| {
                (failure.group().to_owned(), failure.message().to_owned())
            };
            (*id, *end, *state, failure.as_ref().map(texts))
        }
        report => panic!("{report:?}"),
    }
}

/// A channel whose sender handlers can share.
pub fn shared_channel<T>() -> (Arc<Mutex<Sender<T>>>, Receiver<T>) {
    let (send, receive) = channel();
    (Arc::new(Mutex::new(send)), receive)
}
