use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use tempfile::TempDir;
use tubewell_drivers::Reads;

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::super::file_header::FILE_HEADER;
use super::super::overlay::Overlay;
use super::*;
use crate::storage::commit_error::CommitError;
use crate::storage::overlay::RowEdit;

const CACHE: usize = 1 << 20;
const SIZE: Footprint = Footprint { cache: CACHE, reserve: 1 << 20 };

fn place() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    (directory, path)
}

fn commit(engine: &Engine, edits: &[RowEdit<'_>], sync: bool) -> Result<(), CommitError> {
    engine.commit(&overlay(edits), sync, true)
}

fn overlay(edits: &[RowEdit<'_>]) -> Overlay {
    let mut overlay = Overlay::default();
    for (table, key, value) in edits {
        match value {
            Some(value) => overlay.replace(*table, key.to_vec(), (*value).into()),
            None => overlay.remove(*table, key.to_vec()),
        }
    }
    overlay
}

fn value(engine: &Engine, table: Table, key: &[u8]) -> Option<Vec<u8>> {
    let found = engine.snapshot().unwrap().get(table, key).unwrap();
    found.map(|value| value.to_vec())
}

const HEADER: RowEdit<'_> = (Table::Meta, b"header", Some(b"1"));

#[test]
fn what_was_committed_is_there_after_reopening() {
    let (_directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"one")), HEADER], true).unwrap();
    commit(&engine, &[(Table::Tasks, b"b", Some(b"two"))], true).unwrap();
    assert_eq!(value(&engine, Table::Tasks, b"b").unwrap(), b"two");
    engine.close().unwrap();

    let engine = Engine::open_file(&path, SIZE).unwrap();
    assert_eq!(value(&engine, Table::Tasks, b"a").unwrap(), b"one");
    assert_eq!(value(&engine, Table::Tasks, b"b").unwrap(), b"two");
    commit(&engine, &[(Table::Tasks, b"a", None), (Table::Tasks, b"b", Some(b"2"))], true).unwrap();
    assert_eq!(value(&engine, Table::Tasks, b"a"), None);
    assert_eq!(value(&engine, Table::Tasks, b"b").unwrap(), b"2");
}

#[test]
fn a_scan_is_half_open_ordered_and_limited() {
    let engine = Engine::open_memory(CACHE).unwrap();
    let rows = [b"a", b"b", b"c", b"d"].map(|key| (Table::Dues, &key[..], Some(&key[..])));
    commit(&engine, &rows, true).unwrap();
    let mut snapshot = engine.snapshot().unwrap();
    let mut keys = |from: &[u8], to: &[u8], limit| {
        let rows = snapshot.scan(Table::Dues, from, to, limit).unwrap();
        rows.into_iter().flat_map(|(key, _)| key).collect::<Vec<u8>>()
    };
    assert_eq!(keys(b"b", b"d", 9), b"bc");
    assert_eq!(keys(b"", b"z", 3), b"abc");
    assert_eq!(keys(b"c", b"c", 9), b"");
    assert_eq!(keys(b"d", b"a", 9), b"");
    assert!(snapshot.scan(Table::Bodies, b"", b"z", 9).unwrap().is_empty());
}

#[test]
fn a_snapshot_does_not_see_what_is_committed_after_it() {
    let engine = Engine::open_memory(CACHE).unwrap();
    let mut before = engine.snapshot().unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    assert_eq!(before.get(Table::Meta, b"header").unwrap(), None);
    assert!(value(&engine, Table::Meta, b"header").is_some());
}

