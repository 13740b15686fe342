//! A model of tasks that wait for others.

use std::collections::{BTreeMap, BTreeSet};

use tubewell::{OnParent, TaskState};

pub const RULES: [OnParent; 4] =
    [OnParent::Wait, OnParent::Wait, OnParent::Release, OnParent::Bury];

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub tube: usize,
    pub state: TaskState,
    pub parents: BTreeSet<u64>,
    pub rule: OnParent,
}

/// The tasks that are not over.
#[derive(Clone, Debug, Default)]
pub struct Family {
    pub tasks: BTreeMap<u64, Task>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Done,
    Buried,
    Gone,
}

impl Family {
    pub fn children(&self, id: u64) -> Vec<u64> {
        let children = self.tasks.iter().filter(|(_, task)| task.parents.contains(&id));
        children.map(|(id, _)| *id).collect()
    }

    /// Those of these tasks that are not over.
    pub fn open_of(&self, ids: &[u64]) -> BTreeSet<u64> {
        ids.iter().copied().filter(|id| self.tasks.contains_key(id)).collect()
    }

    /// The tasks of a tube in this state.
    #[allow(dead_code, reason = "one of its users selects tasks")]
    pub fn of(&self, tube: usize, state: TaskState) -> Vec<u64> {
        let tasks = self.tasks.iter().filter(|(_, task)| task.tube == tube && task.state == state);
        tasks.map(|(id, _)| *id).collect()
    }

    /// A buried task is kicked.
    #[allow(dead_code, reason = "not all of its users kick tasks")]
    pub fn kick(&mut self, id: u64) {
        let task = self.tasks.get_mut(&id).unwrap();
        task.state = if task.parents.is_empty() { TaskState::Ready } else { TaskState::Blocked };
    }

    pub fn end(&mut self, id: u64, end: End) {
        if end == End::Buried {
            self.tasks.get_mut(&id).unwrap().state = TaskState::Buried;
        } else {
            self.tasks.remove(&id);
        }
        self.tell(id, end);
    }

    /// All tasks of a tube are removed.
    pub fn truncate(&mut self, tube: usize) {
        let tasks = self.tasks.iter().filter(|(_, task)| task.tube == tube);
        let gone: Vec<u64> = tasks.map(|(id, _)| *id).collect();
        self.tasks.retain(|_, task| task.tube != tube);
        for id in gone {
            self.tell(id, End::Gone);
        }
    }

    /// Whether a task waits for another one, through any number of tasks.
    pub fn waits_for(&self, id: u64, other: u64) -> bool {
        id == other
            || self.tasks.get(&id).is_some_and(|task| {
                task.parents.iter().any(|parent| self.waits_for(*parent, other))
            })
    }

    /// Tells the children of a task of its end.
    fn tell(&mut self, parent: u64, end: End) {
        for id in self.children(parent) {
            let task = self.tasks.get_mut(&id).unwrap();
            let is_blocked = task.state == TaskState::Blocked;
            let frees = end == End::Done || task.rule == OnParent::Release;
            if frees || end == End::Gone {
                task.parents.remove(&parent);
            }
            if frees {
                if is_blocked && task.parents.is_empty() {
                    task.state = TaskState::Ready;
                }
            } else if is_blocked && (end == End::Gone || task.rule == OnParent::Bury) {
                task.state = TaskState::Buried;
                self.tell(id, End::Buried);
            }
        }
    }
}
