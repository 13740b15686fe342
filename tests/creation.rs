//! A power cut while a store is created: the file opens, and a store that has held a commit is not
//! created again.
//!
//! The disk loses any of the operations since its last flush, lengths too. A write that is kept
//! extends a file whose new length was lost, as file systems do. `tests/power_loss` keeps lengths
//! in order and drops writes beyond the end.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tubewell::expert::Storage;
use tubewell::{Error, FIFO, Store, TubeOptions};

const HEADER: u64 = 1 << 20;
/// Up to this many unflushed operations, all subsets are tried; beyond it the newest are.
const MAX_SUBSET: usize = 8;

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

#[derive(Clone, Debug)]
enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
    Sync,
}

impl Op {
    fn apply(&self, image: &mut Vec<u8>) {
        match self {
            Op::Write(offset, data) => {
                let end = at(*offset) + data.len();
                image.resize(image.len().max(end), 0);
                image[at(*offset)..end].copy_from_slice(data);
            }
            Op::SetLen(len) => image.resize(at(*len), 0),
            Op::Sync => {}
        }
    }
}

#[derive(Debug, Default)]
struct DiskState {
    bytes: Vec<u8>,
    log: Vec<Op>,
}

/// A disk in memory that logs its operations.
#[derive(Clone, Debug)]
struct Disk(Arc<Mutex<DiskState>>);

impl Disk {
    fn new(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(DiskState { bytes, log: Vec::new() })))
    }

    fn run(&self, op: Op) {
        let state = &mut *self.0.lock().unwrap();
        op.apply(&mut state.bytes);
        state.log.push(op);
    }

    fn position(&self) -> usize {
        self.0.lock().unwrap().log.len()
    }

    fn open(&self) -> tubewell::Result<Store> {
        Store::options().open_on(Box::new(self.clone()))
    }
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.lock().unwrap();
        let found = state.bytes.get(at(offset)..at(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(Op::SetLen(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.run(Op::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.run(Op::Write(offset, data.to_vec()));
        Ok(())
    }
}

/// The distinct images that a power cut after each operation may leave, with the number of
/// operations before the cut.
fn images(start: &[u8], log: &[Op]) -> BTreeSet<(usize, Vec<u8>)> {
    let (mut flushed, mut pending) = (start.to_vec(), Vec::<&Op>::new());
    let mut images = BTreeSet::new();
    for position in 0..=log.len() {
        let certain = pending.len().saturating_sub(MAX_SUBSET);
        for kept in 0..1_u32 << (pending.len() - certain) {
            let mut image = flushed.clone();
            for (n, op) in pending.iter().enumerate() {
                if n < certain || kept >> (n - certain) & 1 == 1 {
                    op.apply(&mut image);
                }
            }
            images.insert((position, image));
        }
        match log.get(position) {
            Some(Op::Sync) => pending.drain(..).for_each(|op| op.apply(&mut flushed)),
            Some(op) => pending.push(op),
            None => {}
        }
    }
    images
}

fn distinct(images: BTreeSet<(usize, Vec<u8>)>) -> BTreeSet<Vec<u8>> {
    images.into_iter().map(|(_, image)| image).collect()
}

/// Creates a store on a disk with these bytes, and puts a task. Returns the operations of the disk,
/// and how many of them were made when the put returned.
fn create(start: Vec<u8>) -> (Vec<Op>, usize) {
    let disk = Disk::new(start);
    let store = disk.open().unwrap();
    let tube = TubeOptions::new();
    store.open_tube("work", tube.driver(FIFO)).unwrap().put("kept").unwrap();
    let acknowledged = disk.position();
    drop(store);
    let log = std::mem::take(&mut disk.0.lock().unwrap().log);
    (log, acknowledged)
}

fn assert_opens(image: &[u8], has_task: bool) {
    let store = Disk::new(image.to_vec()).open();
    let store = store.unwrap_or_else(|error| panic!("{} bytes: {error}", image.len()));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    if has_task {
        let claim = store.find_tube("work").unwrap().try_take().unwrap();
        assert_eq!(claim.unwrap().body(), b"kept");
    }
}

#[test]
fn power_cut_that_loses_lengths_during_creation_leaves_openable_store() {
    let (log, acknowledged) = create(Vec::new());
    let images = images(&[], &log[..acknowledged]);
    let lens: HashSet<_> = images.iter().map(|(_, image)| image.len() as u64).collect();
    for len in [16, HEADER, HEADER + 320] {
        assert!(lens.contains(&len), "no image has {len} bytes: {lens:?}");
    }
    for (position, image) in &images {
        assert_opens(image, *position == acknowledged);
    }
}

#[test]
fn second_power_cut_during_repeated_creation_leaves_openable_store() {
    let (log, _) = create(Vec::new());
    let first = log.iter().position(|op| matches!(op, Op::Sync)).unwrap();
    for start in distinct(images(&[], &log[..first])) {
        let (log, acknowledged) = create(start.clone());
        let first = log.iter().position(|op| matches!(op, Op::Sync)).unwrap();
        for image in distinct(images(&start, &log[..first])) {
            assert_opens(&image, false);
        }
        assert!(acknowledged > first, "a put waits for a flush");
    }
}

fn write_store(path: &Path) -> Vec<u8> {
    let store = Store::open(path).unwrap();
    store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap().put("kept").unwrap();
    store.close().unwrap();
    fs::read(path).unwrap()
}

/// A file of 16 bytes is left out: the title is all that a store and a half-created one have there.
#[test]
fn truncated_store_is_damaged_and_not_changed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.tubewell");
    let whole = write_store(&path);
    let lens = (17..HEADER).step_by(99_991).chain(HEADER..HEADER + 12);
    let more = [4096, 4112, HEADER - 1, HEADER + 319, HEADER + 320, HEADER + 321, HEADER + 4096];
    for len in lens.chain(more).chain([whole.len() as u64 - 4096]) {
        let truncated = &whole[..at(len)];
        fs::write(&path, truncated).unwrap();
        let opened = Store::open(&path);
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{len} bytes: {opened:?}");
        assert!(fs::read(&path).unwrap() == truncated, "{len} bytes: the file has changed");
    }
}

/// The file of a store that was killed has its first commits in the journal only.
#[test]
fn truncated_store_whose_database_is_empty_is_damaged() {
    let (log, acknowledged) = create(Vec::new());
    let mut whole = Vec::new();
    log[..acknowledged].iter().for_each(|op| op.apply(&mut whole));
    for len in [4112, HEADER, HEADER + 1, HEADER + 8, HEADER + 9, HEADER + 320, HEADER + 4096] {
        let opened = Disk::new(whole[..at(len)].to_vec()).open();
        assert!(matches!(opened, Err(Error::Corrupt { .. })), "{len} bytes: {opened:?}");
    }
}

#[test]
fn file_of_a_half_created_store_opens() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.tubewell");
    let whole = write_store(&path);
    for (kept, len) in [(0, 16), (5, 16), (16, 16), (0, HEADER), (16, HEADER), (16, HEADER + 320)] {
        let mut bytes = whole[..kept].to_vec();
        bytes.resize(at(len), 0);
        fs::write(&path, bytes).unwrap();
        let store = Store::open(&path).unwrap_or_else(|error| panic!("{len} bytes: {error}"));
        assert_eq!((store.admin().verify().unwrap().len(), store.tubes().unwrap().len()), (0, 0));
    }
}
