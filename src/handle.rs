//! The shared handle of a store, and the threads of a store of this process.
//!
//! A store of this process closes when its last handle is dropped. A store of another process is
//! reached through a [`Connection`].

use std::fmt;
use std::sync::Arc;

use tubewell_drivers::Shelf;
use tubewell_wire::Server;

use crate::connection::{Connection, Mode, Promise, Request};
use crate::core::{
    Call, Decided, FromAnswer, Grant, HolderVerb, TakeAttempt, TubeHead, describe_unreachable,
};
use crate::pipeline::StoreInner;
use crate::sync::Mutex;
use crate::sync::thread::{self, JoinHandle, ThreadId};
use crate::{Error, Result, SessionId, TaskInfo, WhenFull};

/// A reference to a store: of this process, or of another one that serves it.
#[derive(Clone)]
pub(crate) enum StoreHandle {
    Here(LocalHandle),
    Remote(Arc<Connection>),
}

impl StoreHandle {
    /// The store, for what only its owner can do.
    pub(crate) fn here(&self, what: &'static str) -> Result<&LocalHandle> {
        match self {
            StoreHandle::Here(store) => Ok(store),
            StoreHandle::Remote(_) => Err(Error::OwnerOnly { what: what.into() }),
        }
    }

    /// Makes a call that changes memory alone or nothing.
    pub(crate) fn ask<T: FromAnswer>(&self, call: Call<'_>) -> Result<T> {
        match self {
            StoreHandle::Here(store) => Ok(store.inner().run(|core| core.carry_out(call))?.answer),
            StoreHandle::Remote(owner) => owner.call(Mode::Ask, call),
        }
    }

    /// As `ask`, for a caller that does not wait: nothing follows from the answer.
    pub(crate) fn tell(&self, call: Call<'_>) {
        match self {
            // What cannot be read stays as it is; `verify` reports it.
            StoreHandle::Here(_) => drop(self.ask::<()>(call)),
            StoreHandle::Remote(owner) => owner.tell(call),
        }
    }

    /// Makes a call once its write buffer has space, and waits for its flush or write.
    pub(crate) fn call<T: FromAnswer>(&self, buffer: usize, call: Call<'_>) -> Result<T> {
        match self {
            StoreHandle::Here(store) => store.inner().call(buffer, |core| core.carry_out(call)),
            StoreHandle::Remote(owner) => owner.call(Mode::Call, call),
        }
    }

    /// As `call`. A refusal waits for the change that may have caused it.
    pub(crate) fn call_once_visible<T: FromAnswer>(
        &self,
        buffer: usize,
        call: Call<'_>,
    ) -> Result<T> {
        match self {
            StoreHandle::Here(store) => {
                store.inner().call(buffer, |core| core.carry_out_once_visible(call))?
            }
            StoreHandle::Remote(owner) => owner.call(Mode::OnceVisible, call),
        }
    }

    /// Makes a call whose caller waits for the answer later, or never. A call of another process is
    /// only sent: its promise has the refusal.
    pub(crate) fn defer<T: FromAnswer>(
        &self,
        buffer: usize,
        when_full: WhenFull,
        call: Call<'_>,
    ) -> Result<Promise<T>> {
        match self {
            StoreHandle::Here(store) => {
                let decided =
                    store.inner().defer(buffer, when_full, |core| core.carry_out(call))?;
                Ok(Promise::Here(store.clone(), decided))
            }
            StoreHandle::Remote(owner) => {
                Ok(Promise::Remote(owner.send(Mode::of_deferred(when_full), call)?))
            }
        }
    }

