//! Sessions, and the lives of the store, which end them all.

use super::{Answer, Cause, Micros, Model, Place, Refusal, SessionNo, State, Task};

impl Model {
    pub fn begin_session(&mut self) -> SessionNo {
        let no = self.number();
        self.sessions.insert(no, None);
        no
    }

    pub fn alive(&self, session: SessionNo) -> bool {
        self.sessions.contains_key(&session)
    }

    /// The end of a session, whoever else is in it: its waits and its claims end.
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
        let his = |task: &Task| task.claim().is_some_and(|(_, holder)| holder == session);
        let held = self.tasks.iter().filter(|(_, task)| his(task));
        for id in held.map(|(id, _)| *id).collect::<Vec<_>>() {
            self.change(id, Cause::SessionEnded, Place::Ready);
        }
    }

    /// The last one in a session leaves it. He does not wait for anything any more.
    pub fn leave_session(&mut self, session: SessionNo) {
        match self.grace {
            0 => self.end_session(session),
            grace => {
                let left = Some(self.now.saturating_add(grace));
                self.sessions.entry(session).and_modify(|until| *until = left);
            }
        }
    }

    /// Enters a session that is alive, left by everybody or not.
    pub fn resume_session(&mut self, session: SessionNo) -> Answer<()> {
        let until = self.sessions.get_mut(&session).ok_or(Refusal::SessionUnknown)?;
        *until = None;
        Ok(())
    }

    // ---- lives

    /// The store is closed; nobody waits any more.
    pub fn close(&mut self) {
        for wait in self.waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
        for wait in self.put_waits.values_mut() {
            wait.answer.get_or_insert(Err(Refusal::Closed));
        }
    }

    /// The store is opened again after this time. Claims and sessions are void, what is in
    /// temporary tubes is lost, and all counting begins anew. What fell due meanwhile is due now.
    pub fn reopen(&mut self, away: Micros) {
        self.now = self.now.saturating_add(away);
        self.waits.clear();
        self.put_waits.clear();
        self.sessions.clear();
        for (no, tube) in self.tubes.clone() {
            for id in self.ids(no) {
                if tube.options.temporary {
                    self.remove(id, Cause::Reopened);
                } else if self.tasks[&id].state() == State::Taken {
                    self.change(id, Cause::Reopened, Place::Ready);
                }
            }
        }
        for tube in self.tubes.values_mut() {
            tube.calls.clear();
        }
        self.events.clear();
    }
}
