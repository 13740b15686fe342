//! The sessions of a connection. Each connection that is made anew begins or resumes them.
//!
//! Invariant: they fit into the hello of a connection.

use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_wire::HELLO_BODY;

use super::request::{Hello, HelloSession};
use crate::core::to_bytes;
use crate::{Error, Result, SessionId};

/// The bytes by which the number of sessions may grow: from one byte to the three of a number below 2^21.
const COUNT_GROWS: usize = 2;

pub(super) struct Sessions {
    live: BTreeMap<SessionId, Live>,
    /// The bytes of a hello with these sessions, or a few more.
    size: usize,
}

struct Live {
    label: Option<Arc<str>>,
    handles: usize,
}

impl Live {
    fn in_hello(&self, id: SessionId) -> HelloSession {
        HelloSession { id, label: self.label.clone() }
    }
}

impl Sessions {
    pub(super) fn new() -> Sessions {
        let empty = to_bytes(&Hello { sessions: Vec::new() }).len();
        Sessions { live: BTreeMap::new(), size: empty + COUNT_GROWS }
    }

    /// Adds a handle to a session, which is a new one or that of another handle.
    ///
    /// # Errors
    /// `Invalid`: a hello with this session would be too long.
    pub(super) fn begin(&mut self, id: SessionId, label: Option<Arc<str>>) -> Result<()> {
        if self.add_handle(id) {
            return Ok(());
        }
        let new = Live { label, handles: 1 };
        self.size = self.size_with(&new.in_hello(id))?;
        self.live.insert(id, new);
        Ok(())
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
        self.live.get_mut(&id).map(|live| live.handles += 1).is_some()
    }

    /// Returns whether this was the last handle.
    pub(super) fn drop_handle(&mut self, id: SessionId) -> bool {
        let Some(live) = self.live.get_mut(&id) else { return false };
        live.handles = live.handles.saturating_sub(1);
        if live.handles > 0 {
            return false;
        }
        self.end(id);
        true
    }

    /// Removes a session with all its handles: it has ended.
    pub(super) fn end(&mut self, id: SessionId) {
        if let Some(ended) = self.live.remove(&id) {
            self.size = self.size.saturating_sub(to_bytes(&ended.in_hello(id)).len());
        }
    }

    /// What a new connection says.
    pub(super) fn hello(&self) -> Hello {
        Hello { sessions: self.live.iter().map(|(id, live)| live.in_hello(*id)).collect() }
    }
}
