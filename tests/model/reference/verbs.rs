//! What is done with a task that is there: by who holds it, and by anybody.

use super::{
    Answer, Cause, Claim, Holder, Micros, Model, Place, Refusal, State, Taken, Task, TaskNo,
    TubeNo, Verb,
};

impl Model {
    // ---- what a holder may do

    /// A claim goes with its task; who names a task by its id names a tube too.
    fn held(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<&Claim> {
        if holder.claim.is_none() {
            self.tube(tube)?;
        }
        if !self.alive(holder.session) {
            return Err(Refusal::SessionEnded);
        }
        match self.tasks.get(&id).filter(|task| task.tube == tube).map(|task| &task.place) {
            Some(Place::Taken(claim))
                if claim.session == holder.session
                    && holder.claim.is_none_or(|no| no == claim.no) =>
            {
                Ok(claim)
            }
            _ => Err(Refusal::NotTaken),
        }
    }

    pub fn ack(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        let answers = self.ack_many(&[(tube, id, holder)]);
        answers[0]
    }

    /// An answer for each, and those who wait are served when all are done.
    pub fn ack_many(&mut self, held: &[(TubeNo, TaskNo, Holder)]) -> Vec<Answer<State>> {
        let ack = |&(tube, id, holder): &(TubeNo, TaskNo, Holder)| {
            self.held(tube, id, holder)?;
            self.remove(id, Cause::Verb(Verb::Ack));
            Ok(State::Done)
        };
        let answers = held.iter().map(ack).collect();
        self.serve();
        answers
    }

    /// The delay is added to the ttl.
    pub fn release(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        holder: Holder,
        delay: Micros,
    ) -> Answer<State> {
        self.held(tube, id, holder)?;
        if delay > 0 && !self.tube(tube)?.driver.timed() {
            return Err(Refusal::Unsupported);
        }
        let until = self.now.saturating_add(delay);
        let place = if delay > 0 { Place::Delayed { until } } else { Place::Ready };
        self.change(id, Cause::Verb(Verb::Release), place);
        let task = self.task(id);
        task.dead = task.dead.saturating_add(delay);
        let state = task.state();
        self.serve();
        Ok(state)
    }

    /// Whether the claim is still the one on its task.
    pub fn stands(&self, taken: Taken) -> bool {
        let claim = self.tasks.get(&taken.task).and_then(Task::claim);
        claim.is_some_and(|(no, _)| no == taken.claim)
    }

    /// The end of a claim that was not ended in another way. A stale one ends without a trace.
    pub fn drop_claim(&mut self, taken: Taken) {
        if self.stands(taken) {
            self.change(taken.task, Cause::ClaimDropped, Place::Ready);
            self.serve();
        }
    }

    /// Adds to the hold, to the ttl and to the ttr. Nothing is looked at if nothing is to be added.
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
        let mut claim = self.held_for_a_time(tube, id, holder)?;
        claim.until = claim.until.saturating_add(by);
        self.change(id, Cause::Verb(Verb::Touch), Place::Taken(claim));
        let task = self.task(id);
        task.ttr = task.ttr.saturating_add(by);
        task.dead = task.dead.saturating_add(by);
        Ok(Some(State::Taken))
    }

    /// Sets the hold anew and nothing else.
    pub fn renew(&mut self, tube: TubeNo, id: TaskNo, holder: Holder, hold: Micros) -> Answer<()> {
        let mut claim = self.held_for_a_time(tube, id, holder)?;
        claim.until = self.now.saturating_add(hold);
        self.change(id, Cause::Renewed, Place::Taken(claim));
        Ok(())
    }

    fn held_for_a_time(&self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<Claim> {
        let claim = self.held(tube, id, holder)?.clone();
        if self.tube(tube)?.driver.timed() { Ok(claim) } else { Err(Refusal::Unsupported) }
    }

    // ---- what anybody may do

    pub fn bury(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        match self.peek(tube, id)?.state() {
            State::Buried => self.change(id, Cause::BuriedAlready, Place::Buried),
            _ => self.change(id, Cause::Verb(Verb::Bury), Place::Buried),
        }
        self.serve();
        Ok(State::Buried)
    }

    /// What is said through a claim is said by its holder.
    pub fn bury_held(&mut self, tube: TubeNo, id: TaskNo, holder: Holder) -> Answer<State> {
        self.held(tube, id, holder)?;
        self.bury(tube, id)
    }

    /// The most urgent of the buried are ready again; how many.
    pub fn kick(&mut self, tube: TubeNo, count: u64) -> Answer<u64> {
        self.tube(tube)?;
        let buried = self.tasks(tube).filter(|(_, task)| task.place == Place::Buried);
        let mut order: Vec<_> = buried.map(|(id, task)| (task.pri, id)).collect();
        order.sort_unstable();
        order.truncate(usize::try_from(count).unwrap_or(usize::MAX));
        for (_, id) in &order {
            self.change(*id, Cause::Verb(Verb::Kick), Place::Ready);
        }
        self.serve();
        Ok(order.len() as u64)
    }

    pub fn delete(&mut self, tube: TubeNo, id: TaskNo) -> Answer<State> {
        self.peek(tube, id)?;
        self.remove(id, Cause::Verb(Verb::Delete));
        self.serve();
        Ok(State::Done)
    }

    pub fn peek(&self, tube: TubeNo, id: TaskNo) -> Answer<&Task> {
        self.tube(tube)?;
        self.tasks.get(&id).filter(|task| task.tube == tube).ok_or(Refusal::NotFound)
    }

    pub fn release_all(&mut self, tube: TubeNo) -> Answer<u64> {
        self.tube(tube)?;
        let taken = self.tasks(tube).filter(|(_, task)| task.state() == State::Taken);
        let taken: Vec<_> = taken.map(|(id, _)| id).collect();
        for id in &taken {
            self.change(*id, Cause::ReleaseAll, Place::Ready);
        }
        self.serve();
        Ok(taken.len() as u64)
    }
}
