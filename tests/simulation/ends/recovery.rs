//! What must be left of tasks after outages, crashes and closes.

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{Claim, Ending, State};

use super::{Simulation, Status, Task};
use crate::world::Upset;

const STATES: [State; 4] = [State::Ready, State::Taken, State::Buried, State::Done];

impl Simulation {
    /// Compares all tasks with what must be left of them, and continues with what is there.
    pub(super) fn learn_all(&mut self, upset: Upset) {
        match upset {
            Upset::Outage => {}
            Upset::Close => self.waits_are_closed(),
            // The waits have ended with the process.
            Upset::Crash(_) => self.waits.clear(),
        }
        if upset != Upset::Outage {
            for task in self.tasks.values_mut().filter(|task| task.status == Status::Taken) {
                task.status = Status::Ready;
            }
        }
        self.world.clock.advance(Duration::ZERO);
        assert_eq!(self.world.store.verify().unwrap(), [""; 0]);
        self.claims.retain(Claim::is_current);
        let keeps_all = |nth: usize| upset.keeps_all(self.durability[nth]);
        self.over.retain(|_, nth| keeps_all(*nth));
        let found = self.found();
        for id in self.over.keys() {
            let status = found.get(id).map(|task| &task.status);
            let is_back = matches!(status, Some(Status::Ready | Status::Taken));
            assert!(!is_back, "task {id} is back after {upset:?}: {status:?}");
        }
        if !self.is_unsure && (0..self.durability.len()).all(keeps_all) {
            self.world.cover("exact");
            assert_eq!(found, self.stored(), "after {upset:?}");
        }
        // The storage has ended the waits, or what they wait for may have happened.
        if self.is_unsure {
            self.poll_waits();
            self.waits.clear();
        }
        for (id, task) in &mut self.tasks {
            task.status = Status::Gone;
            if let Some(found) = found.get(id) {
                *task = found.clone();
            }
        }
        self.tasks.extend(found);
        self.is_unsure = false;
    }

    /// All tasks of the store, also those that are done and kept.
    pub(super) fn found(&self) -> BTreeMap<u64, Task> {
        let mut found = BTreeMap::new();
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            for state in STATES {
                for info in tube.list(state, None, 10_000).unwrap().tasks {
                    let status = match state {
                        State::Taken => Status::Taken,
                        State::Buried => Status::Buried,
                        State::Done => match tube.outcome(info.id).unwrap() {
                            Some(Ending::Done { result }) => Status::Done(result),
                            ending => panic!("{ending:?} of {info:?}"),
                        },
                        _ => Status::Ready,
                    };
                    found.insert(info.id, Task { tube: nth, status });
                }
            }
        }
        found
    }
}
