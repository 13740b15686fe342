//! The end of a claim whose store another process owns.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use super::{Connection, RemotePromise, Request};
use crate::core::ClaimKey;
use crate::signal::Signal;
use crate::sync::Mutex;

/// Raises a signal when the owner has answered. It needs no thread: the answer wakes it.
struct Raise {
    signal: Arc<Signal>,
    answer: Mutex<Option<RemotePromise<()>>>,
}

impl Connection {
    /// The signal that is raised when a claim ends, or when that can no longer be known.
    pub(crate) fn claim_end(&self, key: ClaimKey) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let answer = Mutex::new(Some(self.request(&Request::ClaimEnd(key))));
        Arc::new(Raise { signal: signal.clone(), answer }).wake();
        signal
    }
}

impl Wake for Raise {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        let mut answer = self.answer.lock();
        let Some(promise) = &mut *answer else { return };
        if Pin::new(promise).poll(&mut Context::from_waker(&waker)) == Poll::Pending {
            return;
        }
        *answer = None;
        drop(answer);
        self.signal.raise();
    }
}
