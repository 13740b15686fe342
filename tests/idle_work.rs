//! Idle work of a store: its file opens quickly even after a kill, and a file with few tasks left
//! returns free space to the file system.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ops::ControlFlow;
use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use tubewell::{
    Claim, Durability, FIFO, ManualClock, Outcome, Put, Store, StoreOptions, Tube, TubeOptions,
    UTUBETTL,
};

const SECOND: Duration = Duration::from_secs(1);

fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).durability(Durability::relaxed()).cache_size(1 << 20)
}

/// A store of about 64 MiB.
fn large_store(path: &Path, clock: &ManualClock) -> Store {
    let store = options(clock).open(path).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    for _ in 0..40 {
        tube.put_many((0..16).map(|_| vec![7_u8; 60_000])).unwrap();
    }
    store.flush().unwrap();
    store
}

/// The number of reads that an open makes on a copy of the file, as a kill would leave it.
fn reads_to_open(path: &Path) -> u64 {
    let copy = path.with_extension("killed");
    std::fs::copy(path, &copy).unwrap();
    let store = options(&ManualClock::new()).open(&copy).unwrap();
    let reads = store.admin().counters().unwrap().reads;
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.total, 640);
    reads
}

/// The journal reaches the engine in few commits. After each of them an open needs no repair.
#[test]
fn killed_store_opens_without_reading_the_whole_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let store = large_store(&path, &clock);
    let size = std::fs::metadata(&path).unwrap().len();
    let reads = reads_to_open(&path);
    // A debug build of the engine reads all pages once at each open.
    let most = if cfg!(debug_assertions) { size / 4096 / 2 } else { 100 };
    assert!(reads < most, "{reads} reads of a file of {size} bytes");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// A kill before the first write of a run costs the next open the reading of the journal, and of
/// nothing else.
#[test]
fn store_that_was_opened_and_killed_opens_with_as_few_reads_as_a_closed_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    large_store(&path, &clock).close().unwrap();
    let closed = reads_to_open(&path);
    let open = options(&clock).open(&path).unwrap();
    let killed = reads_to_open(&path);
    // The journal is one read.
    assert!(killed <= closed + 4, "{killed} reads after a kill, {closed} after a close");
    open.close().unwrap();
}

#[test]
fn idle_work_does_not_flush_a_small_store() {
    let clock = ManualClock::new();
    let store = options(&clock).open_in_memory().unwrap();
    store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap().put("x").unwrap();
    store.flush().unwrap();
    let flushes = store.admin().counters().unwrap().flushes;
    clock.advance(SECOND * 60);
    assert_eq!(store.admin().counters().unwrap().flushes, flushes);
}

const MIB: u64 = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// A store with this many ready tasks, each with a body of 900 bytes.
fn backlog(path: &Path, clock: &ManualClock, tasks: usize) -> (Store, Tube) {
    let store = options(clock).open(path).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    fill(&tube, tasks);
    (store, tube)
}

fn fill(tube: &Tube, tasks: usize) {
    for _ in 0..tasks / 1000 {
        tube.put_many((0..1000).map(|_| vec![7_u8; 900])).unwrap();
    }
}

/// Takes and acks this many tasks, 1000 at once.
fn drain(tube: &Tube, tasks: usize) {
    for _ in 0..tasks / 1000 {
        let claims = tube.take_many(1000, Duration::ZERO).unwrap();
        assert!(
            Claim::end_many(claims, |_| Outcome::done())
                .unwrap()
                .into_iter()
                .all(|acked| acked.is_ok())
        );
    }
}

