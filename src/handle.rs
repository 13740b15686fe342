//! What keeps a store open, and its threads running.

use std::fmt;
use std::sync::Arc;

use crate::pipeline::StoreInner;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::{Error, Result, SessionId};

/// Keeps the store open as long as somebody has one.
#[derive(Clone)]
pub(crate) struct StoreHandle(Arc<OpenStore>);

impl StoreHandle {
    pub(crate) fn new(inner: OpenStore) -> StoreHandle {
        StoreHandle(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &StoreInner {
        &self.0.inner
    }

    /// The number of the last commit that the file had when it was opened.
    pub(crate) fn opened_at(&self) -> u64 {
        self.0.opened_at
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// Whether both are of the same store.
    pub(crate) fn is(&self, other: &StoreHandle) -> bool {
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

pub(crate) struct OpenStore {
    pub(crate) inner: Arc<StoreInner>,
    pub(crate) own: SessionId,
    pub(crate) opened_at: u64,
    pub(crate) max_body: usize,
    pub(crate) threads: Mutex<Threads>,
}

impl OpenStore {
    fn close(&self) -> Result<()> {
        let closed = self.inner.close();
        // Without the lock: one of them may be closing the store, too.
        let mut threads = std::mem::take(&mut *self.threads.lock());
        threads.join();
        self.inner.subscribers.close();
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // Nobody is left to be told; `close` tells.
        let _ = self.close();
    }
}

/// The writer, and the sweeper unless a manual clock does its work.
#[derive(Default)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(crate) fn start(inner: &Arc<StoreInner>) -> Result<Threads> {
        let mut threads = Threads::default();
        let started =
            threads.spawn("tubewell-writer", inner, StoreInner::writer_loop).and_then(|()| {
                // A manual clock sweeps on the thread that moves it.
                if inner.clock().is_manual() {
                    Ok(())
                } else {
                    threads.spawn("tubewell-sweeper", inner, StoreInner::sweeper_loop)
                }
            });
        if let Err(error) = started {
            let _ = inner.close();
            threads.join();
            return Err(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        Ok(threads)
    }

    fn spawn(
        &mut self,
        name: &str,
        inner: &Arc<StoreInner>,
        run: fn(&StoreInner),
    ) -> std::io::Result<()> {
        let inner = inner.clone();
        let thread = thread::Builder::new().name(name.into()).spawn(move || run(&inner))?;
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

/// Ends the session, or begins its grace, when the last handle is gone.
pub(crate) struct SessionGuard {
    pub(crate) handle: StoreHandle,
    pub(crate) id: SessionId,
}

impl fmt::Debug for SessionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl SessionGuard {
    pub(crate) fn new(handle: StoreHandle, id: SessionId) -> SessionGuard {
        SessionGuard { handle, id }
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        // A record that cannot be read stays where it is; `verify` names it.
        let _ = self.handle.inner().run(|core| core.leave_session(self.id));
    }
}
