//! Sockets of both kinds.

use std::io::{self, Read, Write};
use std::net::Shutdown;

use crate::os::{Interest, Registry, TcpStream, Token, keep_alive};
#[cfg(unix)]
use crate::os::{UnixStream, reregister};
use crate::outbox::Chunk;

/// A connected socket, which never blocks.
#[derive(Debug)]
pub(crate) enum Socket {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// What came of writing.
#[derive(Debug)]
pub(crate) enum Written {
    /// All of it is written.
    All,
    /// The socket takes no more until it is writable.
    Blocked,
    /// The connection is broken.
    Broken(io::Error),
}

impl Socket {
    /// Reads what is there.
    pub(crate) fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = match self {
                #[cfg(unix)]
                Socket::Unix(socket) => (&mut &*socket).read(into),
                Socket::Tcp(socket) => (&mut &*socket).read(into),
            };
            match read {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    /// Writes as much of `chunk` as the socket takes.
    pub(crate) fn write(&self, chunk: &mut Chunk) -> Written {
        loop {
            let next = match chunk.next() {
                Ok([]) => return Written::All,
                Ok(next) => next,
                Err(error) => return Written::Broken(error),
            };
            let written = match self {
                #[cfg(unix)]
                Socket::Unix(socket) => (&mut &*socket).write(next),
                Socket::Tcp(socket) => (&mut &*socket).write(next),
            };
            match written {
                Ok(0) => return Written::Broken(io::ErrorKind::WriteZero.into()),
                Ok(bytes) => chunk.advance(bytes),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Written::Blocked,
                Err(error) => return Written::Broken(error),
            }
        }
    }

    /// Ends the connection in both directions. The reading thread of each side sees the end.
    pub(crate) fn shutdown(&self, how: Shutdown) {
        // A socket that is not connected any more needs no shutdown.
        let _ = match self {
            #[cfg(unix)]
            Socket::Unix(socket) => socket.shutdown(how),
            Socket::Tcp(socket) => socket.shutdown(how),
        };
    }

    /// Begins to report that the socket is readable.
    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        // Windows reports `writable` only after a write that would have blocked. Elsewhere it would be reported
        // each time the peer reads, which wakes the reading thread for nothing.
        let interest =
            if cfg!(unix) { Interest::READABLE } else { Interest::READABLE | Interest::WRITABLE };
        match self {
            #[cfg(unix)]
            Socket::Unix(socket) => registry.register(socket, token, interest),
            Socket::Tcp(socket) => registry.register(socket, token, interest),
        }
    }

    /// Begins, or ends, to report that the socket is writable. Reports at once if it is.
    #[cfg(unix)]
    pub(crate) fn report_writable(
        &self,
        registry: &Registry,
        token: Token,
        report: bool,
    ) -> io::Result<()> {
        let interest =
            if report { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        match self {
            Socket::Unix(socket) => reregister(registry, socket, token, interest),
            Socket::Tcp(socket) => reregister(registry, socket, token, interest),
        }
    }

    /// Does nothing: `writable` is reported since the socket was registered.
    #[cfg(not(unix))]
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as on unix")]
    pub(crate) fn report_writable(&self, _: &Registry, _: Token, _: bool) -> io::Result<()> {
        Ok(())
    }

    /// No delay of small writes, and an end of the connection if the machine of the peer has vanished. Unix
    /// sockets need neither.
    pub(crate) fn set_options(&self) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Socket::Unix(_) => Ok(()),
            Socket::Tcp(socket) => {
                socket.set_nodelay(true)?;
                keep_alive(socket)
            }
        }
    }
}

/// Whether a read that returned `read` of `room` bytes has left nothing in the socket.
///
/// A short read says so, except on Windows, where only a read that would have blocked arms the next report.
pub(crate) fn is_drained(read: usize, room: usize) -> bool {
    cfg!(unix) && read < room
}
