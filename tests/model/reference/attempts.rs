//! Attempts: what becomes of a task whose claim ends without an ack, a bury or a delete.
//!
//! A take is an attempt, unless it is forgiven. A task without an attempt left is buried when its
//! claim ends, with the failure that was reported, or with the way in which the attempt was lost.

use super::{
    Answer, Backoff, Cause, Claim, Holder, LastFailure, Micros, Model, NEVER, OnParent, Refusal,
    SessionNo, Stage, State, Status, Taken, Task, TaskNo, TubeNo, Verb,
};

/// What a worker reports. A group has 1 to 255 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub group: String,
    pub message: String,
}

/// How a claim ends.
#[derive(Clone, Copy, Debug)]
pub(super) enum End<'a> {
    /// Its holder gives it back, or drops it.
    Released {
        delay: Micros,
    },
    /// Another caller ends it, or its task was not handed out.
    Revoked,
    Snoozed {
        delay: Micros,
    },
    /// Without a delay the backoff of the tube applies.
    Failed {
        delay: Option<Micros>,
        failure: &'a Failure,
    },
    Expired,
    SessionEnded,
    Killed,
    Closed,
}

impl Model {
    // ---- verbs of the holder

    pub fn fail(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        delay: Option<Micros>,
        failure: &Failure,
    ) -> Answer<State> {
        check(failure)?;
        self.end_for_holder((tube, id, holder), Verb::Fail, End::Failed { delay, failure })
    }

    pub fn snooze(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        delay: Micros,
    ) -> Answer<State> {
        self.end_for_holder((tube, id, holder), Verb::Snooze, End::Snoozed { delay })
    }

    fn end_for_holder(
        &mut self,
        (tube, id, holder): (TubeNo, TaskNo, Holder),
        verb: Verb,
        end: End<'_>,
    ) -> Answer<State> {
        self.held(tube, id, holder)?;
        let delay = match end {
            End::Failed { delay, .. } => delay.unwrap_or(0),
            End::Released { delay } | End::Snoozed { delay } => delay,
            _ => 0,
        };
        if delay > 0 && !self.tube(tube)?.driver.timed() {
            return Err(Refusal::Unsupported);
        }
        let state = self.end_claim(id, Cause::Verb(verb), end);
        self.serve();
        Ok(state)
    }

    /// Releases the task. A delay is added to its ttl.
    pub fn release(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        delay: Micros,
    ) -> Answer<State> {
        self.end_for_holder((tube, id, holder), Verb::Release, End::Released { delay })
    }

    /// Buries a task with a failure, whatever attempts are left.
    pub fn bury_with(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        failure: &Failure,
    ) -> Answer<State> {
        check(failure)?;
        let session = self.held(tube, id, holder)?.session;
        let group = (&*failure.group, "call");
        self.record_failure(id, group, Some(&failure.message), Some(session));
        self.end_buried(id, Cause::Verb(Verb::Bury), Some(&failure.group));
        self.serve();
        Ok(State::Buried)
    }

    // ---- the ends of claims

    /// Ends the claim on a task. Returns what the task is then, even if that is not kept.
    pub(super) fn end_claim(&mut self, id: TaskNo, cause: Cause, end: End<'_>) -> State {
        let Status::Taken(claim) = self.tasks[&id].status.clone() else { return State::Ready };
        match end {
            End::Snoozed { .. } => self.task(id).forgiven += 1,
            End::Revoked if self.knows_attempts(&self.tasks[&id]) => self.task(id).forgiven += 1,
            _ => {}
        }
        if let End::Failed { failure, .. } = end {
            let Failure { group, message } = failure;
            self.record_failure(id, (group, "reported"), Some(message), Some(claim.session));
        }
        if self.is_spent(&self.tasks[&id]) {
            if let Some(group) = lost_group(end) {
                self.record_failure(id, (group, group), None, Some(claim.session));
            }
            let group = self.tasks[&id].failure.as_ref().map(|failure| failure.group.clone());
            self.end_buried(id, cause, group.as_deref());
            return State::Buried;
        }
        match self.delay_after(&self.tasks[&id], end) {
            0 => self.make_ready(id, cause),
            delay => {
                let until = self.now.saturating_add(delay);
                let task = self.task(id);
                task.expires_at = task.expires_at.saturating_add(delay);
                self.change(id, cause, Status::Delayed { until });
            }
        }
        self.tasks[&id].state()
    }

    /// Ends a claim whose task was not handed out.
    pub(super) fn forgive_claim(&mut self, taken: Taken) {
        if self.is_current(taken) {
            self.end_claim(taken.task, Cause::Revoked, End::Revoked);
            self.serve();
        }
    }

    /// Buries a ready task that has no attempt left: the end of the last one was not recorded.
    pub(super) fn bury_spent(&mut self, id: TaskNo) {
        self.record_failure(id, ("lost", "lost"), None, None);
        self.end_buried(id, Cause::SpentAtTake, Some("lost"));
    }

