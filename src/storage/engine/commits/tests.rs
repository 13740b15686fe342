//! Tests of commits: their cost, failing storage, power cuts, and compaction.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::*;
use crate::storage::engine::tests::{CACHE, HEADER, SIZE, commit, log, overlay, store_path, value};
use crate::storage::faulty_storage::{FaultyStorage, StorageFault};

#[test]
fn unsynced_commit_costs_no_flush_and_no_write() {
    let engine = Engine::open_memory(CACHE).unwrap();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1")), HEADER], true).unwrap();
    let io = engine.counters();
    let (flushes, writes) = (io.flushes(), io.writes());
    commit(&engine, &[(Table::Tasks, b"c", Some(b"3"))], false).unwrap();
    assert!(value(&engine, Table::Tasks, b"a").is_some());
    assert!(value(&engine, Table::Tasks, b"c").is_some());
    assert_eq!((io.flushes(), io.writes()), (flushes, writes));
}

fn faulty_engine() -> (Engine, Arc<Mutex<StorageFault>>, Arc<AtomicBool>) {
    let storage = FaultyStorage::default();
    let (fault, closed) = (Arc::clone(&storage.fault), Arc::clone(&storage.closed));
    let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    (engine, fault, closed)
}

#[test]
fn failing_flush_leaves_the_outcome_unknown_and_stops_the_engine() {
    for kind in [StorageFault::Write, StorageFault::Sync] {
        let (engine, fault, _) = faulty_engine();
        *fault.lock().unwrap() = kind;
        let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
        assert!(error.outcome_unknown && error.why.contains("the disk is full"), "{error:?}");
        *fault.lock().unwrap() = StorageFault::None;
        let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
        assert!(!error.outcome_unknown && error.why.contains("the disk is full"), "{error:?}");
        assert_eq!(engine.close(), Ok(()), "the failure was reported, and close had no other");
    }
}

#[test]
fn panic_of_the_storage_is_returned_as_an_error() {
    let (engine, fault, closed) = faulty_engine();
    *fault.lock().unwrap() = StorageFault::Panic;
    let error = commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap_err();
    assert!(error.outcome_unknown && error.why.contains("the medium panics"), "{error:?}");
    *fault.lock().unwrap() = StorageFault::None;
    assert!(!closed.load(Ordering::Relaxed));
    // The result does not matter: the call must return.
    let _ = engine.close();
}

#[test]
fn panic_while_editing_commits_nothing() {
    let engine = Engine::open_memory(CACHE).unwrap();
    let mut edits = [HEADER, (Table::Meta, b"x", None)].into_iter().inspect(|edit| {
        assert!(edit.2.is_some(), "no such edit");
    });
    let error = engine.load(&mut edits, true).unwrap_err();
    assert!(!error.outcome_unknown && error.why.contains("no such edit"), "{error:?}");
    assert_eq!(value(&engine, Table::Meta, b"header"), None);
}

#[test]
fn close_reports_a_failing_flush_and_closes_the_medium() {
    let (engine, _, closed) = faulty_engine();
    engine.close().unwrap();
    assert!(closed.load(Ordering::Relaxed));

    let (engine, fault, _) = faulty_engine();
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap();
    *fault.lock().unwrap() = StorageFault::Sync;
    assert!(matches!(engine.close(), Err(Error::Io { .. })));
}

#[test]
fn compact_returns_free_space() {
    let (_directory, path) = store_path();
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

/// Regression: when disk space was short, a checkpoint first removed the rows that its own commit
/// removed, too. The journal did not have those, so a power cut lost a task that the commit moved.
#[test]
fn power_cut_during_a_checkpoint_on_a_full_disk_keeps_a_moved_task() {
    let storage = FaultyStorage::default();
    let synced = Arc::clone(&storage.synced);
    let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
    commit(&engine, &[HEADER, (Table::Tasks, b"old", Some(b"task"))], true).unwrap();
    let other = [(Table::Tasks, &b"other"[..], Some(&b"task"[..]))];
    log(&engine, &other);
    assert!(engine.medium.is_short(), "the free space has not been measured yet");
    synced.lock().unwrap().clear();
    let large = vec![0; 1 << 20];
    let moved = [
        (Table::Tasks, &b"new"[..], Some(&b"task"[..])),
        (Table::Tasks, b"old", None),
        (Table::Bodies, b"large", Some(&large)),
    ];
    let mut edits = Checkpoint::up_to(1);
    edits.push_logged(overlay(&other));
    edits.push(overlay(&moved));
    engine.checkpoint(&edits, true).unwrap();
    let synced = std::mem::take(&mut *synced.lock().unwrap());
    assert!(synced.len() > 2, "two commits, {} syncs", synced.len());
    for (nth, bytes) in synced.into_iter().enumerate() {
        let medium = InMemoryBackend::new();
        medium.set_len(bytes.len() as u64).unwrap();
        medium.write(0, &bytes).unwrap();
        let storage = FaultyStorage { bytes: medium, ..FaultyStorage::default() };
        let engine = Engine::open_on(Box::new(storage), SIZE).unwrap();
        let exists = [&b"old"[..], b"new"].map(|key| value(&engine, Table::Tasks, key).is_some());
        assert!(exists[0] != exists[1], "after sync {nth}: old and new exist: {exists:?}");
        assert!(value(&engine, Table::Tasks, b"other").is_some());
    }
}
