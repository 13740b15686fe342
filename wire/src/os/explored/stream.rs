//! Sockets, with the interface of those of mio and std. Those that block and those that do not are one type.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, Read, Write};
use std::marker::PhantomData;
use std::net::{Shutdown, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::kernel::{Id, Kernel, seldom};
use super::poll::Source;

/// A connected socket.
pub(crate) type TcpStream = Stream<Tcp>;

/// There is none: its file is not modelled.
pub(crate) type UnixStream = Stream<Unix>;

/// The kinds of sockets.
pub(crate) struct Tcp;
pub(crate) struct Unix;

/// A connected socket of some kind.
pub(crate) struct Stream<K> {
    kernel: Arc<Kernel>,
    id: Id,
    kind: PhantomData<K>,
    /// Of std, since calls that only set it are no steps of the explorer.
    blocking: Mutex<Blocking>,
}

/// Whether calls block, and how long at most.
#[derive(Clone, Copy, Debug)]
struct Blocking {
    blocks: bool,
    read: Option<Duration>,
    write: Option<Duration>,
}

impl<K> fmt::Debug for Stream<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("id", &self.id).finish_non_exhaustive()
    }
}

impl TcpStream {
    /// A connection is there at once, or refused.
    pub(crate) fn connect_timeout(address: &SocketAddr, _: Duration) -> io::Result<TcpStream> {
        let kernel = Kernel::current();
        let id = kernel.call(|state| state.connect(*address))?;
        Ok(Stream::new(kernel, id, true))
    }

    /// Nothing is delayed here.
    #[expect(clippy::unused_self, clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn set_nodelay(&self, _: bool) -> io::Result<()> {
        Ok(())
    }
}

impl UnixStream {
    pub(crate) fn connect(_: &Path) -> io::Result<UnixStream> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

impl<K> Stream<K> {
    fn new(kernel: Arc<Kernel>, id: Id, blocks: bool) -> Stream<K> {
        let blocking = Mutex::new(Blocking { blocks, read: None, write: None });
        Stream { kernel, id, kind: PhantomData, blocking }
    }

    fn set<T>(&self, set: impl FnOnce(&mut Blocking) -> T) -> T {
        set(&mut self.blocking.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn from_std(stream: Stream<K>) -> Stream<K> {
        stream
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn set_nonblocking(&self, is_set: bool) -> io::Result<()> {
        self.set(|blocking| blocking.blocks = !is_set);
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn set_read_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        self.set(|blocking| blocking.read = most);
        Ok(())
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn set_write_timeout(&self, most: Option<Duration>) -> io::Result<()> {
        self.set(|blocking| blocking.write = most);
        Ok(())
    }

    pub(crate) fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.kernel.call(|state| state.shutdown(self.id, how))
    }
}

impl<K> Read for &Stream<K> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if seldom() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let blocking = self.set(|blocking| *blocking);
        if !blocking.blocks {
            return self.kernel.call(|state| state.read(self.id, into));
        }
        let read =
            self.kernel.wait(blocking.read, |state| unless_blocked(state.read(self.id, into)));
        read.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }
}

impl<K> Write for &Stream<K> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if seldom() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let blocking = self.set(|blocking| *blocking);
        if !blocking.blocks {
            return self.kernel.call(|state| state.write(self.id, bytes));
        }
        let write =
            self.kernel.wait(blocking.write, |state| unless_blocked(state.write(self.id, bytes)));
        write.unwrap_or_else(|| Err(io::ErrorKind::WouldBlock.into()))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<K> Source for Stream<K> {
    fn id(&self) -> Id {
        self.id
    }
}

impl<K> Drop for Stream<K> {
    fn drop(&mut self) {
        self.kernel.call(|state| state.close(self.id));
    }
}

/// `None`: the call blocks.
fn unless_blocked(answer: io::Result<usize>) -> Option<io::Result<usize>> {
    match answer {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
        answer => Some(answer),
    }
}

/// Makes a socket one that blocks.
pub(crate) fn from_unix(stream: UnixStream) -> io::Result<UnixStream> {
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// A listening socket.
pub(crate) struct TcpListener {
    kernel: Arc<Kernel>,
    id: Id,
    address: SocketAddr,
}

impl TcpListener {
    pub(crate) fn bind(address: SocketAddr) -> io::Result<TcpListener> {
        let kernel = Kernel::current();
        let (id, address) = kernel.call(|state| state.listen(address))?;
        Ok(TcpListener { kernel, id, address })
    }

    #[expect(clippy::unnecessary_wraps, reason = "as the real one")]
    pub(crate) fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.address)
    }

    pub(crate) fn accept(&self) -> io::Result<(TcpStream, ())> {
        if seldom() {
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let id = self.kernel.call(|state| state.accept(self.id))?;
        Ok((Stream::new(self.kernel.clone(), id, false), ()))
    }
}

impl Source for TcpListener {
    fn id(&self) -> Id {
        self.id
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        self.kernel.call(|state| state.close(self.id));
    }
}

/// There is none: its file is not modelled.
pub(crate) struct UnixListener(Infallible);

impl UnixListener {
    pub(crate) fn bind(_: &Path) -> io::Result<UnixListener> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub(crate) fn accept(&self) -> io::Result<(UnixStream, ())> {
        match self.0 {}
    }
}

impl Source for UnixListener {
    fn id(&self) -> Id {
        match self.0 {}
    }
}
