//! The connection to a client, which its calls can watch.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// How often a client is looked at that has sent more than the server reads now.
const LOOK: Duration = Duration::from_secs(1);

/// A client, for its calls.
#[derive(Clone)]
pub(crate) struct Peer(Arc<TcpStream>);

/// The bytes of a connection.
pub(crate) struct PeerStream {
    stream: Arc<TcpStream>,
    /// How long a client may leave an answer unread.
    patience: Duration,
    /// Runs while a write waits.
    late: Option<Pin<Box<Sleep>>>,
}

impl Peer {
    pub(crate) fn new(stream: TcpStream, patience: Duration) -> (Peer, PeerStream) {
        let stream = Arc::new(stream);
        (Peer(stream.clone()), PeerStream { stream, patience, late: None })
    }

    /// Returns once the client has ended the connection.
    ///
    /// The server notices this by itself while it has read all that the client has sent. Bytes behind the call that
    /// waits, such as those of another call, would hide it.
    pub(crate) async fn gone(&self) {
        loop {
            match self.0.ready(Interest::READABLE).await {
                Ok(ready) if !ready.is_read_closed() => sleep(LOOK).await,
                _ => return,
            }
        }
    }
}

impl AsyncRead for PeerStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            ready!(self.stream.poll_read_ready(context))?;
            match self.stream.try_read(buffer.initialize_unfilled()) {
                Ok(count) => {
                    buffer.advance(count);
                    return Poll::Ready(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
    }
}

impl AsyncWrite for PeerStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        loop {
            if self.stream.poll_write_ready(context)?.is_pending() {
                let patience = self.patience;
                let late = self.late.get_or_insert_with(|| Box::pin(sleep(patience)));
                return late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()));
            }
            match self.stream.try_write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                written => {
                    self.late = None;
                    return Poll::Ready(written);
                }
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        #[cfg(unix)]
        rustix::net::shutdown(&*self.stream, rustix::net::Shutdown::Write)?;
        Poll::Ready(Ok(()))
    }
}
