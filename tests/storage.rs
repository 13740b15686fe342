//! Stores on storage of the caller's own, and what they do when it fails.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use tubewell::{Error, FIFO, FIFOTTL, MAX_BODY, Put, Storage, Store, TubeOptions, UTUBE, WhenFull};

/// Bytes that outlive the store, and a switch that breaks them.
#[derive(Debug, Default)]
struct Disk {
    bytes: Mutex<Vec<u8>>,
    broken: AtomicBool,
    /// How it breaks.
    panics: AtomicBool,
}

#[derive(Debug)]
struct Plugged(Arc<Disk>);

impl Plugged {
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

impl Storage for Plugged {
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

fn open(disk: &Arc<Disk>) -> Store {
    Store::options().open_on(Box::new(Plugged(disk.clone()))).unwrap()
}

#[test]
fn a_store_lives_on_storage_of_the_callers_own() {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    store.create_tube("work", FIFO, TubeOptions::new()).unwrap().put("kept").unwrap();
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.tube("work").unwrap().try_take().unwrap().unwrap().data(), b"kept");
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn when_the_storage_fails_the_batch_is_unknown_later_calls_are_refused_and_nothing_is_lost() {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    let kept = tube.put("kept").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    let (begun, waits) = mpsc::channel();
    let waiter = {
        let tube = tube.clone();
        std::thread::spawn(move || {
            begun.send(()).unwrap();
            tube.take(None).map(|claim| claim.is_some())
        })
    };
    waits.recv().unwrap();
    while store.tubes()[0].waiting == 0 {
        std::thread::yield_now();
    }
    disk.broken.store(true, Ordering::SeqCst);
    let failed = tube.put("perhaps").unwrap_err();
    assert!(matches!(failed, Error::OutcomeUnknown { .. } | Error::Unavailable { .. }), "{failed}");
    assert!(matches!(tube.put("no"), Err(Error::Unavailable { .. })));
    assert!(matches!(held.ack(), Err(Error::Unavailable { .. })));
    assert!(matches!(tube.try_take(), Err(Error::Unavailable { .. })));
    assert!(matches!(tube.deferred(WhenFull::Block).put("no"), Err(Error::Unavailable { .. })));
    assert!(matches!(store.flush(), Err(Error::Unavailable { .. })));
    assert!(matches!(waiter.join().unwrap(), Err(Error::Unavailable { .. })));
    assert!(store.close().is_err(), "a store that cannot write says so");
    disk.broken.store(false, Ordering::SeqCst);
    let store = open(&disk);
    let tube = store.tube("work").unwrap();
    assert_eq!(store.verify().unwrap(), [""; 0]);
    let claim = tube.try_take().unwrap().unwrap();
    assert_eq!((claim.id(), claim.data()), (kept.id, b"kept".as_slice()));
}

#[test]
fn tickets_of_a_failed_batch_are_all_answered() {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    disk.broken.store(true, Ordering::SeqCst);
    let deferred = tube.deferred(WhenFull::Block);
    let tickets: Vec<_> = (0..200).map_while(|n| deferred.put(format!("{n}")).ok()).collect();
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
fn the_largest_body_comes_back_as_it_was_and_one_byte_more_is_refused() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let body: Vec<u8> = (0..=250).cycle().take(MAX_BODY).collect();
    tube.put(body.clone()).unwrap();
    let claim = tube.take(Duration::ZERO).unwrap().unwrap();
    assert!(claim.data() == body.as_slice(), "the body differs");
    claim.ack().unwrap();
    let refused = tube.put(Put::new(vec![0; MAX_BODY + 1]));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
}

/// A store with these bodies, of which the one that begins with `damaged`
/// has another last byte than was put.
fn damaged(driver: &str, bodies: &[&str], damaged: &str) -> Store {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
    // Only large bodies have a row of their own, to be damaged apart from their record.
    tube.put_many(bodies.iter().map(|body| body.repeat(1000))).unwrap();
    store.close().unwrap();
    let mut bytes = disk.bytes.lock().unwrap();
    let pattern = damaged.repeat(1000);
    // An old copy may be in the journal, in front of it.
    let at = bytes.windows(pattern.len()).rposition(|window| window == pattern.as_bytes());
    bytes[at.unwrap() + pattern.len() - 1] ^= 1;
    drop(bytes);
    open(&disk)
}

/// The bury of a damaged task was decided but flushed by nobody: its sub-queue stayed busy.
#[test]
fn a_damaged_body_is_never_handed_out_and_its_sub_queue_goes_on() {
    let store = damaged(UTUBE, &["bad", "good"], "bad");
    // Its page, and the task itself.
    let findings = store.verify().unwrap();
    assert_eq!(findings.len(), 2);
    assert!(findings[1].contains("tube \"work\": task 0: its body"), "{findings:?}");
    let tube = store.tube("work").unwrap();
    assert!(matches!(tube.try_take(), Err(Error::Corrupt { .. })));
    let next = tube.take(Duration::from_secs(60)).unwrap().unwrap();
    assert_eq!(next.data(), "good".repeat(1000).as_bytes());
    assert_eq!(tube.statistics().unwrap().tasks.buried, 1);
}

/// The claims that a take of many had made when it met a damaged body belonged to nobody.
#[test]
fn a_take_of_many_that_meets_a_damaged_body_gives_the_others_back() {
    let store = damaged(FIFO, &["good", "bad", "well"], "bad");
    let tube = store.tube("work").unwrap();
    assert!(matches!(tube.take_many(3, Duration::ZERO), Err(Error::Corrupt { .. })));
    store.flush().unwrap();
    let tasks = store.statistics()["work"].tasks;
    assert_eq!((tasks.ready, tasks.taken), (2, 0));
    assert_eq!(tube.take_many(3, Duration::ZERO).unwrap().len(), 2);
}

/// How often a held task was taken was forgotten when the store was closed in good order.
#[test]
fn a_take_that_is_under_way_when_the_store_is_closed_counts() {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    tube.put("hard").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    store.close().unwrap();
    drop(held);
    let tube = open(&disk).tube("work").unwrap();
    assert_eq!(tube.try_take().unwrap().unwrap().takes(), 2);
}

/// It went through the engine, which panicked on the way out: that was the end of the process.
#[test]
fn storage_that_panics_has_failed_like_any_other_and_the_store_goes_on_after_it() {
    let disk = Arc::new(Disk::default());
    disk.panics.store(true, Ordering::SeqCst);
    let store = open(&disk);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
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
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// As when somebody else makes the file longer: the engine failed an assertion as it made it longer
/// itself, another on its way out, and that was the end of the process.
#[test]
fn storage_whose_length_changes_by_itself_fails_and_the_store_goes_on_with_what_it_has() {
    let disk = Arc::new(Disk::default());
    let store = open(&disk);
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let length = disk.bytes.lock().unwrap().len();
    disk.bytes.lock().unwrap().resize(length + (32 << 20), 0);
    let failed = tube.put_many((0..5000).map(|_| vec![b'x'; 1500])).unwrap_err();
    assert!(failed.to_string().contains("somebody else set it"), "{failed}");
    while tube.put("again").is_err() {
        std::thread::yield_now();
    }
    assert_eq!(tube.statistics().unwrap().tasks.ready, 5001);
    assert_eq!(store.verify().unwrap(), [""; 0]);
    store.close().unwrap();
    let store = open(&disk);
    assert_eq!(store.verify().unwrap(), [""; 0]);
    assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.ready, 5001);
}
