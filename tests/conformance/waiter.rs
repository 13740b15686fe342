//! Waiting takes, polled without a thread.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use tubewell::{AsyncClaim, Error, Task, Ticket, Tube};

use super::executor::WakeFlag;

/// A waiting take in a session of its own. The session and its claim last as long as the waiter.
pub struct Waiter {
    _tube: Tube,
    future: Option<Pin<Box<Ticket<Option<AsyncClaim>>>>>,
    woken: Arc<WakeFlag>,
    answer: Option<Result<Option<Task>, Error>>,
}

impl Waiter {
    /// Begins the take.
    pub fn new(tube: Tube, timeout: Duration) -> Waiter {
        let mut waiter = Waiter {
            future: Some(Box::pin(tube.to_async().take_timeout(timeout))),
            _tube: tube,
            woken: WakeFlag::raised(),
            answer: None,
        };
        waiter.poll_if_woken();
        waiter
    }

    /// The answer, or `None` if the take is still waiting.
    pub fn answer(&self) -> Result<Option<Task>, Error> {
        self.answer.clone().unwrap_or(Ok(None))
    }

    /// Waits until the take has its answer, which must be in time.
    pub fn wait(&mut self) {
        self.poll_if_woken();
        while self.answer.is_none() {
            self.woken.wait();
            self.poll_if_woken();
        }
    }

    /// Polls the take if it has called its waker since the last poll.
    pub fn poll_if_woken(&mut self) {
        if !self.woken.lower() {
            return;
        }
        let Some(future) = &mut self.future else { return };
        let waker = Waker::from(Arc::clone(&self.woken));
        if let Poll::Ready(answer) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.future = None;
            self.answer = Some(answer.map(|claim| claim.map(AsyncClaim::detach)));
        }
    }
}
