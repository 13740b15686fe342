//! Takes, and takes that wait for a task.

use super::{
    Answer, Cause, Claim, Counting, Micros, Model, Refusal, SessionNo, Status, Taken, Task, TaskNo,
    TubeNo, Verb, WaitNo,
};

#[derive(Clone, Debug)]
pub(super) struct Wait {
    pub(super) session: SessionNo,
    /// In the order in which they are searched.
    pub(super) tubes: Vec<TubeNo>,
    pub(super) until: Micros,
    pub(super) answer: Option<Answer<Option<Taken>>>,
}

impl Model {
    /// Takes the next task of the first tube that has one, in the given order.
    pub fn take(&mut self, session: SessionNo, tubes: &[TubeNo]) -> Answer<Option<Taken>> {
        for tube in tubes {
            self.tube(*tube)?;
        }
        if !self.session_exists(session) {
            return Err(Refusal::SessionEnded);
        }
        let found = tubes.iter().find_map(|tube| self.find_for_take(*tube));
        Ok(found.map(|id| self.claim(session, id)))
    }

    /// Takes this task, if its sub-queue allows it.
    pub fn claim_task(&mut self, session: SessionNo, tube: TubeNo, id: TaskNo) -> Answer<Taken> {
        self.tube(tube)?;
        if !self.session_exists(session) {
            return Err(Refusal::SessionEnded);
        }
        let is_spent = |task: &Task| task.status == Status::Ready && self.is_spent(task);
        if self.peek(tube, id).is_ok_and(is_spent) {
            self.bury_spent(id);
        }
        let task = self.peek(tube, id)?;
        let (is_ready, sub_queue) = (task.status == Status::Ready, task.sub_queue.clone());
        let is_free = !self.is_sub_queue_shut(tube, sub_queue.as_ref());
        if !is_ready || !is_free || self.is_shut(tube) {
            return Err(Refusal::NotReady);
        }
        Ok(self.claim(session, id))
    }

    /// The task that a take gets. One without an attempt left is buried instead.
    fn find_for_take(&mut self, tube: TubeNo) -> Option<TaskNo> {
        loop {
            let id = self.takeable(tube).filter(|_| !self.is_shut(tube))?;
            if !self.is_spent(&self.tasks[&id]) {
                return Some(id);
            }
            self.bury_spent(id);
        }
    }

    /// Whether a take would get a task. `None` if it would bury tasks without an attempt left before.
    pub fn has_task_for_take(&self, tube: TubeNo) -> Option<bool> {
        let is_spent = |task: &Task| task.status == Status::Ready && self.is_spent(task);
        if self.tasks(tube).any(|(_, task)| is_spent(task)) {
            return None;
        }
        Some(!self.is_shut(tube) && self.takeable(tube).is_some())
    }

    /// The most urgent task that may be taken.
    fn takeable(&self, tube: TubeNo) -> Option<TaskNo> {
        let free = |task: &Task| !self.is_sub_queue_shut(tube, task.sub_queue.as_ref());
        self.tasks(tube)
            .filter(|(_, task)| {
                task.status == Status::Ready && task.expires_at > self.now && free(task)
            })
            .min_by_key(|(id, task)| (task.priority, *id))
            .map(|(id, _)| id)
    }

    fn claim(&mut self, session: SessionNo, id: TaskNo) -> Taken {
        let no = self.next_number();
        self.task(id).takes += 1;
        let (now, tube) = (self.now, self.tasks[&id].tube);
        let sub_queue = self.tasks[&id].sub_queue.clone();
        self.tubes.entry(tube).and_modify(|tube| tube.note_take(sub_queue, now));
        let options = &self.tubes[&tube].options;
        let reclaim_delay = options.reclaim_delay;
        let most = self.tasks[&id].max_runtime.unwrap_or(options.max_runtime());
        let latest = self.now.saturating_add(most);
        let may_be_counted = options.counting != Counting::Lazily && !options.temporary;
        let is_counted = may_be_counted && self.attempts_left(&self.tasks[&id]).is_some();
        let until = self.now.saturating_add(self.task(id).ttr).min(latest);
        let claim = Claim {
            no,
            session,
            until,
            latest,
            reclaim_delay,
            is_overdue: false,
            is_counted,
            is_parked: false,
            stored: None,
        };
        self.change(id, Cause::Verb(Verb::Take), Status::Taken(claim));
        Taken { task: id, claim: no }
    }

    /// Begins a take that waits. It is answered immediately if a task can be taken or the timeout
    /// is 0.
    pub fn wait(
        &mut self,
        session: SessionNo,
        tubes: &[TubeNo],
        timeout: Micros,
    ) -> Answer<WaitNo> {
        let answer = self.take(session, tubes)?.map(|taken| Ok(Some(taken)));
        let no = self.next_number();
        let answer = answer.or((timeout == 0).then_some(Ok(None)));
        let (tubes, until) = (tubes.to_vec(), self.now.saturating_add(timeout));
        self.waits.insert(no, Wait { session, tubes, until, answer });
        Ok(no)
    }

    /// The answer of a waiting take, if it has one.
    pub fn answer(&self, wait: WaitNo) -> Option<Answer<Option<Taken>>> {
        self.waits.get(&wait)?.answer
    }

    /// The answer of a waiting take, if it has one. The wait ends, and the caller owns the claim.
    pub fn fetch(&mut self, wait: WaitNo) -> Option<Answer<Option<Taken>>> {
        let answer = self.answer(wait)?;
        self.waits.remove(&wait);
        Some(answer)
    }

    /// How many takes wait in a tube.
    pub fn waiting(&self, tube: TubeNo) -> u64 {
        let waits = |wait: &&Wait| wait.answer.is_none() && wait.tubes.contains(&tube);
        self.waits.values().filter(waits).count() as u64
    }

    /// Drops a waiting take. A task that was already assigned to it is released: it was not handed
    /// out, so that the take is no attempt.
    pub fn cancel(&mut self, wait: WaitNo) {
        let answer = self.waits.remove(&wait).and_then(|wait| wait.answer);
        if let Some(Ok(Some(taken))) = answer {
            self.forgive_claim(taken);
        }
    }

    /// Serves waiting puts, then gives the tasks that can be taken to waiting takes, both in order
    /// of arrival.
    pub(super) fn serve(&mut self) {
        self.serve_waiting_puts();
        let waiting = self.waits.iter().filter(|(_, wait)| wait.answer.is_none());
        for no in waiting.map(|(no, _)| *no).collect::<Vec<_>>() {
            let (session, tubes) = (self.waits[&no].session, self.waits[&no].tubes.clone());
            let found = tubes.iter().find_map(|tube| self.find_for_take(*tube));
            if let Some(id) = found {
                let taken = self.claim(session, id);
                self.end_wait(no, Ok(Some(taken)));
            }
        }
    }

    pub(super) fn end_wait(&mut self, wait: WaitNo, answer: Answer<Option<Taken>>) {
        self.waits.entry(wait).and_modify(|wait| wait.answer = Some(answer));
    }
}
