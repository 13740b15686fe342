//! Puts, and those that wait for room.

use super::{
    Answer, Cause, Draft, Micros, Model, Options, Place, Refusal, SessionNo, State, Task, TaskNo,
    TubeNo, Verb, WaitNo,
};

/// A put that waits for room.
#[derive(Clone, Debug)]
pub(super) struct PutWait {
    pub(super) session: SessionNo,
    pub(super) tube: TubeNo,
    pub(super) draft: Draft,
    pub(super) until: Micros,
    pub(super) answer: Option<Answer<(TaskNo, State)>>,
}

impl Model {
    pub fn put(&mut self, tube: TubeNo, draft: &Draft) -> Answer<(TaskNo, State)> {
        self.put_many(tube, std::slice::from_ref(draft)).map(|placed| placed[0])
    }

    /// All of them or none. The state is the one in which each is put, also if it is taken at once.
    pub fn put_many(&mut self, no: TubeNo, drafts: &[Draft]) -> Answer<Vec<(TaskNo, State)>> {
        let tube = self.tube(no)?.clone();
        for draft in drafts {
            let timed = draft.pri.is_some() || draft.ttl.is_some() || draft.ttr.is_some();
            if (timed || draft.delay > 0) && !tube.driver.timed()
                || draft.sub_queue.is_some() && !tube.driver.sub_queued()
            {
                return Err(Refusal::Unsupported);
            }
        }
        if !drafts.is_empty() && !self.has_room(no, drafts.len()) {
            return Err(Refusal::Full);
        }
        let put = Cause::Verb(Verb::Put);
        let placed = drafts.iter().map(|draft| self.place(no, &tube.options, draft, put)).collect();
        self.serve();
        Ok(placed)
    }

    fn has_room(&self, tube: TubeNo, tasks: usize) -> bool {
        let total = (self.tasks(tube).count() + tasks) as u64;
        self.tubes[&tube].options.capacity().is_none_or(|capacity| total <= capacity)
    }

    /// Begins a put that waits for room, in order of arrival. It may have its answer at once.
    pub fn put_wait(
        &mut self,
        session: SessionNo,
        tube: TubeNo,
        draft: &Draft,
        timeout: Micros,
    ) -> WaitNo {
        let answer = match self.put(tube, draft) {
            Err(Refusal::Full) if timeout > 0 => {
                (!self.alive(session)).then_some(Err(Refusal::SessionEnded))
            }
            answer => Some(answer),
        };
        let (no, until) = (self.number(), self.now.saturating_add(timeout));
        let draft = draft.clone();
        self.put_waits.insert(no, PutWait { session, tube, draft, until, answer });
        no
    }

    /// What it was answered, if it was.
    pub fn put_answer(&self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        self.put_waits.get(&wait)?.answer
    }

    /// The same; nobody waits any more.
    pub fn fetch_put(&mut self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        let answer = self.put_answer(wait)?;
        self.put_waits.remove(&wait);
        Some(answer)
    }

    /// How many puts wait for room in a tube.
    pub fn waiting_puts(&self, tube: TubeNo) -> u64 {
        let waits = |wait: &&PutWait| wait.answer.is_none() && wait.tube == tube;
        self.put_waits.values().filter(waits).count() as u64
    }

    /// Whether this session has such puts.
    pub fn waits_for_room(&self, session: SessionNo) -> bool {
        self.put_waits.values().any(|wait| wait.answer.is_none() && wait.session == session)
    }

    /// Lets those in who wait for room. A task's times begin then.
    pub(super) fn let_in(&mut self) {
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        for no in waiting.map(|(no, _)| *no).collect::<Vec<_>>() {
            let (tube, draft) = (self.put_waits[&no].tube, self.put_waits[&no].draft.clone());
            if self.has_room(tube, 1) {
                let defaults = self.tubes[&tube].options.clone();
                let placed = self.place(tube, &defaults, &draft, Cause::LetIn);
                self.end_put_wait(no, Ok(placed));
            }
        }
    }

    /// The first answer counts.
    pub(super) fn end_put_wait(&mut self, wait: WaitNo, answer: Answer<(TaskNo, State)>) {
        self.put_waits.entry(wait).and_modify(|wait| _ = wait.answer.get_or_insert(answer));
    }

    fn place(
        &mut self,
        tube: TubeNo,
        defaults: &Options,
        draft: &Draft,
        cause: Cause,
    ) -> (TaskNo, State) {
        let id = self.number();
        let ttl = draft.ttl.unwrap_or(defaults.ttl()).saturating_add(draft.delay);
        let place = match draft.delay {
            0 => Place::Ready,
            delay => Place::Delayed { until: self.now.saturating_add(delay) },
        };
        let task = Task {
            tube,
            data: draft.data.clone(),
            pri: draft.pri.unwrap_or(defaults.pri()),
            sub_queue: draft.sub_queue.clone().filter(|name| !name.is_empty()),
            takes: 0,
            ttr: draft.ttr.unwrap_or(defaults.ttr()),
            dead: self.now.saturating_add(ttl),
            place,
        };
        let state = task.state();
        self.tasks.insert(id, task);
        self.note(id, None, cause, state);
        (id, state)
    }
}
