//! Shared by all cases: a tube of each driver on a clock that only the test moves, waiting takes
//! without threads, and logs of events.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tempfile::TempDir;
use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};
use tubewell::expert::Callback;
use tubewell::{
    AsyncClaim, Bytes, Claim, Error, Event, EventKind, Filter, IntoPut, Put, Result, Store,
    TaskInfo, TaskState, Ticket, Tube, TubeOptions,
};

use super::executor::{HANGS_AFTER, WakeFlag};
use crate::size::amount;
use crate::stores::{self, ManualClock};

pub const ALL: &[&str] = &[FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];
pub const TIMED: &[&str] = &[FIFOTTL, LIMFIFOTTL, UTUBETTL];
pub const UNTIMED: &[&str] = &[FIFO, UTUBE];
pub const SUB_QUEUED: &[&str] = &[UTUBE, UTUBETTL];

/// The drivers of tests with very many tasks: in quick runs the simplest one and the one with everything.
pub fn all_or_few() -> &'static [&'static str] {
    amount(&[FIFO, UTUBETTL], ALL, ALL)
}

pub const ZERO: Duration = Duration::ZERO;
pub const NO_TIMEOUT: Duration = Duration::MAX;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const HUNDRED_YEARS: Duration = secs(3_153_600_000);

/// One test case: a store in memory with one tube of the driver under test.
pub struct Case {
    pub driver: &'static str,
    pub clock: ManualClock,
    pub store: Store,
    /// The tube, in the session of the store.
    pub tube: Tube,
    drafts: AtomicU64,
}