#[test]
fn a_second_opener_is_refused_by_whatever_name() {
    let (directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    let refused = Engine::open_file(&path, SIZE).unwrap_err();
    assert_eq!(refused, Error::InUse { path: path.display().to_string() });
    let other_name = directory.path().join(".").join("store");
    assert!(matches!(Engine::open_file(&other_name, SIZE), Err(Error::InUse { .. })));
    engine.close().unwrap();
    Engine::open_file(&path, SIZE).unwrap();
}

#[test]
fn an_empty_file_is_a_new_store() {
    let (_directory, path) = place();
    fs::write(&path, b"").unwrap();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
}

#[test]
fn a_file_whose_making_was_cut_short_is_a_new_store() {
    let (_directory, path) = place();
    Engine::open_file(&path, SIZE).unwrap().close().unwrap();
    let mut bytes = vec![0; usize::try_from(fs::metadata(&path).unwrap().len()).unwrap()];
    bytes[9] = 4;
    fs::write(&path, bytes).unwrap();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
}

#[test]
fn a_text_file_is_refused_and_left_as_it_was() {
    let (_directory, path) = place();
    for text in ["short", &"a longer letter to somebody\n".repeat(1000)] {
        fs::write(&path, text).unwrap();
        let refused = Engine::open_file(&path, SIZE).unwrap_err();
        assert!(matches!(refused, Error::NotAStore { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
}

#[test]
fn another_applications_database_is_refused() {
    let (_directory, path) = place();
    let theirs = redb::TableDefinition::<u64, u64>::new("accounts");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(theirs).unwrap().insert(1, 2).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = Engine::open_file(&path, SIZE).unwrap_err();
    assert!(refused.to_string().contains("accounts"), "{refused}");
}

#[test]
fn a_table_of_ours_with_other_types_is_refused() {
    let (_directory, path) = place();
    let theirs = redb::TableDefinition::<u64, u64>::new("meta");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(theirs).unwrap();
    transaction.commit().unwrap();
    drop(database);
    assert!(matches!(Engine::open_file(&path, SIZE), Err(Error::NotAStore { .. })));
}

#[test]
fn a_file_format_of_another_age_is_refused() {
    let (_directory, path) = place();
    Engine::open_file(&path, SIZE).unwrap().close().unwrap();
    let sound = fs::read(&path).unwrap();
    for version in [1, 2, 4, 9] {
        let mut bytes = sound.clone();
        let engine = usize::try_from(FILE_HEADER).unwrap();
        (bytes[engine + 64], bytes[engine + 192]) = (version, version);
        fs::write(&path, bytes).unwrap();
        let refused = Engine::open_file(&path, SIZE).unwrap_err();
        assert!(matches!(refused, Error::NotAStore { .. }), "{refused}");
    }
}

#[test]
fn a_file_cut_off_is_damaged() {
    let (_directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    engine.close().unwrap();
    let sound = fs::read(&path).unwrap();
    for len in [20, 400, 8192, (1 << 20) + 20, (1 << 20) + 400, (1 << 20) + 8192] {
        fs::write(&path, &sound[..len]).unwrap();
        let refused = Engine::open_file(&path, SIZE).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "{len}: {refused}");
    }
}

#[test]
fn a_missing_directory_is_named() {
    let (directory, path) = place();
    let refused = Engine::open_file(&path.join("below"), SIZE).unwrap_err().to_string();
    assert!(refused.contains("store does not exist"), "{refused}");
    let refused = Engine::open_file(directory.path(), SIZE).unwrap_err().to_string();
    assert!(refused.contains("is a directory"), "{refused}");
}

#[test]
fn a_synced_commit_costs_one_flush_and_a_read_no_write() {
    let (_directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1")), HEADER], true).unwrap();
    let io = engine.counters();
    let (flushes, writes, bytes) = (io.flushes(), io.writes(), io.bytes_written());

    commit(&engine, &[(Table::Tasks, b"b", Some(b"2"))], true).unwrap();
    assert_eq!(io.flushes(), flushes + 1);
    assert!(io.writes() > writes && io.bytes_written() > bytes);

    let writes = io.writes();
    assert!(value(&engine, Table::Tasks, b"a").is_some());
    assert!(value(&engine, Table::Tasks, b"none").is_none());
    assert_eq!((io.flushes(), io.writes()), (flushes + 1, writes));
}

#[test]
fn the_database_takes_the_journal_sooner_in_a_commit_that_nobody_waits_for() {
    let (_directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    engine.stable_snapshot().unwrap();
    let mut number = 0_u32;
    let mut rows_at_the_end = |has_waiters| {
        let mut most = 0;
        loop {
            number += 1;
            let row = number.to_be_bytes();
            engine.commit(&overlay(&[(Table::Tasks, &row, Some(b""))]), true, has_waiters).unwrap();
            match engine.uncheckpointed().0 {
                0 => return most,
                rows => most = rows,
            }
        }
    };
    assert_eq!([false, true, false].map(&mut rows_at_the_end), [1025, 2049, 1025]);
}

#[test]
fn a_commit_that_need_not_be_safe_costs_no_flush_and_no_write() {
    let engine = Engine::open_memory(CACHE).unwrap();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1")), HEADER], true).unwrap();
    let io = engine.counters();
    let (flushes, writes) = (io.flushes(), io.writes());
    commit(&engine, &[(Table::Tasks, b"c", Some(b"3"))], false).unwrap();
    assert!(value(&engine, Table::Tasks, b"a").is_some());
    assert!(value(&engine, Table::Tasks, b"c").is_some());
    assert_eq!((io.flushes(), io.writes()), (flushes, writes));
}

#[test]
fn a_file_of_a_newer_layout_is_refused_by_both_numbers_and_left_as_it_was() {
    let (_directory, path) = place();
    Engine::open_file(&path, SIZE).unwrap().close().unwrap();
    let mut newer = fs::read(&path).unwrap();
    // A release that is newer may have its database elsewhere.
    newer[15] += 1;
    newer[usize::try_from(FILE_HEADER).unwrap()] = 0;
    fs::write(&path, &newer).unwrap();
    let refused = Engine::open_file(&path, SIZE).unwrap_err();
    assert_eq!(refused, Error::NewerFormat { what: "layout", found: 2, supported: 1 });
    assert!(fs::read(&path).unwrap() == newer);
}

/// A medium in memory that fails, or panics, when told to.
#[derive(Debug, Default)]
struct Faulty {
    bytes: InMemoryBackend,
    /// What a power cut right after each sync would leave.
    left: Arc<Mutex<Vec<Vec<u8>>>>,
    fault: Arc<Mutex<Fault>>,
    closed: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum Fault {
    #[default]
    None,
    Write,
    Sync,
    Panic,
}

impl Faulty {
    fn check(&self, call: Fault) -> io::Result<()> {
        let fault = *self.fault.lock().unwrap();
        assert!(fault != Fault::Panic, "the medium panics");
        if fault == call { Err(io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

impl Storage for Faulty {
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
        self.check(Fault::Sync)?;
        let mut all = vec![0; usize::try_from(self.bytes.len()?).unwrap()];
        self.bytes.read(0, &mut all)?;
        self.left.lock().unwrap().push(all);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check(Fault::Write)?;
        self.bytes.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

fn faulty() -> (Engine, Arc<Mutex<Fault>>, Arc<AtomicBool>) {
    let storage = Faulty::default();
    let (fault, closed) = (Arc::clone(&storage.fault), Arc::clone(&storage.closed));
    let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    (engine, fault, closed)
}

#[test]
fn a_failing_flush_leaves_the_outcome_unknown_and_stops_the_store() {
    for kind in [Fault::Write, Fault::Sync] {
        let (engine, fault, _) = faulty();
        *fault.lock().unwrap() = kind;
        let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
        assert!(error.unknown && error.why.contains("the disk is full"), "{error:?}");
        *fault.lock().unwrap() = Fault::None;
        let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
        assert!(!error.unknown && error.why.contains("the disk is full"), "{error:?}");
        assert_eq!(engine.close(), Ok(()), "the failure was told, and closing did not add one");
    }
}

#[test]
fn a_panic_below_is_an_answer_and_not_a_crash() {
    let (engine, fault, closed) = faulty();
    *fault.lock().unwrap() = Fault::Panic;
    let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
    assert!(error.unknown && error.why.contains("the medium panics"), "{error:?}");
    *fault.lock().unwrap() = Fault::None;
    assert!(!closed.load(Ordering::Relaxed));
    // Whatever it says by now: it must come back.
    let _ = engine.close();
}

#[test]
fn a_panic_while_editing_commits_nothing() {
    let engine = Engine::open_memory(CACHE).unwrap();
    let mut edits = [HEADER, (Table::Meta, b"x", None)].into_iter().inspect(|edit| {
        assert!(edit.2.is_some(), "no such edit");
    });
    let error = engine.load(&mut edits, true).unwrap_err();
    assert!(!error.unknown && error.why.contains("no such edit"), "{error:?}");
    assert_eq!(value(&engine, Table::Meta, b"header"), None);
}

#[test]
fn closing_reports_a_failing_flush_and_closes_the_medium() {
    let (engine, _, closed) = faulty();
    engine.close().unwrap();
    assert!(closed.load(Ordering::Relaxed));

    let (engine, fault, _) = faulty();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap();
    *fault.lock().unwrap() = Fault::Sync;
    assert!(matches!(engine.close(), Err(Error::Io { .. })));
}

#[test]
fn compacting_gives_free_space_back() {
    let (_directory, path) = place();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    let body = vec![7; 1 << 20];
    let keys: Vec<[u8; 1]> = (0..8).map(|key| [key]).collect();
    let rows: Vec<RowEdit<'_>> =
        keys.iter().map(|key| (Table::Bodies, &key[..], Some(&body[..]))).collect();
    commit(&engine, &rows, true).unwrap();
    let rows: Vec<RowEdit<'_>> = keys.iter().map(|key| (Table::Bodies, &key[..], None)).collect();
    commit(&engine, &rows, true).unwrap();
    let full = fs::metadata(&path).unwrap().len();
    let snapshot = engine.snapshot().unwrap();
    assert!(matches!(engine.compact(), Err(Error::Unavailable { .. })));
    drop(snapshot);
    assert!(engine.compact().unwrap());
    assert!(fs::metadata(&path).unwrap().len() < full / 4);
}

/// A medium that stops dead after some calls, as a killed process does.
#[derive(Debug)]
struct Stopping {
    bytes: Arc<InMemoryBackend>,
    calls_left: AtomicU32,
}

impl Stopping {
    fn step(&self) -> io::Result<()> {
        let left = |left: u32| left.checked_sub(1);
        let step = self.calls_left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
        step.map(drop).map_err(|_| io::Error::other("killed"))
    }
}

impl Storage for Stopping {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.step().and_then(|()| self.bytes.set_len(len))
    }

    fn sync(&self) -> io::Result<()> {
        self.step()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step().and_then(|()| self.bytes.write(offset, data))
    }
}

#[test]
fn a_process_killed_at_any_moment_of_making_a_store_leaves_one_that_opens() {
    let mut killed = 0;
    for calls in 0.. {
        let bytes = Arc::new(InMemoryBackend::new());
        let medium = |calls| {
            let calls_left = AtomicU32::new(calls);
            Box::new(Stopping { bytes: Arc::clone(&bytes), calls_left })
        };
        let made = Engine::open_on(medium(calls), SIZE).and_then(|engine| {
            commit(&engine, &[HEADER], true).map_err(|error| Error::invalid(error.why))?;
            engine.close()
        });
        let engine = Engine::open_on(medium(u32::MAX), SIZE).unwrap();
        if made.is_ok() {
            assert!(value(&engine, Table::Meta, b"header").is_some());
            break;
        }
        commit(&engine, &[HEADER], true).unwrap();
        killed += 1;
    }
    assert!(killed > 10, "only {killed} moments");
}

/// On a disk with little room what is removed goes first: also what the commit itself removed, of
/// which the journal knew nothing, so that a task that it moved was gone after a power cut.
#[test]
fn a_power_cut_between_the_steps_of_a_full_disk_leaves_a_moved_task_where_it_was() {
    let storage = Faulty::default();
    let left = Arc::clone(&storage.left);
    let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
    commit(&engine, &[HEADER, (Table::Tasks, b"old", Some(b"task"))], true).unwrap();
    engine.checkpoint(&mut engine.commits.lock()).unwrap();
    commit(&engine, &[(Table::Tasks, b"other", Some(b"task"))], true).unwrap();
    assert!(engine.medium.is_short(), "nobody has asked for room yet");
    left.lock().unwrap().clear();
    let large = vec![0; 1 << 20];
    let moved = [
        (Table::Tasks, &b"new"[..], Some(&b"task"[..])),
        (Table::Tasks, b"old", None),
        (Table::Bodies, b"large", Some(&large)),
    ];
    commit(&engine, &moved, true).unwrap();
    let left = std::mem::take(&mut *left.lock().unwrap());
    assert!(left.len() > 2, "two commits, {} syncs", left.len());
    for (nth, bytes) in left.into_iter().enumerate() {
        let medium = InMemoryBackend::new();
        medium.set_len(bytes.len() as u64).unwrap();
        medium.write(0, &bytes).unwrap();
        let storage = Faulty { bytes: medium, ..Faulty::default() };
        let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
        let there = [&b"old"[..], b"new"].map(|key| value(&engine, Table::Tasks, key).is_some());
        assert!(there[0] != there[1], "after sync {nth}: old and new are {there:?}");
        assert!(value(&engine, Table::Tasks, b"other").is_some());
    }
}
