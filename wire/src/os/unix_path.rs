//! Paths of unix sockets, which may be longer than the operating system takes in an address.

use std::io;
use std::path::{Path, PathBuf};

use rustix::fd::OwnedFd;

use crate::os::UnixStream;

/// The most bytes of a path in the address of a unix socket. One of them ends it.
const LONGEST: usize =
    if cfg!(any(target_os = "linux", target_os = "android")) { 107 } else { 103 };

/// A path that fits into the address of a socket, for as long as this lives.
pub(crate) struct SocketPath {
    path: PathBuf,
    /// What the path goes through, if it would be too long otherwise.
    _open: Option<OwnedFd>,
}

impl SocketPath {
    /// The path of a socket that exists.
    pub(crate) fn of(socket: &Path) -> io::Result<SocketPath> {
        if fits(socket) {
            return Ok(SocketPath { path: socket.to_owned(), _open: None });
        }
        through(socket)
    }

    /// The path of a socket that will be in this folder.
    pub(crate) fn in_folder(folder: &Path, name: &str) -> io::Result<SocketPath> {
        let path = folder.join(name);
        if fits(&path) {
            return Ok(SocketPath { path, _open: None });
        }
        let SocketPath { path, _open: open } = through(folder)?;
        Ok(SocketPath { path: path.join(name), _open: open })
    }

    pub(crate) fn as_path(&self) -> &Path {
        &self.path
    }
}

/// Whether a process listens at a unix socket. Does not block.
#[must_use]
pub fn is_listening(socket: &Path) -> bool {
    has_listener(socket).unwrap_or(false)
}

/// As `is_listening`, with why that cannot be said.
pub(crate) fn has_listener(socket: &Path) -> io::Result<bool> {
    match SocketPath::of(socket).and_then(|socket| UnixStream::connect(socket.as_path())) {
        Ok(_) => Ok(true),
        Err(error) => match error.kind() {
            // Its queue of connections is full.
            io::ErrorKind::WouldBlock => Ok(true),
            io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => Ok(false),
            _ => Err(error),
        },
    }
}

fn fits(path: &Path) -> bool {
    path.as_os_str().len() <= LONGEST
}

/// A short path of what has a long one: by an open descriptor of it.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn through(long: &Path) -> io::Result<SocketPath> {
    use std::os::fd::AsRawFd;

    use rustix::fs::{Mode, OFlags, open};

    const DESCRIPTORS: &str = "/proc/self/fd";
    if !Path::new(DESCRIPTORS).is_dir() {
        return Err(too_long(long));
    }
    let open = open(long, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
    let path = Path::new(DESCRIPTORS).join(open.as_raw_fd().to_string());
    Ok(SocketPath { path, _open: Some(open) })
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn through(long: &Path) -> io::Result<SocketPath> {
    Err(too_long(long))
}

fn too_long(path: &Path) -> io::Error {
    let length = path.as_os_str().len();
    io::Error::new(
        io::ErrorKind::InvalidInput,
        format!(
            "the path of the socket is too long: it needs {length} bytes, and this system takes {LONGEST}; \
             use a shorter one"
        ),
    )
}
