//! An open store of this process, and its threads. It closes when its last handle is dropped.

use std::sync::{Arc, Weak};

use tubewell_wire::Server;

use crate::base::park::yield_once;
use crate::base::signal::Signal;
use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, JoinHandle, ThreadId};
use crate::core::list::{DropClaim, EndTask};
use crate::core::verb::Begun;
use crate::core::{
    ByteBudget, Chosen, ClaimKey, Core, Decided, Grant, Grants, TakeAttempt, TaskEnd, TubeHead,
    TubeRef, Watching,
};
use crate::events::{EventBytes, EventSource};
use crate::runtime::StoreInner;
use crate::values::filter::Filter;
use crate::{Ending, Error, Result, SessionId};

/// A reference to an open store of this process. The store closes when the last one is dropped.
#[derive(Clone)]
pub(crate) struct LocalHandle(Arc<OpenStore>);

impl LocalHandle {
    pub(crate) fn new(store: OpenStore) -> LocalHandle {
        LocalHandle(Arc::new(store))
    }

    /// The store, for a call of the process that has opened it.
    #[inline]
    pub(crate) fn inner(&self) -> Result<&StoreInner> {
        self.0.inner.check_process()?;
        Ok(&self.0.inner)
    }

    /// Subscribes to events that pass a filter, which was checked. `bytes`: what their memory counts for.
    pub(crate) fn events_of(
        &self,
        filter: Filter,
        capacity: usize,
        bytes: Option<Arc<EventBytes>>,
    ) -> Result<Box<dyn EventSource>> {
        let inner = self.inner()?;
        let listing = inner.subscribers.list(filter);
        // Under the lock of the store: between two changes, and before its close or refused.
        let begun =
            inner.run(|core| (!core.health.is_closed()).then(|| listing.begin(capacity, bytes)));
        begun.ok_or(Error::Closed)
    }

    /// As `inner`, for what takes no lock, and for the threads of the store, which a fork does not have.
    pub(crate) fn open_store(&self) -> &OpenStore {
        &self.0
    }

    /// Whether both handles refer to the same store.
    pub(crate) fn is_same_store(&self, other: &LocalHandle) -> bool {
        Arc::ptr_eq(&self.0.inner, &other.0.inner)
    }

