//! Whether the path of a store still names its file.
//!
//! A file that is removed under its owner takes every write and loses it with the last descriptor; one that
//! another file has replaced is found by nobody.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

/// The path of an open file.
#[derive(Debug)]
pub(super) struct NamedFile {
    path: PathBuf,
    identity: Identity,
}

/// Device and inode.
#[cfg(unix)]
type Identity = (u64, u64);
/// Only a missing file is noticed.
#[cfg(not(unix))]
type Identity = ();

impl NamedFile {
    /// The path of a file that was opened at `path`. Later links in it, and another working directory, change
    /// nothing: what counts is the file that the path named at open.
    pub(super) fn new(file: &File, path: &Path) -> io::Result<NamedFile> {
        let path = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path))?;
        Ok(NamedFile { path, identity: identity(&file.metadata()?) })
    }

    /// Fails if the path names no file, or another one. One that cannot be looked up may be there: a process
    /// may have given up the right to look.
    pub(super) fn check(&self) -> io::Result<()> {
        let what = match std::fs::metadata(&self.path) {
            Ok(found) if identity(&found) == self.identity => return Ok(()),
            Ok(_) => "another file has replaced it",
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                "it was removed or renamed"
            }
            Err(_) => return Ok(()),
        };
        Err(io::Error::other(format!(
            "{what} while it was open; put it back, or save what the store has with a backup to another path"
        )))
    }
}

#[cfg(unix)]
fn identity(file: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

#[cfg(not(unix))]
fn identity(_: &std::fs::Metadata) -> Identity {}
