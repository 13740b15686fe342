//! The sessions of a connection. Each connection that is made anew begins or resumes them.
//!
//! Invariant: they fit into the hello of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_wire::HELLO_BODY;

use super::request::{ClientId, Hello, HelloSession};
use crate::core::to_bytes;
use crate::{Error, Result, SessionId};

/// The bytes by which the number of sessions may grow: from one byte to the three of a number below 2^21.
const COUNT_GROWS: usize = 2;

pub(super) struct Sessions {
    client: ClientId,
    live: BTreeMap<SessionId, Live>,
    /// The bytes of a hello with these sessions, or a few more.
    size: usize,
    /// How many callers wait for the owner to resume a session.
    resuming: BTreeMap<SessionId, usize>,
    /// How many hellos were said: each is that of another connection to the owner.
    hellos: u64,
}

struct Live {
    label: Option<Arc<str>>,
    handles: usize,
    /// It was ended, and has handles: no connection begins it again.
    is_ended: bool,
}

impl Live {
    fn in_hello(&self, id: SessionId) -> HelloSession {
        HelloSession { id, label: self.label.clone() }
    }
}

impl Sessions {
    pub(super) fn new() -> Sessions {
        let client = ClientId::random();
        let empty = Hello { sessions: Vec::new(), client: Some(client) }.to_bytes().len();
        let size = empty + COUNT_GROWS;
        Sessions { client, live: BTreeMap::new(), size, resuming: BTreeMap::new(), hellos: 0 }
    }

    /// Adds a handle to a session, which is a new one or that of another handle.
    ///
    /// # Errors
    /// `Invalid`: a hello with this session would be too long.
    pub(super) fn begin(&mut self, id: SessionId, label: Option<Arc<str>>) -> Result<()> {
        if self.add_handle(id) {
            return Ok(());
        }
        // One that was ended, but not at the owner, may have been resumed.
        let handles = self.live.get(&id).map_or(1, |ended| ended.handles + 1);
        let new = Live { label, handles, is_ended: false };
        self.size = self.size_with(&new.in_hello(id))?;
        self.live.insert(id, new);
        Ok(())
    }

    /// A caller waits for the owner to resume a session.
    pub(super) fn begin_resume(&mut self, id: SessionId) {
        *self.resuming.entry(id).or_default() += 1;
    }

    /// A caller waits no more. Returns whether it was the last one of the session.
    pub(super) fn end_resume(&mut self, id: SessionId) -> bool {
        let Some(callers) = self.resuming.get_mut(&id) else { return true };
        *callers = callers.saturating_sub(1);
        if *callers == 0 {
            self.resuming.remove(&id);
        }
        !self.is_resuming(id)
    }

    pub(super) fn is_resuming(&self, id: SessionId) -> bool {
        self.resuming.contains_key(&id)
    }

    pub(super) fn hellos(&self) -> u64 {
        self.hellos
    }

    /// Whether this connection has the session, which was not ended.
    pub(super) fn has(&self, id: SessionId) -> bool {
        self.live.get(&id).is_some_and(|live| !live.is_ended)
    }

    /// Refuses a session without a label for which there is no room.
    pub(super) fn check_room(&self, id: SessionId) -> Result<()> {
        self.size_with(&HelloSession { id, label: None }).map(drop)
    }

    fn size_with(&self, session: &HelloSession) -> Result<usize> {
        let size = self.size.saturating_add(to_bytes(session).len());
        if size <= HELLO_BODY {
            return Ok(size);
        }
        Err(Error::invalid(format!(
            "the connection has too many sessions: they and their labels must fit into {HELLO_BODY} \
             bytes; end other sessions first, or use another connection"
        )))
    }

    /// Adds a handle to a session, if this connection has it already.
    pub(super) fn add_handle(&mut self, id: SessionId) -> bool {
        let live = self.live.get_mut(&id).filter(|live| !live.is_ended);
        live.map(|live| live.handles += 1).is_some()
    }

    /// Returns whether this was the last handle.
    pub(super) fn drop_handle(&mut self, id: SessionId) -> bool {
        let Some(live) = self.live.get_mut(&id) else { return false };
        live.handles = live.handles.saturating_sub(1);
        if live.handles > 0 {
            return false;
        }
        self.end(id);
        self.live.remove(&id);
        true
    }

    /// A session has ended, whatever handles it has.
    pub(super) fn end(&mut self, id: SessionId) {
        let Some(live) = self.live.get_mut(&id).filter(|live| !live.is_ended) else { return };
        live.is_ended = true;
        self.size = self.size.saturating_sub(to_bytes(&live.in_hello(id)).len());
    }

    /// What a new connection says.
    pub(super) fn hello(&mut self) -> Hello {
        self.hellos += 1;
        let live = self.live.iter().filter(|(_, live)| !live.is_ended);
        let sessions = live.map(|(id, live)| live.in_hello(*id)).collect();
        Hello { sessions, client: Some(self.client) }
    }
}
