//! Answers, and how much of them the server may hold for clients that do not read them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use http_body::{Frame, SizeHint};
use serde::Serialize;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, Sleep, sleep_until};

use crate::problem::{Answer, Problem};

/// The maximum size of all large answers at a time, in bytes.
const HELD: usize = 256 << 20;
/// The unit of their limit, in bytes.
const UNIT: usize = 1 << 10;
/// An answer up to this size counts for nothing: the buffers of its connection have it.
pub(super) const SMALL: usize = 64 << 10;
/// How long a client may take to read a large answer, and how many bytes it reads a second at least beside that.
const TIME: Duration = Duration::from_secs(30);
const BYTES_PER_SECOND: u64 = 64 << 10;

/// The room for large answers.
#[derive(Clone)]
pub(super) struct Answers(Arc<Semaphore>);

impl Answers {
    pub(super) fn new() -> Answers {
        Answers(Arc::new(Semaphore::new(HELD / UNIT)))
    }

    /// An answer with this value.
    pub(super) fn json(&self, status: StatusCode, value: &impl Serialize) -> Answer {
        let text = serde_json::to_vec(value).map_err(|error| {
            let what = format!("writing the answer: {error}");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "io", what)
        })?;
        self.text(status, "application/json", text.into())
    }

    /// An answer with this text.
    pub(super) fn text(&self, status: StatusCode, kind: &'static str, text: Bytes) -> Answer {
        Ok((status, [(CONTENT_TYPE, kind)], self.body(text)?).into_response())
    }

    /// The body of an answer. One that is larger than all room gets the whole of it.
    pub(super) fn body(&self, text: Bytes) -> Answer<Body> {
        if text.len() <= SMALL {
            return Ok(text.into());
        }
        let room = u32::try_from((text.len() / UNIT).min(HELD / UNIT)).unwrap_or(u32::MAX);
        let Ok(room) = self.0.clone().try_acquire_many_owned(room) else {
            let what = "other clients have not read their answers yet; try again later";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what));
        };
        Ok(Body::new(Large::new(text, room)))
    }
}

/// A large answer, which is given to the connection a part at a time.
struct Large {
    left: Bytes,
    late: Pin<Box<Sleep>>,
    _room: OwnedSemaphorePermit,
}

impl Large {
    fn new(left: Bytes, room: OwnedSemaphorePermit) -> Large {
        let time = TIME + Duration::from_secs(left.len() as u64 / BYTES_PER_SECOND);
        Large { left, late: Box::pin(sleep_until(Instant::now() + time)), _room: room }
    }
}

impl http_body::Body for Large {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.late.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())));
        }
        let length = self.left.len().min(SMALL);
        let part = self.left.split_to(length);
        Poll::Ready((length > 0).then(|| Ok(Frame::data(part))))
    }

    fn is_end_stream(&self) -> bool {
        self.left.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left.len() as u64)
    }
}

/// An answer without content.
pub(super) fn done() -> Response {
    StatusCode::NO_CONTENT.into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_are_not_read_are_limited() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let _entered = runtime.enter();
        let answers = Answers::new();
        let answer =
            |bytes: usize| answers.text(StatusCode::OK, "text/plain", vec![0; bytes].into());
        let first = answer(200 << 20).unwrap();
        assert!(answer(100 << 20).is_err());
        assert!(answer(SMALL).is_ok());
        drop(first);
        let whole = answer(300 << 20).unwrap();
        assert!(answer(SMALL + UNIT).is_err());
        drop(whole);
        assert!(answer(100 << 20).is_ok());
    }
}
