//! What files need of the operating system, which differs between systems, and paths that must be free.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;

use crate::Error;

/// Opens the file at `path` for reading and writing, creating it with this mode if it is missing.
pub(super) fn open_or_create(path: &Path, mode: u32) -> Result<File, Error> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    set_mode(&mut options, mode);
    options.open(path).map_err(|error| open_error(path, &error))
}

/// Fails if there is anything at a path, be it a link that leads nowhere.
pub(super) fn refuse_existing(path: &Path) -> Result<(), Error> {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Ok(_) => Err(exists(path)),
        Err(error) => {
            Err(Error::Io { what: format!("cannot look for {}: {error}", path.display()) })
        }
    }
}

pub(super) fn exists(path: &Path) -> Error {
    Error::FileExists { path: path.display().to_string() }
}

#[cfg(unix)]
fn set_mode(options: &mut OpenOptions, mode: u32) {
    use std::os::unix::fs::OpenOptionsExt;
    options.mode(mode);
}

#[cfg(not(unix))]
fn set_mode(_options: &mut OpenOptions, _mode: u32) {}

/// Flushes the directory entry of `path`, which flushing the file does not do.
///
/// # Errors
/// The directory could not be opened or flushed.
#[cfg(unix)]
pub(super) fn sync_directory_of(path: &Path) -> io::Result<()> {
    // If the path is a link, the entry of its target must be flushed.
    let path = std::fs::canonicalize(path)?;
    let Some(directory) = path.parent() else {
        return Ok(());
    };
    match File::open(directory)?.sync_all() {
        // Some network and user-space file systems cannot flush a directory.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::InvalidInput | io::ErrorKind::Unsupported) =>
        {
            Ok(())
        }
        outcome => outcome,
    }
}

/// Does nothing: directory entries are journalled with the file, and cannot be flushed.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn sync_directory_of(_path: &Path) -> io::Result<()> {
    Ok(())
}

/// Opens a file that is open once more, for a second open file description of it. `None` if the
/// system cannot.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn open_again(file: &File) -> Option<File> {
    use std::os::fd::AsRawFd;
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    OpenOptions::new().read(true).write(true).open(path).ok()
}

/// `None`: other systems report a failed flush in other ways, so flushes take turns.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn open_again(_file: &File) -> Option<File> {
    None
}

/// Reserves `bytes` bytes of disk space behind the end of the file, whose length stays the same; 0
/// releases them.
///
/// # Errors
/// There is not enough space, or the file system cannot reserve it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn hold_ballast(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    let len = file.metadata()?.len();
    if bytes == 0 {
        // Truncating a file at its own length frees the blocks beyond its end.
        return file.set_len(len);
    }
    Ok(fallocate(file, FallocateFlags::KEEP_SIZE, len, bytes)?)
}

/// Fails: a file cannot reserve space beyond its end on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn hold_ballast(_file: &File, _bytes: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Drops the file's clean pages from the page cache; dirty pages stay.
///
/// # Errors
/// The file system does not support it.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn drop_cache(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// Does nothing: what a failed flush leaves in the page cache is unknown on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn drop_cache(_file: &File) -> io::Result<()> {
    Ok(())
}

/// What the offset, the length and the address of a read with `O_DIRECT` must be multiples of: no
/// device has larger logical blocks.
#[cfg(any(target_os = "linux", target_os = "android"))]
const DIRECT_ALIGN: usize = 4096;

/// Fills `out` from the device, not from the page cache. Returns false if the file system cannot.
///
/// # Errors
/// The device cannot be read, or the file ends before `out` is full.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn read_from_disk(file: &File, offset: u64, out: &mut [u8]) -> io::Result<bool> {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).map_err(io::Error::other)?;
    let Ok(direct) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
        return Ok(false);
    };
    let align = DIRECT_ALIGN as u64;
    let start = offset - offset % align;
    let skipped = usize::try_from(offset - start).map_err(io::Error::other)?;
    let len = (skipped + out.len()).next_multiple_of(DIRECT_ALIGN);
    let mut buffer = vec![0; len + DIRECT_ALIGN];
    let begin = buffer.as_ptr().align_offset(DIRECT_ALIGN).min(DIRECT_ALIGN);
    let aligned = &mut buffer[begin..begin + len];
    let mut found = 0;
    while found < skipped + out.len() {
        match direct.read_at(&mut aligned[found..], start + found as u64) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => found += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    out.copy_from_slice(&aligned[skipped..skipped + out.len()]);
    Ok(true)
}

/// False: the page cache cannot be bypassed on this platform.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn read_from_disk(_file: &File, _offset: u64, _out: &mut [u8]) -> io::Result<bool> {
    Ok(false)
}

/// The free space of the file system for this process, in bytes.
#[cfg(unix)]
pub(super) fn available(file: &File) -> io::Result<Option<u64>> {
    let about = rustix::fs::fstatvfs(file)?;
    Ok(Some(about.f_bavail.saturating_mul(about.f_frsize)))
}

/// `None`: the free space is unknown on this platform.
#[cfg(not(unix))]
#[allow(clippy::unnecessary_wraps, reason = "the other platforms can fail")]
pub(super) fn available(_file: &File) -> io::Result<Option<u64>> {
    Ok(None)
}

fn open_error(path: &Path, error: &io::Error) -> Error {
    let name = path.display();
    let what = match path.parent() {
        _ if path.is_dir() => {
            format!("cannot open {name}: it is a directory; name a file, a store is one file")
        }
        Some(parent) if !parent.as_os_str().is_empty() && !parent.exists() => {
            let parent = parent.display();
            format!("cannot create {name}: its directory {parent} does not exist; create it first")
        }
        _ => format!("cannot open {name} for reading and writing: {error}"),
    };
    Error::Io { what }
}

/// Device and inode.
#[cfg(unix)]
pub(super) type Identity = (u64, u64);
/// Only a missing file is noticed.
#[cfg(not(unix))]
pub(super) type Identity = ();

#[cfg(unix)]
pub(super) fn identity(file: &std::fs::Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt;
    (file.dev(), file.ino())
}

#[cfg(not(unix))]
pub(super) fn identity(_: &std::fs::Metadata) -> Identity {}

/// The file that a path names now, and its length. The times of the file are not asked for: since Linux 6.13 the
/// first write after each look at them changes them, and the next flush pays for that (some 50 µs on ext4).
/// <https://docs.kernel.org/filesystems/multigrain-ts.html>
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn look_up(path: &Path) -> io::Result<(Identity, u64)> {
    use rustix::fs::{AtFlags, CWD, StatxFlags, makedev, statx};

    match statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::SIZE) {
        Ok(found) => {
            let device = makedev(found.stx_dev_major, found.stx_dev_minor);
            Ok(((device, found.stx_ino), found.stx_size))
        }
        // Before Linux 4.11, and in sandboxes that do not know it.
        Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => look_up_with_times(path),
        Err(error) => Err(error.into()),
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) use look_up_with_times as look_up;

pub(super) fn look_up_with_times(path: &Path) -> io::Result<(Identity, u64)> {
    std::fs::metadata(path).map(|found| (identity(&found), found.len()))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn look_up_finds_the_file_and_the_length_that_its_metadata_have() -> io::Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        for length in [0, 4097] {
            file.as_file().set_len(length)?;
            assert_eq!(look_up(file.path())?, (identity(&file.as_file().metadata()?), length));
        }
        let path = file.path().to_owned();
        drop(file);
        assert_eq!(look_up(&path).map_err(|error| error.kind()), Err(io::ErrorKind::NotFound));
        Ok(())
    }
}
