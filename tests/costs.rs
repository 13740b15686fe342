//! The costs of calls: flushes, commits, rows, bytes, reads and allocations. They are counted, not
//! timed.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redb::backends::InMemoryBackend;
use redb::{Database, StorageBackend, TableDefinition};

use tubewell::{
    Claim, Counting, Durability, FIFO, FIFOTTL, Failure, Keep, ManualClock, Put, Store, Tube,
    TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

fn store_on(path: &std::path::Path) -> Store {
    Store::options().clock(ManualClock::new()).open(path).unwrap()
}

/// The number of flushes and commits of `work`.
fn flushes_and_commits(store: &Store, work: impl FnOnce()) -> (u64, u64) {
    let before = store.counters();
    work();
    let after = store.counters();
    (after.flushes - before.flushes, after.commits - before.commits)
}

fn with_tube(driver: &str, options: TubeOptions, check: impl FnOnce(&Store, &Tube)) {
    let dir = tempfile::tempdir().unwrap();
    let store = store_on(&dir.path().join("store"));
    let tube = store.create_tube("work", driver, options).unwrap();
    check(&store, &tube);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn put_and_ack_cost_one_flush_each_and_take_costs_none() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        assert_eq!(flushes_and_commits(store, || _ = tube.put("warm").unwrap()), (1, 1));
        assert_eq!(flushes_and_commits(store, || _ = tube.put("one").unwrap()), (1, 1));
        let mut claim = None;
        assert_eq!(flushes_and_commits(store, || claim = tube.try_take().unwrap()), (0, 0));
        assert_eq!(flushes_and_commits(store, || _ = claim.take().unwrap().ack().unwrap()), (1, 1));
    });
}

#[test]
fn release_renew_and_claim_expiry_cost_no_flush() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    tube.put(Put::new("one").ttr(Duration::from_secs(5))).unwrap();
    let cost = flushes_and_commits(&store, || {
        let claim = tube.try_take().unwrap().unwrap();
        claim.renew(Duration::from_secs(7)).unwrap();
        claim.release(Duration::ZERO).unwrap();
        drop(tube.try_take().unwrap().unwrap());
        let _ = tube.try_take().unwrap().unwrap().detach();
        clock.advance(Duration::from_secs(6));
        assert_eq!(tube.statistics().unwrap().calls.ttr, 1);
        assert_eq!(tube.peek(0).unwrap().info.takes, 3);
    });
    assert_eq!(cost, (0, 0));
}

#[test]
fn batch_costs_one_flush_for_any_number_of_tasks() {
    with_tube(UTUBE, TubeOptions::new(), |store, tube| {
        let tasks = || (0..500).map(|n| Put::new("x").sub_queue(format!("s{n}")));
        assert_eq!(flushes_and_commits(store, || _ = tube.put_many(tasks()).unwrap()), (1, 1));
        let claims = tube.take_many(500, Duration::ZERO).unwrap();
        assert_eq!(claims.len(), 500);
        // On this clock the thread of a commit also writes the checkpoint that the commit begins.
        let (flushes, commits) =
            flushes_and_commits(store, || _ = Claim::ack_many(claims).unwrap());
        assert!(flushes <= 2 && commits == 1, "{flushes} flushes, {commits} commits");
    });
}

#[test]
fn deferred_calls_share_flushes() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let deferred = tube.deferred(WhenFull::Block);
        let (flushes, _) = flushes_and_commits(store, || {
            let tickets: Vec<_> = (0..1000).map(|_| deferred.put("x").unwrap()).collect();
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        });
        assert!(flushes <= 500, "1000 puts from one thread cost {flushes} flushes");
    });
}

