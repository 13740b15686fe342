//! Regression tests: damaged rows that once stopped the store or affected other tasks.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, FIFOTTL, Failure, Filter, LIMFIFOTTL, ManualClock, Put, Session,
    Store, StoreOptions, TubeOptions,
};

use crate::disk::Disk;
use crate::file_map::{FileMap, PAGE};
use crate::sample::{clock, options};

const HOUR: Duration = Duration::from_secs(3600);

/// A reopened store with two tubes. One of its three tasks, task 0 in `work`, is damaged.
fn open_damaged(clock: &ManualClock) -> Store {
    let disk = Disk::new(Vec::new());
    let store = options(clock).open_on(disk.storage()).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    work.put(Put::new("damaged-damaged").ttl(HOUR)).unwrap();
    work.put(Put::new("undamaged").delay(HOUR)).unwrap();
    store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap().put("undamaged").unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    assert!(flip_all(&mut bytes, b"damaged-damaged") > 0);
    options(clock).open_on(Disk::new(bytes).storage()).unwrap()
}

/// Flips a bit in each occurrence of these bytes. Returns the number of occurrences.
fn flip_all(bytes: &mut [u8], text: &[u8]) -> usize {
    let starts = 0..bytes.len() - text.len();
    let found: Vec<usize> = starts.filter(|at| bytes[*at..].starts_with(text)).collect();
    for at in &found {
        bytes[*at] ^= 1;
    }
    found.len()
}

/// The sweeper failed on such a task, which stopped the store.
#[test]
fn expired_damaged_task_does_not_stop_the_store() {
    let clock = clock();
    let store = open_damaged(&clock);
    clock.advance(2 * HOUR);
    let work = store.find_tube("work").unwrap();
    assert_eq!(work.try_take().unwrap().unwrap().body(), b"undamaged");
    store.find_tube("other").unwrap().put("more").unwrap();
    assert!(
        store
            .admin()
            .verify()
            .unwrap()
            .iter()
            .any(|finding| finding.contains("tube \"work\": task 0:"))
    );
}

/// The writer failed on removing its rows, which stopped the store in every run.
#[test]
fn truncate_removes_damaged_task() {
    let store = open_damaged(&clock());
    let work = store.find_tube("work").unwrap();
    work.admin().truncate().unwrap();
    // The rows are removed in a commit of the writer's own, or in one of these.
    let other = store.find_tube("other").unwrap();
    let truncated = store.admin().counters().unwrap().commits;
    for puts in 0..200 {
        other.put("more").unwrap();
        if store.admin().counters().unwrap().commits > truncated + puts + 1 {
            break;
        }
        std::thread::yield_now();
    }
    assert!(matches!(work.query().task(0), Err(Error::NotFound { .. })));
    work.put("new").unwrap();
}

/// Such a store was opened as a new one: commit 1 and id 0 were used again beside the old tasks.
#[test]
fn open_refuses_store_without_header() {
    let disk = Disk::new(Vec::new());
    let store = options(&clock()).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(LIMFIFOTTL)).unwrap();
    tube.put("first").unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    assert!(flip_all(&mut bytes, b"header") > 0);
    let refused = options(&clock()).open_on(Disk::new(bytes).storage());
    assert!(matches!(refused, Err(Error::Corrupt { .. })), "{refused:?}");
}

/// If an outdated page has as many tasks as the current one, all rows agree. Only the checksum of
/// the page differs.
#[test]
fn verify_reports_outdated_page() {
    let disk = Disk::new(Vec::new());
    let open = || options(&clock()).open_on(disk.storage()).unwrap();
    let store = open();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("acked long ago").unwrap();
    // A close empties the journal, so the task is in a page of the tables.
    store.close().unwrap();
    let old = disk.copy();
    let store = open();
    let tube = store.find_tube("work").unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    let newest = tube.put("acked long ago").unwrap().id;
    store.close().unwrap();
    let mut bytes = disk.copy();
    let page_of = |bytes: &[u8], id| {
        let rows = FileMap::new(bytes).rows;
        let row = rows.into_iter().find(|row| row.table == "tasks" && row.id() == id);
        let page = row.unwrap().key_at.start / PAGE * PAGE;
        page..page + PAGE
    };
    let page = page_of(&bytes, newest);
    bytes[page].copy_from_slice(&old[page_of(&old, 0)]);
    let store = options(&clock()).open_on(Disk::new(bytes).storage()).unwrap();
    let findings = store.admin().verify().unwrap();
    assert_eq!(findings, ["a page of the file has a wrong checksum"]);
    let back = store.find_tube("work").unwrap().try_take().unwrap().unwrap();
    assert_eq!(back.id(), 0, "the task that was acked");
}

