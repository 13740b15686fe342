//! Tokens in files: what a reopen, a kill, an outage and a copy keep of them.

use std::path::Path;
use std::time::Duration;

use tubewell::driver::FIFO;
use tubewell::expert::{Restore, Salvaged};
use tubewell::{
    Durability, Error, IDEMPOTENCY_KEY_TIME, Put, Store, StoreOptions, TaskState, Tube, TubeOptions,
};

use super::executor::with_timeout;
use super::files::{after_a_kill, create, create_with, draft};
use super::support::*;
use super::wait::{Wait, end_of, on_disk};
use crate::stores::{self, ManualClock};

fn put(tube: &Tube, token: &str) -> u64 {
    tube.put(Put::new("x").idempotency_key(token)).unwrap().id
}

#[test]
fn token_is_remembered_over_a_close_for_the_rest_of_its_hour() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let id = tube.put(draft(driver, "x").idempotency_key("t")).unwrap().id;
        file.clock.advance(secs(600));
        drop(tube);
        let store = file.reopen_after(store, ms(2_999_999));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.put(draft(driver, "x").idempotency_key("t")).unwrap().id, id);
        drop(tube);
        let store = file.reopen_after(store, ms(1));
        let tube = store.find_tube("case").unwrap();
        assert!(tube.put(draft(driver, "x").idempotency_key("t")).unwrap().id > id);
        assert_sound(&store);
    }
}

/// It is that of the put, in the rows of the token: over a close and a kill, and while the store is closed.
#[test]
fn time_of_a_token_goes_on_over_a_close_and_a_kill() {
    let day = secs(24 * 3_600);
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let again = |store: &Store| {
        let tube = store.find_tube("case").unwrap();
        tube.put(Put::new("x").idempotency_key("t").unique_for(day)).unwrap().id
    };
    let id = again(&store);
    put(&tube, "an hour");
    file.clock.advance(day / 4);
    drop(tube);
    let store = file.reopen_after(store, day / 4);
    assert_eq!(again(&store), id);
    let (_killed, after) = after_a_kill(&file);
    assert_eq!(again(&after), id);
    assert_eq!(put(&after.find_tube("case").unwrap(), "an hour"), 2, "it was forgotten before");
    assert_sound(&after);
    drop(after);
    let store = file.reopen_after(store, (day / 2).checked_sub(ms(1)).unwrap());
    assert_eq!(again(&store), id);
    let store = file.reopen_after(store, ms(1));
    assert!(again(&store) > id);
    assert_sound(&store);
}

/// In the commit of the task: as durable as the put.
#[test]
fn token_survives_a_kill_as_its_task_does() {
    let relaxed = Durability::Relaxed { max_delay: HUNDRED_YEARS };
    let written = Durability::Write { flush_within: HUNDRED_YEARS };
    for (durability, survives) in [(Durability::Flush, true), (written, true), (relaxed, false)] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFO, TubeOptions::new().durability(durability));
        put(&tube, "first");
        store.flush().unwrap();
        let ids = [put(&tube, "t"), put(&tube, "u")];
        let (_killed, after) = after_a_kill(&file);
        let killed = after.find_tube("case").unwrap();
        let there = killed.statistics().unwrap().tasks.ready;
        assert_eq!(there, if survives { 3 } else { 1 }, "{durability:?}");
        let again = [put(&killed, "t"), put(&killed, "u")];
        assert_eq!(again == ids, survives, "{durability:?}");
        assert_eq!(killed.statistics().unwrap().tasks.ready, 3, "{durability:?}");
        assert_eq!(put(&killed, "first"), 0);
        assert_sound(&after);
        assert_sound(&store);
    }
}

/// The caller does not know the outcome, and asks again once the storage works.
#[test]
fn put_of_unknown_outcome_is_made_again_with_its_token() {
    with_timeout(|| {
        let (disk, clock, store, tube) = on_disk(FIFO);
        let again = || tube.put(Put::new("x").idempotency_key("t"));
        disk.fail_flushes(true);
        assert!(matches!(again(), Err(Error::OutcomeUnknown { .. })));
        assert!(matches!(again(), Err(Error::Unavailable { .. })));
        disk.fail_flushes(false);
        clock.advance(secs(60));
        let receipt = again().unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Ready));
        assert_eq!(tasks(&tube), counts([("ready", 1), ("total", 1)]));
        assert_sound(&store);
    });
}

