//! Outages, crashes and closes, and what must be left of the tasks after them.

use std::collections::BTreeMap;

use tubewell::{Counting, TaskState};

use super::{Simulation, Status, Task, tasks_of};
use crate::seeds::Checked;
use crate::simulator::micros;
use crate::world::Upset;

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        if upset == Upset::Close {
            return self.end_held();
        }
        self.world.settle();
        let is_cut = upset.is_power_cut();
        let mut found = BTreeMap::new();
        for nth in 0..self.policies.len() {
            found.extend(tasks_of(&self.tube(nth)).into_iter().map(|info| ((nth, info.id), info)));
        }
        let known = std::mem::take(&mut self.tasks);
        for (key, task) in &known {
            assert!(found.contains_key(key) || !task.must_exist, "{key:?} is lost: {task:?}");
        }
        for (key, info) in found {
            let policy = self.policies[key.0];
            let mut task = known.get(&key).copied().unwrap_or(Task {
                status: Status::Ready,
                attempts: 0,
                handed_out: 0,
                must_exist: false,
                buried_early: true,
            });
            let at = format!("{upset:?}, {policy:?}: {info:?}, {task:?}");
            let keeps_count = match policy.counting {
                Counting::Lazily => false,
                Counting::Written => !is_cut,
                Counting::Flushed => true,
            };
            assert!(info.attempts >= task.handed_out || !keeps_count, "{at}");
            assert!(info.attempts <= policy.limit, "{at}");
            let is_spent = info.attempts == policy.limit;
            assert!(!is_spent || info.state != TaskState::Delayed, "{at}");
            // A fault may have hidden what became of a task whose last claim had ended before.
            let was_taken = matches!(task.status, Status::Taken(_));
            if is_spent && was_taken && matches!(upset, Upset::Crash(_)) && keeps_count {
                assert_eq!(info.state, TaskState::Buried, "{at}");
            }
            if !keeps_count {
                task.handed_out = info.attempts;
            }
            task.attempts = info.attempts;
            let due = info.due_in.map(micros);
            task.status = match info.state {
                TaskState::Delayed => Status::Delayed(self.world.now + due.unwrap()),
                TaskState::Buried => Status::Buried,
                TaskState::Taken => Status::Taken(self.world.now + due.unwrap()),
                _ => Status::Ready,
            };
            self.tasks.insert(key, task);
        }
        self.lost = None;
    }

    fn compare(&self) {
        self.compare_all();
    }
}

impl Simulation {
    /// A close counts the attempts of the held claims.
    fn end_held(&mut self) {
        for ((nth, _), task) in &mut self.tasks {
            if matches!(task.status, Status::Taken(_)) {
                let is_last = task.attempts == self.policies[*nth].limit;
                task.status = if is_last { Status::Buried } else { Status::Ready };
            }
        }
        self.lost = Some(0);
    }
}
