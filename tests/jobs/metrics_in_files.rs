//! The numbers of a tube, over the runs of a store.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Failure, Store, TubeOptions};

use super::files::{after_a_kill, create_with};
use super::metrics::{DAY, cycles, today, with_metrics};
use super::support::*;
use crate::options::only;
use crate::stores::{self, ManualClock};

#[test]
fn numbers_go_on_after_a_reopen() {
    let file = StoreFile::new();
    let (mut store, mut tube) = create_with(&file, FIFOTTL, with_metrics());
    for run in 1..4 {
        tube.put("x").unwrap();
        tube.put("y").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(cycles(&today(&store, &tube)), (2 * run, run, run));
        drop(tube);
        store = file.reopen_after(store, secs(60));
        tube = store.find_tube("case").unwrap();
        let day = today(&store, &tube);
        assert_eq!(cycles(&day), (2 * run, run, run));
        assert_eq!((day.wait.count, day.run.count), (run, run));
    }
    assert_sound(&store);
}

#[test]
fn close_stores_what_its_last_commit_counts() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, with_metrics().max_attempts(1));
    tube.put("x").unwrap();
    take(&tube).unwrap();
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    let day = today(&store, &tube);
    // The close has ended the last attempt.
    assert_eq!((cycles(&day), day.failed, day.failures), ((1, 1, 0), 1, 1));
}

#[test]
fn kill_forgets_what_was_counted_since_the_last_write() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, with_metrics());
    let after = || {
        let (_file, killed) = after_a_kill(&file);
        let tube = killed.find_tube("case").unwrap();
        assert_sound(&killed);
        cycles(&today(&killed, &tube)).0
    };
    tube.put("a").unwrap();
    assert_eq!(after(), 1, "the first commit writes them");
    file.clock.advance(secs(9));
    tube.put("b").unwrap();
    assert_eq!(after(), 1);
    file.clock.advance(secs(1));
    tube.put("c").unwrap();
    assert_eq!(after(), 3, "a commit after ten seconds writes them");
    // A new day begins, and the one before it is complete.
    tube.put("d").unwrap();
    let first = store.today().unwrap();
    file.clock.advance(DAY);
    tube.put("e").unwrap();
    let (_file, killed) = after_a_kill(&file);
    let days =
        killed.find_tube("case").unwrap().query().days(first..=killed.today().unwrap()).unwrap();
    assert_eq!(days.iter().map(|day| day.puts).collect::<Vec<_>>(), [4, 1]);
    drop(store);
}

#[test]
fn idle_store_with_metrics_stays_idle() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, with_metrics());
    tube.put_many(["a", "b"]).unwrap();
    store.flush().unwrap();
    file.clock.advance(secs(120));
    let before = store.admin().counters().unwrap();
    // A take is counted in memory. Its commit is that of the next change.
    take(&tube).unwrap();
    file.clock.advance(secs(3600));
    assert_eq!(cycles(&today(&store, &tube)), (2, 1, 0));
    let after = store.admin().counters().unwrap();
    assert_eq!(
        (before.commits, before.flushes, before.writes),
        (after.commits, after.flushes, after.writes)
    );
}

#[test]
fn days_that_are_not_kept_are_removed() {
    let file = StoreFile::new();
    let (mut store, _) = create_with(&file, FIFO, TubeOptions::new().metrics(3));
    let first = store.today().unwrap();
    for n in 0..10 {
        let tube = store.find_tube("case").unwrap();
        tube.put("x").unwrap();
        let days = tube.query().days(first..=store.today().unwrap()).unwrap();
        let expected: Vec<_> =
            (-2..=0).map(|back| store.today().unwrap().plus_days(back)).collect();
        let found: Vec<_> = days.iter().map(|day| day.date).collect();
        assert_eq!(found, expected[expected.len() - found.len()..]);
        assert_eq!(found.len(), 3.min(n + 1));
        if n % 3 == 0 {
            drop(tube);
            store = file.reopen(store);
        }
        file.clock.advance(DAY);
    }
    // No old row is left in the file.
    store = file.reopen_after(store, DAY * 100);
    let tube = store.find_tube("case").unwrap();
    tube.put("y").unwrap();
    tube.admin().alter(only(TubeOptions::new().metrics(1000))).unwrap();
    assert_eq!(tube.query().days(first..=store.today().unwrap()).unwrap().len(), 1);
    assert_sound(&store);
}

#[test]
fn truncate_keeps_the_numbers_and_drop_removes_them() {
    for temporary in [false, true] {
        let file = StoreFile::new();
        let (store, tube) =
            create_with(&file, FIFO, with_metrics().max_attempts(1).temporary(temporary));
        tube.put_many(["a", "b", "c"]).unwrap();
        tube.try_take().unwrap().unwrap().fail(Failure::new("timeout", "why")).unwrap();
        let first = store.today().unwrap();
        file.clock.advance(DAY);
        tube.put("d").unwrap();
        tube.admin().truncate().unwrap();
        let days = tube.query().days(first..=store.today().unwrap()).unwrap();
        let numbers: Vec<_> =
            days.iter().map(|day| (cycles(day), day.failed, day.failures)).collect();
        assert_eq!(numbers, [((3, 1, 0), 0, 1), ((1, 0, 0), 0, 0)]);
        tube.put("e").unwrap();
        assert_eq!(cycles(&today(&store, &tube)), (2, 0, 0));
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        let expected = if temporary { vec![] } else { vec![3, 2] };
        let puts =
            |days: Vec<tubewell::expert::Day>| days.iter().map(|day| day.puts).collect::<Vec<_>>();
        assert_eq!(puts(tube.query().days(first..=store.today().unwrap()).unwrap()), expected);
        tube.admin().truncate().unwrap();
        store.drop_tube("case").unwrap();
        let tube = store.create_tube("case", with_metrics().driver(FIFO)).unwrap();
        assert_eq!(puts(tube.query().days(first..=store.today().unwrap()).unwrap()), [0; 0]);
        assert_sound(&store);
    }
}

#[test]
fn backup_and_compact_keep_the_numbers() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, with_metrics());
    tube.put_many(["a", "b", "c"]).unwrap();
    drop(tube);
    let store = file.reopen(store);
    let copy = StoreFile::new();
    store.admin().backup(copy.path()).unwrap();
    stores::close(&store);
    let options = || Store::options().clock(ManualClock::at(secs(0)));
    for path in [file.path(), copy.path()] {
        options().compact(&path, |_, _| {}).unwrap();
        let store = options().open(&path).unwrap();
        assert_eq!(cycles(&today(&store, &store.find_tube("case").unwrap())), (3, 0, 0));
        assert_sound(&store);
    }
}

/// The day is that of the timeline, which does not go back with the wall clock.
#[test]
fn day_is_that_of_the_timeline() {
    let begin = secs(1_795_305_600 - 1);
    let clock = ManualClock::at(begin);
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", with_metrics().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    assert_eq!(store.today().unwrap().to_string(), "2026-11-21");
    clock.advance(secs(1));
    tube.put("y").unwrap();
    assert_eq!(store.today().unwrap().to_string(), "2026-11-22");
    clock.set_wall(begin);
    tube.put("z").unwrap();
    let days =
        tube.query().days(store.today().unwrap().plus_days(-9)..=store.today().unwrap()).unwrap();
    let puts: Vec<_> = days.iter().map(|day| (day.date.to_string(), day.puts)).collect();
    assert_eq!(puts, [("2026-11-21".to_owned(), 1), ("2026-11-22".to_owned(), 2)]);
}