/// Runs the case on a tube of each of the drivers, with the default options.
pub fn for_each_driver(drivers: &[&'static str], case: impl Fn(&Case)) {
    for_each_driver_with(drivers, TubeOptions::default(), case);
}

/// Runs the case on a tube of each of the drivers, with these options.
pub fn for_each_driver_with(drivers: &[&'static str], options: TubeOptions, case: impl Fn(&Case)) {
    for driver in of_this_run(drivers) {
        println!("driver {driver}");
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let tube = store.create_tube("case", options.clone().driver(driver)).unwrap();
        let fixture = Case { driver, clock, store, tube, drafts: AtomicU64::new(0) };
        case(&fixture);
        assert_sound(&fixture.store);
    }
}

/// All of the drivers. In a quick run through connections, for which they make no difference, the last one.
fn of_this_run<'a>(drivers: &'a [&'static str]) -> &'a [&'static str] {
    let is_one = stores::are_connections() && amount(true, false, false);
    if is_one { &drivers[drivers.len() - 1..] } else { drivers }
}

/// A store in memory without tubes, on a clock that does not move.
pub fn store_in_memory() -> Store {
    stores::in_memory_with(Store::options().clock(ManualClock::new()))
}

/// Fails with the findings of `verify`, if there are any.
pub fn assert_sound(store: &Store) {
    assert_eq!(store.admin().verify().unwrap(), Vec::<String>::new());
}

impl Case {
    pub fn timed(&self) -> bool {
        TIMED.contains(&self.driver)
    }

    pub fn sub_queued(&self) -> bool {
        SUB_QUEUED.contains(&self.driver)
    }

    /// A task to put, in a sub-queue of its own if the driver has sub-queues.
    pub fn draft(&self, data: &str) -> Put {
        let put = Put::new(data.into());
        if self.sub_queued() {
            put.sub_queue(format!("own-{}", self.drafts.fetch_add(1, Ordering::Relaxed)))
        } else {
            put
        }
    }

    /// Puts a draft. Returns its id.
    pub fn put(&self, data: &str) -> u64 {
        self.add(self.draft(data))
    }

    /// Puts one draft for each of `ids`, and asserts that the drafts get these ids.
    pub fn put_all<const N: usize>(&self, ids: [u64; N]) {
        assert_eq!(ids.map(|id| self.put(&format!("task {id}"))), ids);
    }

    pub fn add(&self, put: impl IntoPut<Bytes>) -> u64 {
        self.tube.put(put).unwrap().id
    }

    /// Takes for the session of the store, with a zero timeout, and detaches the claim. Returns the
    /// id.
    pub fn take(&self) -> Option<u64> {
        take(&self.tube)
    }

    /// Takes until no task is available. Returns the ids.
    pub fn take_all(&self) -> Vec<u64> {
        std::iter::from_fn(|| self.take()).collect()
    }

    pub fn state(&self, id: u64) -> Option<TaskState> {
        state(&self.tube, id)
    }

    pub fn info(&self, id: u64) -> TaskInfo {
        self.tube.query().task(id).unwrap().info
    }

    /// Advances the clock by this many milliseconds.
    pub fn advance(&self, millis: u64) {
        self.clock.advance(ms(millis));
    }

    /// The tube, in a new session.
    pub fn tube_in_new_session(&self) -> Tube {
        self.store.session("").unwrap().tube(&self.tube).unwrap()
    }

    /// The tube of the store itself, for what a connection cannot do.
    pub fn tube_of_owner(&self) -> Tube {
        stores::owner(&self.store).find_tube("case").unwrap()
    }

    /// Begins a take without a timeout for the session of the store.
    pub fn begin_take(&self) -> WaitingTake {
        WaitingTake::begin(self.tube.to_async().take_timeout(NO_TIMEOUT))
    }

    /// Logs the events of the tube from now on.
    pub fn event_log(&self) -> EventLog {
        EventLog::of(&self.store, &self.tube)
    }

    pub fn tasks(&self) -> Counts {
        tasks(&self.tube)
    }

    pub fn calls(&self) -> Counts {
        calls(&self.tube)
    }
}

/// Takes for the session of this handle, with a zero timeout, and detaches the claim. Returns the
/// id.
pub fn take(tube: &Tube) -> Option<u64> {
    let claim = tube.try_take().unwrap()?;
    Some(keep(claim))
}

/// Detaches a claim, so that its session keeps the task. Returns the id.
pub fn keep(claim: Claim) -> u64 {
    let task = claim.detach();
    assert_eq!(task.info.state, TaskState::Taken);
    task.info.id
}

/// The state of a task, or `None` if the task does not exist.
pub fn state(tube: &Tube, id: u64) -> Option<TaskState> {
    match tube.query().task(id) {
        Ok(task) => {
            assert_eq!(task.info.id, id);
            Some(task.info.state)
        }
        Err(error) => {
            assert_eq!(error, Error::NotFound { id });
            None
        }
    }
}

pub fn assert_not_taken<T>(answer: Result<T>, id: u64) {
    assert_eq!(answer.err(), Some(Error::NotTaken { id }));
}

pub fn assert_not_found<T>(answer: Result<T>, id: u64) {
    assert_eq!(answer.err(), Some(Error::NotFound { id }));
}

pub fn assert_unsupported<T>(answer: Result<T>, driver: &str) {
    match answer.err() {
        Some(Error::Unsupported { driver: named, .. }) => assert_eq!(named, driver),
        other => panic!("not rejected as unsupported: {other:?}"),
    }
}

// ---- statistics

/// Counters by name, without those that are zero.
pub type Counts = BTreeMap<&'static str, u64>;

pub fn tasks(tube: &Tube) -> Counts {
    let tasks = tube.statistics().unwrap().tasks;
    non_zero([
        ("ready", tasks.ready),
        ("taken", tasks.taken),
        ("delayed", tasks.delayed),
        ("blocked", tasks.blocked),
        ("buried", tasks.buried),
        ("total", tasks.total),
        ("done", tasks.done),
    ])
}

pub fn calls(tube: &Tube) -> Counts {
    let calls = tube.statistics().unwrap().calls;
    non_zero([
        ("put", calls.put),
        ("take", calls.take),
        ("ack", calls.ack),
        ("release", calls.release),
        ("bury", calls.bury),
        ("kick", calls.kick),
        ("delete", calls.delete),
        ("touch", calls.touch),
        ("checkpoint", calls.checkpoint),
        ("update", calls.update),
        ("ttl", calls.ttl),
        ("ttr", calls.ttr),
        ("delay", calls.delay),
    ])
}

fn non_zero<const N: usize>(counts: [(&'static str, u64); N]) -> Counts {
    counts.into_iter().filter(|(_, count)| *count > 0).collect()
}

pub fn counts<const N: usize>(counts: [(&'static str, u64); N]) -> Counts {
    Counts::from(counts)
}

// ---- waiting takes

/// A waiting take without a thread. It is polled once at the beginning, and then only after it has
/// called its waker, so that a missing wakeup fails the test.
pub struct WaitingTake {
    future: Option<Pin<Box<Ticket<Option<AsyncClaim>>>>>,
    woken: Arc<WakeFlag>,
    answer: Option<Result<Option<Claim>>>,
}

impl WaitingTake {
    pub fn begin(future: Ticket<Option<AsyncClaim>>) -> WaitingTake {
        let mut waiting =
            WaitingTake { future: Some(Box::pin(future)), woken: WakeFlag::raised(), answer: None };
        assert!(waiting.is_pending(), "the take returned immediately");
        waiting
    }

    /// Polls the take if it has been woken. Returns whether it still has no answer.
    pub fn is_pending(&mut self) -> bool {
        if self.woken.lower()
            && let Some(future) = &mut self.future
        {
            let waker = Waker::from(Arc::clone(&self.woken));
            if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.future = None;
                self.answer = Some(answer.map(|claim| claim.map(AsyncClaim::into_blocking)));
            }
        }
        self.answer.is_none()
    }

    /// Waits until the take has its answer, which must be in time.
    pub fn wait(&mut self) {
        while self.is_pending() {
            self.woken.wait();
        }
    }

    pub fn answer(mut self) -> Result<Option<Claim>> {
        self.wait();
        self.answer.take().unwrap()
    }

    /// Detaches the claim and returns its id, or `None` if the timeout has elapsed.
    pub fn id(self) -> Option<u64> {
        self.answer().unwrap().map(keep)
    }
}

// ---- events

/// An event: the id of the task, the kind of the event, and the state of the task afterwards.
pub type TaskEvent = (u64, EventKind, TaskState);

/// The events that a callback of a tube has received. Callbacks run in order on a thread of their
/// own.
#[derive(Clone, Default)]
pub struct CallbackLog(Arc<(Mutex<Vec<TaskEvent>>, Condvar)>);

impl CallbackLog {
    pub fn callback(&self) -> impl Fn(&Event) + Send + Sync + 'static {
        let calls = Arc::clone(&self.0);
        move |event: &Event| {
            calls.0.lock().unwrap().push((event.id, event.kind, event.state));
            calls.1.notify_all();
        }
    }

    pub fn as_callback(&self) -> Callback {
        Arc::new(self.callback())
    }

    /// Waits until there are `count` new events and returns all new events.
    pub fn read(&self, count: usize) -> Vec<TaskEvent> {
        let (calls, changed) = &*self.0;
        let calls = calls.lock().unwrap();
        let too_few = |calls: &mut Vec<TaskEvent>| calls.len() < count;
        let (mut calls, _) = changed.wait_timeout_while(calls, HANGS_AFTER, too_few).unwrap();
        std::mem::take(&mut *calls)
    }
}

/// What a subscription receives. The store itself has one too, which says how many events there
/// are: the events of a connection arrive after the answers of the calls that caused them.
pub struct Events {
    store: Store,
    stream: tubewell::Events,
    of_owner: tubewell::Events,
}

impl Events {
    /// Subscribes to the events that pass the filter.
    pub fn of(store: &Store, filter: Filter, capacity: usize) -> Events {
        let of_owner = stores::owner(store).events(filter.clone(), capacity).unwrap();
        Events { store: store.clone(), stream: store.events(filter, capacity).unwrap(), of_owner }
    }

    /// The events since the last call.
    pub fn read(&self) -> Vec<Event> {
        stores::settle(&self.store);
        let expected: Vec<Event> = std::iter::from_fn(|| self.of_owner.try_recv()).collect();
        let next = |_: &Event| self.stream.recv_timeout(HANGS_AFTER);
        let events: Vec<Event> = expected.iter().map_while(next).collect();
        assert_eq!(events, expected);
        assert_eq!((self.stream.try_recv(), self.stream.dropped()), (None, 0));
        events
    }
}

/// The events of a tube, received by a callback and by a subscription, which must agree.
pub struct EventLog {
    tube: String,
    calls: CallbackLog,
    events: Events,
}

impl EventLog {
    /// Logs the events of the tube from now on.
    pub fn of(store: &Store, tube: &Tube) -> EventLog {
        let calls = CallbackLog::default();
        let events = Events::of(store, Filter::new(), 10_000);
        let tube = stores::owner(store).find_tube(tube.name()).unwrap();
        tube.on_task_change(Some(calls.as_callback())).unwrap();
        EventLog { tube: tube.name().to_owned(), calls, events }
    }

    /// The events since the last call.
    pub fn read(&self) -> Vec<TaskEvent> {
        let events = self.events.read().into_iter();
        let events: Vec<TaskEvent> = events
            .filter(|event| *event.tube == *self.tube)
            .map(|event| (event.id, event.kind, event.state))
            .collect();
        assert_eq!(self.calls.read(events.len()), events);
        events
    }
}

// ---- files

/// A store in a file that can be closed and opened again. The clock keeps its time in between.
pub struct StoreFile {
    pub clock: ManualClock,
    dir: TempDir,
}

impl StoreFile {
    pub fn new() -> StoreFile {
        StoreFile { clock: ManualClock::new(), dir: TempDir::new().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.dir.path().join("store.tubewell")
    }

    pub fn open(&self) -> Store {
        stores::open_with(self.path(), Store::options().clock(&self.clock))
    }

    /// Closes the store, advances the clock, and opens the store again.
    pub fn reopen_after(&self, store: Store, closed_for: Duration) -> Store {
        assert_sound(&store);
        stores::close(&store);
        drop(store);
        self.clock.advance(closed_for);
        self.open()
    }

    pub fn reopen(&self, store: Store) -> Store {
        self.reopen_after(store, ZERO)
    }

    /// Advances the clock by 1 ms, which processes what fell due while the store was closed.
    pub fn tick(&self) {
        self.clock.advance(ms(1));
    }
}
