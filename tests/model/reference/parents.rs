//! Parents: tasks that wait until others are done.

use std::collections::BTreeSet;

use super::{
    After, Answer, Cause, Model, OnParent, Refusal, Stage, State, Status, Task, TaskNo, TubeNo,
    Verb,
};

/// How many children are freed together with the end of their parent.
const FREED_AT_ONCE: usize = 64;
/// How many others are told together of an end.
const TOLD_AT_ONCE: usize = 256;

/// How a parent has ended. `Done` and `Gone` are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Done,
    Buried,
    Gone,
}

/// The end of a parent, and the last child that was told of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ended {
    way: Way,
    told: Option<TaskNo>,
}

impl Model {
    // ---- verbs of any caller

    /// Adds parents, tasks of the tube `of` or of another one, to a task that waits.
    pub fn add_parents(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        of: TubeNo,
        parents: &[TaskNo],
    ) -> Answer<State> {
        let task = self.peek(tube, id)?;
        let until = match task.status {
            Status::Ready => 0,
            Status::Delayed { until } | Status::Blocked { until } => until,
            _ => return Err(Refusal::NotReady),
        };
        let (state, old) = (task.state(), task.parents.clone());
        let mut added = self.open_among(tube, of, parents)?;
        added.retain(|parent| !old.contains(parent));
        if added.is_empty() {
            return Ok(state);
        }
        self.check_no_cycle(id, &added)?;
        self.change(id, Cause::Verb(Verb::Block), Status::Blocked { until });
        self.task(id).parents.extend(added);
        Ok(State::Blocked)
    }

    /// Removes these parents of a task, or all.
    pub fn remove_parents(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        parents: Option<&[TaskNo]>,
    ) -> Answer<State> {
        let mut left = self.peek(tube, id)?.parents.clone();
        left.retain(|parent| parents.is_some_and(|parents| !parents.contains(parent)));
        if left.len() < self.tasks[&id].parents.len() {
            self.task(id).parents = left;
            self.wait_without_parents(id, Cause::Verb(Verb::Unblock));
        }
        let state = self.tasks[&id].state();
        self.serve();
        Ok(state)
    }

    /// The tasks that wait for a task.
    pub fn children(&self, id: TaskNo) -> Vec<TaskNo> {
        let children = self.tasks.iter().filter(|(_, task)| task.parents.contains(&id));
        children.map(|(id, _)| *id).collect()
    }

    /// Whether any task waits for another one.
    pub fn has_parents(&self) -> bool {
        self.tasks.values().any(|task| !task.parents.is_empty())
    }

    /// Whether children are still to be told of the end of a parent.
    pub fn has_children_to_tell(&self) -> bool {
        !self.ended_parents.is_empty()
    }

    // ---- the parents of a put

    /// The parents of a task that are not over. `id`: of a task that exists and begins anew.
    pub(super) fn open_parents(
        &self,
        tube: TubeNo,
        id: Option<TaskNo>,
        after: &After,
    ) -> Answer<BTreeSet<TaskNo>> {
        let mut open = BTreeSet::new();
        for (name, parents) in &after.parents {
            if id.is_some_and(|id| parents.contains(&id)) {
                return Err(Refusal::Cycle);
            }
            let of = self.tubes.iter().find(|(_, tube)| tube.name == *name);
            let (of, _) = of.ok_or(Refusal::TubeNotFound)?;
            open.extend(self.open_among(tube, *of, parents)?);
        }
        for key in &after.keys {
            let (parent, task) = self.by_key(key).ok_or(Refusal::KeyNotFound)?;
            self.check_common_commit(tube, task.tube)?;
            check_may_be_done(task)?;
            if task.state() != State::Done {
                open.insert(parent);
            }
        }
        if let Some(id) = id {
            self.check_no_cycle(id, &open)?;
        }
        Ok(open)
    }

    /// A task that is replaced keeps its parents, unless the put names others.
    pub(super) fn parents_of_replaced(
        &self,
        id: TaskNo,
        tube: TubeNo,
        after: &After,
    ) -> Answer<BTreeSet<TaskNo>> {
        if after.names_parents() {
            return self.open_parents(tube, Some(id), after);
        }
        Ok(self.tasks[&id].parents.clone())
    }

    /// Those of these tasks that are not over, in whichever tube they are.
    fn open_among(&self, tube: TubeNo, of: TubeNo, parents: &[TaskNo]) -> Answer<BTreeSet<TaskNo>> {
        self.check_common_commit(tube, of)?;
        let mut open = BTreeSet::new();
        for id in parents {
            match self.tasks.get(id) {
                // No task has had this number.
                None if *id == 0 => return Err(Refusal::NotFound),
                None => {}
                Some(task) if task.state() == State::Done => {}
                Some(task) => {
                    self.check_common_commit(tube, task.tube)?;
                    check_may_be_done(task)?;
                    open.insert(*id);
                }
            }
        }
        Ok(open)
    }

    fn check_no_cycle(&self, id: TaskNo, parents: &BTreeSet<TaskNo>) -> Answer<()> {
        let mut above: Vec<TaskNo> = parents.iter().copied().collect();
        let mut seen = BTreeSet::new();
        while let Some(task) = above.pop() {
            if task == id {
                return Err(Refusal::Cycle);
            }
            if seen.insert(task) {
                above.extend(self.tasks.get(&task).into_iter().flat_map(|task| &task.parents));
            }
        }
        Ok(())
    }

    // ---- the ends of parents

    /// Refuses to delete tasks that others wait for, unless these are deleted, too.
    pub(super) fn check_no_children(&self, ids: &[TaskNo]) -> Answer<()> {
        let is_done = |id: &TaskNo| self.tasks[id].state() == State::Done;
        let mut waiting = ids.iter().filter(|id| !is_done(id)).flat_map(|id| self.children(*id));
        if waiting.all(|child| ids.contains(&child)) { Ok(()) } else { Err(Refusal::HasDependents) }
    }

