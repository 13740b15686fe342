//! Sessions, and close and reopen of the store, which end all sessions.

use super::{Answer, Cause, Claim, Micros, Model, NEVER, Refusal, SessionNo, Status};

impl Model {
    pub fn begin_session(&mut self) -> SessionNo {
        let no = self.next_number();
        self.sessions.insert(no, None);
        no
    }

    pub fn session_exists(&self, session: SessionNo) -> bool {
        self.sessions.contains_key(&session)
    }

    /// Ends a session with its waits and claims, even if it has other handles.
    pub fn end_session(&mut self, session: SessionNo) {
        self.forget_session(session);
        self.serve();
    }

    pub(super) fn forget_session(&mut self, session: SessionNo) {
        self.sessions.remove(&session);
        for wait in self.waits.values_mut().filter(|wait| wait.session == session) {
            wait.answer.get_or_insert(Err(Refusal::SessionEnded));
        }
        for wait in self.put_waits.values_mut().filter(|wait| wait.session == session) {
            wait.answer.get_or_insert(Err(Refusal::SessionEnded));
        }
        let held = self.tasks.iter().filter(|(_, task)| task.is_held_by(session));
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.change(id, Cause::SessionEnded, Status::Ready);
        }
    }

    /// Drops the last handle of a session. The session must have no waits.
    pub fn leave_session(&mut self, session: SessionNo) {
        match self.grace {
            0 => self.end_session(session),
            grace => {
                let left = Some(self.now.saturating_add(grace));
                self.sessions.entry(session).and_modify(|until| *until = left);
            }
        }
    }

    /// Adds a handle to a session that exists, also during its grace.
    pub fn resume_session(&mut self, session: SessionNo) -> Answer<()> {
        let until = self.sessions.get_mut(&session).ok_or(Refusal::SessionUnknown)?;
        *until = None;
        Ok(())
    }

    // ---- close and reopen

    /// Closes the store and ends all waits.
    pub fn close(&mut self) {
        for wait in self.waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
        for wait in self.put_waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
    }

    /// Reopens the store after it was closed for `closed_for`. All sessions have ended, and
    /// all claims that were never parked. The others are parked until the time of the last park.
    /// Temporary tubes are empty, and the counts of calls are 0. Items that fell due while the
    /// store was closed are due now.
    pub fn reopen(&mut self, closed_for: Micros) {
        self.now = self.now.saturating_add(closed_for);
        self.waits.clear();
        self.put_waits.clear();
        self.sessions.clear();
        for (no, tube) in self.tubes.clone() {
            for id in self.ids(no) {
                if tube.options.temporary {
                    self.remove(id, Cause::Reopened);
                } else if let Status::Taken(claim) = &self.tasks[&id].status {
                    let limited = tube.options.max_runtime() != NEVER;
                    let status = reopened(claim, limited).map_or(Status::Ready, Status::Taken);
                    self.change(id, Cause::Reopened, status);
                }
            }
        }
        for tube in self.tubes.values_mut() {
            tube.calls.clear();
        }
        self.events.clear();
    }
}

/// The claim after a reopen, if it was parked. If the tube has a `max_runtime`, the claim cannot be
/// extended beyond the time for which it was parked.
fn reopened(claim: &Claim, limited: bool) -> Option<Claim> {
    let stored = claim.stored.clone()?;
    let (session, until) = (stored.session, stored.until);
    let (no, stored) = (claim.no, Some(stored));
    let latest = if limited { until } else { NEVER };
    Some(Claim { no, session, until, latest, is_parked: true, stored })
}