#[test]
fn relaxed_put_acked_before_flush_is_not_written() {
    with_tube(FIFO, TubeOptions::new().durability(Durability::relaxed()), |store, tube| {
        tube.put("the first put of a run reserves ids").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        store.flush().unwrap();
        let empty_flush = bytes_written(store, || _ = store.flush().unwrap());
        assert_eq!(empty_flush, 0, "a flush without changes wrote bytes");
        let written = bytes_written(store, || {
            for _ in 0..100 {
                tube.put(vec![7; 1000]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
            store.flush().unwrap();
        });
        assert!(
            written < 40_000,
            "{written} bytes for 100 tasks of 1000 bytes that were acked before the flush"
        );
    });
}

#[test]
fn temporary_tubes_write_nothing() {
    with_tube(FIFO, TubeOptions::new().temporary(true), |store, tube| {
        tube.put("the first put of a run reserves ids").unwrap();
        let cost = flushes_and_commits(store, || {
            for _ in 0..3000 {
                tube.put("x").unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
        });
        assert_eq!(cost, (0, 0));
    });
}

/// The number of rows that `work` edits, header and counts included.
fn rows_edited(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.counters().rows;
    work();
    store.counters().rows - before
}

/// Each call edits the record, its place, head or due, the header, and the counts of the tube.
#[test]
fn every_verb_edits_few_rows() {
    let ttl = |put: Put| put.ttl(Duration::from_secs(60));
    let plain = || Put::new("x");
    for (driver, put, most) in [
        (FIFO, plain(), [3, 3, 5, 5, 3, 1002, 1002]),
        (FIFOTTL, plain(), [3, 3, 5, 5, 3, 1002, 1002]),
        (FIFOTTL, ttl(plain()), [4, 4, 6, 6, 4, 2002, 2002]),
        (UTUBE, plain(), [4, 6, 6, 6, 5, 3002, 3002]),
        (UTUBETTL, ttl(plain()), [5, 7, 7, 7, 6, 4002, 4002]),
    ] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            let sub_queued = [UTUBE, UTUBETTL].contains(&driver);
            let of = |n: usize| {
                if sub_queued { put.clone().sub_queue(format!("{n}")) } else { put.clone() }
            };
            let take_all = || tube.take_many(1000, Duration::ZERO).unwrap();
            tube.put(of(0)).unwrap();
            let mut id = 0;
            let edited = [
                rows_edited(store, || id = tube.put(of(0)).unwrap().id),
                rows_edited(store, || _ = tube.try_take().unwrap().unwrap().ack().unwrap()),
                rows_edited(store, || _ = tube.bury(id).unwrap()),
                rows_edited(store, || _ = tube.kick(1).unwrap()),
                rows_edited(store, || _ = tube.delete(id).unwrap()),
                rows_edited(store, || _ = tube.put_many((0..1000).map(of)).unwrap()),
                rows_edited(store, || _ = Claim::ack_many(take_all()).unwrap()),
            ];
            println!("{driver}: {edited:?} rows");
            assert_eq!(tube.statistics().unwrap().tasks.total, 0);
            let within = edited.iter().zip(most).all(|(edited, most)| *edited <= most);
            assert!(within, "{driver}: {edited:?} rows, at most {most:?} expected");
        });
    }
}

/// Flushes, commits and rows of a put, a take, an ack, a take and a failure with attempts left, in
/// a tube that limits them.
fn costs_of_attempts(store: &Store, tube: &Tube) -> [[u64; 3]; 5] {
    let take = || tube.try_take().unwrap().unwrap();
    let cost = |work: &mut dyn FnMut()| {
        let before = store.counters();
        work();
        let after = store.counters();
        let flushes = after.flushes - before.flushes;
        [flushes, after.commits - before.commits, after.rows - before.rows]
    };
    tube.put("the first put of a run reserves ids").unwrap();
    take().ack().unwrap();
    let mut claim = None;
    let put = cost(&mut || _ = tube.put("x").unwrap());
    let taken = cost(&mut || claim = Some(take()));
    let ack = cost(&mut || _ = claim.take().unwrap().ack().unwrap());
    tube.put("x").unwrap();
    let again = cost(&mut || claim = Some(take()));
    let failure = Failure::new("timeout", "no answer");
    let fail = cost(&mut || _ = claim.take().unwrap().fail(failure.clone()).unwrap());
    [put, taken, ack, again, fail]
}

