//! Whether the path of a store still names its file, and whether that is as long as the store has made it.
//!
//! A file that is removed under its owner takes every write and loses it with the last descriptor; one that
//! another file has replaced is found by nobody. One that something else has cut off has lost what was there.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::platform::{Identity, identity, look_up};

/// The path of an open file.
#[derive(Debug)]
pub(super) struct NamedFile {
    path: PathBuf,
    identity: Identity,
    /// The length that the store has given it, and 0 while that is not known.
    length: AtomicU64,
    /// How many changes of the length were begun, and have ended. A look at the length counts only if none was
    /// under way.
    begun: AtomicU64,
    ended: AtomicU64,
}

/// What tells folders apart: a folder may have several paths.
#[cfg(unix)]
type Folder = Identity;
#[cfg(not(unix))]
type Folder = PathBuf;

impl NamedFile {
    /// The path of a file that was opened at `path`. Later links in it, and another working directory, change
    /// nothing: what counts is the file that the path named at open.
    pub(super) fn new(file: &File, path: &Path) -> io::Result<NamedFile> {
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
        Ok(NamedFile {
            path,
            identity: identity(&file.metadata()?),
            length: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
        })
    }

    /// Notes the length that the file has at open.
    pub(super) fn note_length(&self, length: u64) {
        self.length.store(length, Ordering::SeqCst);
    }

    /// Changes the length of the file.
    pub(super) fn resize(
        &self,
        length: u64,
        change: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<()> {
        self.begun.fetch_add(1, Ordering::SeqCst);
        let changed = change();
        self.length.store(if changed.is_ok() { length } else { 0 }, Ordering::SeqCst);
        self.ended.fetch_add(1, Ordering::SeqCst);
        changed
    }

    /// Whether this is the path of the file: the same name in the same folder, whether there is a file or not.
    pub(super) fn is_at(&self, path: &Path) -> bool {
        self.path.file_name() == path.file_name()
            && folder_of(path).is_some_and(|folder| Some(folder) == folder_of(&self.path))
    }

    /// Fails if the path names no file, or another one, or if the file is shorter than the store has made it. One
    /// that cannot be looked up may be there: a process may have given up the right to look.
    pub(super) fn check(&self) -> io::Result<()> {
        let ended = self.ended.load(Ordering::SeqCst);
        let length = self.length.load(Ordering::SeqCst);
        let what = match look_up(&self.path) {
            Ok((found, len)) if found == self.identity => {
                let is_resized = self.begun.load(Ordering::SeqCst) != ended;
                if is_resized || len >= length {
                    return Ok(());
                }
                "it was cut off"
            }
            Ok(_) => "another file has replaced it",
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(()),
            Err(_) => "it was removed or renamed",
        };
        Err(io::Error::other(format!(
            "{what} while it was open; put it back, or save what the store has with a backup to another path"
        )))
    }
}

/// The folder of a path, which may be relative.
fn folder_of(path: &Path) -> Option<Folder> {
    let folder = std::path::absolute(path).ok()?.parent()?.canonicalize().ok()?;
    #[cfg(unix)]
    let folder = identity(&folder.metadata().ok()?);
    Some(folder)
}
