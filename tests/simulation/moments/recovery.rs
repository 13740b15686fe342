//! Outages, crashes and closes; the comparison with the model, and what must be left after them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, UNIX_EPOCH};

use tubewell::TaskState;

use super::{NAMES, Simulation, Status, TUBES, Task};
use crate::seeds::Checked;
use crate::world::Upset;

/// What the store has of a task, and in what time it is ready if that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stored {
    tube: usize,
    sub_queue: &'static str,
    status: Status,
    moment: Option<Duration>,
    due_in: Option<Duration>,
}

const STATES: [(TaskState, Status); 4] = [
    (TaskState::Delayed, Status::Delayed),
    (TaskState::Ready, Status::Ready),
    (TaskState::Taken, Status::Taken),
    (TaskState::Buried, Status::Buried),
];

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        if upset != Upset::Outage {
            self.begin_run(upset);
        }
        self.world.settle();
        self.pass();
        let mut lost = std::mem::take(&mut self.unknown);
        let unflushed = std::mem::take(&mut self.unflushed);
        if upset.is_power_cut() {
            lost.extend(unflushed);
        }
        let was_sure = !self.world.is_unsure && lost.is_empty();
        self.world.cover(if was_sure { "exact" } else { "learned" });
        let dropped = std::mem::take(&mut self.dropped);
        let (found, now) = (self.stored(), self.now());
        for (id, task) in &mut self.tasks {
            let Some(stored) = found.get(id).filter(|_| !lost.contains(id)) else { continue };
            // Which task a failed take has, and which one is ready although its times are ahead, is
            // in memory only.
            let is_ready = |status| matches!(status, Status::Ready | Status::Taken);
            let is_delayed_again = stored.status == Status::Delayed && task.is_early(now);
            let is_forgotten = is_ready(stored.status) && !was_sure || is_delayed_again;
            let is_not_dropped = dropped.contains(id) && is_ready(stored.status);
            if upset != Upset::Close && (is_ready(task.status) && is_forgotten || is_not_dropped) {
                task.status = stored.status;
            }
        }
        if !was_sure {
            self.remove_unsure(&found, &lost);
        }
        self.compare();
    }

    fn compare(&self) {
        let (now, wall) = self.now();
        let left = |task: &Task| {
            let delay = task.delayed_until.saturating_sub(now);
            delay.max(task.moment.map_or(Duration::ZERO, |moment| moment.saturating_sub(wall)))
        };
        let expected = self.tasks.iter().map(|(id, task)| {
            let Task { tube, sub_queue, status, moment, .. } = *task;
            let due_in = (status == Status::Delayed).then(|| left(task));
            (*id, Stored { tube, sub_queue, status, moment, due_in })
        });
        assert_eq!(self.stored(), expected.collect(), "{:?}", self.policies);
    }
}

impl Simulation {
    /// The claims and the takes have ended with the process. A close gives the taken tasks back. A
    /// crash leaves them as they were before their takes, which are in memory only.
    fn begin_run(&mut self, upset: Upset) {
        let status = if upset == Upset::Close { Status::Delayed } else { Status::Ready };
        for task in self.tasks.values_mut().filter(|task| task.status == Status::Taken) {
            task.status = status;
        }
        self.takes.clear();
        self.filling_since = Some(self.world.now);
        self.are_rates_unknown = false;
    }

    /// Deletes the tasks of which it is not known what they are. They have one of the moments that
    /// calls have given them.
    fn remove_unsure(&mut self, found: &BTreeMap<u64, Stored>, lost: &BTreeSet<u64>) {
        for (id, stored) in found {
            if !lost.contains(id) && self.tasks.contains_key(id) {
                continue;
            }
            if let Some(given) = self.given.get(id) {
                assert!(given.contains(&stored.moment), "task {id} has the moment of no call");
            }
            self.world.tubes[stored.tube].delete(*id).unwrap();
        }
        self.world.store.flush().unwrap();
        self.tasks.retain(|id, _| !lost.contains(id));
        self.world.claims.retain(|claim| claim.is_current().unwrap());
    }

    /// All tasks of the store.
    fn stored(&self) -> BTreeMap<u64, Stored> {
        let mut all = BTreeMap::new();
        for (nth, (state, status)) in (0..TUBES).flat_map(|nth| STATES.map(|it| (nth, it))) {
            let page = self.world.tubes[nth].query().list(state, None, 10_000).unwrap();
            for info in page.items {
                let name = info.sub_queue.unwrap();
                let stored = Stored {
                    tube: nth,
                    sub_queue: NAMES.into_iter().find(|it| *it == name).unwrap(),
                    status,
                    moment: info.not_before.map(|it| it.duration_since(UNIX_EPOCH).unwrap()),
                    due_in: info.due_in,
                };
                assert_eq!(all.insert(info.id, stored), None, "task {} is listed twice", info.id);
            }
        }
        all
    }
}