/// A counted take is a commit of one row and the header of the store, which also has what was put
/// before it in a relaxed tube. The row is removed with the commit of the ack or the failure.
#[test]
fn counted_takes_cost_one_row_and_what_their_counting_says() {
    let (flush, write, relaxed) = (Durability::Flush, Durability::write(), Durability::relaxed());
    for (durability, counting, expected, most) in [
        (flush, Counting::Lazily, [[1, 1, 3], [0, 0, 0], [1, 1, 3], [0, 0, 0], [1, 1, 3]], 30),
        (flush, Counting::Written, [[1, 1, 3], [0, 1, 2], [1, 1, 4], [0, 1, 2], [1, 1, 4]], 43),
        (flush, Counting::Flushed, [[1, 1, 3], [1, 1, 2], [1, 1, 4], [1, 1, 2], [1, 1, 4]], 44),
        (write, Counting::Lazily, [[0, 1, 3], [0, 0, 0], [0, 1, 3], [0, 0, 0], [0, 1, 3]], 25),
        (write, Counting::Written, [[0, 1, 3], [0, 1, 2], [0, 1, 4], [0, 1, 2], [0, 1, 4]], 38),
        (write, Counting::Flushed, [[0, 1, 3], [1, 1, 2], [0, 1, 4], [1, 1, 2], [0, 1, 4]], 38),
        (relaxed, Counting::Lazily, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 4),
        (relaxed, Counting::Written, [[0, 0, 0], [0, 1, 6], [0, 0, 0], [0, 1, 6], [0, 0, 0]], 22),
        (relaxed, Counting::Flushed, [[0, 0, 0], [1, 1, 6], [0, 0, 0], [1, 1, 6], [0, 0, 0]], 22),
    ] {
        let options = TubeOptions::new().max_attempts(1000).durability(durability);
        with_tube(FIFO, options.count_takes(counting), |store, tube| {
            let costs = costs_of_attempts(store, tube);
            tube.truncate().unwrap();
            let cycle = allocations(100, || {
                tube.put(&[7; 128]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            });
            println!("{durability}, {counting}: {costs:?}, {cycle} allocations");
            assert_eq!(costs, expected, "{durability}, {counting}");
            assert!(cycle <= most, "{durability}, {counting}: {cycle} allocations per cycle");
        });
    }
}

/// The limit in bytes. A lone put of 128 bytes is a journal record of some 300 bytes, and the
/// blocks of the journal are preallocated once, which costs as much again.
const LONE_PUT: u64 = 1 << 10;
const PUTS: u64 = 200;

#[test]
fn lone_put_writes_fraction_of_bytes_of_plain_redb() {
    let plain = plain_redb_writes();
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let put = || _ = tube.put(&[7; 128]).unwrap();
        (0..PUTS).for_each(|_| put());
        let lone = bytes_written(store, || (0..PUTS).for_each(|_| put())) / PUTS;
        println!("a lone put writes {lone} bytes, plain redb {plain}");
        assert!(lone <= LONE_PUT.min(plain / 20), "a put wrote {lone} bytes, plain redb {plain}");
    });
}

/// The bytes that redb alone writes for one insert in a commit of its own.
fn plain_redb_writes() -> u64 {
    const TABLE: TableDefinition<u64, &[u8]> = TableDefinition::new("tasks");
    let backend = CountingBackend::default();
    let written = backend.written.clone();
    let database = Database::builder().create_with_backend(backend).unwrap();
    let insert = |key| {
        let transaction = database.begin_write().unwrap();
        transaction.open_table(TABLE).unwrap().insert(key, [7; 128].as_slice()).unwrap();
        transaction.commit().unwrap();
    };
    (0..PUTS).for_each(insert);
    let before = written.load(Ordering::Relaxed);
    (PUTS..2 * PUTS).for_each(insert);
    (written.load(Ordering::Relaxed) - before) / PUTS
}

/// A backend in memory that counts the bytes written to it.
#[derive(Debug, Default)]
struct CountingBackend {
    memory: InMemoryBackend,
    written: Arc<AtomicU64>,
}

impl StorageBackend for CountingBackend {
    fn len(&self) -> io::Result<u64> {
        self.memory.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.memory.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.memory.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.memory.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.written.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.memory.write(offset, data)
    }
}

