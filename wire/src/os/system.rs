//! The operating system.

use std::io;
use std::time::Instant;

pub(crate) use mio::net::{TcpListener, TcpStream};
#[cfg(unix)]
pub(crate) use mio::net::{UnixListener, UnixStream};
pub(crate) use mio::{Events, Poll, Registry, Waker};

/// Sockets that block.
pub(crate) mod blocking {
    pub(crate) use std::net::TcpStream;
    #[cfg(unix)]
    pub(crate) use std::os::unix::net::UnixStream;

    /// Makes a socket one that blocks.
    #[cfg(unix)]
    pub(crate) fn from_unix(stream: mio::net::UnixStream) -> std::io::Result<UnixStream> {
        let stream = UnixStream::from(stream);
        stream.set_nonblocking(false)?;
        Ok(stream)
    }
}

/// The user of the process that listens at the socket to which `stream` is connected.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn user_of_peer(stream: &blocking::UnixStream, _: &std::path::Path) -> io::Result<u32> {
    Ok(rustix::net::sockopt::socket_peercred(stream)?.uid.as_raw())
}

/// The user of the socket's file: std does not know that of the process.
#[cfg(all(unix, not(any(target_os = "linux", target_os = "android"))))]
pub(crate) fn user_of_peer(_: &blocking::UnixStream, path: &std::path::Path) -> io::Result<u32> {
    use std::os::unix::fs::MetadataExt;
    Ok(std::fs::metadata(path)?.uid())
}

/// Changes what is reported of a socket. Reports at once what it is ready for.
#[cfg(unix)]
pub(crate) fn reregister(
    registry: &Registry,
    socket: &impl std::os::fd::AsRawFd,
    token: mio::Token,
    interest: mio::Interest,
) -> io::Result<()> {
    registry.reregister(&mut mio::unix::SourceFd(&socket.as_raw_fd()), token, interest)
}

/// The operating system asks a silent peer whether it is there, which wakes no thread: after a minute, and then
/// every ten seconds, three times.
#[cfg(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple"
))]
pub(crate) fn keep_alive(socket: &TcpStream) -> io::Result<()> {
    use std::time::Duration;

    use rustix::net::sockopt::{
        set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl,
    };
    set_tcp_keepidle(socket, Duration::from_secs(60))?;
    set_tcp_keepintvl(socket, Duration::from_secs(10))?;
    set_tcp_keepcnt(socket, 3)?;
    Ok(set_socket_keepalive(socket, true)?)
}

/// Elsewhere a peer that has vanished is noticed by the next write.
#[cfg(not(any(
    target_os = "linux",
    target_os = "android",
    target_os = "freebsd",
    target_vendor = "apple"
)))]
#[expect(clippy::unnecessary_wraps, reason = "as elsewhere")]
pub(crate) fn keep_alive(_: &TcpStream) -> io::Result<()> {
    Ok(())
}

/// The monotonic time.
#[expect(clippy::disallowed_methods, reason = "the one place that reads the clock")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Fills `bytes` with random numbers.
pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(any(
        target_os = "linux",
        target_os = "android",
        target_os = "freebsd",
        target_vendor = "apple"
    ))]
    fn tcp_peer_that_has_vanished_is_noticed_after_90_seconds() {
        use rustix::net::sockopt::{socket_keepalive, tcp_keepcnt, tcp_keepidle, tcp_keepintvl};

        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let stream = super::TcpStream::from_std(stream);
        super::keep_alive(&stream).unwrap();
        assert!(socket_keepalive(&stream).unwrap());
        let (idle, interval) = (tcp_keepidle(&stream).unwrap(), tcp_keepintvl(&stream).unwrap());
        let noticed = idle + interval * tcp_keepcnt(&stream).unwrap();
        assert_eq!(noticed, std::time::Duration::from_secs(90));
    }
}
