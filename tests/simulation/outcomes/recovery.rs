//! Outages, crashes and closes, and which outcomes must be left after them.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Durability, Ending, State, Store};

use super::{Simulation, Status, Task, group_of, listed, result};
use crate::disk::{Crash, Disk};
use crate::rng::Rng;
use crate::seeds::{RECOVERY, open, random_crash, tubes_of};
use crate::simulator::micros;

/// What the store may have lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Upset {
    Outage,
    Kill,
    PowerCut,
}

impl Upset {
    /// Whether all calls of such a tube that were answered must be in effect.
    fn keeps_all(self, durability: Durability) -> bool {
        match self {
            Upset::Outage => true,
            Upset::Kill => !matches!(durability, Durability::Relaxed { .. }),
            Upset::PowerCut => durability == Durability::Flush,
        }
    }
}

impl Simulation {
    /// Repairs the disk, and waits until the store works again.
    pub(super) fn repair(&mut self) {
        self.disk.repair();
        self.advance(micros(RECOVERY));
        self.store.flush().unwrap();
        self.disk.clear_tripped();
        *self.coverage.entry("outage").or_default() += 1;
        self.learn(Upset::Outage);
    }

    pub(super) fn kill_or_cut(&mut self, rng: &mut Rng) {
        let crash = random_crash(&self.disk, rng);
        *self.coverage.entry(crash.name()).or_default() += 1;
        let after = self.disk.after_crash(crash);
        self.open_after(&after);
        self.learn(if crash.is_power_cut() { Upset::PowerCut } else { Upset::Kill });
    }

    pub(super) fn reopen(&mut self) {
        if self.disk.tripped() {
            return;
        }
        if self.store.close().is_err() {
            assert!(self.disk.tripped());
            let after = self.disk.after_crash(Crash::Kill);
            self.open_after(&after);
            return self.learn(Upset::Kill);
        }
        self.disk.repair();
        let disk = self.disk.clone();
        self.open_after(&disk);
        *self.coverage.entry("close").or_default() += 1;
        self.learn(Upset::Outage);
    }

    fn open_after(&mut self, disk: &Arc<Disk>) {
        self.disk.repair();
        self.store = Store::in_memory().unwrap();
        self.tubes.clear();
        self.claims.clear();
        self.disk = disk.clone();
        self.store = open(&self.clock, disk);
        self.store.flush().unwrap();
        self.tubes = tubes_of(&self.store, self.policies.len());
        for task in self.tasks.values_mut().filter(|task| task.status == Some(Status::Taken)) {
            task.status = Some(Status::Ready);
        }
    }

    /// Compares all tasks with what must be left of them, and continues with what is there.
    fn learn(&mut self, upset: Upset) {
        self.clock.advance(Duration::ZERO);
        self.forget_aged();
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
        self.claims.retain(|(_, claim)| claim.is_current());
        for nth in 0..self.policies.len() {
            let keeps_all = upset.keeps_all(self.policies[nth].durability);
            if keeps_all && !self.is_unsure[nth] {
                // `check` compares the tube with the model.
                *self.coverage.entry("exact").or_default() += 1;
                continue;
            }
            self.learn_tube(nth, keeps_all);
            self.is_unsure[nth] = false;
        }
        self.compare();
    }

    fn learn_tube(&mut self, nth: usize, keeps_all: bool) {
        let known: Vec<u64> =
            self.tasks.range((nth, 0)..(nth + 1, 0)).map(|((_, id), _)| *id).collect();
        for id in known {
            self.set(nth, id, None);
        }
        let tube = self.tubes[nth].clone();
        for state in [State::Ready, State::Taken, State::Buried, State::Done] {
            for id in listed(&tube, state) {
                let new = Task { status: None, must_be_over: false, done_at: 0 };
                let mut task = self.tasks.get(&(nth, id)).copied().unwrap_or(new);
                let status = match (state, tube.outcome(id).unwrap()) {
                    (State::Ready, None) => Status::Ready,
                    (State::Taken, None) => Status::Taken,
                    (State::Buried, Some(Ending::Buried { failure: Some(failure) })) => {
                        assert_eq!(failure.group, group_of(id));
                        Status::Buried(self.now - micros(failure.ago))
                    }
                    (State::Done, Some(Ending::Done { result: got })) => {
                        assert!(got.as_deref().is_none_or(|got| got == result(id).as_bytes()));
                        Status::Done(task.done_at, got.is_some())
                    }
                    (state, outcome) => panic!("task {id} is {state:?}: {outcome:?}"),
                };
                let is_live = matches!(status, Status::Ready | Status::Taken);
                assert!(!(is_live && task.must_be_over && keeps_all), "{id} is back: {task:?}");
                task.must_be_over &= keeps_all;
                task.status = Some(status);
                self.tasks.insert((nth, id), task);
            }
        }
    }
}
