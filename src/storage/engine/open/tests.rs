//! Tests of opening a file that was not closed, and whose journal has lost pages.

use std::ops::ControlFlow;
use std::path::Path;

use super::*;
use crate::storage::engine::tests::{CACHE, HEADER, SIZE, commit, overlay, store_path, value};
use crate::storage::file_header::{FILE_HEADER_LEN, JOURNAL_START};
use crate::storage::journal::{Appended, Turn};
use crate::storage::{Checkpoint, copy_to};

const PAGE: usize = 4096;

/// Puts a row as a call does: into the journal, or into the database if a record cannot come first.
/// Four records of keys of five bytes fill a page.
fn put(engine: &Engine, key: &[u8]) {
    let body = [7; 972];
    let rows = [(Table::Tasks, key, Some(&body[..]))];
    let journal = engine.journal().unwrap();
    match journal.append(&overlay(&rows), Turn::Never) {
        Appended::Record(number) => journal.write(number, false).unwrap(),
        _ => {
            let mut replayed = Checkpoint::up_to(engine.last_record());
            replayed.push(overlay(&rows));
            engine.checkpoint(&replayed, true).unwrap();
        }
    }
}

/// The bytes of the file as a kill leaves them, and the end of the process.
fn kill(engine: Engine, path: &Path) -> Vec<u8> {
    let bytes = std::fs::read(path).unwrap();
    drop(engine);
    std::fs::write(path, &bytes).unwrap();
    bytes
}

fn exists(engine: &Engine, key: &[u8]) -> bool {
    value(engine, Table::Tasks, key).is_some()
}

fn start_of_journal() -> usize {
    usize::try_from(JOURNAL_START).unwrap()
}

/// Regression: the journal began anew with a salt that the database did not know, so that the open
/// after the next kill skipped its records.
#[test]
fn records_behind_a_lost_journal_survive_a_kill() {
    let (_directory, path) = store_path();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    put(&engine, b"lost");
    let mut bytes = kill(engine, &path);
    bytes[start_of_journal()..usize::try_from(FILE_HEADER_LEN).unwrap()].fill(0);
    std::fs::write(&path, &bytes).unwrap();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    put(&engine, b"first");
    put(&engine, b"second");
    kill(engine, &path);
    let engine = Engine::open_file(&path, SIZE).unwrap();
    assert!(exists(&engine, b"first") && exists(&engine, b"second"));
}

/// A store that was closed, opened, and put tasks `old-0` to `old-7` when the power failed. The disk
/// has all of these records but those on the first page, where the end mark still is.
fn end_mark_before_records() -> (tempfile::TempDir, std::path::PathBuf) {
    let (directory, path) = store_path();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    engine.close().unwrap();
    let closed = std::fs::read(&path).unwrap();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    for number in 0..8 {
        put(&engine, format!("old-{number}").as_bytes());
    }
    let mut bytes = kill(engine, &path);
    let page = start_of_journal()..start_of_journal() + PAGE;
    bytes[page.clone()].copy_from_slice(&closed[page]);
    std::fs::write(&path, &bytes).unwrap();
    (directory, path)
}

/// Puts more tasks. After each one the power fails again, with all but the first page of the journal
/// unwritten.
fn assert_old_records_do_not_return(path: &Path) {
    let (start, end) = (start_of_journal() + PAGE, usize::try_from(FILE_HEADER_LEN).unwrap());
    let before = std::fs::read(path).unwrap();
    let engine = Engine::open_file(path, SIZE).unwrap();
    let copy = path.with_file_name("copy");
    for number in 0..6 {
        put(&engine, format!("new-{number}").as_bytes());
        let mut bytes = std::fs::read(path).unwrap();
        bytes[start..end].copy_from_slice(&before[start..end]);
        std::fs::write(&copy, bytes).unwrap();
        let engine = Engine::open_file(&copy, SIZE).unwrap();
        let found = |name| {
            (0..8)
                .map(move |put| (name, put))
                .filter(|(name, put)| exists(&engine, format!("{name}-{put}").as_bytes()))
        };
        assert_eq!(found("old").count(), 0, "after new-{number}");
        let kept = found("new").count();
        assert!(found("new").map(|(_, put)| put).eq(0..kept), "after new-{number}");
        assert!(kept > number.min(2), "new-{number} fits on the first page");
    }
}

/// Regression: the run after the power cut continued with the salt and the numbers of the run that it
/// ended, so that the records of that run followed its own.
#[test]
fn records_behind_a_lost_page_do_not_return_if_the_end_mark_is_there() {
    let (_directory, path) = end_mark_before_records();
    assert_old_records_do_not_return(&path);
}

/// Regression: dropping a database after a failed open marks it as closed.
#[test]
fn failed_open_of_an_unclean_file_does_not_make_its_end_mark_valid() {
    let (_directory, path) = end_mark_before_records();
    drop(Engine::open_file(&path, SIZE).unwrap());
    assert_old_records_do_not_return(&path);
}

/// An open for reading writes nothing, so that the file stays as it is.
#[test]
fn open_for_reading_leaves_the_end_mark_of_an_unclean_file() {
    let (_directory, path) = end_mark_before_records();
    let before = std::fs::read(&path).unwrap();
    drop(Engine::open_read_only(&path, CACHE).unwrap());
    assert!(std::fs::read(&path).unwrap() == before);
    assert_old_records_do_not_return(&path);
}

/// Regression: a file whose journal had nothing to replay stayed without an end mark.
#[test]
fn close_after_a_kill_lets_the_next_open_skip_the_journal() {
    let (_directory, path) = store_path();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    commit(&engine, &[HEADER], true).unwrap();
    put(&engine, b"a");
    commit(&engine, &[(Table::Tasks, b"a", Some(b"1"))], true).unwrap();
    kill(engine, &path);
    Engine::open_file(&path, SIZE).unwrap().close().unwrap();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    assert!(matches!(
        engine.journal().unwrap().append(&overlay(&[HEADER]), Turn::Never),
        Appended::Record(_)
    ));
    assert!(exists(&engine, b"a"));
}

/// Regression: the copy had the number of the last record of the other file, so that its end mark
/// did not count.
#[test]
fn first_open_of_a_copy_reads_no_journal() {
    let (directory, path) = store_path();
    let engine = Engine::open_file(&path, SIZE).unwrap();
    put(&engine, b"a");
    commit(&engine, &[HEADER], true).unwrap();
    let copy = directory.path().join("copy");
    let goes_on = &mut |_| ControlFlow::Continue(());
    let copied = copy_to(&mut engine.snapshot().unwrap(), &copy, 1, b"header", goes_on);
    assert_eq!(copied, Ok(ControlFlow::Continue(())));
    let copied = Engine::open_file(&copy, SIZE).unwrap();
    let journal = copied.journal().unwrap();
    assert_eq!(journal.append(&overlay(&[HEADER]), Turn::Never), Appended::Record(1));
}
