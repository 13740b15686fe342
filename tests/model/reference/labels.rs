//! Tags of tasks.

use super::{Answer, Cause, Model, State, Task, TaskNo, TubeNo, Verb};

impl Model {
    /// Adds tags to a task in any state, or removes some. The same ones again are no change.
    pub fn edit_tags(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        edited: &[String],
        adds: bool,
    ) -> Answer<State> {
        self.tube(tube)?;
        let task = self.peek_no_schedule(tube, id)?;
        let (state, status) = (task.state(), task.status.clone());
        let tags = if adds {
            with_tags(&task.tags, edited)
        } else {
            task.tags.iter().filter(|tag| !edited.contains(tag)).cloned().collect()
        };
        if task.tags != tags {
            self.change(id, Cause::Verb(Verb::Update), status);
            self.task(id).tags = tags;
        }
        Ok(state)
    }

    /// The tasks with a tag, in all tubes.
    pub fn tagged(&self, tag: &str) -> impl Iterator<Item = (TaskNo, &Task)> {
        let has = move |task: &Task| task.tags.iter().any(|own| own == tag);
        self.tasks.iter().filter(move |(_, task)| has(task)).map(|(no, task)| (*no, task))
    }
}

/// These tags, and further ones behind them, each once.
pub(super) fn with_tags(tags: &[String], further: &[String]) -> Vec<String> {
    let mut all = tags.to_vec();
    for tag in further {
        if !all.contains(tag) {
            all.push(tag.clone());
        }
    }
    all
}
