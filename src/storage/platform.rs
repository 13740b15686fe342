//! What differs between operating systems about files.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::Error;

/// Opens the file at `path` for reading and writing, creating it if it is missing.
pub(super) fn open_or_create(path: &Path) -> Result<File, Error> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| refused(path, &error))
}

/// Makes the directory entry of `path` itself safe from a power cut: flushing a file does not.
///
/// # Errors
/// The directory could not be opened or flushed.
#[cfg(unix)]
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    // Of a link, the entry that matters is the one of the file behind it.
    let path = std::fs::canonicalize(path)?;
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    match File::open(directory)?.sync_all() {
        // Some network and user-space file systems have nothing to flush a directory with.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Directory entries are journalled with the file here, and directories cannot be flushed.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn sync_directory_of(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Holds room for so many bytes behind the end of the file, whose length stays; gives up what was
/// held there for 0.
///
/// # Errors
/// There is no room, or the file system cannot do it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn hold_ballast(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let len = file.metadata()?.len();
    if bytes == 0 {
        // Cutting a file off where it ends lets go of all that it has beyond.
        return file.set_len(len);
    }
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, len, bytes)?)
}

/// Elsewhere a file has no room beyond its end.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn hold_ballast(_file: &File, _bytes: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Has the system forget what it keeps of the file in memory; what is dirty stays.
///
/// # Errors
/// The file system does not do that.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn drop_cache(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Elsewhere nothing is known of what a failed flush leaves in memory.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn drop_cache(_file: &File) -> io::Result<()> {
    Ok(())
}

/// How many bytes the file system has left for this process.
#[cfg(unix)]
pub(super) fn available(file: &File) -> io::Result<Option<u64>> {
    let about = rustix::fs::fstatvfs(file)?;
    Ok(Some(about.f_bavail.saturating_mul(about.f_frsize)))
}

/// How many bytes the file system has left is not known here.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn available(_file: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

fn refused(path: &Path, error: &io::Error) -> Error {
    let name = path.display();
    let what = match path.parent() {
        _ if path.is_dir() => format!("cannot open {name}: it is a directory, a store is one file"),
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            format!("cannot create {name}: its directory {} does not exist", parent.display())
        }
        _ => format!("cannot open {name} for reading and writing: {error}"),
    };
    Error::Io { what }
}