/// An open store without a page cache. A session has claimed its ten tasks; task 3 was damaged
/// after that.
fn damaged_while_claimed(options: StoreOptions) -> (Disk, Store, Session) {
    let disk = Disk::new(Vec::new());
    let options = options.cache_size(0);
    let store = options.clone().open_on(disk.storage()).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let body = |n| Put::new(format!("task {n} {}", "-".repeat(500))).ttr(HOUR);
    work.put_many((0..10).map(body)).unwrap();
    store.close().unwrap();
    let store = options.open_on(disk.storage()).unwrap();
    let work = store.find_tube("work").unwrap();
    let session = store.session("").unwrap();
    for claim in session.tube(&work).unwrap().take_many(10, Duration::ZERO).unwrap() {
        let _ = claim.detach();
    }
    assert!(disk.change(|bytes| flip_all(bytes, b"task 3 -")) > 0);
    (disk, store, session)
}

/// The tasks after an unreadable one stayed taken until the next open. If no caller was there to
/// get the error (a claim expired, or a session's grace ended), the store stopped.
#[test]
fn release_skips_damaged_task_and_releases_the_others() {
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
            let released = store.find_tube("work").unwrap().admin().release(Filter::new());
            assert!(matches!(released, Err(Error::Corrupt { .. })), "{released:?}");
        },
    ];
    for (nth, end) in ends.into_iter().enumerate() {
        let clock = clock();
        let grace = if nth == 2 { HOUR / 2 } else { Duration::ZERO };
        let (_disk, store, session) =
            damaged_while_claimed(StoreOptions::default().clock(&clock).session_grace(grace));
        end(&clock, &store, session);
        let work = store.find_tube("work").unwrap();
        let ids = work.take_many(10, Duration::ZERO).unwrap().into_iter().map(|it| it.id());
        assert!(ids.eq([0, 1, 2, 4, 5, 6, 7, 8, 9]), "after end {nth}");
        work.put("the store goes on").unwrap();
    }
}

/// A damaged task made every kick fail, so that no other task could be kicked.
#[test]
fn kick_skips_damaged_task() {
    let clock = clock();
    let disk = Disk::new(Vec::new());
    let store = options(&clock).open_on(disk.storage()).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    for n in 0..6 {
        let id = work.put(format!("task {n} {}", "-".repeat(500))).unwrap().id;
        work.admin().bury(id, None).unwrap();
    }
    store.close().unwrap();
    assert!(disk.change(|bytes| flip_all(bytes, b"task 1 -")) > 0);
    let store = options(&clock).open_on(disk.storage()).unwrap();
    let work = store.find_tube("work").unwrap();
    assert_eq!(
        (
            work.admin().kick(Filter::new().limit(2)),
            work.admin().kick(Filter::new().limit(2)),
            work.admin().kick(Filter::new().limit(9)),
            work.admin().kick(Filter::new().limit(1))
        ),
        (Ok(2), Ok(2), Ok(1), Ok(0))
    );
    let ids = work.take_many(9, Duration::ZERO).unwrap().into_iter().map(|it| it.id());
    assert!(ids.eq([0, 2, 3, 4, 5]));
    assert_eq!(work.statistics().unwrap().tasks.buried, 1);
}

