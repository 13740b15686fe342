//! The parents of a salvaged task.

use tubewell_drivers::{Header, Table, keys};

use super::Salvage;
use crate::core::{ChildFate, ParentEnd, describe};
use crate::{OnParent, TaskInfo, TaskState};

impl Salvage<'_> {
    /// The parents that a task waits for. If the end of a parent is stored, but the task was not told
    /// of it before the process ended, the task is described as the next open would leave it.
    pub(super) fn parents(&mut self, info: &mut TaskInfo, header: &Header) -> Vec<u64> {
        if header.open_parents() == 0 {
            return Vec::new();
        }
        let rule = OnParent::of(header);
        let is_blocked = info.state == TaskState::Blocked;
        let (mut open, mut over, mut group) = (Vec::new(), 0, None);
        for key in self.reader.keys_of_task(Table::Index, &keys::parents_prefix(info.id)) {
            let Ok((_, _, parent)) = keys::split_edge(&key) else { continue };
            let Some(end) = self.end_of_parent(&key, parent) else {
                open.push(parent);
                continue;
            };
            let fate = end.fate_of_child(rule, is_blocked);
            if fate == ChildFate::Buried && (group.is_none() || end == ParentEnd::Gone) {
                group = Some(end.failure_group());
            }
            if end == ParentEnd::Buried && fate != ChildFate::Freed {
                open.push(parent);
            } else {
                over += 1;
            }
        }
        info.open_parents = info.open_parents.saturating_sub(over);
        if is_blocked {
            self.describe_child(info, header, group);
        }
        open
    }

    /// Describes a blocked task after the ends of some of its parents. `group`: it was buried then.
    fn describe_child(&self, info: &mut TaskInfo, header: &Header, group: Option<&str>) {
        let is_delayed = !self.clocks().is_ready(header);
        if is_delayed && group.is_none() {
            let delayed = describe(&info.tube, info.id, TaskState::Delayed, header, self.clocks());
            info.due_in = delayed.due_in;
        }
        match group {
            Some(group) => (info.state, info.group) = (TaskState::Buried, Some(group.to_owned())),
            None if info.open_parents > 0 => {}
            None => info.state = if is_delayed { TaskState::Delayed } else { TaskState::Ready },
        }
    }

    /// How a parent has ended, if its children were not told of that yet.
    fn end_of_parent(&mut self, edge: &[u8], parent: u64) -> Option<ParentEnd> {
        if let Some(end) = self.ended_parents.get(&parent) {
            return Some(*end);
        }
        if self.purges.is_empty() {
            return None;
        }
        let value = self.reader.get(Table::Index, edge)?;
        let space = keys::edge_space(parent, &value).ok()?;
        self.purges.contains(&space).then_some(ParentEnd::Gone)
    }
}
