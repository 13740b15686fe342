//! The shared handle that keeps a store open, and its threads.
//!
//! The store closes when its last handle is dropped.

use std::fmt;
use std::sync::Arc;

use crate::core::{Call, Decided, FromAnswer, Grant, TakeAttempt, TubeHead};
use crate::pipeline::StoreInner;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::{Error, Result, SessionId, WhenFull};

/// A reference to an open store. The store closes when the last one is dropped.
#[derive(Clone)]
pub(crate) struct StoreHandle(Arc<OpenStore>);

impl StoreHandle {
    pub(crate) fn new(inner: OpenStore) -> StoreHandle {
        StoreHandle(Arc::new(inner))
    }

    pub(crate) fn inner(&self) -> &StoreInner {
        &self.0.inner
    }

    /// The number of the last commit in the file when the store was opened.
    pub(crate) fn opened_at(&self) -> u64 {
        self.0.opened_at
    }

    /// Makes a call that changes memory alone or nothing.
    pub(crate) fn ask<T: FromAnswer>(&self, call: Call<'_>) -> Result<T> {
        Ok(self.inner().run(|core| core.carry_out(call))?.answer)
    }

    /// Makes a call once its write buffer has space, and waits for its flush or write.
    pub(crate) fn call<T: FromAnswer>(&self, buffer: usize, call: Call<'_>) -> Result<T> {
        self.inner().call(buffer, |core| core.carry_out(call))
    }

    /// As `call`. A refusal waits for the change that may have caused it.
    pub(crate) fn call_once_visible<T: FromAnswer>(
        &self,
        buffer: usize,
        call: Call<'_>,
    ) -> Result<T> {
        self.inner().call(buffer, |core| core.carry_out_once_visible(call))?
    }

    /// Makes a call whose caller waits for the answer later, or never.
    pub(crate) fn defer<T: FromAnswer>(
        &self,
        buffer: usize,
        when_full: WhenFull,
        call: Call<'_>,
    ) -> Result<Decided<T>> {
        self.inner().defer(buffer, when_full, |core| core.carry_out(call))
    }

    /// As `call_once_visible`, for a call that adds a few rows at most: it is decided at once, and
    /// its answer is waited for without blocking the thread.
    pub(crate) fn defer_once_visible<T: FromAnswer>(
        &self,
        call: Call<'_>,
    ) -> Result<Decided<Result<T>>> {
        self.inner().defer_now(|core| core.carry_out_once_visible(call))
    }

    /// Takes from the first of these tubes that has a task, or waits in all of them.
    pub(crate) fn take(
        &self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
    ) -> Result<TakeAttempt> {
        let mut found = TakeAttempt::Empty;
        self.inner().run(|core| core.carry_out_take(tubes, session, until, &mut found))?;
        Ok(found)
    }

    /// As `take`, and counts the take of a task with limited attempts with a write of this caller,
    /// if a write is enough. Blocks for that write. The answer goes to `found`.
    pub(crate) fn take_blocking(
        &self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
        found: &mut TakeAttempt,
    ) -> Result<()> {
        let record = self.inner().run_and_log(|core| {
            core.carry_out_take(tubes, session, until, found)?;
            Ok(found.needs_write())
        })?;
        if let (Some(record), TakeAttempt::Task(grant)) = (&record, found) {
            if let Err(error) = self.inner().write_record(record) {
                self.drop_claim(grant, true);
                return Err(error);
            }
            grant.counted = None;
        }
        Ok(())
    }

    /// Releases a task whose claim handle is gone. Does nothing if the claim has ended. `forgive`:
    /// no caller got the task, so the attempt does not count.
    pub(crate) fn drop_claim(&self, grant: &Grant, forgive: bool) {
        // A task whose record cannot be read stays claimed until its session ends.
        let _ = self.ask::<()>(Call::DropClaim { id: grant.id, epoch: grant.epoch, forgive });
    }

    pub(crate) fn close(&self) -> Result<()> {
        self.0.close()
    }

    /// Whether both handles refer to the same store.
    pub(crate) fn is_same_store(&self, other: &StoreHandle) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn max_body(&self) -> usize {
        self.0.max_body
    }

    /// The store's own session, for callers that did not open one.
    pub(crate) fn own_session(&self) -> SessionId {
        self.0.own
    }
}

/// An open store. Dropping it closes the store.
pub(crate) struct OpenStore {
    pub(crate) inner: Arc<StoreInner>,
    pub(crate) own: SessionId,
    pub(crate) opened_at: u64,
    pub(crate) max_body: usize,
    pub(crate) threads: Mutex<Threads>,
}

impl OpenStore {
    fn close(&self) -> Result<()> {
        self.inner.check_outside_transaction()?;
        let closed = self.inner.close();
        // Join without the lock: one of the threads may be in `close` too.
        let mut threads = std::mem::take(&mut *self.threads.lock());
        threads.join();
        self.inner.subscribers.close();
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // No caller is left to receive the error; `close` returns it.
        let _ = self.close();
    }
}

/// The writer thread, and unless the clock is manual those of the sweeper and of checkpoints.
#[derive(Default)]
pub(crate) struct Threads(Vec<JoinHandle<()>>);

impl Threads {
    pub(crate) fn start(inner: &Arc<StoreInner>) -> Result<Threads> {
        let mut threads = Threads::default();
        let started = threads.start_all(inner);
        if let Err(error) = started {
            let _ = inner.close();
            threads.join();
            return Err(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        Ok(threads)
    }

    fn start_all(&mut self, inner: &Arc<StoreInner>) -> std::io::Result<()> {
        self.spawn("tubewell-writer", inner, StoreInner::writer_loop)?;
        // With a manual clock, the thread that advances it sweeps, and that of a commit writes its
        // checkpoint.
        if inner.clock().is_manual() {
            return Ok(());
        }
        self.spawn("tubewell-sweeper", inner, StoreInner::sweeper_loop)?;
        self.spawn("tubewell-checkpoint", inner, StoreInner::checkpoint_loop)
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

    /// Waits until the threads have ended. The last handle may be dropped in one of them, so the
    /// current thread is skipped.
    fn join(&mut self) {
        let this: ThreadId = thread::current().id();
        for thread in self.0.drain(..) {
            if thread.thread().id() != this {
                // A panic in the thread has stopped the store already.
                let _ = thread.join();
            }
        }
    }
}

/// One handle of a session. When the last one is dropped, the session ends or its grace begins.
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
        // An unreadable record stays where it is; `verify` reports it.
        let _ = self.handle.ask::<()>(Call::DropSessionHandle(self.id));
    }
}
