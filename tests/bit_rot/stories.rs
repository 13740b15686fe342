//! Single cases: what a damaged row once led to, and must not again.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Session, Store, StoreOptions,
    TubeOptions, WhenFull,
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

/// A store in use, on a disk whose bytes it reads anew each time, with ten tasks that a session has
/// taken, one of which has been damaged since.
fn damaged_while_held(options: StoreOptions) -> (Disk, Store, Session) {
    let disk = Disk::new(Vec::new());
    let options = options.cache_size(0);
    let store = options.clone().open_on(disk.plug()).unwrap();
    let work = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    let body = |n| Put::new(format!("task {n} {}", "-".repeat(500))).ttr(HOUR);
    work.put_many((0..10).map(body)).unwrap();
    store.close().unwrap();
    let store = options.open_on(disk.plug()).unwrap();
    let session = store.session();
    for claim in session.tube("work").unwrap().take_many(10, Duration::ZERO).unwrap() {
        let _ = claim.detach();
    }
    assert!(disk.change(|bytes| flip_all(bytes, b"task 3 -")) > 0);
    (disk, store, session)
}

/// The first that could not be read kept all behind it from becoming ready, until the next life;
/// and where nobody asked, at the end of a hold or of a grace, it stopped the store.
#[test]
fn a_damaged_task_keeps_no_other_one_taken() {
    type End = fn(&ManualClock, &Store, Session);
    let ends: [End; 5] = [
        |_, _, session| assert!(matches!(session.end(), Err(Error::Corrupt { .. }))),
        |_, _, session| drop(session),
        |clock, _, session| {
            drop(session);
            clock.advance(HOUR / 2);
        },
        |clock, _, _| clock.advance(HOUR),
        |_, store, _| {
            let released = store.tube("work").unwrap().release_all();
            assert!(matches!(released, Err(Error::Corrupt { .. })), "{released:?}");
        },
    ];
    for (nth, end) in ends.into_iter().enumerate() {
        let clock = clock();
        let grace = if nth == 2 { HOUR / 2 } else { Duration::ZERO };
        let (_disk, store, session) =
            damaged_while_held(StoreOptions::default().clock(&clock).session_grace(grace));
        end(&clock, &store, session);
        let work = store.tube("work").unwrap();
        let ids = work.take_many(10, Duration::ZERO).unwrap().into_iter().map(|it| it.id());
        assert!(ids.eq([0, 1, 2, 4, 5, 6, 7, 8, 9]), "after end {nth}");
        work.put("the store goes on").unwrap();
    }
}

/// None could be kicked any more, neither those behind it.
#[test]
fn a_damaged_task_stays_buried_and_the_others_are_kicked() {
    let clock = clock();
    let disk = Disk::new(Vec::new());
    let store = options(&clock).open_on(disk.plug()).unwrap();
    let work = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    for n in 0..6 {
        let id = work.put(format!("task {n} {}", "-".repeat(500))).unwrap().id;
        work.bury(id).unwrap();
    }
    store.close().unwrap();
    assert!(disk.change(|bytes| flip_all(bytes, b"task 1 -")) > 0);
    let store = options(&clock).open_on(disk.plug()).unwrap();
    let work = store.tube("work").unwrap();
    assert_eq!(
        (work.kick(2), work.kick(2), work.kick(9), work.kick(1)),
        (Ok(2), Ok(2), Ok(1), Ok(0))
    );
    let ids = work.take_many(9, Duration::ZERO).unwrap().into_iter().map(|it| it.id());
    assert!(ids.eq([0, 2, 3, 4, 5]));
    assert_eq!(work.statistics().unwrap().tasks.buried, 1);
}

/// How often it was taken could not be written: what was still to be flushed was lost with that.
#[test]
fn a_damaged_task_that_is_held_does_not_keep_a_close_from_flushing_the_rest() {
    let clock = clock();
    let (disk, store, _session) = damaged_while_held(StoreOptions::default().clock(&clock));
    let relaxed = Durability::Relaxed { max_delay: Duration::MAX };
    let relaxed = TubeOptions::new().durability(relaxed);
    let relaxed = store.create_tube("relaxed", FIFO, relaxed).unwrap();
    relaxed.put("flushed as ids are set aside").unwrap();
    relaxed.put("not yet flushed").unwrap();
    let ticket = store.tube("work").unwrap().deferred(WhenFull::Block).put("nor this").unwrap();
    store.close().unwrap();
    ticket.wait().unwrap();
    let store = options(&clock).open_on(disk.plug()).unwrap();
    assert_eq!(store.tube("relaxed").unwrap().statistics().unwrap().tasks.ready, 2);
    assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.ready, 11);
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