    /// A task is done. Its first children are free with its end, the others later.
    pub(super) fn free_first_children(&mut self, id: TaskNo) {
        let children = self.children(id);
        for child in children.iter().take(FREED_AT_ONCE) {
            self.tell(id, *child, Way::Done);
        }
        if children.len() > FREED_AT_ONCE {
            self.tell_later(id, Way::Done);
        }
    }

    /// A task was buried.
    pub(super) fn bury_children(&mut self, id: TaskNo) {
        if !self.children(id).is_empty() {
            self.tell_later(id, Way::Buried);
        }
    }

    /// A task is removed.
    pub(super) fn leave_children(&mut self, id: TaskNo) {
        if self.tasks[&id].state() != State::Done && !self.children(id).is_empty() {
            self.tell_later(id, Way::Gone);
        }
    }

    /// The last end of a parent is the one that counts, but none counts after one that is final.
    fn tell_later(&mut self, parent: TaskNo, way: Way) {
        let told = self.ended_parents.get(&parent);
        if told.is_none_or(|ended| ended.way == Way::Buried) {
            self.ended_parents.insert(parent, Ended { way, told: None });
        }
    }

    /// Refuses to begin a done task anew while its children are not all free.
    pub(super) fn check_is_told(&self, id: TaskNo) -> Answer<()> {
        let is_told = self.ended_parents.get(&id).is_none_or(|ended| ended.way != Way::Done);
        if is_told { Ok(()) } else { Err(Refusal::NotReady) }
    }

    /// A buried task begins anew: its children are not told of the burial any more.
    pub(super) fn forget_burial(&mut self, id: TaskNo) {
        if self.ended_parents.get(&id).is_some_and(|ended| ended.way == Way::Buried) {
            self.ended_parents.remove(&id);
        }
    }

    /// Tells some children of an ended parent. False if there are none to tell.
    pub(super) fn tell_some_children(&mut self) -> bool {
        let Some((&parent, &Ended { way, told })) = self.ended_parents.first_key_value() else {
            return false;
        };
        let mut children = self.children(parent);
        children.retain(|child| told.is_none_or(|told| *child > told));
        children.truncate(TOLD_AT_ONCE);
        for child in &children {
            self.tell(parent, *child, way);
        }
        let changed = self.ended_parents.get(&parent).is_some_and(|ended| ended.way != way);
        if changed {
            // The burial of a child has removed the parent: all children are told of that.
        } else if children.len() < TOLD_AT_ONCE {
            self.ended_parents.remove(&parent);
        } else {
            let told = children.last().copied();
            self.ended_parents.entry(parent).and_modify(|ended| ended.told = told);
        }
        self.serve();
        true
    }

    fn tell(&mut self, parent: TaskNo, child: TaskNo, way: Way) {
        let Some(task) = self.tasks.get_mut(&child) else { return };
        let is_blocked = task.stage() == Stage::Blocked;
        let stops_waiting = way == Way::Done || task.on_parent == OnParent::Release;
        let is_buried_with_it = is_blocked && task.on_parent == OnParent::Bury;
        if stops_waiting || way == Way::Gone {
            task.parents.remove(&parent);
            self.trim_history(child);
        }
        let task = &self.tasks[&child];
        match way {
            _ if stops_waiting => {
                let cause = if way == Way::Done { Cause::ParentDone } else { Cause::ParentLeft };
                if is_blocked && task.parents.is_empty() {
                    self.wait_without_parents(child, cause);
                }
            }
            Way::Gone if is_blocked => {
                self.bury_orphan(child, Cause::ParentGone, "parent-gone");
            }
            Way::Buried if is_buried_with_it => {
                self.bury_orphan(child, Cause::ParentBuried, "parent-buried");
            }
            _ => {}
        }
    }

    fn bury_orphan(&mut self, id: TaskNo, cause: Cause, group: &str) {
        self.record_failure(id, (group, "parent"), None, None);
        self.end_buried(id, cause, Some(group));
    }

    /// Changes the status of a task that may have no parents left.
    fn wait_without_parents(&mut self, id: TaskNo, cause: Cause) {
        let task = &self.tasks[&id];
        match task.status.clone() {
            Status::Blocked { until } if task.parents.is_empty() && until > self.now => {
                self.change(id, cause, Status::Delayed { until });
            }
            Status::Blocked { .. } if task.parents.is_empty() => self.make_ready(id, cause),
            status => self.change(id, cause, status),
        }
    }
}

/// Refuses a schedule, which is never done.
fn check_may_be_done(task: &Task) -> Answer<()> {
    if task.recur().is_some() { Err(Refusal::Invalid) } else { Ok(()) }
}

impl After {
    /// Whether it says for which tasks to wait, possibly for none.
    pub(super) fn names_parents(&self) -> bool {
        !(self.parents.is_empty() && self.keys.is_empty())
    }

    /// The rule of a task that is replaced, and had another one.
    pub(super) fn rule_after(&self, old: OnParent) -> OnParent {
        let keeps = !self.names_parents() && self.on_parent == OnParent::Wait;
        if keeps { old } else { self.on_parent }
    }
}

impl Task {
    /// The same task, blocked if it has parents.
    pub(super) fn blocked_by(self, parents: BTreeSet<TaskNo>) -> Task {
        if parents.is_empty() {
            return self;
        }
        let until = match self.status {
            Status::Delayed { until } => until,
            _ => 0,
        };
        Task { parents, status: Status::Blocked { until }, ..self }
    }
}
