//! Tests of the medium: failing flushes, and what is written again after them.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::storage::faulty_storage::{FaultyStorage, Hook, StorageFault};

/// Storage in memory whose flushes fail if there is something to flush. What it should have flushed
/// counts as flushed then.
fn fails_to_flush(len: u64) -> FaultyStorage {
    let is_dirty = Arc::new(AtomicBool::new(false));
    let of_write = is_dirty.clone();
    FaultyStorage {
        before_write: Some(Hook::new(move || of_write.store(true, Ordering::SeqCst))),
        before_sync: Some(Hook::new(move || is_dirty.swap(false, Ordering::SeqCst))),
        ..FaultyStorage::with_failing_flushes(len)
    }
}

/// Regression: each attempt added its own writes to the ranges of the next one, which doubled
/// the bytes from attempt to attempt.
#[test]
fn failed_rewrites_write_each_byte_once_per_attempt() {
    let io = IoCounters::new("the disk".into());
    let medium = Medium::custom(Box::new(fails_to_flush(4 << 20)), Arc::clone(&io), 0);
    for (offset, length) in [(0, 100), (50, 100), (150, 50), (1000, 1 << 20), (1200, 10)] {
        medium.write_at(offset, &vec![7; length]).unwrap();
    }
    for attempt in 1..=20 {
        let (writes, bytes) = (io.writes(), io.bytes_written());
        assert!(medium.rewrite_unflushed().is_err());
        assert_eq!(io.writes() - writes, 2, "attempt {attempt}");
        assert_eq!(io.bytes_written() - bytes, 200 + (1 << 20), "attempt {attempt}");
    }
}

/// The cache has what was written: the flush says so.
#[test]
fn successful_flush_needs_no_rewrite() {
    let io = IoCounters::new("the disk".into());
    let storage = FaultyStorage::with_failing_flushes(4096);
    *storage.fault.lock().unwrap() = StorageFault::None;
    let medium = Medium::custom(Box::new(storage), Arc::clone(&io), 0);
    medium.write_at(0, &[7; 100]).unwrap();
    medium.rewrite_unflushed().unwrap();
    assert_eq!((io.writes(), io.flushes()), (1, 2));
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn reads_from_the_disk_return_what_was_flushed() {
    use std::os::unix::fs::FileExt;
    let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let bytes: Vec<u8> = (0..10_000_u32).map(|n| n.to_le_bytes()[0]).collect();
    file.write_all_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    for (from, to) in
        [(0, 10), (0, 4096), (100, 4097), (4096, 8192), (5000, 10_000), (9999, 10_000)]
    {
        let mut out = vec![0; to - from];
        // Not every file system can.
        if platform::read_from_disk(&file, from as u64, &mut out).unwrap() {
            assert_eq!(out, bytes[from..to]);
        }
    }
    assert!(!matches!(platform::read_from_disk(&file, 9999, &mut [0; 2]), Ok(true)));
}

/// Storage in memory whose writes tell when they begin, and then wait. Its second flush fails.
fn waiting_writes(begun: Sender<()>, go_on: Receiver<()>) -> FaultyStorage {
    let (channels, flushes) = (Mutex::new((begun, go_on)), AtomicU32::new(0));
    FaultyStorage {
        before_write: Some(Hook::new(move || {
            let (begun, go_on) = &*channels.lock().unwrap();
            begun.send(()).unwrap();
            go_on.recv().unwrap();
        })),
        before_sync: Some(Hook::new(move || flushes.fetch_add(1, Ordering::SeqCst) == 1)),
        ..FaultyStorage::with_failing_flushes(4096)
    }
}

/// Regression: the range was noted before the write, so that a flush in between dropped it. When
/// a later flush failed, the bytes were not written again.
#[test]
fn failed_flush_writes_again_what_was_written_during_an_earlier_one() {
    let io = IoCounters::new("the disk".into());
    let (begun, has_begun) = channel();
    let (may_go_on, go_on) = channel();
    let storage = waiting_writes(begun, go_on);
    let medium = Medium::custom(Box::new(storage), Arc::clone(&io), 0);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| medium.write_at(100, &[7; 100]));
        has_begun.recv().unwrap();
        medium.sync(FlushOf::Database).unwrap();
        may_go_on.send(()).unwrap();
        write.join().unwrap().unwrap();
    });
    assert!(medium.sync(FlushOf::Journal).is_err());
    let written = io.bytes_written();
    may_go_on.send(()).unwrap();
    medium.rewrite_unflushed().unwrap();
    assert_eq!(io.bytes_written() - written, 100);
}

#[test]
fn medium_keeps_its_first_failure() {
    let io = IoCounters::new("the disk".into());
    let medium = Medium::memory(Arc::clone(&io));
    assert_eq!(io.first_failure(), None);
    assert!(medium.write(10, b"past the end").is_err());
    assert!(medium.read(10, &mut [0; 4]).is_err());
    assert!(io.first_failure().unwrap().starts_with("cannot write to the disk: "));
    assert_eq!((io.writes(), io.bytes_written(), io.reads(), io.flushes()), (1, 12, 1, 0));
}

/// Linux reports a failed write-back once to each open file description. If the journal and the
/// database shared one, only one of them would learn of a failed flush.
#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn journal_of_a_file_has_an_open_file_description_of_its_own() {
    use std::io::{Seek, SeekFrom};
    let named = tempfile::NamedTempFile::new().unwrap();
    let (file, path) = (named.reopen().unwrap(), named.path());
    // It shares the description of the database.
    let mut database = file.try_clone().unwrap();
    let medium = Medium::file(file, path, IoCounters::new("the file".into()), 0).unwrap();
    let mut journal = medium.journal_file.as_ref().unwrap();
    medium.set_len(4096).unwrap();
    assert_eq!(journal.metadata().unwrap().len(), 4096);
    database.seek(SeekFrom::Start(7)).unwrap();
    assert_eq!(journal.stream_position().unwrap(), 0, "they share a seek position");
}

#[cfg(any(target_os = "linux", target_os = "android"))]
#[test]
fn failed_flush_of_the_journal_file_fails_flushes_of_the_database() {
    let cannot_flush = File::open("/dev/null").unwrap();
    let medium = Medium::memory(IoCounters::new("the disk".into()));
    let medium = Medium { journal_file: Some(cannot_flush), ..medium };
    medium.sync(FlushOf::Database).unwrap();
    assert!(medium.sync(FlushOf::Journal).is_err());
    assert!(medium.sync(FlushOf::Database).is_err());
    // What was written again must be flushed through both.
    assert!(medium.rewrite_unflushed().is_err());
}