#[test]
fn idle_work_shrinks_drained_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    let few = store.create_tube("few", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let buried = few.put(Put::new("buried").sub_queue("a")).unwrap().id;
    few.admin().bury(buried, None).unwrap();
    let large = few.put(Put::new(vec![5; 100_000]).sub_queue("b")).unwrap().id;
    let claim = few.try_take().unwrap().unwrap();
    assert_eq!(claim.id(), large);
    few.put(Put::new("delayed").delay(MINUTE * 2)).unwrap();
    drain(&tube, 10_000);
    store.flush().unwrap();
    let mut waiting = pin!(tube.to_async().take());
    let context = &mut Context::from_waker(Waker::noop());
    assert!(waiting.as_mut().poll(context).is_pending());
    let before = size(&path);
    assert!(before > 8 * MIB, "{before} bytes are no backlog");
    clock.advance(MINUTE);
    let after = size(&path);
    assert!(after < 3 * MIB, "{before} bytes before, {after} after");
    // The file shrinks once in an idle period.
    let writes = store.admin().counters().unwrap().writes;
    clock.advance(SECOND * 59);
    assert_eq!(
        store.admin().counters().unwrap().writes,
        writes,
        "a second write in one idle period"
    );
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    // The waiting take, the tasks and the claim have survived the shrink.
    tube.put("for the waiting take").unwrap();
    let Poll::Ready(Ok(served)) = waiting.poll(context) else { panic!("it got no task") };
    assert_eq!(served.body(), b"for the waiting take");
    clock.advance(SECOND * 2);
    assert_eq!(few.try_take().unwrap().unwrap().body(), b"delayed");
    assert_eq!(few.query().task(buried).unwrap().body, b"buried");
    assert_eq!(claim.body(), vec![5; 100_000]);
    claim.ack().unwrap();
    store.close().unwrap();
    let store = options(&clock).open(&path).unwrap();
    assert_eq!(store.find_tube("few").unwrap().statistics().unwrap().tasks.buried, 1);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn idle_work_does_not_shrink_file_with_backlog() {
    for (tasks, bodies, body) in [(10_000, 0, 0), (0, 30, 200_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let clock = ManualClock::new();
        let (store, tube) = backlog(&path, &clock, tasks);
        tube.put_many((0..bodies).map(|_| vec![1; body])).unwrap();
        store.flush().unwrap();
        let (before, flushes) = (size(&path), store.admin().counters().unwrap().flushes);
        assert!((4 * MIB..32 * MIB).contains(&before), "{before} bytes");
        clock.advance(MINUTE * 60);
        assert_eq!((size(&path), store.admin().counters().unwrap().flushes), (before, flushes));
    }
}

#[test]
fn idle_work_shrinks_file_after_truncate_and_drop_tube() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 5_000);
    let dropped = store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
    fill(&dropped, 5_000);
    tube.admin().truncate().unwrap();
    store.drop_tube("dropped").unwrap();
    assert!(size(&path) > 8 * MIB);
    clock.advance(MINUTE);
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn shrink_waits_until_backup_has_ended() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    tube.put("kept").unwrap();
    drain(&tube, 10_000);
    store.flush().unwrap();
    let before = size(&path);
    let mut steps = 0;
    store
        .admin()
        .backup_with(folder.path().join("copy"), |_, _| {
            clock.advance(MINUTE);
            assert_eq!(size(&path), before, "pages that the backup reads were moved");
            steps += 1;
            ControlFlow::Continue(())
        })
        .unwrap();
    assert!(steps > 0);
    clock.advance(SECOND * 6);
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    let copy = options(&clock).open(folder.path().join("copy")).unwrap();
    assert_eq!(copy.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 1);
}

/// A worker's heartbeat makes such commits.
#[test]
fn drained_file_shrinks_between_small_regular_commits() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    drain(&tube, 10_000);
    for _ in 0..60 {
        tube.put("heartbeat").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        store.flush().unwrap();
        clock.advance(SECOND / 2);
    }
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn repeated_bursts_shrink_the_file_at_most_three_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 0);
    let mut shrinks = 0;
    for _ in 0..50 {
        let burst = tube.put_many((0..6).map(|_| vec![1; 1_000_000])).unwrap();
        store.flush().unwrap();
        for receipt in burst {
            tube.delete(receipt.id).unwrap();
        }
        store.flush().unwrap();
        let before = size(&path);
        clock.advance(SECOND * 2);
        shrinks += u32::from(size(&path) < before);
    }
    assert!((1..=3).contains(&shrinks), "{shrinks} shrinks in 100 seconds");
}

