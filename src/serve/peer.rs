//! A connection, as the owner of the store sees it: its sessions, and what takes long.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tubewell_wire::{Answering, Reply};

use super::answers::{Recipient, later, refused};
use crate::connection::encode_value;
use crate::core::{Call, TubeHead, WaitSlot, Wire};
use crate::handle::StoreHandle;
use crate::open_store::LocalHandle;
use crate::sync::{Mutex, thread};
use crate::user_code::panic_to_error;
use crate::{Error, Result, SessionId, Tube};

/// More sessions than a connection may have. A client keeps to fewer: as many as fit into a hello.
const SESSIONS_MAX: usize = 4096;
/// More threads than may do what takes long at a time, of each kind.
const COPIES_MAX: usize = 2;
const CATCH_UPS_MAX: usize = 4;

/// The requests that take long. Each kind has threads of its own, so that no kind waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lengthy {
    /// It reads the whole file: `verify`, `backup`.
    Copy,
    CatchUp,
}

impl Lengthy {
    fn as_many_as_may_be(self) -> String {
        match self {
            Lengthy::Copy => format!("{COPIES_MAX} verifications or backups for other processes"),
            Lengthy::CatchUp => format!("{CATCH_UPS_MAX} catch-ups for other processes"),
        }
    }
}

/// The threads that do what takes long, of all connections.
#[derive(Default)]
pub(super) struct Threads {
    copies: AtomicUsize,
    catch_ups: AtomicUsize,
}

impl Threads {
    fn of(&self, kind: Lengthy) -> (&AtomicUsize, usize) {
        match kind {
            Lengthy::Copy => (&self.copies, COPIES_MAX),
            Lengthy::CatchUp => (&self.catch_ups, CATCH_UPS_MAX),
        }
    }
}

/// A connection.
pub(super) struct Peer {
    pub(super) store: LocalHandle,
    /// Sessions outlive their connection for a time.
    has_grace: bool,
    /// The process says that it is there while it has claims.
    beats: bool,
    sessions: Mutex<BTreeSet<SessionId>>,
    threads: Arc<Threads>,
}

impl Peer {
    pub(super) fn new(store: &LocalHandle, threads: &Arc<Threads>, beats: bool) -> Peer {
        Peer {
            store: store.clone(),
            has_grace: store.inner().run(|core| core.config.grace > 0),
            beats,
            sessions: Mutex::default(),
            threads: threads.clone(),
        }
    }

    /// The recipient of the tasks of an answer.
    pub(super) fn recipient(&self) -> Recipient {
        Recipient { store: self.has_grace.then(|| self.handle()), beats: self.beats }
    }

    /// The process is there. Whether it must say so further on: whether its sessions have claims.
    pub(super) fn answer_beat(&self) -> Answering {
        let sessions = self.sessions.lock().clone();
        let has_claims = self.store.inner().run(|core| core.have_claims(&sessions));
        let body = encode_value(&Ok(has_claims));
        let expect_beats = self.beats.then_some(has_claims);
        Answering::Now(Reply { body, expect_beats, ..Reply::default() })
    }

    /// The handle of a tube, for a session of the connection.
    pub(super) fn tube(&self, number: u32, name: &str, session: SessionId) -> Result<Tube> {
        Ok(Tube::new(self.handle(), session, None, self.head(number, name)?))
    }

    pub(super) fn head(&self, number: u32, name: &str) -> Result<TubeHead> {
        self.store.inner().run(|core| core.head_of(number, name))
    }

    pub(super) fn handle(&self) -> StoreHandle {
        StoreHandle::Here(self.store.clone())
    }

    /// Begins a session. A connection that was made anew finds those of the one before, if their
    /// grace has not ended. The connection has one handle of each of its sessions.
    ///
    /// A session that a call has ended meanwhile stays ended: its calls return `SessionEnded`.
    pub(super) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) -> Result<()> {
        if !self.add_session(id)? {
            return Ok(());
        }
        let handle = self.handle();
        match handle.ask::<()>(Call::ResumeSession(id)) {
            Err(Error::SessionUnknown { .. })
                if self.store.inner().run(|core| core.was_ended_for_good(id)) =>
            {
                self.forget_session(id);
                Ok(())
            }
            Err(Error::SessionUnknown { .. }) => handle.ask(Call::BeginSession(id, label)),
            resumed => resumed,
        }
    }

    pub(super) fn resume_session(&self, id: SessionId) -> Result<()> {
        if !self.add_session(id)? {
            return Ok(());
        }
        let resumed = self.handle().ask(Call::ResumeSession(id));
        if resumed.is_err() {
            self.forget_session(id);
        }
        resumed
    }

    /// A session has ended: the connection has no handle of it.
    pub(super) fn forget_session(&self, id: SessionId) {
        self.sessions.lock().remove(&id);
    }

    pub(super) fn drop_session(&self, id: SessionId) -> Result<()> {
        let had = self.sessions.lock().remove(&id);
        if had { self.handle().ask(Call::DropSessionHandle(id)) } else { Ok(()) }
    }

    /// Returns whether the session is a new one of the connection.
    fn add_session(&self, id: SessionId) -> Result<bool> {
        if id == self.store.open_store().own {
            return Err(Error::invalid("the store's own session cannot be resumed or ended"));
        }
        let mut sessions = self.sessions.lock();
        if sessions.contains(&id) {
            return Ok(false);
        }
        if sessions.len() == SESSIONS_MAX {
            return Err(Error::invalid(format!(
                "a connection may have at most {SESSIONS_MAX} sessions"
            )));
        }
        Ok(sessions.insert(id))
    }

    /// Does what takes long on a thread of its own.
    pub(super) fn on_thread<T: Wire>(
        &self,
        kind: Lengthy,
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answering {
        let (slot, permit) = (Arc::new(WaitSlot::new()), Permit::new(&self.threads, kind));
        let Some(permit) = permit else {
            return refused(Error::OwnerBusy { what: kind.as_many_as_may_be() });
        };
        let filled = slot.clone();
        let run = move || {
            let done = panic_to_error(work);
            let done = done.unwrap_or_else(|why| Err(Error::OutcomeUnknown { why }));
            drop(permit);
            filled.fill(encode_value(&done));
            filled.wake();
        };
        if let Err(error) = thread::Builder::new().name("tubewell-served".into()).spawn(run) {
            return refused(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        later(async move {
            let body = poll_fn(|context| slot.poll(context.waker())).await;
            Reply { body, ..Reply::default() }
        })
    }

    pub(super) fn drop_sessions(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let handle = self.handle();
        for id in sessions {
            handle.tell(Call::DropSessionHandle(id));
        }
    }
}

/// One of the threads that do what takes long.
struct Permit(Arc<Threads>, Lengthy);

impl Permit {
    fn new(threads: &Arc<Threads>, kind: Lengthy) -> Option<Permit> {
        let (running, most) = threads.of(kind);
        let more = |running| (running < most).then_some(running + 1);
        running.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Permit(threads.clone(), kind))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.of(self.1).0.fetch_sub(1, Ordering::AcqRel);
    }
}
