//! The sessions of an open store.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::ended_sessions::EndedSessions;
use super::wait_keys::SessionWait;
use crate::SessionId;
use crate::base::id_map::{IdMap, IdSet};

/// All sessions, and the newest ones that were ended by a call.
#[derive(Debug, Default)]
pub(in crate::core) struct Sessions {
    by_id: IdMap<SessionId, SessionState>,
    ended: EndedSessions,
}

impl Sessions {
    #[inline]
    pub(in crate::core) fn get(&self, id: SessionId) -> Option<&SessionState> {
        self.by_id.get(&id)
    }

    #[inline]
    pub(in crate::core) fn get_mut(&mut self, id: SessionId) -> Option<&mut SessionState> {
        self.by_id.get_mut(&id)
    }

    /// A session that has not ended.
    #[inline]
    pub(in crate::core) fn live(&mut self, id: SessionId) -> Option<&mut SessionState> {
        self.by_id.get_mut(&id).filter(|session| !session.has_ended)
    }

    pub(in crate::core) fn insert(&mut self, id: SessionId, session: SessionState) {
        self.by_id.insert(id, session);
    }

    pub(in crate::core) fn remove(&mut self, id: SessionId) {
        self.by_id.remove(&id);
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = (SessionId, &SessionState)> {
        self.by_id.iter().map(|(id, session)| (*id, session))
    }

    /// What people know a session by.
    pub(in crate::core) fn label(&self, id: SessionId) -> Option<&Arc<str>> {
        self.by_id.get(&id)?.label.as_ref()
    }

    /// A session gets a claim.
    #[inline]
    pub(in crate::core) fn add_claim(&mut self, id: SessionId, task: u64, now: u64) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.claims.insert(task);
            session.last_seen = now;
        }
    }

    /// A session has a claim no more.
    #[inline]
    pub(in crate::core) fn remove_claim(&mut self, id: SessionId, task: u64) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.claims.remove(&task);
        }
    }

    /// A call of a session begins to wait.
    pub(in crate::core) fn begin_wait(&mut self, id: SessionId, wait: SessionWait) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.waits.insert(wait);
        }
    }

    /// A call of a session waits no more.
    pub(in crate::core) fn end_wait(&mut self, id: SessionId, wait: SessionWait) {
        if let Some(session) = self.by_id.get_mut(&id) {
            session.waits.remove(&wait);
        }
    }

    /// The calls of a session that wait; the session has none any more.
    pub(in crate::core) fn take_waits(&mut self, id: SessionId) -> BTreeSet<SessionWait> {
        let session = self.by_id.get_mut(&id);
        session.map(|session| std::mem::take(&mut session.waits)).unwrap_or_default()
    }

    /// A call ends a session: no connection begins it again.
    pub(in crate::core) fn note_ended_for_good(&mut self, id: SessionId) {
        if self.by_id.contains_key(&id) {
            self.ended.add(id);
        }
    }

    /// Whether a session was ended by a call. Only the newest ends are known.
    pub(in crate::core) fn was_ended_for_good(&self, id: SessionId) -> bool {
        self.ended.contains(id)
    }
}

/// A session. It exists while a handle of it exists, and for the grace period after that; then until
/// its claims have ended.
#[derive(Debug, Default)]
pub(in crate::core) struct SessionState {
    pub(in crate::core) handles: usize,
    /// What people know it by.
    pub(in crate::core) label: Option<Arc<str>>,
    /// What it has said of itself.
    pub(in crate::core) about: Option<About>,
    /// When it began, and when it last made a call that needs a session or got a task, on running
    /// time.
    pub(in crate::core) since: u64,
    pub(in crate::core) last_seen: u64,
    pub(in crate::core) claims: IdSet<u64>,
    /// The calls of the session that wait, so that its end looks at no others.
    pub(in crate::core) waits: BTreeSet<SessionWait>,
    /// When its grace period ends, on running time; of an ended session, when its next claims do.
    pub(in crate::core) grace_until: Option<u64>,
    /// It has ended, for all callers. Its claims are ended in steps.
    pub(in crate::core) has_ended: bool,
}

/// What a session says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct About {
    pub(crate) kind: Arc<str>,
    pub(crate) metadata: Arc<str>,
}
