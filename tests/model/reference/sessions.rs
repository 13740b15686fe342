//! Sessions, and close and reopen of the store, which end all sessions.

use super::attempts::End;
use super::{
    Answer, Cause, Claim, Micros, Model, NEVER, Options, Refusal, SessionNo, Status, Task, TaskNo,
    Verb,
};

impl Model {
    pub fn begin_session(&mut self, label: Option<&str>) -> SessionNo {
        let no = self.next_number();
        self.sessions.insert(no, None);
        self.labels.extend(label.map(|label| (no, label.to_owned())));
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
            self.end_claim(id, Cause::SessionEnded, End::SessionEnded);
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
        self.close_watches();
    }

    /// Reopens the store after it was closed for `closed_for`. All sessions have ended, and
    /// all claims that were never parked. The others are parked until the time of the last park.
    /// Temporary tubes are empty, and the counts of calls are 0. Items that fell due while the
    /// store was closed are due now.
    pub fn reopen(&mut self, closed_for: Micros) {
        for (id, status) in self.begin_run() {
            match status {
                Some(status) => self.change(id, Cause::Reopened, status),
                None => _ = self.end_claim(id, Cause::Reopened, End::Closed),
            }
        }
        self.pass_while_closed(closed_for);
        self.clear_counts();
        self.empty_buckets();
        self.events.clear();
    }

    /// Opens the store after its process was killed, with everything in the file but its claims. The
    /// wall clock must not be behind: where the time would start is left open then.
    /// Claims end as in [`reopen`](Model::reopen), but at the open. A take that was counted before
    /// its task was handed out is an attempt. Whether any other take is known is left open: `takes`
    /// is the number that the library has.
    pub fn reopen_after_kill(&mut self, dead_for: Micros, takes: impl Fn(TaskNo) -> u32) {
        let claims = self.begin_run();
        self.pass_while_closed(dead_for);
        self.clear_counts();
        self.empty_buckets();
        for (id, status) in claims {
            let is_alive = self.tasks[&id].expires_at > self.now;
            match (status, self.tasks[&id].status.clone()) {
                (Some(status), _) => self.change(id, Cause::Killed, status),
                (None, Status::Taken(claim)) if claim.is_counted && is_alive => {
                    self.end_claim(id, Cause::Verb(Verb::Lost), End::Killed);
                }
                _ => {
                    let most = self.tasks[&id].takes;
                    let found = if is_alive { takes(id) } else { most };
                    assert!(found == most || found + 1 == most, "task {id} has {found} takes");
                    self.task(id).takes = found;
                    self.task(id).history.forget_take();
                    self.change(id, Cause::Killed, Status::Ready);
                }
            }
        }
        self.events.clear();
    }

    fn clear_counts(&mut self) {
        for tube in self.tubes.values_mut() {
            tube.calls.clear();
            tube.done = 0;
        }
    }

    /// Ends all waits and sessions, and empties the temporary tubes. Returns the taken tasks, with
    /// the status of those whose claim is parked again.
    fn begin_run(&mut self) -> Vec<(TaskNo, Option<Status>)> {
        self.ids_restored_until = None;
        self.shown_ahead.set(0);
        self.waits.clear();
        self.put_waits.clear();
        self.watches.clear();
        self.sessions.clear();
        let mut claims = Vec::new();
        for (no, tube) in self.tubes.clone() {
            if tube.options.temporary {
                self.forget_tokens(no);
            }
            for id in self.ids(no) {
                if tube.options.temporary {
                    self.remove(id, Cause::Reopened);
                    continue;
                }
                let task = &self.tasks[&id];
                if let Status::Taken(claim) = &task.status {
                    claims.push((id, reopened(claim, task, &tube.options).map(Status::Taken)));
                }
            }
        }
        claims
    }
}

/// The claim after a reopen, if it was parked. If the task or the tube has a `max_runtime`, the claim cannot
/// be extended beyond the time for which it was parked.
fn reopened(claim: &Claim, task: &Task, options: &Options) -> Option<Claim> {
    let stored = claim.stored.clone()?;
    let (session, until) = (stored.session, stored.until);
    let (no, stored) = (claim.no, Some(stored));
    let is_limited = task.max_runtime.unwrap_or(options.max_runtime()) != NEVER;
    let latest = if is_limited { until } else { NEVER };
    let (is_overdue, is_counted, reclaim_delay) = (false, false, options.reclaim_delay);
    let is_parked = true;
    Some(Claim {
        no,
        session,
        until,
        latest,
        reclaim_delay,
        is_overdue,
        is_counted,
        is_parked,
        stored,
    })
}
