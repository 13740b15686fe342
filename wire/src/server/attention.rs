//! What other threads want of the reading thread.

use crate::os::{Registry, Token, Waker};
use crate::sync::Mutex;

/// How another thread tells the reading thread to look at a connection.
pub(crate) struct Attention {
    tokens: Mutex<Vec<Token>>,
    waker: Waker,
    registry: Registry,
}

impl Attention {
    pub(crate) fn new(waker: Waker, registry: Registry) -> Attention {
        Attention { tokens: Mutex::default(), waker, registry }
    }

    /// Makes the reading thread look at this connection.
    pub(crate) fn call(&self, token: Token) {
        self.tokens.lock().push(token);
        self.wake();
    }

    /// Wakes the reading thread.
    pub(crate) fn wake(&self) {
        // Without it the thread looks when the next event arrives.
        let _ = self.waker.wake();
    }

    /// Where the reading thread has its sockets reported.
    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Moves the connections to look at to `tokens`.
    pub(crate) fn take(&self, tokens: &mut Vec<Token>) {
        tokens.append(&mut self.tokens.lock());
    }
}
