//! The service: what the owner of a store does for each connection.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_wire::{Answering, Service};

use super::requests::answer;
use crate::SessionId;
use crate::connection::{Hello, HelloSession, Welcome};
use crate::core::{Call, from_bytes, to_bytes};
use crate::handle::{LocalHandle, StoreHandle};
use crate::sync::Mutex;

/// More sessions than a connection may have.
const SESSIONS_MAX: usize = 4096;

pub(super) struct StoreService {
    /// It does not keep the store open.
    store: LocalHandle,
}

impl StoreService {
    pub(super) fn new(store: LocalHandle) -> StoreService {
        StoreService { store }
    }
}

/// A connection.
pub(super) struct Peer {
    pub(super) store: LocalHandle,
    sessions: Mutex<BTreeSet<SessionId>>,
}

impl Service for StoreService {
    type Peer = Peer;

    fn connect(&self, hello: &[u8]) -> Result<(Peer, Vec<u8>), String> {
        let hello: Hello =
            from_bytes(hello).map_err(|malformed| crate::Error::from(malformed).to_string())?;
        let peer = Peer { store: self.store.clone(), sessions: Mutex::default() };
        if hello.sessions.len() > SESSIONS_MAX {
            return Err(format!("a connection may have at most {SESSIONS_MAX} sessions"));
        }
        for HelloSession { id, label } in &hello.sessions {
            peer.resume_or_begin(*id, label.as_ref()).map_err(|error| error.to_string())?;
        }
        let max_body = self.store.open_store().max_body;
        Ok((peer, to_bytes(&Welcome { max_body })))
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

    /// A connection that was made anew finds its sessions, if their grace has not ended.
    fn resume_or_begin(&self, id: SessionId, label: Option<&Arc<str>>) -> crate::Result<()> {
        let handle = self.handle();
        if handle.ask::<()>(Call::ResumeSession(id)).is_err() {
            handle.ask::<()>(Call::BeginSession(id, label))?;
        }
        self.sessions.lock().insert(id);
        Ok(())
    }

    /// The connection has one handle of each of its sessions. Returns whether this is a new one.
    pub(super) fn add_session(&self, id: SessionId) -> bool {
        let mut sessions = self.sessions.lock();
        sessions.len() < SESSIONS_MAX && sessions.insert(id)
    }

    /// Returns whether the connection had the session.
    pub(super) fn remove_session(&self, id: SessionId) -> bool {
        self.sessions.lock().remove(&id)
    }

    fn drop_sessions(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let handle = self.handle();
        for id in sessions {
            handle.tell(Call::DropSessionHandle(id));
        }
    }
}
