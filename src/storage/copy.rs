//! Copies all rows into a new file: those of the store, and those of the application.
//!
//! Invariant: the file gets its name once it is complete and flushed, and no file is overwritten.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};

use tubewell_drivers::{Row, Table, keys};

use super::engine::{Engine, Footprint, PRIVATE};
use super::journal::CHECKPOINT_KEY;
use super::platform::{self, exists, refuse_existing};
use super::snapshot::Snapshot;
use crate::Error;

/// Bytes of rows that are read at a time and written with one transaction.
const CHUNK: usize = 4 << 20;
/// Rows are written once and in order, so a larger cache is of no use.
const CACHE: usize = 16 << 20;

/// Writes all rows of a snapshot into a new store at `path`. The row `header` of `Meta` is written
/// last, with the only flush. `progress` is called between the steps with the number of tasks copied so far, and may end
/// the copy, of which nothing is left then.
///
/// The file is written under another name in the same directory and renamed at the end.
pub(crate) fn copy_to(
    rows: &mut Snapshot,
    path: &Path,
    nonce: u64,
    header: &[u8],
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    refuse_existing(path)?;
    let partial = PartialFile(partial_name(path, nonce));
    if write(rows, &partial.0, header, progress)?.is_break() {
        return Ok(ControlFlow::Break(()));
    }
    rename_without_overwriting(&partial.0, path)?;
    platform::sync_directory_of(path)
        .map_err(|error| io_error("flush the directory of", path, &error))?;
    Ok(ControlFlow::Continue(()))
}

/// Another process may have created a file at `path` since: a hard link does not overwrite it.
fn rename_without_overwriting(partial: &Path, path: &Path) -> Result<(), Error> {
    match std::fs::hard_link(partial, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
        // The file system may not support links.
        Err(_) => {
            refuse_existing(path)?;
            let renamed = std::fs::rename(partial, path);
            renamed.map_err(|error| io_error("rename the copy to", path, &error))
        }
    }
}

/// The temporary name of the file, removed at the end. A finished copy has its own name by then.
struct PartialFile(PathBuf);

impl Drop for PartialFile {
    fn drop(&mut self) {
        // A failure leaves a partial file behind; the caller already gets the error of the copy.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(
    rows: &mut Snapshot,
    partial: &Path,
    header: &[u8],
    progress: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let engine = Engine::open_file(partial, Footprint { cache: CACHE, reserve: 0, mode: PRIVATE })?;
    let mut last = Vec::new();
    let mut tasks = 0;
    for table in Table::ALL {
        let mut from = Vec::new();
        loop {
            let mut chunk: Vec<Row> = rows.read_chunk(table, &from, CHUNK)?;
            let Some((end, _)) = chunk.last() else { break };
            from = keys::after(end);
            if table == Table::Meta {
                let headers = chunk.extract_if(.., |(key, _)| key == header);
                last.extend(headers);
                // The copy has a journal of its own, which is empty.
                chunk.retain(|(key, _)| key != CHECKPOINT_KEY);
            }
            load(&engine, table, &chunk, false)?;
            if table == Table::Tasks {
                tasks += chunk.len() as u64;
            }
            if progress(tasks).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
    if copy_own_tables(rows, &engine, &mut || progress(tasks))?.is_break() {
        return Ok(ControlFlow::Break(()));
    }
    load(&engine, Table::Meta, &last, true)?;
    engine.close()?;
    Ok(ControlFlow::Continue(()))
}

/// Copies the tables of the application. `goes_on` is called before each step.
fn copy_own_tables(
    rows: &Snapshot,
    engine: &Engine,
    goes_on: &mut dyn FnMut() -> ControlFlow<()>,
) -> Result<ControlFlow<()>, Error> {
    let (goes_on, ended) = (RefCell::new(goes_on), RefCell::new(None));
    let copied = rows.copy_own_tables(
        &|| {
            // The engine would report a panic of the caller as damage.
            match catch_unwind(AssertUnwindSafe(|| goes_on.borrow_mut()())) {
                Ok(ControlFlow::Continue(())) => engine.begin_write(),
                end => {
                    ended.replace(Some(end));
                    Err(redb::Error::Io(io::ErrorKind::Interrupted.into()))
                }
            }
        },
        CHUNK,
    );
    match ended.into_inner() {
        Some(Err(panic)) => resume_unwind(panic),
        Some(Ok(_)) => Ok(ControlFlow::Break(())),
        None => copied.map(ControlFlow::Continue),
    }
}

fn load(engine: &Engine, table: Table, rows: &[Row], sync: bool) -> Result<(), Error> {
    let mut edits = rows.iter().map(|(key, value)| (table, &key[..], Some(&value[..])));
    engine.load(&mut edits, sync).map_err(|error| Error::Io { what: error.why })
}

/// A name in the same directory, so that the rename is atomic; `nonce` makes it unique.
fn partial_name(path: &Path, nonce: u64) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{nonce:016x}.partial"));
    path.with_file_name(name)
}

fn io_error(tried: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Io { what: format!("cannot {tried} {}: {error}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: of several concurrent copies to one path, the last overwrote the others.
    #[test]
    fn copy_does_not_overwrite_a_concurrent_copy() {
        let dir = tempfile::tempdir().unwrap();
        let (partial, path) = (dir.path().join("partial"), dir.path().join("copy"));
        for bytes in ["first", "second"] {
            std::fs::write(&partial, bytes).unwrap();
            let partial = PartialFile(partial.clone());
            let named = rename_without_overwriting(&partial.0, &path);
            let expected = if bytes == "first" { Ok(()) } else { Err(exists(&path)) };
            assert_eq!(named, expected);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        assert!(!partial.exists());
    }
}
