//! Outages, crashes and closes, and which outcomes must be left after them.

use tubewell::{Ending, TaskState};

use super::{Simulation, Status, Task, group_of, listed, result};
use crate::seeds::Checked;
use crate::simulator::micros;
use crate::world::Upset;

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        if upset != Upset::Outage {
            self.release_taken();
        }
        self.world.settle();
        self.forget_aged();
        for nth in 0..self.policies.len() {
            let keeps_all = upset.keeps_all(self.policies[nth].durability);
            if keeps_all && !self.is_unsure[nth] {
                // `check` compares the tube with the model.
                self.world.cover("exact");
                continue;
            }
            self.learn_tube(nth, keeps_all);
            self.is_unsure[nth] = false;
        }
        self.compare();
    }

    fn compare(&self) {
        self.compare_all();
    }
}

impl Simulation {
    /// The claims have ended with the process.
    fn release_taken(&mut self) {
        for task in self.tasks.values_mut().filter(|task| task.status == Some(Status::Taken)) {
            task.status = Some(Status::Ready);
        }
    }

    fn learn_tube(&mut self, nth: usize, keeps_all: bool) {
        let known: Vec<u64> =
            self.tasks.range((nth, 0)..(nth + 1, 0)).map(|((_, id), _)| *id).collect();
        for id in known {
            self.set(nth, id, None);
        }
        let tube = self.world.tubes[nth].clone();
        for state in [TaskState::Ready, TaskState::Taken, TaskState::Buried, TaskState::Done] {
            for id in listed(&tube, state) {
                let new = Task { status: None, must_be_over: false, done_at: 0 };
                let mut task = self.tasks.get(&(nth, id)).copied().unwrap_or(new);
                let status = match (state, tube.ending(id).unwrap()) {
                    (TaskState::Ready, None) => Status::Ready,
                    (TaskState::Taken, None) => Status::Taken,
                    (TaskState::Buried, Some(Ending::Buried { failure: Some(failure) })) => {
                        assert_eq!(failure.group, group_of(id));
                        Status::Buried(self.world.now - micros(failure.ago))
                    }
                    (TaskState::Done, Some(Ending::Done { result: got })) => {
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
