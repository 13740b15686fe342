//! Single cases: what a damaged row once led to, and must not again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tubewell::{
    Error, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Store, StoreOptions, TubeOptions,
};

use crate::anatomy::{Anatomy, PAGE};
use crate::disk::Disk;
use crate::specimen::{clock, options};

const HOUR: Duration = Duration::from_secs(3600);

/// A closed store with a task in each of two tubes, of which one has been damaged.
fn damaged(clock: &ManualClock) -> Store {
    let disk = Disk::new(Vec::new());
    let store = options(clock).open_on(disk.plug()).unwrap();
    let work = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    work.put(Put::new("damaged-damaged").ttl(HOUR)).unwrap();
    work.put(Put::new("sound").delay(HOUR)).unwrap();
    store.create_tube("other", FIFO, TubeOptions::new()).unwrap().put("sound").unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    assert!(flip_all(&mut bytes, b"damaged-damaged") > 0);
    options(clock).open_on(Disk::new(bytes).plug()).unwrap()
}

/// Flips a bit wherever these bytes are; how often that was.
fn flip_all(bytes: &mut [u8], wanted: &[u8]) -> usize {
    let starts = 0..bytes.len() - wanted.len();
    let found: Vec<usize> = starts.filter(|at| bytes[*at..].starts_with(wanted)).collect();
    for at in &found {
        bytes[*at] ^= 1;
    }
    found.len()
}

/// It stopped the sweeper, and with it the whole store.
#[test]
fn a_damaged_task_whose_life_is_over_stops_nothing() {
    let clock = clock();
    let store = damaged(&clock);
    clock.advance(2 * HOUR);
    let work = store.tube("work").unwrap();
    assert_eq!(work.try_take().unwrap().unwrap().data(), b"sound");
    store.tube("other").unwrap().put("more").unwrap();
    assert!(store.verify().unwrap().iter().any(|told| told.contains("tube \"work\": task 0:")));
}

/// The removal of its rows stopped the writer, and with it the whole store, in every life again.
#[test]
fn a_damaged_task_goes_with_its_tube() {
    let store = damaged(&clock());
    let work = store.tube("work").unwrap();
    work.truncate().unwrap();
    // The rows go with a commit that nobody asks for, or with one of these.
    let other = store.tube("other").unwrap();
    let truncated = store.counters().commits;
    for puts in 0..200 {
        other.put("more").unwrap();
        if store.counters().commits > truncated + puts + 1 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(matches!(work.peek(0), Err(Error::NotFound { .. })));
    work.put("new").unwrap();
}

/// It began again with commit 1 and id 0, over the tasks that were there.
#[test]
fn a_store_that_has_lost_its_header_is_not_taken_for_a_new_one() {
    let disk = Disk::new(Vec::new());
    let store = options(&clock()).open_on(disk.plug()).unwrap();
    let tube = store.create_tube("work", LIMFIFOTTL, TubeOptions::new()).unwrap();
    tube.put("first").unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    assert!(flip_all(&mut bytes, b"header") > 0);
    let refused = options(&clock()).open_on(Disk::new(bytes).plug());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

/// No rows disagree if an old page has as many tasks as the new one: only its checksum tells.
#[test]
fn an_old_page_in_place_of_the_new_one_is_noticed() {
    let disk = Disk::new(Vec::new());
    let open = || options(&clock()).open_on(disk.plug()).unwrap();
    let store = open();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    tube.put("acked long ago").unwrap();
    // What is closed has nothing in its journal.
    store.close().unwrap();
    let old = disk.copy();
    let store = open();
    let tube = store.tube("work").unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    let newest = tube.put("acked long ago").unwrap().id;
    store.close().unwrap();
    let mut bytes = disk.copy();
    let page_of = |bytes: &[u8], id| {
        let rows = Anatomy::of(bytes).rows;
        let row = rows.into_iter().find(|row| row.table == "tasks" && row.id() == id);
        let page = row.unwrap().key_at.start / PAGE * PAGE;
        page..page + PAGE
    };
    let place = page_of(&bytes, newest);
    bytes[place].copy_from_slice(&old[page_of(&old, 0)]);
    let store = options(&clock()).open_on(Disk::new(bytes).plug()).unwrap();
    let findings = store.verify().unwrap();
    assert_eq!(findings, ["a page of the file is not what was written"]);
    let back = store.tube("work").unwrap().try_take().unwrap().unwrap();
    assert_eq!(back.id(), 0, "the one that was acked");
}

/// `verify` reads pages that later commits free and use again.
#[test]
fn a_sound_store_verifies_as_sound_while_it_is_at_work() {
    let store = StoreOptions::default().cache_size(0);
    let store = store.open_on(Disk::new(Vec::new()).plug()).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    (0..200).for_each(|size| assert!(tube.put(vec![7; size * 30]).is_ok()));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let claim = tube.try_take().unwrap().unwrap();
                tube.put(claim.data()).unwrap();
                claim.ack().unwrap();
            }
        });
        for _ in 0..30 {
            assert_eq!(store.verify().unwrap(), [""; 0]);
        }
        over.store(true, Ordering::Relaxed);
    });
}
