//! What the cases share: a tube of each driver on a clock that only the test moves, and takes that
//! wait without a thread.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tempfile::TempDir;
use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL};
use tubewell::{
    Callback, Claim, Error, Event, EventKind, ManualClock, Put, Result, State, Store, Subscription,
    TakeFuture, TaskInfo, Tube, TubeOptions,
};

pub const ALL: &[&str] = &[FIFO, FIFOTTL, LIMFIFOTTL, UTUBE, UTUBETTL];
pub const TIMED: &[&str] = &[FIFOTTL, LIMFIFOTTL, UTUBETTL];
pub const UNTIMED: &[&str] = &[FIFO, UTUBE];
pub const SUB_QUEUED: &[&str] = &[UTUBE, UTUBETTL];

pub const ZERO: Duration = Duration::ZERO;
pub const FOR_EVER: Option<Duration> = None;

pub const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub const fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub const HUNDRED_YEARS: Duration = secs(3_153_600_000);

/// A store in memory with one tube.
pub struct Case {
    pub driver: &'static str,
    pub clock: ManualClock,
    pub store: Store,
    /// The tube, for the store's own session.
    pub tube: Tube,
    drafts: AtomicU64,
}

/// Runs the case on a tube of each of the drivers.
pub fn each(drivers: &[&'static str], case: impl Fn(&Case)) {
    each_with(drivers, TubeOptions::default(), case);
}

/// The same on tubes that are created with these options.
pub fn each_with(drivers: &[&'static str], options: TubeOptions, case: impl Fn(&Case)) {
    for driver in drivers {
        println!("driver {driver}");
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", driver, options.clone()).unwrap();
        let world = Case { driver, clock, store, tube, drafts: AtomicU64::new(0) };
        case(&world);
        assert_sound(&world.store);
    }
}

/// A store in memory without a tube, on a clock that stands still.
pub fn store_in_memory() -> Store {
    Store::options().clock(ManualClock::new()).open_in_memory().unwrap()
}

/// Fails with all that `verify` finds.
pub fn assert_sound(store: &Store) {
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

impl Case {
    pub fn timed(&self) -> bool {
        TIMED.contains(&self.driver)
    }

    pub fn sub_queued(&self) -> bool {
        SUB_QUEUED.contains(&self.driver)
    }

    /// A task to put, where the driver has sub-queues in one of its own.
    pub fn draft(&self, data: &str) -> Put {
        let put = Put::new(data);
        if self.sub_queued() {
            put.sub_queue(format!("own-{}", self.drafts.fetch_add(1, Ordering::Relaxed)))
        } else {
            put
        }
    }

    /// Puts a draft; its id.
    pub fn put(&self, data: &str) -> u64 {
        self.add(self.draft(data))
    }

    /// Puts as many drafts as `ids` has places, and checks that they get these ids.
    pub fn put_all<const N: usize>(&self, ids: [u64; N]) {
        assert_eq!(ids.map(|id| self.put(&format!("task {id}"))), ids);
    }

    pub fn add(&self, put: Put) -> u64 {
        self.tube.put(put).unwrap().id
    }

    /// Takes without waiting for the store's session, which keeps the task; its id.
    pub fn take(&self) -> Option<u64> {
        take(&self.tube)
    }

    /// Takes until nothing is left to take.
    pub fn take_all(&self) -> Vec<u64> {
        std::iter::from_fn(|| self.take()).collect()
    }

    pub fn state(&self, id: u64) -> Option<State> {
        state(&self.tube, id)
    }

    pub fn info(&self, id: u64) -> TaskInfo {
        self.tube.peek(id).unwrap().info
    }

    /// Moves the clock on by so many milliseconds.
    pub fn advance(&self, millis: u64) {
        self.clock.advance(ms(millis));
    }

    /// The tube for a new session.
    pub fn stranger(&self) -> Tube {
        self.store.session().tube("case").unwrap()
    }

    /// A take of the store's session that waits as long as it must.
    pub fn wait(&self) -> Waiting {
        Waiting::begin(self.tube.take_async(FOR_EVER))
    }

    /// Records what the tube reports from now on.
    pub fn record(&self) -> Record {
        Record::of(&self.store, &self.tube)
    }

    pub fn tasks(&self) -> Counts {
        tasks(&self.tube)
    }

    pub fn calls(&self) -> Counts {
        calls(&self.tube)
    }
}

/// Takes without waiting for the session of this handle, which keeps the task; its id.
pub fn take(tube: &Tube) -> Option<u64> {
    let claim = tube.take(ZERO).unwrap()?;
    Some(keep(claim))
}

/// Leaves a claimed task to its session; its id.
pub fn keep(claim: Claim) -> u64 {
    let task = claim.detach();
    assert_eq!(task.info.state, State::Taken);
    task.info.id
}

/// The state of a task, or that it is gone.
pub fn state(tube: &Tube, id: u64) -> Option<State> {
    match tube.peek(id) {
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
        other => panic!("not refused as unsupported: {other:?}"),
    }
}

// ---- statistics

/// Counters by name, those that are zero left out.
pub type Counts = BTreeMap<&'static str, u64>;

pub fn tasks(tube: &Tube) -> Counts {
    let tasks = tube.statistics().unwrap().tasks;
    non_zero([
        ("ready", tasks.ready),
        ("taken", tasks.taken),
        ("delayed", tasks.delayed),
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

// ---- takes that wait

/// A take that waits, polled by hand: at its begin, and then only when it has called its waker, so
/// that an answer which nobody is told of is no answer.
pub struct Waiting {
    taking: Option<Pin<Box<TakeFuture>>>,
    bell: Arc<Bell>,
    answer: Option<Result<Option<Claim>>>,
}

struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Waiting {
    pub fn begin(taking: TakeFuture) -> Waiting {
        let mut waiting = Waiting {
            taking: Some(Box::pin(taking)),
            bell: Arc::new(Bell(AtomicBool::new(true))),
            answer: None,
        };
        assert!(waiting.waits(), "there was something to take at once");
        waiting
    }

    /// Still without an answer.
    pub fn waits(&mut self) -> bool {
        if self.bell.0.swap(false, Ordering::SeqCst)
            && let Some(taking) = &mut self.taking
        {
            let waker = Waker::from(Arc::clone(&self.bell));
            if let Poll::Ready(answer) = taking.as_mut().poll(&mut Context::from_waker(&waker)) {
                self.taking = None;
                self.answer = Some(answer);
            }
        }
        self.answer.is_none()
    }

    pub fn answer(mut self) -> Result<Option<Claim>> {
        assert!(!self.waits(), "still waiting");
        self.answer.take().unwrap()
    }

    /// The id of the task it got, which its session keeps; `None` when its time was over.
    pub fn id(self) -> Option<u64> {
        self.answer().unwrap().map(keep)
    }
}

// ---- events

/// What a tube reports: the task, what happened, and its state afterwards.
pub type Told = (u64, EventKind, State);

/// What the callback of a tube was called with. Callbacks run on a thread of their own, in order.
#[derive(Clone, Default)]
pub struct Calls(Arc<(Mutex<Vec<Told>>, Condvar)>);

impl Calls {
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

    /// The calls since the last time, once there are so many; after a minute whatever there is.
    pub fn read(&self, count: usize) -> Vec<Told> {
        let (calls, changed) = &*self.0;
        let calls = calls.lock().unwrap();
        let too_few = |calls: &mut Vec<Told>| calls.len() < count;
        let (mut calls, _) = changed.wait_timeout_while(calls, secs(60), too_few).unwrap();
        std::mem::take(&mut *calls)
    }
}

/// All that a tube reports: through its callback and through a subscription, which must agree.
pub struct Record {
    tube: String,
    calls: Calls,
    stream: Subscription,
}

impl Record {
    /// Records all that happens in the tube from now on.
    pub fn of(store: &Store, tube: &Tube) -> Record {
        let calls = Calls::default();
        let stream = store.subscribe(10_000);
        tube.on_task_change(Some(calls.as_callback())).unwrap();
        Record { tube: tube.name().to_owned(), calls, stream }
    }

    /// What was reported since the last time.
    pub fn read(&self) -> Vec<Told> {
        let told: Vec<Told> = std::iter::from_fn(|| self.stream.try_recv())
            .filter(|event| *event.tube == *self.tube)
            .map(|event| (event.id, event.kind, event.state))
            .collect();
        assert_eq!(self.stream.dropped(), 0);
        assert_eq!(self.calls.read(told.len()), told);
        told
    }
}

// ---- files

/// A store in a file that can be closed and opened again. The clock goes on in between.
pub struct Disk {
    pub clock: ManualClock,
    folder: TempDir,
}

impl Disk {
    pub fn new() -> Disk {
        Disk { clock: ManualClock::new(), folder: TempDir::new().unwrap() }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("store.tubewell")
    }

    pub fn open(&self) -> Store {
        Store::options().clock(&self.clock).open(self.path()).unwrap()
    }

    /// Closes the store, lets that much time go by, and opens it again.
    pub fn reopen_after(&self, store: Store, away: Duration) -> Store {
        assert_sound(&store);
        store.close().unwrap();
        drop(store);
        self.clock.advance(away);
        self.open()
    }

    pub fn reopen(&self, store: Store) -> Store {
        self.reopen_after(store, ZERO)
    }

    /// What fell due while the store was closed is done with the first move of the clock.
    pub fn tick(&self) {
        self.clock.advance(ms(1));
    }
}
