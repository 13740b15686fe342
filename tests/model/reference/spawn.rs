//! Durable steps that put a task.

use super::{Answer, Cause, Draft, Holder, Model, OnKey, Refusal, Status, TaskNo, TubeNo, Verb};

impl Model {
    /// Puts a task, unless an earlier attempt has put it as the step of this name. Returns the task.
    pub fn spawn(
        &mut self,
        (tube, id): (TubeNo, TaskNo),
        holder: Holder,
        name: u8,
        (to, draft): (TubeNo, &Draft),
    ) -> Answer<TaskNo> {
        let claim = self.held(tube, id, holder)?.clone();
        let task = &self.tasks[&id];
        if let Some(child) = task.steps.get(&name) {
            return Ok(*child);
        }
        self.tube(to)?;
        self.check_options(to, draft)?;
        self.check_common_commit(tube, to)?;
        let has_own_key = draft.key.is_some() && draft.key == task.key;
        if has_own_key && draft.on_key == OnKey::Replace && self.seen(to, draft).is_none() {
            // It would begin anew, without its steps, while it is worked on.
            return Err(Refusal::KeyInUse);
        }
        let before = self.clone();
        self.change(id, Cause::Verb(Verb::Step), Status::Taken(claim));
        match self.place(to, draft, Cause::Verb(Verb::Put), true) {
            Ok((child, _)) => {
                self.task(id).steps.insert(name, child);
                self.serve();
                Ok(child)
            }
            Err(refusal) => {
                *self = before;
                Err(refusal)
            }
        }
    }
}
