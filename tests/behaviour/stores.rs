//! The stores of the suites: each is open in this process or, with `TUBEWELL_STORES=connections`, a connection
//! to one that is, its owner.
//!
//! An owner lives as long as the thread that has opened it, which is that of a test.

use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, Weak};
use std::thread;
use std::time::Duration;

use tubewell::expert::Clock;
use tubewell::{Error, Store, StoreOptions};

use super::connection::{Connection, remote};
use super::owner_only::is_owner_only;

/// Whether the stores are connections.
pub const VARIABLE: &str = "TUBEWELL_STORES";
pub const CONNECTIONS: &str = "connections";

/// How many owners a test may have. The oldest ones are closed.
const OWNERS_OF_A_TEST: usize = 64;

/// A store that is open here, and the connection through which a suite uses it.
struct Owned {
    number: u64,
    /// The connection comes first: it ends before its store is closed.
    connection: Connection,
    owner: Store,
    path: Option<PathBuf>,
    test: Weak<()>,
}

static OWNED: Mutex<Vec<Owned>> = Mutex::new(Vec::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

thread_local! {
    /// Lives as long as its thread.
    static TEST: Arc<()> = Arc::default();
}

fn owned() -> MutexGuard<'static, Vec<Owned>> {
    OWNED.lock().unwrap()
}

fn this_test() -> Weak<()> {
    TEST.with(Arc::downgrade)
}

/// Whether the stores of this run are connections.
pub fn are_connections() -> bool {
    static ARE_CONNECTIONS: LazyLock<bool> = LazyLock::new(|| match std::env::var(VARIABLE) {
        Ok(kind) if kind == CONNECTIONS => true,
        Ok(other) => panic!("{VARIABLE} is {other:?}, and not {CONNECTIONS}"),
        Err(_) => false,
    });
    *ARE_CONNECTIONS
}

pub fn in_memory() -> Store {
    in_memory_with(Store::options())
}

pub fn in_memory_with(options: StoreOptions) -> Store {
    serve(options.open_in_memory().unwrap())
}

pub fn open(path: impl AsRef<Path>) -> Store {
    open_with(path, Store::options())
}

/// Closes an owner that a test has left open at this path: it has dropped its last handle.
pub fn open_with(path: impl AsRef<Path>, options: StoreOptions) -> Store {
    let path = path.as_ref();
    let left = take_owned(|owned| owned.path.as_deref() == Some(path));
    left.into_iter().for_each(end);
    serve_at(options.open(path).unwrap(), Some(path.to_owned()))
}

pub fn serve(store: Store) -> Store {
    serve_at(store, None)
}

fn serve_at(owner: Store, path: Option<PathBuf>) -> Store {
    if !are_connections() {
        return owner;
    }
    let name = thread::current().name().map(str::to_owned);
    assert_ne!(name.as_deref(), Some("main"), "a test is known by the name of its thread");
    if name.is_some_and(|name| is_owner_only(&name)) {
        return owner;
    }
    end_those_of_ended_tests();
    let connection = remote(&owner);
    let store = connection.store.clone();
    let number = NEXT.fetch_add(1, Ordering::SeqCst);
    owned().push(Owned { number, connection, owner, path, test: this_test() });
    store
}

/// Ends what no test uses any more. On a thread of its own, since a disk of a test that has failed
/// may still be blocked.
fn end_those_of_ended_tests() {
    let mut ended = take_owned(|owned| owned.test.strong_count() == 0);
    let of_this = owned_by_this_test(|owned| owned.number);
    if of_this.len() >= OWNERS_OF_A_TEST {
        ended.extend(take_owned(|owned| owned.number == of_this[0]));
    }
    if !ended.is_empty() {
        thread::spawn(move || drop(ended));
    }
}

fn take_owned(wanted: impl Fn(&Owned) -> bool) -> Vec<Owned> {
    owned().extract_if(.., |owned| wanted(owned)).collect()
}

