//! Outages, crashes and closes, and what must be left of the tasks after them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Counting, State, Store};

use super::{Simulation, Status, Task, tasks_of};
use crate::disk::{Crash, Disk};
use crate::rng::Rng;
use crate::seeds::{RECOVERY, open, random_crash, tubes_of};
use crate::simulator::micros;

/// What may have changed the store beside the calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upset {
    Outage,
    Crash(Crash),
}

impl Simulation {
    /// Repairs the disk, and waits until the store works again.
    pub(super) fn repair(&mut self) {
        self.disk.repair();
        self.clock.advance(RECOVERY);
        self.now += micros(RECOVERY);
        self.store.flush().unwrap();
        self.disk.clear_tripped();
        self.cover("outage");
        self.learn(Upset::Outage);
    }

    pub(super) fn kill_or_cut(&mut self, rng: &mut Rng) {
        let crash = random_crash(&self.disk, rng);
        let after = self.disk.after_crash(crash);
        self.open_after(&after);
        self.cover(crash.name());
        self.learn(Upset::Crash(crash));
    }

    /// A close counts the attempts of the held claims.
    pub(super) fn reopen(&mut self) {
        if self.disk.tripped() {
            return;
        }
        if self.store.close().is_err() {
            assert!(self.disk.tripped());
            let after = self.disk.after_crash(Crash::Kill);
            self.open_after(&after);
            return self.learn(Upset::Crash(Crash::Kill));
        }
        self.disk.repair();
        let disk = self.disk.clone();
        self.open_after(&disk);
        for ((nth, _), task) in &mut self.tasks {
            if matches!(task.status, Status::Taken(_)) {
                let is_last = task.attempts == self.policies[*nth].limit;
                task.status = if is_last { Status::Buried } else { Status::Ready };
            }
        }
        self.lost = Some(0);
        self.cover("close");
    }

    fn open_after(&mut self, disk: &Arc<Disk>) {
        self.disk.repair();
        let store = Store::in_memory().unwrap();
        self.store = store;
        self.tubes.clear();
        self.claims.clear();
        self.disk = disk.clone();
        self.store = open(&self.clock, disk);
        self.store.flush().unwrap();
        self.tubes = tubes_of(&self.store, self.policies.len());
    }

    /// Compares all tasks with what must be left of them, and continues with what is there.
    fn learn(&mut self, upset: Upset) {
        self.clock.advance(Duration::ZERO);
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
        let is_cut = matches!(upset, Upset::Crash(crash) if crash.is_power_cut());
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
            assert!(!is_spent || info.state != State::Delayed, "{at}");
            // A fault may have hidden what became of a task whose last claim had ended before.
            let was_taken = matches!(task.status, Status::Taken(_));
            if is_spent && was_taken && matches!(upset, Upset::Crash(_)) && keeps_count {
                assert_eq!(info.state, State::Buried, "{at}");
            }
            if !keeps_count {
                task.handed_out = info.attempts;
            }
            task.attempts = info.attempts;
            let due = info.due_in.map(micros);
            task.status = match info.state {
                State::Delayed => Status::Delayed(self.now + due.unwrap()),
                State::Buried => Status::Buried,
                State::Taken => Status::Taken(self.now + due.unwrap()),
                _ => Status::Ready,
            };
            self.tasks.insert(key, task);
        }
        let claims = &mut self.claims;
        claims.retain(|(_, claim)| claim.is_current());
        self.lost = None;
    }
}
