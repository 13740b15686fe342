//! What keeps a store open, and its threads running.

use std::sync::Arc;

use crate::pipeline::Shared;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::{Error, Result, SessionId};

/// Keeps the store open as long as somebody has one.
#[derive(Clone)]
pub(crate) struct Handle(Arc<HandleInner>);

impl Handle {
    pub(super) fn new(inner: HandleInner) -> Handle {
        Handle(Arc::new(inner))
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.0.shared
    }

    /// The number of the last commit that the file had when it was opened.
    pub(super) fn opened_at(&self) -> u64 {
        self.0.opened_at
    }

    pub(super) fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// Whether both are of the same store.
    pub(crate) fn is(&self, other: &Handle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn max_body(&self) -> usize {
        self.0.max_body
    }

    /// The session of those who did not ask for one.
    pub(crate) fn own_session(&self) -> SessionId {
        self.0.own
    }
}

pub(super) struct HandleInner {
    pub(super) shared: Arc<Shared>,
    pub(super) own: SessionId,
    pub(super) opened_at: u64,
    pub(super) max_body: usize,
    pub(super) threads: Mutex<Threads>,
}

impl HandleInner {
    fn close(&self) -> Result<()> {
        let closed = self.shared.close();
        // Without the lock: one of them may be closing the store, too.
        let mut threads = std::mem::take(&mut *self.threads.lock());
        threads.join();
        self.shared.listeners.close();
        closed
    }
}

impl Drop for HandleInner {
    fn drop(&mut self) {
        // Nobody is left to be told; `close` tells.
        let _ = self.close();
    }
}

/// The writer, and the sweeper unless a manual clock does its work.
#[derive(Default)]
pub(super) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(super) fn start(shared: &Arc<Shared>) -> Result<Threads> {
        let mut threads = Threads::default();
        let started = threads.spawn("tubewell-writer", shared, Shared::write_on).and_then(|()| {
            // A manual clock sweeps on the thread that moves it.
            if shared.clock().is_manual() {
                Ok(())
            } else {
                threads.spawn("tubewell-sweeper", shared, Shared::sweep_on)
            }
        });
        if let Err(error) = started {
            let _ = shared.close();
            threads.join();
            return Err(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        Ok(threads)
    }

    fn spawn(&mut self, name: &str, shared: &Arc<Shared>, run: fn(&Shared)) -> std::io::Result<()> {
        let shared = shared.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&shared))?;
        self.0.push(thread);
        Ok(())
    }

    /// Waits until the threads have ended; the last handle may go in one of them.
    fn join(&mut self) {
        let this: ThreadId = thread::current().id();
        for thread in self.0.drain(..) {
            if thread.thread().id() != this {
                // A panic in them has stopped the store and told everyone already.
                let _ = thread.join();
            }
        }
    }
}