/// The close failed to store the number of takes of the damaged task, and lost all unflushed
/// changes.
#[test]
fn close_flushes_other_changes_beside_a_damaged_claimed_task() {
    let clock = clock();
    let (disk, store, _session) = damaged_while_claimed(StoreOptions::default().clock(&clock));
    let relaxed = Durability::Relaxed { max_delay: Duration::MAX };
    let relaxed = TubeOptions::new().durability(relaxed);
    let relaxed = store.create_tube("relaxed", relaxed.driver(FIFO)).unwrap();
    relaxed.put("flushed because it reserves ids").unwrap();
    relaxed.put("not yet flushed").unwrap();
    let ticket = store.find_tube("work").unwrap().to_async().put("not yet flushed");
    store.close().unwrap();
    ticket.wait().unwrap();
    let store = options(&clock).open_on(disk.storage()).unwrap();
    assert_eq!(store.find_tube("relaxed").unwrap().statistics().unwrap().tasks.ready, 2);
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 11);
}

/// The numbers of a damaged key may be those of a day that is still kept. The first numbers of the next
/// day removed them as those of an old day, and nothing reported the damage.
#[test]
fn damaged_numbers_of_an_old_day_are_not_removed() {
    let clock = clock();
    let disk = Disk::new(Vec::new());
    let metrics = TubeOptions::new().metrics(2);
    let store = options(&clock).open_on(disk.storage()).unwrap();
    store.create_tube("work", metrics.driver(FIFO)).unwrap().put("counted").unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    let row = FileMap::new(&bytes).rows.into_iter().find(|row| row.table == "days").unwrap();
    // The day is now an older one, which is not kept.
    let day = row.key_at.end - 2;
    assert!(bytes[day] & 8 > 0);
    bytes[day] ^= 8;
    let disk = Disk::new(bytes);
    let open = || options(&clock).open_on(disk.storage()).unwrap();
    for puts in 1..4 {
        let store = open();
        let tube = store.find_tube("work").unwrap();
        tube.put("counted").unwrap();
        assert_eq!(tube.query().day(store.today().unwrap()).unwrap().puts, puts);
        store.close().unwrap();
        let findings = open().admin().verify().unwrap();
        let named = |text: &String| text.contains("\"work\"") && text.contains("numbers");
        assert!(findings.iter().any(named), "{findings:?}");
    }
}

/// The failed tasks of the day are read from other rows, which are whole.
#[test]
fn day_with_damaged_numbers_is_left_out_although_a_task_failed_on_it() {
    let clock = clock();
    let disk = Disk::new(Vec::new());
    let store = options(&clock).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().metrics(2).driver(FIFO)).unwrap();
    tube.put("fails").unwrap();
    tube.try_take().unwrap().unwrap().bury(Failure::new("poison", "no use")).unwrap();
    store.close().unwrap();
    let mut bytes = disk.copy();
    let row = FileMap::new(&bytes).rows.into_iter().find(|row| row.table == "days").unwrap();
    bytes[row.value_at.end - 1] ^= 1;
    let store = options(&clock).open_on(Disk::new(bytes).storage()).unwrap();
    let (tube, today) = (store.find_tube("work").unwrap(), store.today().unwrap());
    assert!(matches!(tube.query().day(today), Err(Error::Corrupt { .. })));
    for from in [today, today.plus_days(-1)] {
        assert_eq!(tube.query().days(from..=today).unwrap(), []);
    }
    assert_eq!(tube.query().groups().unwrap().len(), 1);
}

/// `verify` reads pages that concurrent commits free and reuse.
#[test]
fn verify_finds_nothing_in_undamaged_store_during_commits() {
    let store = StoreOptions::default().cache_size(0);
    let store = store.open_on(Disk::new(Vec::new()).storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    (0..200).for_each(|size| assert!(tube.put(vec![7; size * 30]).is_ok()));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let claim = tube.try_take().unwrap().unwrap();
                tube.put(claim.body()).unwrap();
                claim.ack().unwrap();
            }
        });
        for _ in 0..30 {
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
        stop.store(true, Ordering::Relaxed);
    });
}
