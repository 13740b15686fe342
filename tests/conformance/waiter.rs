//! A take that waits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tubewell::{Claim, Error, TakeFuture, Task, Tube};

/// A blocking take in a session of its own. The session, and so the claim, lives as long as this.
pub struct Waiter {
    _tube: Tube,
    taking: Option<Pin<Box<TakeFuture>>>,
    bell: Arc<Bell>,
    answer: Option<Result<Option<Task>, Error>>,
}

impl Waiter {
    /// Begins to wait.
    pub fn new(tube: Tube, timeout: Duration) -> Waiter {
        let mut waiter = Waiter {
            taking: Some(Box::pin(tube.take_async(timeout))),
            _tube: tube,
            bell: Arc::new(Bell(AtomicBool::new(true))),
            answer: None,
        };
        waiter.answer_the_bell();
        waiter
    }

    /// What it was answered so far.
    pub fn answer(&self) -> Result<Option<Task>, Error> {
        self.answer.clone().unwrap_or(Ok(None))
    }

    /// Polls, but only if the take has asked for it.
    pub fn answer_the_bell(&mut self) {
        if !self.bell.0.swap(false, Ordering::SeqCst) {
            return;
        }
        let Some(taking) = &mut self.taking else { return };
        let waker = Waker::from(Arc::clone(&self.bell));
        if let Poll::Ready(answer) = taking.as_mut().poll(&mut Context::from_waker(&waker)) {
            self.taking = None;
            self.answer = Some(answer.map(|claim| claim.map(Claim::detach)));
        }
    }
}

/// The waker of one waiter.
struct Bell(AtomicBool);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}
