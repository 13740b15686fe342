//! Puts that are made again with their tokens: those that were answered, and those of which it is not
//! known whether they took place.

use tubewell::{Put, TaskState};

use super::{Simulation, Status, Task, body};
use crate::rng::Rng;

/// A put that was made with a token.
#[derive(Clone, Copy, Debug)]
pub(super) struct TokenPut {
    /// The task as it was put; its version is the token.
    task: Task,
    /// The id of its task. `None` if it is not known whether it was put.
    pub(super) id: Option<u64>,
}

fn with_token(task: Task) -> Put<String> {
    let put = Put::new(body(task.version)).sub_queue(task.sub_queue).priority(task.priority);
    put.idempotency_key(task.version.to_string())
}

impl Simulation {
    /// Puts a new task with a token.
    pub(super) fn put_with_token(&mut self, nth: usize, rng: &mut Rng) {
        let (_, task) = self.new_task(nth, None, rng);
        let answer = self.world.tubes[nth].put(with_token(task));
        let (answer, _) = self.world.done("put with a token", answer);
        let id = answer.map(|receipt| receipt.id);
        if let Some(id) = id {
            assert_eq!(self.tasks.insert(id, task), None, "the id {id} is used twice");
            self.answered(&[id], &[nth]);
        }
        self.token_puts.push(TokenPut { task, id });
    }

    /// Makes a put again. If the first one took place, nothing is put, and the answer has its task.
    pub(super) fn put_again(&mut self, rng: &mut Rng) {
        if self.token_puts.is_empty() || self.world.is_unsure {
            return;
        }
        let at = rng.index(self.token_puts.len());
        let TokenPut { task, id } = self.token_puts[at];
        let answer = self.world.tubes[task.tube].put(with_token(task));
        let (Some(receipt), _) = self.world.done("put again", answer) else {
            return;
        };
        self.token_puts[at].id = Some(receipt.id);
        match id {
            Some(id) => {
                assert_eq!(receipt.id, id, "{task:?} is put twice");
                assert_eq!(receipt.state, self.state_in(task.tube, id), "{task:?}");
                self.world.cover("seen");
            }
            // The first one took place, and its task has ended or was passed on since.
            None if self.tasks.contains_key(&receipt.id) => {}
            None => {
                assert_eq!(receipt.state, TaskState::Ready, "{task:?}");
                self.tasks.insert(receipt.id, task);
                self.answered(&[receipt.id], &[task.tube]);
                self.world.cover("put that did not take place");
            }
        }
    }

    /// The state of a task, as a put that is made again says it: done if it is not in the tube.
    fn state_in(&self, nth: usize, id: u64) -> TaskState {
        let task = self.tasks.get(&id).filter(|task| task.tube == nth);
        match task.and_then(|task| task.status) {
            Some(Status::Ready) => TaskState::Ready,
            Some(Status::Taken) => TaskState::Taken,
            Some(Status::Buried) => TaskState::Buried,
            Some(Status::Done) | None => TaskState::Done,
        }
    }

    /// What is left tells which puts took place. A token is lost with its task, and only so; `lost` are
    /// tasks that may be lost.
    pub(super) fn learn_token_puts(
        &mut self,
        found: &[(u64, Task)],
        is_lost: impl Fn(u64) -> bool,
    ) {
        for put in &mut self.token_puts {
            if put.id.is_some_and(&is_lost) {
                put.id = None;
            }
            if put.id.is_none() {
                let of = found.iter().find(|(_, task)| task.version == put.task.version);
                put.id = of.map(|(id, _)| *id);
            }
        }
    }
}
