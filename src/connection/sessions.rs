//! The sessions of a connection. Each connection that is made anew begins or resumes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::request::{Hello, HelloSession};
use crate::SessionId;

pub(super) struct Sessions {
    own: SessionId,
    live: BTreeMap<SessionId, Live>,
}

struct Live {
    label: Option<Arc<str>>,
    handles: usize,
}

impl Sessions {
    pub(super) fn new(own: SessionId, label: Option<Arc<str>>) -> Sessions {
        let mut sessions = Sessions { own, live: BTreeMap::new() };
        sessions.begin(own, label);
        sessions
    }

    /// A session that the owner has begun or resumed has one more handle.
    pub(super) fn begin(&mut self, id: SessionId, label: Option<Arc<str>>) {
        self.live.entry(id).or_insert(Live { label, handles: 0 }).handles += 1;
    }

    /// Adds a handle to a session, if this connection has it already.
    pub(super) fn add_handle(&mut self, id: SessionId) -> bool {
        self.live.get_mut(&id).map(|live| live.handles += 1).is_some()
    }

    /// Returns whether this was the last handle.
    pub(super) fn drop_handle(&mut self, id: SessionId) -> bool {
        let Some(live) = self.live.get_mut(&id) else { return false };
        live.handles = live.handles.saturating_sub(1);
        let is_last = live.handles == 0;
        if is_last {
            self.live.remove(&id);
        }
        is_last
    }

    /// What a new connection says: its sessions, its own first.
    pub(super) fn hello(&self) -> Hello {
        let session = |id: SessionId, live: &Live| HelloSession { id, label: live.label.clone() };
        let own = self.live.get(&self.own).map(|live| session(self.own, live));
        let others = self.live.iter().filter(|(id, _)| **id != self.own);
        let others = others.map(|(id, live)| session(*id, live));
        Hello { sessions: own.into_iter().chain(others).collect() }
    }
}