    /// A kicked task has all its attempts again. Of a task whose end or group was recorded they are
    /// forgiven even if nothing limits them.
    pub(super) fn forgive_all(&mut self, id: TaskNo) {
        let task = &self.tasks[&id];
        let tube = &self.tubes[&task.tube];
        let is_recorded = tube.options.keep_buried().is_some() || task.group.is_some();
        if is_recorded || self.knows_attempts(task) {
            self.task(id).forgiven = self.tasks[&id].takes;
        }
    }

    /// How many attempts are left; `None` without a limit.
    pub fn attempts_left(&self, task: &Task) -> Option<u32> {
        let limit = task.max_attempts.or(self.tubes[&task.tube].options.max_attempts);
        limit.map(|limit| limit.saturating_sub(task.attempts()))
    }

    pub(super) fn is_spent(&self, task: &Task) -> bool {
        self.attempts_left(task) == Some(0)
    }

    /// Whether attempts matter to this task: they are limited, determine a delay, are counted, or
    /// were forgiven or reported before, or the task has a key, a schedule, tags, parents, a moment,
    /// steps or a history. A forgiven take of another task is not recorded.
    pub(super) fn knows_attempts(&self, task: &Task) -> bool {
        self.attempts_left(task).is_some()
            || self.tubes[&task.tube].options.backoff.is_some()
            || self.tubes[&task.tube].options.metrics
            || task.forgiven > 0
            || task.failure.is_some()
            || task.key.is_some()
            || task.spawned_by.is_some()
            || !task.tags.is_empty()
            || !task.history.entries.is_empty()
            || !task.steps.is_empty()
            || task.not_before.is_some()
            || !task.parents.is_empty()
            || task.on_parent != OnParent::Wait
    }

    fn delay_after(&self, task: &Task, end: End<'_>) -> Micros {
        let backoff = self.tubes[&task.tube].options.backoff;
        let backoff = backoff.map_or(0, |backoff| backoff_after(backoff, task.attempts()));
        match end {
            End::Released { delay } | End::Snoozed { delay } => delay,
            End::Failed { delay, .. } => delay.unwrap_or(backoff),
            End::Expired | End::SessionEnded | End::Killed => backoff,
            End::Revoked | End::Closed => 0,
        }
    }

    pub(super) fn record_failure(
        &mut self,
        id: TaskNo,
        (group, kind): (&str, &'static str),
        message: Option<&String>,
        session: Option<SessionNo>,
    ) {
        let owner = session.and_then(|session| self.labels.get(&session).cloned());
        let (at, task) = (self.now, self.task(id));
        let (group, message) = (group.to_owned(), message.cloned());
        let attempt = task.attempts();
        task.failure = Some(LastFailure { group, message, kind, attempt, owner, at });
    }

    // ---- the reclaim delay

    /// When the time of a claim, or else its reclaim delay, elapses.
    pub(super) fn ttr_due(task: &Task) -> Micros {
        match &task.status {
            Status::Taken(claim) if claim.is_overdue => end_of(claim),
            _ => task.due(),
        }
    }

    /// When the holder of a task loses it.
    pub fn claim_end(task: &Task) -> Micros {
        match &task.status {
            Status::Taken(claim) if task.stage() == Stage::Taken => end_of(claim),
            _ => task.due(),
        }
    }

    /// The time of a claim elapses: it ends, or its reclaim delay begins.
    pub(super) fn ttr_elapses(&mut self, id: TaskNo) {
        match self.tasks[&id].status.clone() {
            Status::Taken(claim) if end_of(&claim) > self.now => {
                let claim = Claim { is_overdue: true, ..claim };
                self.change(id, Cause::Verb(Verb::Lost), Status::Taken(claim));
            }
            _ => _ = self.end_claim(id, Cause::Verb(Verb::Ttr), End::Expired),
        }
    }

    /// The label of a session, if it has one.
    pub fn label(&self, session: SessionNo) -> Option<&str> {
        self.labels.get(&session).map(String::as_str)
    }
}

fn check(failure: &Failure) -> Answer<()> {
    if (1..=255).contains(&failure.group.len()) { Ok(()) } else { Err(Refusal::Invalid) }
}

/// When the holder of a claim loses it.
fn end_of(claim: &Claim) -> Micros {
    claim.until.saturating_add(claim.reclaim_delay)
}

/// The group of a task whose last attempt ends without a report.
fn lost_group(end: End<'_>) -> Option<&'static str> {
    match end {
        // After a limit that was lowered, even a forgiven attempt may have been the last one.
        End::Released { .. } | End::Revoked | End::Snoozed { .. } => Some("released"),
        End::Expired => Some("expired"),
        End::SessionEnded | End::Killed | End::Closed => Some("lost"),
        End::Failed { .. } => None,
    }
}

/// The delay before the attempt that follows this one.
fn backoff_after(backoff: Backoff, attempt: u32) -> Micros {
    let factor = u64::from(backoff.factor).saturating_pow(attempt.saturating_sub(1));
    let delay = backoff.first.saturating_mul(factor).min(backoff.cap);
    debug_assert!(delay < NEVER);
    delay
}
