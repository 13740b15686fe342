//! The sessions of a connection. Each connection that is made anew begins or resumes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::request::{Hello, HelloSession};
use crate::SessionId;

#[derive(Default)]
pub(super) struct Sessions(BTreeMap<SessionId, Live>);

struct Live {
    label: Option<Arc<str>>,
    handles: usize,
}

impl Sessions {
    /// A session that the owner has begun or resumed has one more handle.
    pub(super) fn begin(&mut self, id: SessionId, label: Option<Arc<str>>) {
        self.0.entry(id).or_insert(Live { label, handles: 0 }).handles += 1;
    }

    /// Adds a handle to a session, if this connection has it already.
    pub(super) fn add_handle(&mut self, id: SessionId) -> bool {
        self.0.get_mut(&id).map(|live| live.handles += 1).is_some()
    }

    /// Returns whether this was the last handle.
    pub(super) fn drop_handle(&mut self, id: SessionId) -> bool {
        let Some(live) = self.0.get_mut(&id) else { return false };
        live.handles = live.handles.saturating_sub(1);
        let is_last = live.handles == 0;
        if is_last {
            self.0.remove(&id);
        }
        is_last
    }

    /// What a new connection says.
    pub(super) fn hello(&self) -> Hello {
        let session =
            |(id, live): (&SessionId, &Live)| HelloSession { id: *id, label: live.label.clone() };
        Hello { sessions: self.0.iter().map(session).collect() }
    }
}