    /// As [`Store::catch_up`](crate::Store::catch_up).
    pub(crate) fn catch_up(&self) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.inner().catch_up(),
            StoreHandle::Remote(owner) => owner.request(&Request::CatchUp).wait(),
        }
    }

    /// The description of a task that was taken.
    pub(crate) fn describe(&self, grant: &Grant) -> TaskInfo {
        let Grant { tube, id, header, .. } = grant;
        match self {
            StoreHandle::Here(store) => {
                store.inner().run(|core| core.describe(*tube, *id, Shelf::Ready, header))
            }
            StoreHandle::Remote(_) => {
                let described = self.ask(Call::Claim(grant.key(), HolderVerb::Describe));
                let described: Vec<TaskInfo> = described.unwrap_or_default();
                let unreachable = || describe_unreachable(*id, header);
                described.into_iter().next().unwrap_or_else(unreachable)
            }
        }
    }

    /// The running time of the machine, in microseconds.
    pub(crate) fn running(&self) -> u64 {
        match self {
            StoreHandle::Here(store) => store.inner().clock().running(),
            StoreHandle::Remote(owner) => owner.running(),
        }
    }

    /// Releases a task whose claim handle is gone. Does nothing if the claim has ended. `forgive`:
    /// no caller got the task, so the attempt does not count.
    pub(crate) fn drop_claim(&self, grant: &Grant, forgive: bool) {
        // A task whose record cannot be read stays claimed until its session ends.
        self.tell(Call::DropClaim { id: grant.id, epoch: grant.epoch, forgive });
    }

    /// A handle of a session is dropped: the session ends, or its grace begins.
    fn drop_session(&self, id: SessionId) {
        match self {
            StoreHandle::Here(_) => self.tell(Call::DropSessionHandle(id)),
            StoreHandle::Remote(owner) => owner.drop_session(id),
        }
    }

    /// Begins a session.
    pub(crate) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) {
        match self {
            // Beginning a session does not fail.
            StoreHandle::Here(_) => self.tell(Call::BeginSession(id, label)),
            StoreHandle::Remote(owner) => owner.begin_session(id, label),
        }
    }

    /// Adds a handle to a session.
    pub(crate) fn resume_session(&self, id: SessionId) -> Result<()> {
        match self {
            StoreHandle::Here(_) => self.ask(Call::ResumeSession(id)),
            StoreHandle::Remote(owner) => owner.resume_session(id),
        }
    }

    /// Closes the store; that of another process stays open, and the connection ends.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.0.close(),
            StoreHandle::Remote(owner) => {
                owner.close();
                Ok(())
            }
        }
    }

    /// Whether both handles refer to the same store.
    pub(crate) fn is_same_store(&self, other: &StoreHandle) -> bool {
        match self {
            StoreHandle::Here(store) => store.is_store_of(other),
            StoreHandle::Remote(owner) => match other {
                StoreHandle::Remote(other) => Arc::ptr_eq(owner, other),
                StoreHandle::Here(_) => false,
            },
        }
    }

    pub(crate) fn max_body(&self) -> usize {
        match self {
            StoreHandle::Here(store) => store.0.max_body,
            StoreHandle::Remote(owner) => owner.max_body(),
        }
    }

    /// The store's own session, for callers that did not open one. That of a connection ends with
    /// the connection.
    pub(crate) fn own_session(&self) -> SessionId {
        match self {
            StoreHandle::Here(store) => store.0.own,
            StoreHandle::Remote(owner) => owner.own_session(),
        }
    }
}

/// A reference to an open store of this process. The store closes when the last one is dropped.
#[derive(Clone)]
pub(crate) struct LocalHandle(Arc<OpenStore>);

impl LocalHandle {
    pub(crate) fn new(store: OpenStore) -> LocalHandle {
        LocalHandle(Arc::new(store))
    }

    pub(crate) fn inner(&self) -> &StoreInner {
        &self.0.inner
    }

    pub(crate) fn open_store(&self) -> &OpenStore {
        &self.0
    }

    /// Whether the other handle refers to this store.
    pub(crate) fn is_store_of(&self, other: &StoreHandle) -> bool {
        match other {
            StoreHandle::Here(other) => Arc::ptr_eq(&self.0.inner, &other.0.inner),
            StoreHandle::Remote(_) => false,
        }
    }

    /// What serves the store ends with it.
    pub(crate) fn add_server(&self, server: Arc<Server>) {
        self.0.servers.lock().push(server);
    }

    /// The same store, for a caller that does not keep it open.
    pub(crate) fn visitor(&self) -> LocalHandle {
        let OpenStore { inner, own, opened_at, max_body, .. } = &*self.0;
        LocalHandle::new(OpenStore {
            inner: inner.clone(),
            own: *own,
            opened_at: *opened_at,
            max_body: *max_body,
            is_owner: false,
            threads: Mutex::default(),
            servers: Mutex::default(),
        })
    }

    /// As [`StoreHandle::defer`], for a call that adds a few rows at most: it is decided at once,
    /// and its answer is waited for without blocking the thread. A refusal waits for the change that
    /// may have caused it.
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

    /// As [`StoreHandle::drop_claim`].
    pub(crate) fn drop_claim(&self, grant: &Grant, forgive: bool) {
        let drop = Call::DropClaim { id: grant.id, epoch: grant.epoch, forgive };
        let _ = self.inner().run(|core| core.carry_out::<()>(drop));
    }
}

/// An open store. Dropping it closes the store.
pub(crate) struct OpenStore {
    pub(crate) inner: Arc<StoreInner>,
    pub(crate) own: SessionId,
    /// The number of the last commit in the file when the store was opened.
    pub(crate) opened_at: u64,
    pub(crate) max_body: usize,
    /// Not set for the references of a server to the store that it serves.
    pub(crate) is_owner: bool,
    pub(crate) threads: Mutex<Threads>,
    /// What serves the store to other processes. They end with it.
    pub(crate) servers: Mutex<Vec<Arc<Server>>>,
}

impl OpenStore {
    fn close(&self) -> Result<()> {
        self.inner.check_outside_transaction()?;
        let closed = self.inner.close();
        // Join without the lock: one of the threads may be in `close` too.
        let mut threads = std::mem::take(&mut *self.threads.lock());
        threads.join();
        self.inner.subscribers.close();
        // After the close, which has answered all that waits.
        let servers = std::mem::take(&mut *self.servers.lock());
        servers.iter().for_each(|server| server.stop());
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if self.is_owner {
            // No caller is left to receive the error; `close` returns it.
            let _ = self.close();
        }
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
        self.handle.drop_session(self.id);
    }
}
