//! Tests of the medium: failing flushes, and what is written again after them.

use std::sync::Mutex;
use std::sync::atomic::AtomicU32;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;
use crate::storage::faulty_storage::FaultyStorage;

/// Regression: each attempt added its own writes to the ranges of the next one, which doubled
/// the bytes from attempt to attempt.
#[test]
fn failed_rewrites_write_each_byte_once_per_attempt() {
    let io = IoCounters::new("the disk".into());
    let storage = FaultyStorage::with_failing_flushes(4 << 20);
    let medium = Medium::custom(Box::new(storage), Arc::clone(&io), 0);
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

/// Storage in memory whose writes tell when they begin, and then wait. Its second flush fails.
#[derive(Debug)]
struct WaitingWrites {
    bytes: FaultyStorage,
    flushes: AtomicU32,
    begun: Mutex<Sender<()>>,
    go_on: Mutex<Receiver<()>>,
}

impl Storage for WaitingWrites {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let number = self.flushes.fetch_add(1, Ordering::SeqCst);
        if number == 1 { self.bytes.sync() } else { Ok(()) }
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.begun.lock().unwrap().send(()).unwrap();
        self.go_on.lock().unwrap().recv().unwrap();
        self.bytes.write(offset, data)
    }
}

/// Regression: the range was noted before the write, so that a flush in between dropped it. When
/// a later flush failed, the bytes were not written again.
#[test]
fn failed_flush_writes_again_what_was_written_during_an_earlier_one() {
    let io = IoCounters::new("the disk".into());
    let (begun, has_begun) = channel();
    let (may_go_on, go_on) = channel();
    let storage = WaitingWrites {
        bytes: FaultyStorage::with_failing_flushes(4096),
        flushes: AtomicU32::new(0),
        begun: Mutex::new(begun),
        go_on: Mutex::new(go_on),
    };
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