    /// What serves the store ends with it, and is forgotten once it has ended.
    pub(crate) fn add_server(&self, server: Arc<Server>) -> Weak<Servers> {
        self.0.servers.0.lock().push(server);
        Arc::downgrade(&self.0.servers)
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
            servers: Arc::default(),
        })
    }

    /// Takes a chosen task. Blocks for the flush of its last change.
    pub(crate) fn claim(&self, tube: TubeRef<'_>, session: SessionId, id: u64) -> Result<Chosen> {
        self.inner()?.call(None, |core| core.claim_chosen(tube, session, id))?
    }

    /// As `claim`, for a future.
    pub(crate) fn defer_claim(
        &self,
        tube: TubeRef<'_>,
        session: SessionId,
        id: u64,
    ) -> Result<Decided<Result<Chosen>>> {
        self.inner()?.defer_now(|core| core.claim_chosen(tube, session, id))
    }

    /// Begins a wait for a task until this moment of running time. `None`: ask again.
    pub(crate) fn wait_ready(
        &self,
        tube: TubeRef<'_>,
        session: SessionId,
        until: Option<u64>,
    ) -> Result<Option<Begun<Option<Ending>>>> {
        let watching = self.run(|core| {
            core.tube(tube.number, tube.name)?;
            let timeout = until.map(|until| until.saturating_sub(core.now.running));
            core.wait_ready(tube.number, session, timeout)
        })?;
        Ok(watching.map(Watching::begun))
    }

    /// Runs a call on the core that waits for nothing.
    pub(crate) fn run<T>(&self, call: impl FnOnce(&mut Core) -> Result<T>) -> Result<T> {
        self.inner()?.run(call)
    }

    /// Ends a session, whatever handles it has. In steps, so that other calls get the lock in between, and
    /// other tasks of an executor their turn.
    pub(crate) async fn end_session(&self, id: SessionId) -> Result<()> {
        let end = |core: &mut Core| core.end_session_for_good(id);
        let mut ended = self.run(end);
        while self.inner()?.run(|core| core.has_ended(id)) {
            yield_once().await;
            ended = ended.and(self.run(end));
        }
        ended
    }

    /// Buries a task whose body cannot be read.
    pub(crate) fn bury_unreadable(&self, grant: &Grant) {
        let bury = EndTask::alone(TaskEnd::Bury(None));
        if let Ok(inner) = self.inner() {
            let _ = inner.defer_now(|core| core.begin_verb(grant.key(), &bury));
        }
    }

    /// Takes from the first of these tubes that has a task, or waits in all of them.
    pub(crate) fn take(
        &self,
        tubes: &[TubeHead],
        session: SessionId,
        until: Option<u64>,
    ) -> Result<TakeAttempt> {
        let mut found = TakeAttempt::Empty;
        self.inner()?.run(|core| core.carry_out_take(tubes, session, until, &mut found))?;
        Ok(found)
    }

    /// Takes the next tasks of a tube as far as the budget allows, under one hold of the lock.
    pub(crate) fn take_many(
        &self,
        tube: &TubeHead,
        session: SessionId,
        count: usize,
        bytes: &mut ByteBudget,
    ) -> Result<Grants> {
        self.inner()?.run(|core| core.carry_out_take_many(tube, session, count, bytes))
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
        let record = self.inner()?.run_and_log(|core| {
            core.carry_out_take(tubes, session, until, found)?;
            Ok(found.needs_write())
        })?;
        if let (Some(record), TakeAttempt::Task(grant)) = (&record, found) {
            if let Err(error) = self.inner()?.write_record(record) {
                self.drop_claim(grant.key(), true);
                return Err(error);
            }
            grant.counted = None;
        }
        Ok(())
    }

    /// As `StoreHandle::drop_claim`.
    pub(crate) fn drop_claim(&self, key: ClaimKey, forgive: bool) {
        let drop = DropClaim { key, forgive };
        if let Ok(inner) = self.inner() {
            // A task whose record cannot be read stays claimed until its session ends.
            let _ = inner.run(|core| core.begin_verb((), &drop));
        }
    }

    /// The signal that is raised when the claim ends, or when the store is closed.
    pub(crate) fn end_signal(&self, key: ClaimKey) -> Result<Arc<Signal>> {
        self.inner()?.run(|core| core.end_signal(key))
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
    pub(crate) servers: Arc<Servers>,
}

/// The servers of a store that were not stopped.
#[derive(Default)]
pub(crate) struct Servers(Mutex<Vec<Arc<Server>>>);

impl Servers {
    /// Stops a server, and forgets it.
    pub(crate) fn stop(&self, server: &Arc<Server>) {
        server.stop();
        self.0.lock().retain(|other| !Arc::ptr_eq(other, server));
    }

    fn stop_all(&self) {
        let servers = std::mem::take(&mut *self.0.lock());
        for server in &servers {
            server.stop();
        }
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.lock().len()
    }
}

impl OpenStore {
    pub(crate) fn close(&self) -> Result<()> {
        self.inner.check_process()?;
        self.inner.check_outside_transaction()?;
        let closed = self.inner.close();
        // Join without the lock: one of the threads may be in `close` too.
        let mut threads = std::mem::take(&mut *self.threads.lock());
        threads.join();
        self.inner.subscribers.close();
        // After the close, which has answered all that waits.
        self.servers.stop_all();
        closed
    }
}

impl OpenStore {
    /// In a fork nothing of the store may be dropped: the engine would write to the file and unlock it, and
    /// the threads and the servers are those of the other process.
    fn leak(&mut self) {
        std::mem::forget(self.inner.clone());
        std::mem::forget(std::mem::take(self.threads.get_mut()));
        std::mem::forget(self.servers.clone());
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        if self.inner.check_process().is_err() {
            return self.leak();
        }
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
