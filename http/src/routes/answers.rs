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

use crate::options::Patience;
use crate::problem::{Answer, Problem};

/// The unit of their limit, in bytes.
const UNIT: usize = 1 << 10;
/// An answer up to this size counts for nothing: the buffers of its connection have it.
pub(super) const SMALL: usize = 64 << 10;
/// How many bytes of a large answer a client reads a second at least, beside its time.
const BYTES_PER_SECOND: u64 = 64 << 10;

/// The room for large answers.
#[derive(Clone)]
pub(super) struct Answers {
    left: Arc<Semaphore>,
    patience: Patience,
}

impl Answers {
    pub(super) fn new(patience: Patience) -> Answers {
        Answers { left: Arc::new(Semaphore::new(patience.answers / UNIT)), patience }
    }

    /// An answer with this value.
    pub(super) fn json(&self, status: StatusCode, value: &impl Serialize) -> Answer {
        self.text(status, JSON, written(value)?.into())
    }

    /// An answer with this text.
    pub(super) fn text(&self, status: StatusCode, kind: &'static str, text: Bytes) -> Answer {
        Ok((status, [(CONTENT_TYPE, kind)], self.body(text)?).into_response())
    }

    /// The body of an answer.
    pub(super) fn body(&self, text: Bytes) -> Answer<Body> {
        Ok(self.room(text.len())?.body(text))
    }

    /// Room for an answer of this size at most. One that is larger than all room gets the whole of it.
    pub(super) fn room(&self, bytes: usize) -> Answer<Room> {
        if bytes <= SMALL {
            return Ok(Room { permit: None, time: self.patience.unread });
        }
        let units = bytes.min(self.patience.answers) / UNIT;
        let units = u32::try_from(units).unwrap_or(u32::MAX);
        let Ok(permit) = self.left.clone().try_acquire_many_owned(units) else {
            let what = "other clients have not read their answers yet; try again later";
            return Err(Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what));
        };
        Ok(Room { permit: Some(permit), time: self.patience.unread })
    }
}

/// Room for an answer, which a change takes before it is made: what is made is not refused.
pub(super) struct Room {
    permit: Option<OwnedSemaphorePermit>,
    /// How long the client may take to read a large answer.
    time: Duration,
}

impl Room {
    /// An answer with this value.
    pub(super) fn json(self, status: StatusCode, value: &impl Serialize) -> Answer {
        Ok((status, [(CONTENT_TYPE, JSON)], self.body(written(value)?.into())).into_response())
    }

    fn body(self, text: Bytes) -> Body {
        match self.permit {
            Some(permit) => Body::new(Large::new(text, permit, self.time)),
            None => text.into(),
        }
    }
}

const JSON: &str = "application/json";

fn written(value: &impl Serialize) -> Answer<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| {
        let what = format!("writing the answer: {error}");
        Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "io", what)
    })
}

/// A large answer, which is given to the connection a part at a time.
struct Large {
    left: Bytes,
    late: Pin<Box<Sleep>>,
    _room: OwnedSemaphorePermit,
}

impl Large {
    fn new(left: Bytes, room: OwnedSemaphorePermit, time: Duration) -> Large {
        let time = time + Duration::from_secs(left.len() as u64 / BYTES_PER_SECOND);
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
        let answers = Answers::new(Patience::default());
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
