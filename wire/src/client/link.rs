//! Makes a connection: the socket, and the hello with time-outs.

use std::io::{self, Read, Write};
use std::time::{Duration, Instant};

use super::greeting::Greeting;
use super::handler::Handler;
use super::options::ClientOptions;
use crate::input::Input;
use crate::limits::HELLO_BODY;
use crate::os::blocking::TcpStream;
#[cfg(unix)]
use crate::os::blocking::{self, UnixStream};
#[cfg(unix)]
use crate::os::unix_path::SocketPath;
use crate::secure::{Key, Sealer};
use crate::socket::Socket;
use crate::user_code::catch_panic;
use crate::{Address, WireError, clock, os};

/// A connection on which the server has accepted the client.
pub(crate) struct Link {
    pub(crate) socket: Socket,
    /// What has arrived behind the welcome.
    pub(crate) input: Input,
    /// Seals all that is sent.
    pub(crate) sealer: Option<Sealer>,
    /// The limits of the server.
    pub(crate) calls: usize,
    pub(crate) frame: usize,
}

/// A socket that blocks, with a deadline.
enum Stream {
    #[cfg(unix)]
    Unix(UnixStream),
    Tcp(TcpStream),
}

/// Connects, and is done or fails before `deadline`.
pub(crate) fn open(
    address: &Address,
    options: &ClientOptions,
    handler: &dyn Handler,
    deadline: Instant,
) -> Result<Link, WireError> {
    let secret = options.secret.as_deref().filter(|secret| !secret.is_empty());
    if matches!(address, Address::Tcp(_)) && secret.is_none() {
        return Err(WireError::SecretNeeded { address: address.clone() });
    }
    let refused = |why: &str| WireError::Refused {
        address: address.clone(),
        why: why.to_owned(),
        temporary: false,
    };
    let hello = catch_panic(|| handler.hello()).map_err(|_| refused("the handler has panicked"))?;
    if hello.len() > HELLO_BODY {
        return Err(refused("the hello is longer than 64 KiB"));
    }
    let stream = connect(address, options.trusted_user, deadline)?;
    let mut out = Vec::new();
    let longest = u32::try_from(options.limits.frame).unwrap_or(u32::MAX);
    let key = secret.map(Key::of);
    let mut greeting = Greeting::new(address, key.as_ref(), longest, &hello, &mut out)?;
    let mut bytes = vec![0; 4096];
    let accepted = loop {
        // A server that refuses may have closed the connection already: its refusal can still be read.
        let wrote = stream.write(&out, deadline);
        out.clear();
        let read = stream.read(&mut bytes, deadline);
        let read = match (read, wrote) {
            (Ok(0) | Err(_), Err(error)) => Err(error),
            (Ok(0), Ok(())) => Err(io::ErrorKind::UnexpectedEof.into()),
            (read, _) => read,
        };
        let read = read.map_err(WireError::io("connect to", address))?;
        greeting.input.add(bytes.get(..read).unwrap_or_default());
        if let Some(accepted) = greeting.next(&mut out)? {
            break accepted;
        }
    };
    let welcome = catch_panic(|| handler.welcome(&accepted.application));
    welcome
        .unwrap_or_else(|_| Err("the handler has panicked".to_owned()))
        .map_err(|why| refused(&why))?;
    let socket = stream.into_socket().map_err(WireError::io("connect to", address))?;
    let Greeting { input, sealer, .. } = greeting;
    Ok(Link { socket, input, sealer, calls: accepted.calls, frame: accepted.frame })
}

fn connect(
    address: &Address,
    trusted_user: Option<u32>,
    deadline: Instant,
) -> Result<Stream, WireError> {
    let failed = WireError::io("connect to", address);
    match address {
        #[cfg(unix)]
        Address::Unix(path) => {
            let stream = connect_unix(path, deadline).map_err(failed)?;
            check_peer(&stream, path, address, trusted_user)?;
            Ok(Stream::Unix(stream))
        }
        #[cfg(not(unix))]
        Address::Unix(_) => Err(WireError::UnixUnsupported),
        Address::Tcp(socket) => {
            let stream = left(deadline).and_then(|left| TcpStream::connect_timeout(socket, left));
            Ok(Stream::Tcp(stream.map_err(failed)?))
        }
    }
}

