//! The service: what the owner of a store does for each connection.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tubewell_wire::{Answering, Reply, Service};

use super::calls::later;
use super::requests::{answer, refused};
use crate::connection::{Hello, HelloSession, Versions, Welcome, encode_value};
use crate::core::{Call, WaitSlot, Wire, from_bytes, to_bytes};
use crate::handle::{LocalHandle, StoreHandle};
use crate::sync::{Mutex, thread};
use crate::user_code::panic_to_error;
use crate::{Error, Result, SessionId};

/// More sessions than a connection may have.
const SESSIONS_MAX: usize = 4096;

/// More threads than may do what takes long at a time.
const THREADS_MAX: usize = 4;

pub(super) struct StoreService {
    /// It does not keep the store open.
    store: LocalHandle,
    threads: Arc<AtomicUsize>,
}

impl StoreService {
    pub(super) fn new(store: LocalHandle) -> StoreService {
        StoreService { store, threads: Arc::default() }
    }
}

/// A connection.
pub(super) struct Peer {
    pub(super) store: LocalHandle,
    /// Sessions outlive their connection for a time.
    pub(super) has_grace: bool,
    sessions: Mutex<BTreeSet<SessionId>>,
    /// The threads that do what takes long, of all connections.
    threads: Arc<AtomicUsize>,
}

impl Service for StoreService {
    type Peer = Peer;

    fn connect(&self, hello: &[u8]) -> Result<(Peer, Vec<u8>), String> {
        let versions = Versions::of_hello(hello);
        let version = versions.map_err(|malformed| Error::from(malformed).to_string())?.common()?;
        let hello: Hello =
            from_bytes(hello).map_err(|malformed| Error::from(malformed).to_string())?;
        let peer = Peer {
            store: self.store.clone(),
            has_grace: self.store.inner().run(|core| core.config.grace > 0),
            sessions: Mutex::default(),
            threads: self.threads.clone(),
        };
        if hello.sessions.len() > SESSIONS_MAX {
            return Err(format!("a connection may have at most {SESSIONS_MAX} sessions"));
        }
        for HelloSession { id, label } in &hello.sessions {
            peer.begin_session(*id, label.as_ref()).map_err(|error| error.to_string())?;
        }
        let max_body = self.store.open_store().max_body;
        Ok((peer, to_bytes(&Welcome { version, max_body })))
    }

    fn call(&self, peer: &Arc<Peer>, body: &[u8]) -> Answering {
        answer(peer, body)
    }

    fn disconnect(&self, peer: Arc<Peer>) {
        peer.drop_sessions();
    }
}

impl Peer {
    pub(super) fn handle(&self) -> StoreHandle {
        StoreHandle::Here(self.store.clone())
    }

    /// Begins a session. A connection that was made anew finds those of the one before, if their
    /// grace has not ended. The connection has one handle of each of its sessions.
    pub(super) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) -> Result<()> {
        if !self.add_session(id)? {
            return Ok(());
        }
        let handle = self.handle();
        match handle.ask::<()>(Call::ResumeSession(id)) {
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
            self.sessions.lock().remove(&id);
        }
        resumed
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
        work: impl FnOnce() -> Result<T> + Send + 'static,
    ) -> Answering {
        let (slot, permit) = (Arc::new(WaitSlot::new()), Permit::new(&self.threads));
        let Some(permit) = permit else { return refused(Error::Overloaded) };
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
            Reply { body, on_lost: None }
        })
    }

    fn drop_sessions(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let handle = self.handle();
        for id in sessions {
            handle.tell(Call::DropSessionHandle(id));
        }
    }
}

/// One of the threads that do what takes long.
struct Permit(Arc<AtomicUsize>);

impl Permit {
    fn new(threads: &Arc<AtomicUsize>) -> Option<Permit> {
        let more = |running| (running < THREADS_MAX).then_some(running + 1);
        threads.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok()?;
        Some(Permit(threads.clone()))
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests;