/// The file doubles when it grows, which must not make it large enough to shrink again.
#[test]
fn file_does_not_alternate_between_shrinking_and_growing() {
    for bodies in [3, 8, 14, 20, 28, 40, 56] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let clock = ManualClock::new();
        let (store, tube) = backlog(&path, &clock, 0);
        let put_large = |count: usize| tube.put_many((0..count).map(|_| vec![1; 33_000])).unwrap();
        put_large(bodies);
        let deleted = put_large(200);
        store.flush().unwrap();
        for receipt in deleted {
            tube.delete(receipt.id).unwrap();
        }
        store.flush().unwrap();
        let mut flushes = Vec::new();
        for _ in 0..10 {
            let before = store.admin().counters().unwrap().flushes;
            clock.advance(SECOND * 6);
            flushes.push(store.admin().counters().unwrap().flushes - before);
            put_large(1);
            store.flush().unwrap();
        }
        assert!(flushes[0] > 0 && flushes[1..] == [0; 9], "{bodies} bodies: {flushes:?}");
    }
}

#[test]
fn file_size_is_constant_at_constant_queue_length() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 1000);
    let cycle = |times| {
        for _ in 0..times {
            tube.put_many((0..50).map(|_| vec![7_u8; 900])).unwrap();
            let claims = tube.take_many(50, Duration::ZERO).unwrap();
            Claim::end_many(claims, |_| Outcome::done()).unwrap();
            store.flush().unwrap();
            clock.advance(SECOND);
        }
    };
    cycle(40);
    let steady = size(&path);
    for _ in 0..10 {
        cycle(20);
        assert_eq!(size(&path), steady);
    }
    assert_eq!(tube.statistics().unwrap().tasks.ready, 1000);
}

/// Drains a store with large tasks, but for one that was put last, and closes it at once.
fn close_drained(store: &Store, tube: &Tube) {
    store.flush().unwrap();
    let kept = store.create_tube("kept", TubeOptions::new().driver(FIFO)).unwrap();
    kept.put(vec![8; 50_000]).unwrap();
    store.flush().unwrap();
    drain(tube, 1000);
    store.close().unwrap();
}

#[test]
fn close_returns_the_space_of_a_drained_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let store = large_store(&path, &clock);
    close_drained(&store, &store.find_tube("work").unwrap());
    assert!(size(&path) < 4 << 20, "{} bytes", size(&path));
    let store = options(&clock).open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Puts this many small tasks, acks them, and closes the store at once.
fn close_after_draining(path: &Path, options: StoreOptions, tasks: usize) {
    let store = options.open(path).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    for _ in 0..tasks / 1000 {
        tube.put_many(vec![[7; 128].as_slice(); 1000]).unwrap();
    }
    drain(&tube, tasks);
    let full = size(path);
    let began = now();
    store.close().unwrap();
    println!("{full} bytes before the close, {} after it, in {:?}", size(path), began.elapsed());
    assert!(full > tasks as u64 * 200, "{full} bytes");
    assert!(size(path) < 4 * MIB, "{} of {full} bytes", size(path));
}

#[expect(clippy::disallowed_methods, reason = "only to print how long a close takes")]
fn now() -> Instant {
    Instant::now()
}

#[test]
fn close_returns_the_space_of_many_small_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let options = Store::options().clock(ManualClock::new());
    close_after_draining(&folder.path().join("store"), options, 40_000);
}

#[test]
fn close_keeps_the_size_of_a_file_that_is_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = large_store(&path, &ManualClock::new());
    let before = size(&path);
    store.close().unwrap();
    assert_eq!(size(&path), before);
}
