//! A file that its process leaves in peace is left so that it opens quickly, whatever becomes of
//! the process, and gives its room back when next to nothing lives in it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, ManualClock, Put, Store, StoreOptions, Tube, TubeOptions, UTUBETTL,
};

const SECOND: Duration = Duration::from_secs(1);

fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).durability(Durability::relaxed()).cache_size(1 << 20)
}

/// A store of about 64 MiB; its process is about to be killed.
fn large(path: &Path, clock: &ManualClock) -> Store {
    let store = options(clock).open(path).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    for _ in 0..40 {
        tube.put_many((0..16).map(|_| vec![7_u8; 60_000])).unwrap();
    }
    store.flush().unwrap();
    store
}

/// Reads that opening a copy of the file costs, made as a kill would leave it.
fn reads_to_open(path: &Path) -> u64 {
    let copy = path.with_extension("killed");
    std::fs::copy(path, &copy).unwrap();
    let store = options(&ManualClock::new()).open(&copy).unwrap();
    let reads = store.counters().reads;
    assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.total, 640);
    reads
}

/// What is committed comes to the engine in few commits, each of which spares a repair.
#[test]
fn a_file_that_is_killed_at_work_opens_without_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let store = large(&path, &clock);
    let size = std::fs::metadata(&path).unwrap().len();
    let reads = reads_to_open(&path);
    // An engine that was built to check itself reads all pages once at every open.
    let most = if cfg!(debug_assertions) { size / 4096 / 2 } else { 100 };
    assert!(reads < most, "{reads} reads of a file of {size} bytes");
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn a_small_file_is_not_written_to_for_that() {
    let clock = ManualClock::new();
    let store = options(&clock).open_in_memory().unwrap();
    store.create_tube("work", FIFO, TubeOptions::new()).unwrap().put("x").unwrap();
    store.flush().unwrap();
    let flushes = store.counters().flushes;
    clock.advance(SECOND * 60);
    assert_eq!(store.counters().flushes, flushes);
}

const MIB: u64 = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

fn size(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

/// A store at this path with a backlog of so many tasks, each with a body of 900 bytes.
fn backlog(path: &Path, clock: &ManualClock, tasks: usize) -> (Store, Tube) {
    let store = options(clock).open(path).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    fill(&tube, tasks);
    (store, tube)
}

fn fill(tube: &Tube, tasks: usize) {
    for _ in 0..tasks / 1000 {
        tube.put_many((0..1000).map(|_| vec![7_u8; 900])).unwrap();
    }
}

/// Takes and acks so many tasks, in large commits.
fn drain(tube: &Tube, tasks: usize) {
    for _ in 0..tasks / 1000 {
        let claims = tube.take_many(1000, Duration::ZERO).unwrap();
        assert!(Claim::ack_many(claims).unwrap().into_iter().all(|acked| acked.is_ok()));
    }
}

#[test]
fn a_drained_file_gives_its_room_back_by_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    let few = store.create_tube("few", UTUBETTL, TubeOptions::new()).unwrap();
    let buried = few.put(Put::new("buried").sub_queue("a")).unwrap().id;
    few.bury(buried).unwrap();
    let large = few.put(Put::new(vec![5; 100_000]).sub_queue("b")).unwrap().id;
    let held = few.try_take().unwrap().unwrap();
    assert_eq!(held.id(), large);
    few.put(Put::new("delayed").delay(MINUTE * 2)).unwrap();
    drain(&tube, 10_000);
    store.flush().unwrap();
    let mut waits = pin!(tube.take_async(None));
    let context = &mut Context::from_waker(Waker::noop());
    assert!(waits.as_mut().poll(context).is_pending());
    let before = size(&path);
    assert!(before > 8 * MIB, "{before} bytes are no backlog");
    clock.advance(MINUTE);
    let after = size(&path);
    assert!(after < 3 * MIB, "{before} bytes before, {after} after");
    // Once: the pause goes on.
    let writes = store.counters().writes;
    clock.advance(SECOND * 59);
    assert_eq!(store.counters().writes, writes, "idle means idle");
    assert_eq!(store.verify().unwrap(), [""; 0]);
    // Whoever waits is served, and what is left is what was there.
    tube.put("for the one who waits").unwrap();
    let Poll::Ready(Ok(Some(served))) = waits.poll(context) else { panic!("nobody was served") };
    assert_eq!(served.data(), b"for the one who waits");
    clock.advance(SECOND * 2);
    assert_eq!(few.try_take().unwrap().unwrap().data(), b"delayed");
    assert_eq!(few.peek(buried).unwrap().data, b"buried");
    assert_eq!(held.data(), vec![5; 100_000]);
    held.ack().unwrap();
    store.close().unwrap();
    let store = options(&clock).open(&path).unwrap();
    assert_eq!(store.tube("few").unwrap().statistics().unwrap().tasks.buried, 1);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn a_file_with_a_backlog_is_left_alone() {
    for (tasks, bodies, body) in [(10_000, 0, 0), (0, 30, 200_000)] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let clock = ManualClock::new();
        let (store, tube) = backlog(&path, &clock, tasks);
        tube.put_many((0..bodies).map(|_| vec![1; body])).unwrap();
        store.flush().unwrap();
        let (before, flushes) = (size(&path), store.counters().flushes);
        assert!((4 * MIB..32 * MIB).contains(&before), "{before} bytes");
        clock.advance(MINUTE * 60);
        assert_eq!((size(&path), store.counters().flushes), (before, flushes));
    }
}