/// Checks that the process that listens is one of this user, of root or of `trusted_user`. The path says
/// nothing about that: a link in it may be one of any user. Nothing was sent before.
#[cfg(unix)]
fn check_peer(
    stream: &UnixStream,
    path: &std::path::Path,
    address: &Address,
    trusted_user: Option<u32>,
) -> Result<(), WireError> {
    let owner = os::user_of_peer(stream, path).map_err(WireError::io("connect to", address))?;
    let is_named = trusted_user == Some(owner);
    if is_named || is_trusted(owner, rustix::process::geteuid().as_raw()) {
        return Ok(());
    }
    Err(WireError::WrongOwner { address: address.clone(), owner })
}

/// Whether a process of the effective user `user` may connect to a server of `owner`: it is the same
/// user, or root.
#[cfg(unix)]
fn is_trusted(owner: u32, user: u32) -> bool {
    owner == user || owner == 0
}

#[cfg(unix)]
fn connect_unix(path: &std::path::Path, deadline: Instant) -> io::Result<UnixStream> {
    /// How long to wait for room in the queue of a server that has not accepted yet.
    const AGAIN: Duration = Duration::from_millis(5);
    let path = SocketPath::of(path)?;
    loop {
        // It does not block, which the one of std may do without end.
        match os::UnixStream::connect(path.as_path()) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                let left = left(deadline).map_err(|_| queue_is_full())?;
                crate::sync::thread::park_timeout(left.min(AGAIN));
            }
            Err(error) => return Err(error),
            Ok(stream) => return blocking::from_unix(stream),
        }
    }
}

#[cfg(unix)]
fn queue_is_full() -> io::Error {
    let why = "its queue of connections is full: the process that serves there is stopped or hangs; \
               continue or end it";
    io::Error::new(io::ErrorKind::TimedOut, why)
}

/// What is left until `deadline`, which is not zero.
fn left(deadline: Instant) -> io::Result<Duration> {
    let left = clock::left(deadline);
    if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { Ok(left) }
}

/// What is left to read until `deadline`. This thread may have been stopped until then, so what has arrived is read
/// even later: that ends, since the welcome has a limit.
fn left_to_read(deadline: Instant) -> Duration {
    clock::left(deadline).max(Duration::from_millis(1))
}

impl Stream {
    fn write(&self, mut bytes: &[u8], deadline: Instant) -> io::Result<()> {
        while !bytes.is_empty() {
            let timeout = Some(left(deadline)?);
            let written = match self {
                #[cfg(unix)]
                Stream::Unix(stream) => {
                    stream.set_write_timeout(timeout)?;
                    (&mut &*stream).write(bytes)
                }
                Stream::Tcp(stream) => {
                    stream.set_write_timeout(timeout)?;
                    (&mut &*stream).write(bytes)
                }
            };
            match written.map_err(timed_out) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn read(&self, into: &mut [u8], deadline: Instant) -> io::Result<usize> {
        loop {
            let timeout = Some(left_to_read(deadline));
            let read = match self {
                #[cfg(unix)]
                Stream::Unix(stream) => {
                    stream.set_read_timeout(timeout)?;
                    (&mut &*stream).read(into)
                }
                Stream::Tcp(stream) => {
                    stream.set_read_timeout(timeout)?;
                    (&mut &*stream).read(into)
                }
            };
            match read.map_err(timed_out) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn into_socket(self) -> io::Result<Socket> {
        let socket = match self {
            #[cfg(unix)]
            Stream::Unix(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Unix(os::UnixStream::from_std(stream))
            }
            Stream::Tcp(stream) => {
                stream.set_nonblocking(true)?;
                Socket::Tcp(os::TcpStream::from_std(stream))
            }
        };
        socket.set_options()?;
        Ok(socket)
    }
}

/// The systems disagree on the error of a time-out.
fn timed_out(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { io::ErrorKind::TimedOut.into() } else { error }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_of_this_user_and_of_root_are_trusted() {
        for (owner, user, expected) in [
            (1000, 1000, true),
            (0, 1000, true),
            (0, 0, true),
            (1001, 1000, false),
            (1000, 0, false),
            (u32::MAX, 1000, false),
        ] {
            assert_eq!(is_trusted(owner, user), expected, "owner {owner}, user {user}");
        }
    }
}