/// Only in release builds: in debug builds the engine checks all its pages when it opens.
#[cfg(not(debug_assertions))]
#[test]
fn reads_of_open_and_first_take_do_not_grow_with_task_count() {
    let reads = |tasks: usize| {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        {
            let store = store_on(&path);
            let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
            tube.put_many((0..tasks).map(|n| format!("task {n}"))).unwrap();
            store.close().unwrap();
        }
        let store = store_on(&path);
        let claim = store.tube("work").unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.data(), b"task 0");
        store.counters().reads
    };
    let (few, many) = (reads(10), reads(30_000));
    assert!(many <= few + 4, "{few} reads with ten tasks, {many} with thirty thousand");
}

fn bytes_written(store: &Store, work: impl FnOnce()) -> u64 {
    let before = store.counters().bytes_written;
    work();
    store.counters().bytes_written - before
}

/// Regression: a relaxed put was acked before the flush. The flush had nothing to write and
/// returned an earlier commit than the receipts.
#[test]
fn flush_returns_at_least_commit_of_earlier_receipts() {
    let store = Store::in_memory().unwrap();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let tube = store.create_tube("work", FIFO, relaxed).unwrap();
    for _ in 0..3 {
        tube.put("x").unwrap();
        let ack = tube.try_take().unwrap().unwrap().ack().unwrap();
        assert!(store.flush().unwrap() >= ack.commit);
    }
}

/// The allocations of this thread in one call, as the mean of `calls` calls, rounded up.
fn allocations(calls: u64, mut call: impl FnMut()) -> u64 {
    // The first calls grow maps and buffers.
    (0..calls).for_each(|_| call());
    let counted = allocation_counter::measure(|| (0..calls).for_each(|_| call()));
    counted.count_total.div_ceil(calls)
}

#[test]
fn put_take_ack_without_flush_allocates_little() {
    for options in
        [TubeOptions::new().durability(Durability::relaxed()), TubeOptions::new().temporary(true)]
    {
        for (driver, most) in [(FIFO, 5), (FIFOTTL, 5), (UTUBE, 8), (UTUBETTL, 8)] {
            with_tube(driver, options.clone(), |_, tube| {
                tube.put("the first put of a run reserves ids").unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
                let cycle = allocations(500, || {
                    tube.put(&[7; 128]).unwrap();
                    tube.try_take().unwrap().unwrap().ack().unwrap();
                });
                println!("{driver}: {cycle} allocations");
                assert!(cycle <= most, "{driver}, {options:?}: {cycle} allocations per cycle");
            });
        }
    }
}

type End = fn(Claim) -> tubewell::Result<tubewell::Receipt>;

/// A kept task moves to another row, and has a place. More rows: the result, a due if there is an
/// age, the task that is forgotten, and the two rows of a failure group.
#[test]
fn outcomes_edit_few_rows_in_the_commit_of_the_end() {
    let count = Keep::new().count(1);
    let age = Duration::from_secs(60);
    let kept = |keep| TubeOptions::new().keep_done(keep);
    let fail = |claim: Claim| claim.fail(Failure::new("group", "message"));
    let ends: [(TubeOptions, End, u64); 7] = [
        (TubeOptions::new(), |claim| claim.ack_with("result"), 3),
        (kept(Keep::new()), |claim| claim.ack(), 5),
        (kept(Keep::new()), |claim| claim.ack_with("result"), 6),
        (kept(Keep::new().age(age)), |claim| claim.ack_with("result"), 7),
        (kept(count), |claim| claim.ack_with("result"), 9),
        (kept(count.age(age)), |claim| claim.ack_with("result"), 11),
        (TubeOptions::new().max_attempts(1), fail, 9),
    ];
    for (options, end, most) in ends {
        with_tube(FIFO, options.clone(), |store, tube| {
            let mut cost = (0, 0);
            let mut rows = 0;
            for _ in 0..3 {
                tube.put("x").unwrap();
                let claim = tube.try_take().unwrap().unwrap();
                rows = rows_edited(store, || {
                    cost = flushes_and_commits(store, || _ = end(claim).unwrap());
                });
            }
            assert_eq!((rows, cost), (most, (1, 1)), "{options:?}");
        });
    }
}

