//! Puts, and puts that wait for space in a full tube.

use std::collections::{BTreeMap, BTreeSet};

use super::labels;
use super::{
    Answer, Cause, Draft, Micros, Model, NEVER, Refusal, SessionNo, State, Status, Task, TaskNo,
    TubeNo, Verb, WaitNo,
};

/// A put that waits for space.
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

    /// Puts all tasks or none. The returned state is the one in which the task was put, even if a
    /// waiting taker has taken it since.
    pub fn put_many(&mut self, no: TubeNo, drafts: &[Draft]) -> Answer<Vec<(TaskNo, State)>> {
        self.tube(no)?;
        drafts.iter().try_for_each(|draft| self.check_options(no, draft))?;
        // One task that is refused changes nothing.
        let before = (drafts.len() > 1).then(|| self.clone());
        let put = Cause::Verb(Verb::Put);
        let placed: Answer<Vec<_>> =
            drafts.iter().map(|draft| self.place(no, draft, put, true)).collect();
        match (&placed, before) {
            (Ok(_), _) => self.serve(),
            (Err(_), Some(before)) => *self = before,
            (Err(_), None) => {}
        }
        placed
    }

    /// Refuses options that the driver does not support.
    pub(super) fn check_options(&self, no: TubeNo, draft: &Draft) -> Answer<()> {
        if self.tube(no)?.driver.supports(draft) { Ok(()) } else { Err(Refusal::Unsupported) }
    }

    pub(super) fn has_capacity(&self, tube: TubeNo, tasks: usize) -> bool {
        let total = (self.live_tasks(tube).count() + tasks) as u64;
        self.tubes[&tube].options.capacity().is_none_or(|capacity| total <= capacity)
    }

    /// Begins a put that waits for space, in order of arrival. It is answered immediately if the
    /// tube has space, the timeout is 0, or the put is refused.
    pub fn put_timeout(
        &mut self,
        session: SessionNo,
        tube: TubeNo,
        draft: &Draft,
        timeout: Micros,
    ) -> WaitNo {
        let answer = match self.put(tube, draft) {
            Err(Refusal::Full) if timeout > 0 => {
                (!self.session_exists(session)).then_some(Err(Refusal::SessionEnded))
            }
            answer => Some(answer),
        };
        let (no, until) = (self.next_number(), self.now.saturating_add(timeout));
        let draft = draft.clone();
        self.put_waits.insert(no, PutWait { session, tube, draft, until, answer });
        no
    }

    /// The answer of a waiting put, if it has one.
    pub fn put_answer(&self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        self.put_waits.get(&wait)?.answer
    }

    /// The answer of a waiting put, if it has one. The wait ends.
    pub fn fetch_put(&mut self, wait: WaitNo) -> Option<Answer<(TaskNo, State)>> {
        let answer = self.put_answer(wait)?;
        self.put_waits.remove(&wait);
        Some(answer)
    }

    /// How many puts wait for space in a tube.
    pub fn waiting_puts(&self, tube: TubeNo) -> u64 {
        let waits = |wait: &&PutWait| wait.answer.is_none() && wait.tube == tube;
        self.put_waits.values().filter(waits).count() as u64
    }

    /// Whether a put of this session waits for space.
    pub fn has_waiting_put(&self, session: SessionNo) -> bool {
        self.put_waits.values().any(|wait| wait.answer.is_none() && wait.session == session)
    }

    /// Puts the tasks of waiting puts while there is space. Their delay and ttl start then.
    pub(super) fn serve_waiting_puts(&mut self) {
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        for no in waiting.map(|(no, _)| *no).collect::<Vec<_>>() {
            let (tube, draft) = (self.put_waits[&no].tube, self.put_waits[&no].draft.clone());
            if self.has_capacity(tube, 1) {
                let placed = self.place(tube, &draft, Cause::PutAfterWait, true);
                self.end_put_wait(no, placed);
            }
        }
    }

    /// Answers a waiting put; a later answer is ignored.
    pub(super) fn end_put_wait(&mut self, wait: WaitNo, answer: Answer<(TaskNo, State)>) {
        self.put_waits.entry(wait).and_modify(|wait| _ = wait.answer.get_or_insert(answer));
    }

    /// The task of a draft, put now.
    pub(super) fn new_task(&self, tube: TubeNo, draft: &Draft) -> Task {
        let defaults = &self.tubes[&tube].options;
        let ttl = draft.ttl.unwrap_or(defaults.ttl()).saturating_add(draft.delay);
        let until = self.now.saturating_add(draft.delay);
        let mut task = Task {
            tube,
            data: draft.data.clone(),
            priority: draft.priority.unwrap_or(defaults.priority()),
            sub_queue: draft.sub_queue.clone().filter(|name| !name.is_empty()),
            key: draft.key.clone(),
            tags: labels::with_tags(&[], &draft.tags),
            takes: 0,
            forgiven: 0,
            max_attempts: draft.max_attempts,
            max_runtime: draft.max_runtime,
            traceparent: draft.traceparent.clone(),
            failure: None,
            history: super::History::default(),
            steps: BTreeMap::new(),
            group: None,
            result: None,
            ended: 0,
            kept_until: NEVER,
            ttr: draft.ttr.unwrap_or(defaults.ttr()),
            put_at: self.now,
            expires_at: self.now.saturating_add(ttl),
            not_before: draft.not_before,
            ttl_from: None,
            parents: BTreeSet::new(),
            on_parent: draft.after.on_parent,
            spawned_by: None,
            status: Status::Delayed { until },
        };
        self.add_moment_to_ttl(&mut task, until);
        if draft.delay == 0 {
            task.status = self.ready_or_waiting(&mut task);
        }
        task
    }

    pub(super) fn insert_task(&mut self, task: Task, cause: Cause) -> (TaskNo, State) {
        let (id, stage) = (self.next_number(), task.stage());
        self.tasks.insert(id, task);
        self.new_tasks.push(id);
        self.ids_restored_until = None;
        self.note_change(id, cause, None);
        self.record_transition(id, None, cause, stage);
        (id, stage.state())
    }
}