/// The number of the owner that this is a connection to: the one that has its sessions.
fn number_of(store: &Store) -> Option<u64> {
    let of_this = owned_by_this_test(|owned| owned.number);
    if let [only] = of_this[..] {
        return Some(only);
    }
    let probe = store.session("").unwrap();
    probe.describe("probe", "").ok()?;
    let id = probe.id();
    let has_it =
        |owned: &&Owned| owned.owner.owners().unwrap().iter().any(|info| info.session == id);
    let number = owned().iter().find(has_it).map(|owned| owned.number);
    probe.end().unwrap();
    number
}

fn owned_by_this_test<T>(of: impl Fn(&Owned) -> T) -> Vec<T> {
    let this = this_test();
    owned().iter().filter(|owned| owned.test.ptr_eq(&this)).map(of).collect()
}

/// The store itself, for what only the process that has opened it can do.
pub fn owner(store: &Store) -> Store {
    if !are_connections() {
        return store.clone();
    }
    settle(store);
    let number = number_of(store);
    let all = owned();
    let found = all.iter().find(|owned| Some(owned.number) == number);
    found.map_or(store, |owned| &owned.owner).clone()
}

/// Makes a round trip: the calls that were sent before it have been made when it returns.
pub fn settle(store: &Store) {
    if are_connections() {
        drop(store.find_tube("none of this name, for a round trip"));
    }
}

/// The owner polls the waits that were woken in order, and a flush behind them. Waits begin, are given up
/// and are woken before the first one; a task that is handed out may first be counted, until the second.
pub fn settle_waits(store: &Store) {
    if are_connections() {
        settle(store);
        store.flush().unwrap();
        store.flush().unwrap();
    }
}

/// Whether a wait has ended because the owner was closed, or its connection.
pub fn is_closed(error: &Error) -> bool {
    let is_of_connection = matches!(error, Error::NotConnected { .. }) && are_connections();
    *error == Error::Closed || is_of_connection
}

/// Closes the owner, and then the connection.
pub fn close(store: &Store) {
    drop(begin_close(store));
}

/// Closes the owner, and the connection when the result is dropped. A change that waits is answered by the
/// owner; whether it was made is unknown if the connection is closed before the answer has been read.
#[must_use]
pub fn begin_close(store: &Store) -> Closing {
    if are_connections() {
        settle(store);
        let number = number_of(store);
        if let Some(owned) = take_owned(|owned| Some(owned.number) == number).pop() {
            return begin_end(owned);
        }
    }
    store.close().unwrap();
    Closing(None)
}

/// The connection to an owner that is closed.
pub struct Closing(Option<Store>);

impl Drop for Closing {
    fn drop(&mut self) {
        // It has nothing left to do that could fail.
        drop(self.0.take().map(|connection| connection.close()));
    }
}

fn end(owned: Owned) {
    drop(begin_end(owned));
}

fn begin_end(Owned { connection, owner, .. }: Owned) -> Closing {
    let store = connection.store.clone();
    match owner.close() {
        // A test that is over has removed its folder.
        Err(Error::OutcomeUnknown { why } | Error::Io { what: why })
            if why.contains("was removed") => {}
        closed => closed.unwrap(),
    }
    drop(connection);
    Closing(Some(store))
}

/// A clock that a test advances. All calls that were sent before have been made when it does.
#[derive(Clone, Debug, Default)]
pub struct ManualClock(tubewell::ManualClock);

impl ManualClock {
    pub fn new() -> ManualClock {
        ManualClock::default()
    }

    pub fn at(wall: Duration) -> ManualClock {
        ManualClock(tubewell::ManualClock::at(wall))
    }

    pub fn advance(&self, by: Duration) {
        settle_those_of_this_test();
        self.0.advance(by);
    }

    pub fn suspend(&self, by: Duration) {
        settle_those_of_this_test();
        self.0.suspend(by);
    }
}

fn settle_those_of_this_test() {
    owned_by_this_test(|owned| owned.connection.store.clone()).iter().for_each(settle);
}

impl Deref for ManualClock {
    type Target = tubewell::ManualClock;

    fn deref(&self) -> &tubewell::ManualClock {
        &self.0
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Clock {
        clock.0.into()
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Clock {
        Clock::from(&clock.0)
    }
}
