//! After a failed flush the page cache proves nothing: see `tests/common/faulty_disk.rs`.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, FIFO, ManualClock, Store, TaskState, TubeOptions};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::support::RETRY_TIME;

/// More than the journal writes ahead, so that each put is flushed to new pages.
const BODY: usize = 20_000;

fn open(disk: &Arc<Disk>, clock: &ManualClock) -> Store {
    Store::options().clock(clock).cache_size(1 << 16).open_on(disk.storage()).unwrap()
}

/// Puts until the store refuses it. Returns the ids of the tasks that it has or will have.
fn put_until_refused(store: &Store) -> Vec<u64> {
    let tube = store.find_tube("work").unwrap();
    let mut ids = Vec::new();
    for n in 0..20 {
        match tube.put(vec![7; BODY + 10 * n]) {
            Ok(receipt) => ids.push(receipt.id),
            Err(Error::OutcomeUnknown { .. }) => ids.push(ids.last().map_or(0, |last| last + 1)),
            Err(_) => break,
        }
    }
    ids
}

fn ready(store: &Store) -> Vec<u64> {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let page =
        store.find_tube("work").unwrap().query().list(TaskState::Ready, None, 10_000).unwrap();
    let tube = store.find_tube("work").unwrap();
    for task in &page.items {
        assert!(tube.query().task(task.id).unwrap().body.iter().all(|byte| *byte == 7));
    }
    page.items.iter().map(|task| task.id).collect()
}

/// A page of a new area whose first flush fails does not reach the disk by a rewrite through the
/// cache.
#[test]
fn pages_whose_first_flush_failed_reach_the_disk_when_the_store_resumes() {
    let fails = |nth: u64| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        disk.fail(Plan { kind: Kind::Sync, nth, fault: Fault::Device, lasting: true });
        let mut ids = put_until_refused(&store);
        let failed = disk.has_failed();
        disk.repair();
        clock.advance(RETRY_TIME);
        let tube = store.find_tube("work").unwrap();
        ids.extend((0..20).map(|_| tube.put(vec![7; BODY]).unwrap().id));
        // Before `verify`, which moves the journal into the database.
        for disk in [disk.after_power_cut(), disk.after_dropped_cache()] {
            assert_eq!(ready(&open(&disk, &ManualClock::new())), ids, "flush {nth} failed");
        }
        assert_eq!(ready(&store), ids, "flush {nth} failed");
        failed
    };
    let runs = (1..100_000).step_by(sampled(3)).take_while(|nth| fails(*nth)).count();
    assert!(runs > 5, "{runs} runs");
}

/// The pages cannot be dropped, for example because another process reads them. The store reads back
/// what it wrote.
#[test]
fn store_stays_unavailable_until_the_disk_returns_what_was_written() {
    let (disk, clock) = (Disk::new(None), ManualClock::new());
    let store = open(&disk, &clock);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    disk.fail(Plan { kind: Kind::Sync, nth: 2, fault: Fault::Device, lasting: true });
    let mut ids = put_until_refused(&store);
    disk.repair();
    disk.ignore_drops(1);
    let read_back = loop {
        clock.advance(Duration::from_millis(1));
        match tube.put(vec![7; BODY]) {
            Err(Error::Unavailable { why }) if why.contains("the disk returns others") => {
                break why;
            }
            Err(Error::Unavailable { .. }) => {}
            other => panic!("the store did not read back: {other:?}"),
        }
    };
    assert!(read_back.starts_with("cannot repair the storage: "), "{read_back}");
    clock.advance(RETRY_TIME);
    ids.push(tube.put(vec![7; BODY]).unwrap().id);
    assert_eq!(ready(&store), ids);
    assert_eq!(ready(&open(&disk.after_power_cut(), &ManualClock::new())), ids);
}