/// The answer to a put that is made again waits for the flush of the first one.
#[test]
fn put_that_is_made_again_waits_for_the_flush_of_the_first_one() {
    with_timeout(|| {
        let (disk, _clock, store, tube) = on_disk(FIFO);
        put(&tube, "warm");
        let deferred = tube.to_async().refuse_when_full();
        let again = || tube.to_async().put_timeout(Put::new("x").idempotency_key("t"), NO_TIMEOUT);
        let first = disk.block_flush_of(|| deferred.put(Put::new("x").idempotency_key("t")));
        let second = Wait::begin(again());
        second.assert_waits();
        stores::settle(&store);
        disk.unblock_flushes();
        assert_eq!((first.wait().unwrap().id, end_of(second).unwrap().id), (1, 1));
        assert_sound(&store);
    });
}

/// More of them than one step of a purge removes.
#[test]
fn rows_of_a_dropped_tube_are_removed_with_its_tokens() {
    for reopen in [false, true] {
        let file = StoreFile::new();
        let (mut store, tube) = create(&file, FIFO);
        tube.put_many((0..2_000).map(|n| Put::new("x").idempotency_key(format!("t{n}")))).unwrap();
        let other = store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        let id = put(&other, "t0");
        tube.admin().truncate().unwrap();
        put(&tube, "t0");
        drop(tube);
        store.drop_tube("case").unwrap();
        drop(other);
        if reopen {
            store = file.reopen(store);
        }
        file.tick();
        store = file.reopen(store);
        assert_eq!(put(&store.find_tube("other").unwrap(), "t0"), id);
        assert_sound(&store);
    }
}

/// A copy of a store is that store: the puts of callers that go on with it.
#[test]
fn backup_and_compact_keep_tokens() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let id = put(&tube, "t");
    let copy = StoreFile::new();
    store.admin().backup(copy.path()).unwrap();
    drop(tube);
    stores::close(&store);
    drop(store);
    StoreOptions::default().compact(file.path(), |_, _| {}).unwrap();
    for path in [file.path(), copy.path()] {
        let store = open_at(&path, &file.clock);
        assert_eq!(put(&store.find_tube("case").unwrap(), "t"), id, "{path:?}");
        assert_sound(&store);
    }
}

fn open_at(path: &Path, clock: &ManualClock) -> Store {
    stores::open_with(path, Store::options().clock(clock))
}

/// A restored store is a new one. Callers make their last puts again there.
#[test]
fn salvage_restores_no_tokens() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let id = put(&tube, "t");
    drop(tube);
    stores::close(&store);
    let mut tasks = Vec::new();
    StoreOptions::default()
        .clock(&file.clock)
        .salvage(file.path(), |found| {
            if let Salvaged::Task { task, .. } = found {
                tasks.push(Restore::new(task.body).id(task.info.id));
            }
            Ok(())
        })
        .unwrap();
    let (restored, clock) = (StoreFile::new(), ManualClock::new());
    let store = open_at(&restored.path(), &clock);
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
    assert_eq!(tube.admin().restore_many(tasks).unwrap()[0].id, id);
    assert_eq!(put(&tube, "t"), id + 1);
    assert_sound(&store);
}

/// Nothing but puts with tokens removes old ones: an idle store commits nothing.
#[test]
fn idle_store_is_not_woken_to_remove_tokens() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    for n in 0..20 {
        put(&tube, &n.to_string());
    }
    file.clock.advance(secs(10));
    let commits = store.admin().counters().unwrap().commits;
    for _ in 0..5 {
        file.clock.advance(IDEMPOTENCY_KEY_TIME + Duration::from_secs(1));
    }
    assert_eq!(store.admin().counters().unwrap().commits, commits);
    assert_eq!(put(&tube, "0"), 20);
    assert_sound(&store);
}
