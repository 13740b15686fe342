//! Sessions: owners of claims and waits. The end of a session releases its tasks.

use std::sync::Arc;

use super::fate::End;
use crate::core::state::{Core, SessionState, Timer};
use crate::{Error, Result, SessionId};

/// The maximum number of claims of an ended session that are ended at a time.
const ENDS_PER_STEP: usize = 512;

impl Core {
    /// Also while the storage fails, as `resume_session`.
    pub(crate) fn begin_session(&mut self, id: SessionId, label: Option<Arc<str>>) -> Result<()> {
        if self.health.is_closed() {
            return Err(Error::Closed);
        }
        // A connection that is made anew begins a session that has just ended: its claims end first.
        // The claim on a damaged task stays, and `verify` reports it.
        while self.has_ended(id) {
            let _ = self.end_session(id);
        }
        let now = self.now.running;
        let times = SessionState { since: now, last_seen: now, ..SessionState::default() };
        self.sessions.insert(id, SessionState { handles: 1, label, ..times });
        Ok(())
    }

    /// Adds a handle to a session that exists, or is in its grace period. Also while the storage fails: a
    /// process that connects then can make a backup.
    pub(crate) fn resume_session(&mut self, id: SessionId) -> Result<()> {
        if self.health.is_closed() {
            return Err(Error::Closed);
        }
        let session = self.sessions.live(id);
        let session = session.ok_or(Error::SessionUnknown { id })?;
        session.handles += 1;
        if let Some(until) = session.grace_until.take() {
            self.timers.remove(&(until, Timer::Grace(id)));
        }
        Ok(())
    }

    /// Checks that a session has not ended. It is seen now.
    pub(crate) fn check_session(&mut self, id: SessionId) -> Result<()> {
        let session = self.sessions.live(id);
        let session = session.ok_or(Error::SessionEnded)?;
        session.last_seen = self.now.running;
        Ok(())
    }

    /// Removes a handle of a session. If it was the last one, the session ends, or its grace period
    /// begins.
    pub(crate) fn drop_session_handle(&mut self, id: SessionId) -> Result<()> {
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        session.handles = session.handles.saturating_sub(1);
        if session.handles > 0 || session.has_ended {
            return Ok(());
        }
        if self.config.grace == 0 || self.health.is_closed() {
            return self.end_session(id);
        }
        let until = self.now.running.saturating_add(self.config.grace);
        session.grace_until = Some(until);
        self.timers.insert((until, Timer::Grace(id)));
        Ok(())
    }

    /// Ends a session by a call: no connection begins it again.
    pub(crate) fn end_session_for_good(&mut self, id: SessionId) -> Result<()> {
        self.sessions.note_ended_for_good(id);
        self.end_session(id)
    }

    /// Whether a session was ended by a call. Only the newest ends are known.
    pub(crate) fn was_ended_for_good(&self, id: SessionId) -> bool {
        self.sessions.was_ended_for_good(id)
    }

    /// Whether a session has ended, and some of its claims have not.
    pub(crate) fn has_ended(&self, id: SessionId) -> bool {
        self.sessions.get(id).is_some_and(|session| session.has_ended)
    }

    /// Ends a session: its claimed tasks become ready, and its waits end. If it has many claims, the
    /// sweeper ends the others, and no caller is their holder meanwhile.
    pub(crate) fn end_session(&mut self, id: SessionId) -> Result<()> {
        if self.health.is_closed() {
            self.sessions.remove(id);
            return Ok(());
        }
        let Some(session) = self.sessions.get_mut(id) else { return Ok(()) };
        let ends_now = !std::mem::replace(&mut session.has_ended, true);
        let mut claims: Vec<u64> = session.claims.iter().copied().take(ENDS_PER_STEP).collect();
        claims.sort_unstable();
        // The claim on a damaged task does not end: the next step must not find it again.
        for claim in &claims {
            session.claims.remove(claim);
        }
        let next = (!session.claims.is_empty()).then_some(self.now.running);
        if let Some(until) = std::mem::replace(&mut session.grace_until, next) {
            self.timers.remove(&(until, Timer::Grace(id)));
        }
        if ends_now {
            self.end_session_waits(id);
        }
        // The session exists meanwhile: a failure has its label.
        let ended = self.end_claims(claims, End::SessionEnded);
        if let Some(next) = next {
            self.timers.insert((next, Timer::Grace(id)));
        } else {
            self.sessions.remove(id);
        }
        ended
    }
}