#[test]
fn kept_ack_allocates_little() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    for (keep, most) in [(None, 8), (Some(Keep::new().count(1)), 36)] {
        let options = keep.into_iter().fold(relaxed.clone(), TubeOptions::keep_done);
        with_tube(FIFO, options, |_, tube| {
            let cycle = allocations(500, || {
                tube.put(&[7; 128]).unwrap();
                tube.try_take().unwrap().unwrap().ack_with([7; 128]).unwrap();
            });
            println!("{keep:?}: {cycle} allocations");
            assert!(cycle <= most, "{keep:?}: {cycle} allocations per cycle");
        });
    }
}

/// The database still has the rows that the last acks have removed.
#[test]
fn kept_ack_that_trims_does_not_read_the_rows_of_earlier_trims() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let open = || Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let keep = TubeOptions::new().keep_done(Keep::new().count(600));
    let store = open();
    store.create_tube("work", FIFO, keep.durability(Durability::relaxed())).unwrap();
    let end = |store: &Store, tasks: usize| {
        let tube = store.tube("work").unwrap();
        tube.put_many(vec!["x"; tasks]).unwrap();
        let claims = tube.take_many(tasks, Duration::ZERO).unwrap();
        assert_eq!(Claim::ack_many(claims).unwrap().len(), tasks);
        clock.advance(Duration::from_micros(1));
    };
    end(&store, 600);
    store.close().unwrap();
    let store = open();
    end(&store, 400);
    let tube = store.tube("work").unwrap();
    tube.put_many(["x"; 100]).unwrap();
    let ack = allocations(50, || _ = tube.try_take().unwrap().unwrap().ack().unwrap());
    println!("{ack} allocations");
    assert!(ack <= 60, "{ack} allocations per ack");
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// Another tube of the store keeps outcomes, and a caller waits for the end of one of its tasks.
#[test]
fn outcomes_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, plain| {
        let keep = TubeOptions::new().keep_done(Keep::new().count(100));
        let keeping = store.create_tube("keeping", FIFO, keep).unwrap();
        keeping.put_many(["x"; 101]).unwrap();
        let claims = keeping.take_many(100, Duration::ZERO).unwrap();
        assert_eq!(Claim::ack_many(claims).unwrap().len(), 100);
        let mut wait = std::pin::pin!(keeping.wait_done_async(100, None));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        plain.put("warm").unwrap();
        let put = || _ = plain.put("x").unwrap();
        assert_eq!((rows_edited(store, put), flushes_and_commits(store, put)), (3, (1, 1)));
        let ack = || _ = plain.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!((rows_edited(store, ack), flushes_and_commits(store, ack)), (3, (1, 1)));
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let relaxed = store.create_tube("relaxed", FIFO, relaxed).unwrap();
        let cycle = allocations(500, || {
            relaxed.put(&[7; 128]).unwrap();
            relaxed.try_take().unwrap().unwrap().ack().unwrap();
        });
        assert!(cycle <= 5, "{cycle} allocations per cycle");
    });
}

/// The allocations are the share of the reads that fill the window, the read of the body, and the
/// claim.
#[test]
fn take_from_file_allocates_little() {
    with_tube(FIFO, TubeOptions::new(), |_, tube| {
        tube.put_many(vec![[7; 128].as_slice(); 4000]).unwrap();
        let take = allocations(1000, || _ = tube.try_take().unwrap().unwrap().detach());
        println!("{take} allocations");
        assert!(take <= 6, "{take} allocations per take");
    });
}

#[test]
fn idle_store_neither_reads_nor_writes() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    tube.put(Put::new("one").ttl(Duration::from_secs(86_400))).unwrap();
    clock.advance(Duration::from_secs(10));
    let before = store.counters();
    for _ in 0..3600 {
        clock.advance(Duration::from_secs(1));
    }
    assert_eq!(store.counters(), before);
}
