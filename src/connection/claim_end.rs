//! The end of a claim whose store another process owns.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Wake, Waker};

use super::{Connection, RemotePromise, Request};
use crate::Error;
use crate::base::signal::Signal;
use crate::base::sync::Mutex;
use crate::core::ClaimKey;

/// Raises a signal when the owner has answered. It needs no thread: the answer wakes it.
struct Raise {
    connection: Weak<Connection>,
    key: ClaimKey,
    signal: Arc<Signal>,
    answer: Mutex<Option<RemotePromise<()>>>,
}

impl Connection {
    /// The signal that is raised when a claim ends, or when the connection is closed or refused for
    /// good. While there is no connection, whether the claim has ended is not known.
    pub(crate) fn claim_end(self: &Arc<Self>, key: ClaimKey) -> Arc<Signal> {
        let signal = Arc::new(Signal::default());
        let answer = Mutex::new(Some(self.request(&Request::ClaimEnd(key))));
        let connection = Arc::downgrade(self);
        Arc::new(Raise { connection, key, signal: signal.clone(), answer }).wake();
        signal
    }
}

impl Wake for Raise {
    fn wake(self: Arc<Self>) {
        let waker = Waker::from(self.clone());
        // Dropped after the lock: the end of the last handle fails the request, which wakes this.
        let connection = self.connection.upgrade();
        let mut answer = self.answer.lock();
        loop {
            let Some(promise) = &mut *answer else { return };
            let polled = Pin::new(promise).poll(&mut Context::from_waker(&waker));
            match (polled, &connection) {
                (Poll::Pending, _) => return,
                (Poll::Ready(Err(Error::NotConnected { .. })), Some(connection)) => {
                    *answer = Some(connection.request(&Request::ClaimEnd(self.key)));
                }
                (Poll::Ready(_), _) => break,
            }
        }
        *answer = None;
        drop(answer);
        self.signal.raise();
    }
}
