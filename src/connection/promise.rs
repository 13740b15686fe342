//! Answers that come later.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tubewell_wire::Pending;

use super::into_error;
use crate::{Error, Result};

/// The answer of another process.
pub(crate) struct RemotePromise<T> {
    pending: Option<Pending>,
    read: Option<Read<T>>,
    /// It is called with the answer, and told whether that is an error. Its values are dropped with the promise.
    then: Option<Then>,
}

/// Reads an answer.
enum Read<T> {
    Plain(fn(&[u8]) -> Result<T>),
    Mapped(Mapped<T>),
}

type Then = Box<dyn FnOnce(bool) + Send + Sync>;

type Mapped<T> = Box<dyn FnOnce(&[u8]) -> Result<T> + Send + Sync>;

impl<T> Read<T> {
    fn run(self, answer: &[u8]) -> Result<T> {
        match self {
            Read::Plain(read) => read(answer),
            Read::Mapped(read) => read(answer),
        }
    }
}

impl<T> RemotePromise<T> {
    pub(super) fn new(pending: Pending, read: fn(&[u8]) -> Result<T>) -> RemotePromise<T> {
        RemotePromise { pending: Some(pending), read: Some(Read::Plain(read)), then: None }
    }

    /// Blocks until the answer is there.
    pub(crate) fn wait(mut self) -> Result<T> {
        let (Some(pending), Some(read)) = (self.pending.take(), self.read.take()) else {
            return Err(answered_already());
        };
        let answer = pending.wait().map_err(into_error).and_then(|answer| read.run(&answer));
        self.told(answer.is_err());
        answer
    }

    /// Does this with the answer, unless the promise is dropped before.
    pub(crate) fn then(&mut self, then: impl FnOnce(bool) + Send + Sync + 'static) {
        self.then = Some(Box::new(then));
    }

    fn told(&mut self, is_error: bool) {
        if let Some(then) = self.then.take() {
            then(is_error);
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.pending.as_ref().is_none_or(Pending::is_done)
    }
}

impl<T: 'static> RemotePromise<T> {
    pub(crate) fn map<U>(
        self,
        with: impl FnOnce(T) -> U + Send + Sync + 'static,
    ) -> RemotePromise<U> {
        let read = self.read.map(|read| -> Read<U> {
            match read {
                Read::Plain(read) => {
                    Read::Mapped(Box::new(move |answer: &[u8]| read(answer).map(with)))
                }
                Read::Mapped(read) => {
                    Read::Mapped(Box::new(move |answer: &[u8]| read(answer).map(with)))
                }
            }
        });
        RemotePromise { pending: self.pending, read, then: self.then }
    }
}

/// The error of a future that is polled again, or waited for, once it has returned its answer.
pub(crate) fn answered_already() -> Error {
    Error::invalid("the answer was returned already: do not poll a future that has ended again")
}

/// A promise pins none of its fields.
impl<T> Unpin for RemotePromise<T> {}

impl<T> Future for RemotePromise<T> {
    type Output = Result<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let promise = self.get_mut();
        let Some(pending) = &mut promise.pending else {
            return Poll::Ready(Err(answered_already()));
        };
        let Poll::Ready(answer) = pending.poll(context.waker()) else { return Poll::Pending };
        promise.pending = None;
        let Some(read) = promise.read.take() else {
            return Poll::Ready(Err(answered_already()));
        };
        let answer = answer.map_err(into_error).and_then(|answer| read.run(&answer));
        promise.told(answer.is_err());
        Poll::Ready(answer)
    }
}
