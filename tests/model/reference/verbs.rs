//! Verbs on an existing task: those of its holder, and those of any caller.

use super::attempts::End;
use super::{
    Answer, Cause, Claim, Holder, Micros, Model, Refusal, Stage, State, Status, Taken, Task,
    TaskNo, TubeNo, Verb,
};

impl Model {
    // ---- verbs of the holder

    /// The claim that `holder` has on the task. A verb by id also requires that the tube exists.
    pub(super) fn held(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<&Claim> {
        if holder.claim.is_none() {
            self.tube(tube)?;
        }
        if !self.session_exists(holder.session) {
            return Err(Refusal::SessionEnded);
        }
        match self.tasks.get(&id).filter(|task| task.tube == tube).map(|task| &task.status) {
            Some(Status::Taken(claim))
                if claim.session == holder.session
                    && !claim.is_parked
                    && holder.claim.is_none_or(|no| no == claim.no) =>
            {
                Ok(claim)
            }
            _ => Err(Refusal::NotTaken),
        }
    }

    /// Whether this claim stands.
    /// Finds a claim by the task.
    pub fn claimed(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<()> {
        self.held(tube, id, holder).map(drop)
    }

    pub fn has_claim(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> bool {
        self.held(tube, id, holder).is_ok()
    }

    pub fn ack(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        let answers = self.ack_many(&[(tube, id, holder)]);
        answers[0]
    }

    pub fn ack_with(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        result: Vec<u8>,
    ) -> Answer<State> {
        self.held(tube, id, holder)?;
        self.end_done(id, Cause::Verb(Verb::Ack), Some(result));
        self.serve();
        Ok(State::Done)
    }

    /// Answers each ack, and serves the waiters after the last one.
    pub fn ack_many(&mut self, held: &[(TubeNo, TaskNo, Holder)]) -> Vec<Answer<State>> {
        let ack = |&(tube, id, holder): &(TubeNo, TaskNo, Holder)| {
            self.held(tube, id, holder)?;
            self.end_done(id, Cause::Verb(Verb::Ack), None);
            Ok(State::Done)
        };
        let answers = held.iter().map(ack).collect();
        self.serve();
        answers
    }

    /// Whether the claim is still the current one of its task.
    pub fn is_current(&self, taken: Taken) -> bool {
        let claim = self.tasks.get(&taken.task).and_then(Task::claim);
        claim.is_some_and(|(no, _)| no == taken.claim)
    }

    /// Drops a claim, which releases its task. Dropping a stale claim has no effect.
    pub fn drop_claim(&mut self, taken: Taken) {
        if self.is_current(taken) {
            self.end_claim(taken.task, Cause::ClaimDropped, End::Released { delay: 0 });
            self.serve();
        }
    }

    /// Drops a claim whose snooze was refused. The attempt is forgiven all the same.
    pub fn give_back(&mut self, taken: Taken) {
        if self.is_current(taken) {
            self.end_claim(taken.task, Cause::ClaimDropped, End::Revoked);
            self.serve();
        }
    }

    /// Adds `by` to the time left of the claim, within its limit, to the ttl and to the ttr. Checks
    /// nothing if `by` is 0.
    pub fn touch(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        by: Micros,
    ) -> Answer<Option<State>> {
        if by == 0 {
            return Ok(None);
        }
        let mut claim = self.timed_claim(tube, id, holder)?;
        claim.until = claim.until.saturating_add(by).min(claim.latest);
        claim.is_overdue = false;
        self.change(id, Cause::Verb(Verb::Touch), Status::Taken(claim));
        let task = self.task(id);
        task.ttr = task.ttr.saturating_add(by);
        task.expires_at = task.expires_at.saturating_add(by);
        Ok(Some(State::Taken))
    }

    /// Replaces the body. The claim lasts at least its ttr from now, within its limit.
    pub fn checkpoint(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        data: Vec<u8>,
    ) -> Answer<State> {
        let mut claim = self.held(tube, id, holder)?.clone();
        let renewed = self.now.saturating_add(self.task(id).ttr);
        claim.until = claim.until.max(renewed).min(claim.latest);
        claim.is_overdue = false;
        self.change(id, Cause::Verb(Verb::Checkpoint), Status::Taken(claim));
        self.task(id).data = data;
        Ok(State::Taken)
    }

    /// Returns the value of a step, which is this one unless an earlier attempt has stored it.
    pub fn run_step(
        &mut self,
        (tube, id): (TubeNo, TaskNo),
        holder: Holder,
        name: u8,
        value: u64,
    ) -> Answer<u64> {
        let claim = self.held(tube, id, holder)?.clone();
        if let Some(stored) = self.tasks[&id].steps.get(&name) {
            return Ok(*stored);
        }
        self.change(id, Cause::Verb(Verb::Step), Status::Taken(claim));
        self.task(id).steps.insert(name, value);
        Ok(value)
    }

    /// Sets the time left of the claim, within its limit, and changes nothing else.
    pub fn renew(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        time_left: Micros,
    ) -> Answer<()> {
        let mut claim = self.timed_claim(tube, id, holder)?;
        claim.until = self.now.saturating_add(time_left).min(claim.latest);
        claim.is_overdue = false;
        self.change(id, Cause::Renewed, Status::Taken(claim));
        Ok(())
    }

    fn timed_claim(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<Claim> {
        let claim = self.held(tube, id, holder)?.clone();
        if self.tube(tube)?.driver.timed() { Ok(claim) } else { Err(Refusal::Unsupported) }
    }

    // ---- verbs of any caller

    pub fn bury(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        match self.peek(tube, id)?.state() {
            State::Buried => self.change(id, Cause::AlreadyBuried, Status::Buried),
            State::Done | State::Recurring => return Err(Refusal::NotReady),
            _ => self.end_buried(id, Cause::Verb(Verb::Bury), None),
        }
        self.serve();
        Ok(State::Buried)
    }

    /// A bury through a claim, which must be current.
    pub fn bury_held(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        self.held(tube, id, holder)?;
        self.bury(tube, id)
    }

    /// Kicks the first buried tasks. Returns how many.
    pub fn kick(&mut self, tube: TubeNo, count: u64) -> Answer<u64> {
        self.tube(tube)?;
        let mut buried = self.in_order(tube, Stage::Buried);
        buried.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        for id in &buried {
            self.kick_one(*id);
        }
        self.serve();
        Ok(buried.len() as u64)
    }

    /// Makes a buried task ready, delayed if its moment is ahead, or blocked if it still waits for
    /// others.
    pub fn kick_task(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        if self.peek(tube, id)?.state() != State::Buried {
            return Err(Refusal::NotBuried);
        }
        self.kick_one(id);
        let state = self.tasks[&id].state();
        self.serve();
        Ok(state)
    }

    pub(super) fn kick_one(&mut self, id: TaskNo) {
        let kick = Cause::Verb(Verb::Kick);
        self.forget_burial(id);
        if self.tasks[&id].parents.is_empty() {
            self.make_ready(id, kick);
        } else {
            self.change(id, kick, Status::Blocked { until: 0 });
        }
        self.forgive_all(id);
        self.task(id).group = None;
    }

    /// Ends the claim on a task, parked or not, whichever session has it.
    pub fn revoke(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        if self.peek(tube, id)?.state() != State::Taken {
            return Err(Refusal::NotTaken);
        }
        let state = self.end_claim(id, Cause::Revoked, End::Revoked);
        self.serve();
        Ok(state)
    }

    pub fn delete(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        self.peek(tube, id)?;
        self.check_no_children(&[id])?;
        self.remove(id, Cause::Verb(Verb::Delete));
        self.serve();
        Ok(State::Done)
    }

    pub fn peek(&self, tube: TubeNo, id: TaskNo) -> Answer<&Task> {
        self.tube(tube)?;
        self.tasks.get(&id).filter(|task| task.tube == tube).ok_or(Refusal::NotFound)
    }

    /// Ends all claims of a tube. With `forgive` their takes are no attempts.
    pub fn release_all(&mut self, tube: TubeNo, forgive: bool) -> Answer<u64> {
        self.tube(tube)?;
        let taken = self.tasks(tube).filter(|(_, task)| task.state() == State::Taken);
        let taken: Vec<_> = taken.map(|(id, _)| id).collect();
        for id in &taken {
            if forgive {
                self.end_claim(*id, Cause::RevokeAll, End::Revoked);
            } else {
                self.end_claim(*id, Cause::ReleaseAll, End::Released { delay: 0 });
            }
        }
        self.serve();
        Ok(taken.len() as u64)
    }
}
