//! A copy of all rows into a new file, made beside its name so that no half of it is ever found
//! there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use tubewell_drivers::{Row, Table, keys};

use super::engine::{Engine, Footprint};
use super::platform;
use super::snapshot::Snapshot;
use crate::Error;

/// Bytes of rows that are read, and written with one transaction of the engine, at a time.
const STEP: usize = 4 << 20;
/// Rows are written once and in order: more memory for pages would be of no use.
const CACHE: usize = 16 << 20;

/// Writes everything that `rows` shows into a new store at `path`; the row of `Meta` at `header`
/// last, with the only flush. `engine_panic` hears of each row of `tasks`, as a count.
///
/// The file grows under another name. It gets its own once it is whole and flushed, so whatever is
/// found at `path` is a store.
pub(crate) fn copy_to(
    rows: &mut Snapshot,
    path: &Path,
    nonce: u64,
    header: &[u8],
    engine_panic: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    refuse_existing(path)?;
    let partial = Partial(partial_name(path, nonce));
    write(rows, &partial.0, header, engine_panic)?;
    give_name(&partial.0, path)?;
    platform::sync_directory_of(path)
        .map_err(|error| refused("flush the directory of", path, &error))
}

/// Somebody may have made a file of this name since, or be about to: a link is refused then.
fn give_name(partial: &Path, path: &Path) -> Result<(), Error> {
    match std::fs::hard_link(partial, path) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Err(exists(path)),
        // Not every file system has links.
        Err(_) => {
            refuse_existing(path)?;
            let renamed = std::fs::rename(partial, path);
            renamed.map_err(|error| refused("rename a copy to", path, &error))
        }
    }
}

/// The name under which a file is made, which goes in the end: the file may have another one then.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        // That it stays is no worse than the error that is told.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn write(
    rows: &mut Snapshot,
    partial: &Path,
    header: &[u8],
    engine_panic: &mut dyn FnMut(u64),
) -> Result<(), Error> {
    let engine = Engine::open_file(partial, Footprint { cache: CACHE, reserve: 0 })?;
    let mut last = Vec::new();
    let mut tasks = 0;
    for table in Table::ALL {
        let mut from = Vec::new();
        loop {
            let mut step: Vec<Row> = rows.step(table, &from, STEP)?;
            let Some((end, _)) = step.last() else { break };
            from = keys::after(end);
            if table == Table::Meta {
                let headers = step.extract_if(.., |(key, _)| key == header);
                last.extend(headers);
            }
            commit(&engine, table, &step, false)?;
            if table == Table::Tasks {
                tasks += step.len() as u64;
                engine_panic(tasks);
            }
        }
    }
    commit(&engine, Table::Meta, &last, true)?;
    engine.close()
}

fn commit(engine: &Engine, table: Table, rows: &[Row], sync: bool) -> Result<(), Error> {
    let mut edits = rows.iter().map(|(key, value)| (table, &key[..], Some(&value[..])));
    engine.load(&mut edits, sync).map_err(|error| Error::Io { what: error.why })
}

fn refuse_existing(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(exists(path)),
        Err(error) => Err(refused("look for", path, &error)),
    }
}

/// In the same directory, so that renaming is one step; of no other copy's.
fn exists(path: &Path) -> Error {
    Error::FileExists { path: path.display().to_string() }
}

fn partial_name(path: &Path, nonce: u64) -> PathBuf {
    let mut name: OsString = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{nonce:016x}.partial"));
    path.with_file_name(name)
}

fn refused(tried: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::Io { what: format!("cannot {tried} {}: {error}", path.display()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of several copies made under one name at once, the last wrote over the others.
    #[test]
    fn a_name_that_somebody_was_faster_to_take_stays_his() {
        let dir = tempfile::tempdir().unwrap();
        let (partial, path) = (dir.path().join("partial"), dir.path().join("copy"));
        for bytes in ["first", "second"] {
            std::fs::write(&partial, bytes).unwrap();
            let partial = Partial(partial.clone());
            let named = give_name(&partial.0, &path);
            let expected = if bytes == "first" { Ok(()) } else { Err(exists(&path)) };
            assert_eq!(named, expected);
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "first");
        assert!(!partial.exists());
    }
}
