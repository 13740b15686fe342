//! Memory use: of a backlog the page cache only, however many tasks there are, and beside a
//! checkpoint that takes long the changes that may wait.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[path = "common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use blocking_disk::Disk;
use executor::{wait_until, with_timeout};
use tubewell::{
    Durability, Error, FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBE, UTUBETTL,
};

#[global_allocator]
static MEMORY: cap::Cap<std::alloc::System> = cap::Cap::new(std::alloc::System, usize::MAX);

/// Held by each test: the memory is that of the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const CACHE: usize = 1 << 20;
/// Tasks in a batch, which is held in memory with its rows while it is put.
const BATCH: usize = 5000;
const FEW: usize = BATCH;
const MANY: usize = 20 * BATCH;
/// In bytes: by how much windows, the journal, buffers and the cached heads of 16,384 sub-queues
/// may differ. A backlog held in memory would take three times as much.
const SLACK: usize = 6 << 20;

/// A task: ready, delayed, with a ttl, in a sub-queue of its own, or in a shared sub-queue.
fn task(driver: &str, number: usize) -> Put<Vec<u8>> {
    let put = Put::new(vec![b'-'; 100]);
    match driver {
        FIFO => put,
        FIFOTTL if number.is_multiple_of(2) => put.delay(Duration::from_secs(3600)),
        FIFOTTL => put.ttl(Duration::from_secs(7200)),
        UTUBE if number.is_multiple_of(2) => put.sub_queue("busy"),
        _ => put.sub_queue(format!("{}", number % 50_000)),
    }
}

fn fill(tube: &Tube, from: usize, to: usize) {
    for batch in (from..to).step_by(BATCH) {
        tube.put_many((batch..batch + BATCH).map(|number| task(tube.driver(), number))).unwrap();
    }
}

/// Bytes allocated with 100 claims held, a page listed and the window full.
fn allocated_in_use(store: &Store, tube: &Tube) -> usize {
    let held = tube.take_many(100, Duration::ZERO).unwrap();
    assert_eq!(held.len(), 100);
    tube.query().list(tubewell::TaskState::Ready, None, 100).unwrap();
    store.flush().unwrap();
    let allocated = MEMORY.allocated();
    drop(held);
    allocated
}

#[test]
fn memory_use_does_not_grow_with_the_backlog() {
    let _alone = alone();
    for driver in [FIFO, FIFOTTL, UTUBE, UTUBETTL] {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let open =
            || Store::options().clock(ManualClock::new()).cache_size(CACHE).open(&path).unwrap();
        let store = open();
        let tube = store.create_tube("work", TubeOptions::new().driver(driver)).unwrap();
        fill(&tube, 0, FEW);
        let few = allocated_in_use(&store, &tube);
        fill(&tube, FEW, MANY);
        let many = allocated_in_use(&store, &tube);
        store.close().unwrap();
        drop((tube, store));

        let store = open();
        let tube = store.find_tube("work").unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.total, MANY as u64);
        let reopened = allocated_in_use(&store, &tube);
        println!(
            "{driver}: {few} bytes with {FEW} tasks, {many} with {MANY}, {reopened} after a reopen"
        );
        assert!(many <= few + SLACK, "{driver}: {many} bytes instead of {few}");
        assert!(reopened <= few + SLACK, "{driver}: {reopened} bytes instead of {few}");
    }
}

/// The changes that may wait for a commit, in rows and bytes.
const PENDING: (usize, usize) = (20_000, 4 << 20);
/// The bytes of both halves of the journal.
const JOURNAL: usize = 1 << 20;
/// In bytes: the changes that wait and those in the journal, twice for their keys, their maps and the
/// pages of the running checkpoint.
const BESIDE_CHECKPOINT: usize = 2 * (PENDING.1 + JOURNAL);
/// No caller may put so many tasks without waiting.
const MAX_PUTS: u64 = 100_000;

/// Callers of three durabilities, which put until they are stopped.
struct Producers {
    stop: AtomicBool,
    /// The number of puts that were accepted.
    accepted: AtomicU64,
}

impl Producers {
    fn put_until_stopped(&self, tube: &Tube) {
        while !self.stop.load(Ordering::SeqCst) {
            tube.put(vec![7; 100]).unwrap();
            self.count_put();
        }
    }

    fn count_put(&self) {
        let accepted = self.accepted.fetch_add(1, Ordering::SeqCst);
        assert!(accepted < MAX_PUTS, "puts do not wait for the checkpoint");
    }

    /// Puts without waiting until the write buffer is full.
    fn put_until_full(&self, tube: &Tube) {
        while self.put_once(tube) {}
    }

    /// Puts without waiting. Returns false if the write buffer is full.
    fn put_once(&self, tube: &Tube) -> bool {
        let ticket = tube.to_async().refuse_when_full().put(vec![7; 100]);
        match ticket.refusal() {
            None => self.count_put(),
            Some(Error::Overloaded) => return false,
            Some(error) => panic!("{error}"),
        }
        true
    }
}

#[test]
fn memory_stays_bounded_while_a_checkpoint_is_blocked() {
    let _alone = alone();
    with_timeout(|| {
        let disk = Arc::new(Disk::default());
        let options = Store::options().max_pending(PENDING.0, PENDING.1);
        let store = disk.open(options);
        let all = [Durability::Flush, Durability::write(), Durability::relaxed()];
        let tubes = all.map(|durability| {
            let options = TubeOptions::new().durability(durability);
            let tube = store.create_tube(&durability.to_string(), options.driver(FIFO)).unwrap();
            tube.put("the first put of a run reserves ids").unwrap();
            tube
        });
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let allocated = || MEMORY.allocated() - disk.allocated();
        let before = allocated();
        disk.block_database_writes();
        let producers = Producers { stop: AtomicBool::new(false), accepted: AtomicU64::new(3) };
        thread::scope(|scope| {
            for tube in tubes.iter().chain(&tubes) {
                scope.spawn(|| producers.put_until_stopped(tube));
            }
            disk.wait_for_database_write();
            // A commit that is too large for the journal is written to the database by its caller. It is the one
            // that is blocked then, and no caller waits for the journal.
            wait_until(|| {
                store.admin().counters().unwrap().journal_waits > 0
                    || !producers.put_once(&tubes[2])
            });
            producers.put_until_full(&tubes[2]);
            let grown = allocated().saturating_sub(before);
            let accepted = producers.accepted.load(Ordering::SeqCst);
            println!("{grown} bytes more with {accepted} puts");
            // The threads must end if the assertion fails.
            producers.stop.store(true, Ordering::SeqCst);
            disk.unblock_database_writes();
            assert!(grown < BESIDE_CHECKPOINT, "{grown} bytes with {accepted} puts");
        });
        let ready = tubes.iter().map(|tube| tube.statistics().unwrap().tasks.ready).sum::<u64>();
        assert_eq!(ready, producers.accepted.into_inner());
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    });
}
