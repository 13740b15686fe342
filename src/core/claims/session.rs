//! Sessions: owners of claims and waits. The end of a session releases its tasks.

use std::sync::Arc;

use super::fate::End;
use crate::core::state::{Core, SessionState, Timer};
use crate::{Error, Result, SessionId};

impl Core {
    pub(crate) fn begin_session(&mut self, id: SessionId, label: Option<Arc<str>>) {
        let now = self.now.running;
        let times = SessionState { since: now, last_seen: now, ..SessionState::default() };
        self.sessions.insert(id, SessionState { handles: 1, label, ..times });
    }

    /// Adds a handle to a session that exists, or is in its grace period.
    pub(crate) fn resume_session(&mut self, id: SessionId) -> Result<()> {
        self.check_open()?;
        let session = self.sessions.get_mut(&id).ok_or(Error::SessionUnknown { id })?;
        session.handles += 1;
        if let Some(until) = session.grace_until.take() {
            self.timers.remove(&(until, Timer::Grace(id)));
        }
        Ok(())
    }

    /// Checks that a session has not ended. It is seen now.
    pub(crate) fn check_session(&mut self, id: SessionId) -> Result<()> {
        let session = self.sessions.get_mut(&id).ok_or(Error::SessionEnded)?;
        session.last_seen = self.now.running;
        Ok(())
    }

    /// Removes a handle of a session. If it was the last one, the session ends, or its grace period
    /// begins.
    pub(crate) fn drop_session_handle(&mut self, id: SessionId) -> Result<()> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        session.handles = session.handles.saturating_sub(1);
        if session.handles > 0 {
            return Ok(());
        }
        if self.config.grace == 0 || self.closed {
            return self.end_session(id);
        }
        let until = self.now.running.saturating_add(self.config.grace);
        session.grace_until = Some(until);
        self.timers.insert((until, Timer::Grace(id)));
        Ok(())
    }

    /// Ends a session by a call: no connection begins it again.
    pub(crate) fn end_session_for_good(&mut self, id: SessionId) -> Result<()> {
        if self.sessions.contains_key(&id) {
            self.ended_sessions.add(id);
        }
        self.end_session(id)
    }

    /// Whether a session was ended by a call. Only the newest ends are known.
    pub(crate) fn was_ended_for_good(&self, id: SessionId) -> bool {
        self.ended_sessions.contains(id)
    }

    /// Ends a session: its claimed tasks become ready, and its waits end.
    pub(crate) fn end_session(&mut self, id: SessionId) -> Result<()> {
        let Some(session) = self.sessions.get_mut(&id) else { return Ok(()) };
        let mut claims: Vec<u64> = std::mem::take(&mut session.claims).into_iter().collect();
        if let Some(until) = session.grace_until {
            self.timers.remove(&(until, Timer::Grace(id)));
        }
        self.end_session_waits(id);
        let ended = if self.closed {
            Ok(())
        } else {
            claims.sort_unstable();
            // The session exists meanwhile: a failure has its label.
            self.end_claims(claims, End::SessionEnded).1
        };
        self.sessions.remove(&id);
        ended
    }
}
