//! Stores on custom storage, and their behaviour when it fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/patience.rs"]
mod patience;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use patience::HANGS_AFTER;
use tubewell::expert::Storage;
use tubewell::{Error, FIFO, FIFOTTL, MAX_BODY, Put, Store, TubeOptions, UTUBE};

/// A disk in memory that outlives the store and fails on demand.
#[derive(Debug, Default)]
struct FaultyDisk {
    bytes: Mutex<Vec<u8>>,
    broken: AtomicBool,
    /// Whether a broken disk panics instead of returning an error.
    panics: AtomicBool,
}

#[derive(Debug)]
struct FaultyStorage(Arc<FaultyDisk>);

impl FaultyStorage {
    fn check(&self) -> io::Result<()> {
        if self.0.broken.load(Ordering::SeqCst) {
            assert!(!self.0.panics.load(Ordering::SeqCst), "the disk has a defect");
            return Err(io::Error::other("the disk was pulled out"));
        }
        Ok(())
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for FaultyStorage {
    fn len(&self) -> io::Result<u64> {
        self.check()?;
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check()?;
        let bytes = self.0.bytes.lock().unwrap();
        let found =
            bytes.get(at(offset)..at(offset) + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.0.bytes.lock().unwrap().resize(at(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.0.bytes.lock().unwrap()[at(offset)..at(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn open(disk: &Arc<FaultyDisk>) -> Store {
    Store::options().open_on(Box::new(FaultyStorage(disk.clone()))).unwrap()
}

#[test]
fn store_keeps_tasks_on_custom_storage() {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap().put("kept").unwrap();
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.find_tube("work").unwrap().try_take().unwrap().unwrap().body(), b"kept");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn storage_failure_makes_outcome_unknown_refuses_later_calls_and_loses_nothing() {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let kept = tube.put("kept").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    let (begun, has_begun) = mpsc::channel();
    let waiter = {
        let tube = tube.clone();
        std::thread::spawn(move || {
            begun.send(()).unwrap();
            tube.take_timeout(Duration::MAX).map(|claim| claim.is_some())
        })
    };
    has_begun.recv().unwrap();
    while store.tubes().unwrap()[0].waiting == 0 {
        std::thread::yield_now();
    }
    disk.broken.store(true, Ordering::SeqCst);
    let failed = tube.put("perhaps").unwrap_err();
    assert!(matches!(failed, Error::OutcomeUnknown { .. } | Error::Unavailable { .. }), "{failed}");
    assert!(matches!(tube.put("no"), Err(Error::Unavailable { .. })));
    assert!(matches!(held.ack(), Err(Error::Unavailable { .. })));
    assert!(matches!(tube.try_take(), Err(Error::Unavailable { .. })));
    assert!(matches!(tube.to_async().put("no").wait(), Err(Error::Unavailable { .. })));
    assert!(matches!(store.flush(), Err(Error::Unavailable { .. })));
    assert!(matches!(waiter.join().unwrap(), Err(Error::Unavailable { .. })));
    assert!(store.close().is_err(), "close must report that it cannot write");
    disk.broken.store(false, Ordering::SeqCst);
    let store = open(&disk);
    let tube = store.find_tube("work").unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let claim = tube.try_take().unwrap().unwrap();
    assert_eq!((claim.id(), claim.body()), (kept.id, b"kept".as_slice()));
}

#[test]
fn every_ticket_of_failed_batch_is_answered() {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    disk.broken.store(true, Ordering::SeqCst);
    let deferred = tube.to_async();
    let tickets: Vec<_> = (0..200)
        .map(|n| deferred.put(format!("{n}")))
        .take_while(|ticket| ticket.refusal().is_none())
        .collect();
    assert!(!tickets.is_empty());
    for ticket in tickets {
        let failed = ticket.wait().unwrap_err();
        assert!(
            matches!(failed, Error::OutcomeUnknown { .. } | Error::Unavailable { .. }),
            "{failed}"
        );
    }
}

#[test]
fn largest_body_is_returned_unchanged_and_one_byte_more_is_refused() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let body: Vec<u8> = (0..=250).cycle().take(MAX_BODY).collect();
    tube.put(body.clone()).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    assert!(claim.body() == body.as_slice(), "the body differs");
    claim.ack().unwrap();
    let refused = tube.put(Put::new(vec![0; MAX_BODY + 1]));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
}

/// A store with these bodies, each repeated 1000 times. The last byte of the body `damaged` is
/// flipped.
fn store_with_damaged_body(driver: &str, bodies: &[&str], damaged: &str) -> Store {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(driver)).unwrap();
    // Only a large body has a row of its own and can be damaged without its record.
    tube.put_many(bodies.iter().map(|body| body.repeat(1000))).unwrap();
    store.close().unwrap();
    let mut bytes = disk.bytes.lock().unwrap();
    let pattern = damaged.repeat(1000);
    // The journal, at the start of the file, may hold an older copy.
    let at = bytes.windows(pattern.len()).rposition(|window| window == pattern.as_bytes());
    bytes[at.unwrap() + pattern.len() - 1] ^= 1;
    drop(bytes);
    open(&disk)
}

/// Regression: the bury of a damaged task was decided but never flushed, so its sub-queue stayed
/// busy.
#[test]
fn damaged_body_is_never_delivered_and_its_sub_queue_continues() {
    let store = store_with_damaged_body(UTUBE, &["bad", "good"], "bad");
    // One finding for the page, one for the task.
    let findings = store.admin().verify().unwrap();
    assert_eq!(findings.len(), 2);
    assert!(findings[1].contains("tube \"work\": task 0: its body"), "{findings:?}");
    let tube = store.find_tube("work").unwrap();
    assert!(matches!(tube.try_take(), Err(Error::Corrupt { .. })));
    let next = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
    assert_eq!(next.body(), "good".repeat(1000).as_bytes());
    assert_eq!(tube.statistics().unwrap().tasks.buried, 1);
}

/// Regression: when `take_many` found a damaged body, the claims that it had already made were
/// never released.
#[test]
fn take_many_releases_its_other_tasks_when_one_body_is_damaged() {
    let store = store_with_damaged_body(FIFO, &["good", "bad", "well"], "bad");
    let tube = store.find_tube("work").unwrap();
    assert!(matches!(tube.take_many(3, Duration::ZERO), Err(Error::Corrupt { .. })));
    store.flush().unwrap();
    let tasks = store.statistics().unwrap()["work"].tasks;
    assert_eq!((tasks.ready, tasks.taken), (2, 0));
    assert_eq!(tube.take_many(3, Duration::ZERO).unwrap().len(), 2);
}

/// Regression: a clean close lost the take count of a held task.
#[test]
fn close_keeps_take_count_of_a_held_task() {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("hard").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    store.close().unwrap();
    drop(held);
    let tube = open(&disk).find_tube("work").unwrap();
    assert_eq!(tube.try_take().unwrap().unwrap().takes(), 2);
}

/// Regression: the panic passed through the engine, which panicked again during unwinding, and the
/// process aborted.
#[test]
fn store_resumes_after_its_storage_panics() {
    let disk = Arc::new(FaultyDisk::default());
    disk.panics.store(true, Ordering::SeqCst);
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    disk.broken.store(true, Ordering::SeqCst);
    let many = || (0..5000).map(|_| vec![b'x'; 1500]);
    let failed = tube.put_many(many()).unwrap_err();
    assert!(failed.to_string().contains("it panicked: the disk has a defect"), "{failed}");
    assert!(matches!(tube.put("no"), Err(Error::Unavailable { .. })));
    disk.broken.store(false, Ordering::SeqCst);
    while tube.put("again").is_err() {
        std::thread::yield_now();
    }
    assert_eq!(tube.statistics().unwrap().tasks.ready, 5001);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Another process may extend the file. Regression: an assertion of the engine failed when it
/// extended the file itself, another one failed during unwinding, and the process aborted.
#[test]
fn store_resumes_after_an_external_change_of_storage_length() {
    let disk = Arc::new(FaultyDisk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let length = disk.bytes.lock().unwrap().len();
    disk.bytes.lock().unwrap().resize(length + (32 << 20), 0);
    let failed = tube.put_many((0..5000).map(|_| vec![b'x'; 1500])).unwrap_err();
    assert!(
        failed.to_string().contains("something other than this store has resized it"),
        "{failed}"
    );
    while tube.put("again").is_err() {
        std::thread::yield_now();
    }
    assert_eq!(tube.statistics().unwrap().tasks.ready, 5001);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, 5001);
}
