//! Answers that are made while they are sent, on a thread of their own.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_core::Stream;
use http_body::{Frame, SizeHint};
use tokio::sync::mpsc;
use tokio::time::{Instant, Sleep, sleep, sleep_until};
use utoipa::ToSchema;

/// How many parts wait for a client.
const WAITING: usize = 2;
/// After how long without a part a comment is sent, so that a client that is gone is noticed.
const COMMENT: Duration = Duration::from_secs(15);

/// A server-sent event, as the description of the calls has it.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its description is used")]
pub(super) struct Message {
    /// What it is; a message without it has the only kind that there is.
    #[schema(nullable = false)]
    event: Option<String>,
    /// JSON.
    data: String,
    #[schema(nullable = false)]
    id: Option<String>,
}

/// Where the parts come from.
pub(super) type Parts = mpsc::Sender<Bytes>;

/// Parts that come one after the other. A sender fails once the client has gone.
pub(super) fn parts() -> (Parts, mpsc::Receiver<Bytes>) {
    mpsc::channel(WAITING)
}

/// A content whose length is known, and when it must have been read.
pub(super) struct Sized {
    parts: mpsc::Receiver<Bytes>,
    left: u64,
    late: Pin<Box<Sleep>>,
}

impl Sized {
    pub(super) fn body(parts: mpsc::Receiver<Bytes>, length: u64, time: Duration) -> Body {
        let late = Box::pin(sleep_until(Instant::now() + time));
        Body::new(Sized { parts, left: length, late })
    }
}

impl http_body::Body for Sized {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        if self.left == 0 {
            return Poll::Ready(None);
        }
        let part = ready!(self.parts.poll_recv(context)).filter(|part| !part.is_empty());
        Poll::Ready(Some(match part {
            Some(part) => {
                self.left = self.left.saturating_sub(part.len() as u64);
                Ok(Frame::data(part))
            }
            None => Err(io::ErrorKind::UnexpectedEof.into()),
        }))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Server-sent events, with comments while none comes.
pub(super) struct Messages {
    parts: mpsc::Receiver<Bytes>,
    stopped: Pin<Box<dyn Future<Output = ()> + Send>>,
    silence: Pin<Box<Sleep>>,
}

impl Messages {
    /// They end, too, when the server stops.
    pub(super) fn body(
        parts: mpsc::Receiver<Bytes>,
        stopped: impl Future<Output = ()> + Send + 'static,
    ) -> Body {
        let (stopped, silence) = (Box::pin(stopped), Box::pin(sleep(COMMENT)));
        Body::from_stream(Messages { parts, stopped, silence })
    }
}

impl Stream for Messages {
    type Item = Result<Bytes, Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.stopped.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        let part = match self.parts.poll_recv(context) {
            Poll::Ready(Some(part)) => part,
            Poll::Ready(None) => return Poll::Ready(None),
            Poll::Pending => {
                ready!(self.silence.as_mut().poll(context));
                Bytes::from_static(b":\n\n")
            }
        };
        self.silence.set(sleep(COMMENT));
        Poll::Ready(Some(Ok(part)))
    }
}