#[test]
fn the_rows_of_a_truncated_and_of_a_dropped_tube_give_their_room_back() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 5_000);
    let dropped = store.create_tube("dropped", FIFO, TubeOptions::new()).unwrap();
    fill(&dropped, 5_000);
    tube.truncate().unwrap();
    store.drop_tube("dropped").unwrap();
    assert!(size(&path) > 8 * MIB);
    clock.advance(MINUTE);
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn a_file_that_is_being_read_gives_its_room_back_at_a_later_pause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    tube.put("kept").unwrap();
    drain(&tube, 10_000);
    store.flush().unwrap();
    let before = size(&path);
    let mut seen = 0;
    store
        .backup_with(folder.path().join("copy"), |_, _| {
            clock.advance(MINUTE);
            assert_eq!(size(&path), before, "pages that somebody reads were moved");
            seen += 1;
        })
        .unwrap();
    assert!(seen > 0);
    clock.advance(SECOND * 6);
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    let copy = options(&clock).open(folder.path().join("copy")).unwrap();
    assert_eq!(copy.tube("work").unwrap().statistics().unwrap().tasks.ready, 1);
}

/// As a worker's heart beat does.
#[test]
fn a_drained_file_gives_its_room_back_between_commits_that_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 10_000);
    drain(&tube, 10_000);
    for _ in 0..60 {
        tube.put("beat").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        store.flush().unwrap();
        clock.advance(SECOND / 2);
    }
    assert!(size(&path) < 3 * MIB, "{} bytes", size(&path));
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn what_comes_and_goes_in_bursts_keeps_its_room() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 0);
    let mut gave_back = 0;
    for _ in 0..50 {
        let burst = tube.put_many((0..6).map(|_| vec![1; 1_000_000])).unwrap();
        store.flush().unwrap();
        for receipt in burst {
            tube.delete(receipt.id).unwrap();
        }
        store.flush().unwrap();
        let before = size(&path);
        clock.advance(SECOND * 2);
        gave_back += u32::from(size(&path) < before);
    }
    assert!((1..=3).contains(&gave_back), "{gave_back} times in 100 seconds");
}

/// The file doubles when it grows: it must not be made small again for that.
#[test]
fn a_file_does_not_shrink_and_grow_over_and_over() {
    for bodies in [3, 8, 14, 20, 28, 40, 56] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("store");
        let clock = ManualClock::new();
        let (store, tube) = backlog(&path, &clock, 0);
        let put_large = |count: usize| tube.put_many((0..count).map(|_| vec![1; 33_000])).unwrap();
        put_large(bodies);
        let gone = put_large(200);
        store.flush().unwrap();
        for receipt in gone {
            tube.delete(receipt.id).unwrap();
        }
        store.flush().unwrap();
        let mut flushes = Vec::new();
        for _ in 0..10 {
            let before = store.counters().flushes;
            clock.advance(SECOND * 6);
            flushes.push(store.counters().flushes - before);
            put_large(1);
            store.flush().unwrap();
        }
        assert!(flushes[0] > 0 && flushes[1..] == [0; 9], "{bodies} bodies: {flushes:?}");
    }
}

#[test]
fn a_queue_that_stays_as_long_as_it_is_keeps_a_file_of_one_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let clock = ManualClock::new();
    let (store, tube) = backlog(&path, &clock, 1000);
    let cycle = |times| {
        for _ in 0..times {
            tube.put_many((0..50).map(|_| vec![7_u8; 900])).unwrap();
            let claims = tube.take_many(50, Duration::ZERO).unwrap();
            Claim::ack_many(claims).unwrap();
            store.flush().unwrap();
            clock.advance(SECOND);
        }
    };
    cycle(40);
    let settled = size(&path);
    for _ in 0..10 {
        cycle(20);
        assert_eq!(size(&path), settled);
    }
    assert_eq!(tube.statistics().unwrap().tasks.ready, 1000);
}
