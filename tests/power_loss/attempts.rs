//! Attempts in the expected contents: takes that are counted, and how attempts end.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Counting, TaskState};

use crate::image_run::micros;
use crate::rng::Rng;
use crate::state::{Contents, Kind, Limit, Task};

/// The groups of reported failures.
pub const FAILED: &str = "failed";
pub const POISON: &str = "poison";

/// How an attempt ends, but for an ack and a delete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Its holder releases the task, or drops the claim.
    Released,
    /// Its holder reports a failure.
    Failed,
    /// The attempt does not count.
    Forgiven,
    /// The run of the store has ended.
    Lost,
}

impl Limit {
    pub fn random(rng: &mut Rng) -> Limit {
        let counting = rng.pick(&[Counting::Written, Counting::Flushed]);
        Limit { attempts: u32::try_from(1 + rng.below(3)).unwrap(), counting }
    }
}

impl Kind {
    /// Whether the takes of its tasks are flushed.
    pub fn counts_flushed(&self) -> bool {
        self.limit.is_some_and(|limit| limit.counting == Counting::Flushed)
    }
}

impl Task {
    /// Delays the task.
    pub fn delay(&mut self, ready_at: u64, delay: Duration) {
        (self.state, self.parked, self.is_counted) = (TaskState::Delayed, None, false);
        self.ready_at = ready_at;
        self.expires_at = self.expires_at.saturating_add(micros(delay));
    }

    /// Ends an attempt. After the last one the task is buried.
    fn end_attempt(&mut self, end: End, delay: Option<(u64, Duration)>) {
        (self.state, self.parked, self.is_counted) = (TaskState::Ready, None, false);
        if end == End::Forgiven {
            self.attempts = self.attempts.saturating_sub(1);
        }
        let is_last = self.limit.is_some_and(|limit| self.attempts >= limit);
        match (end, delay) {
            (End::Failed, _) => self.failure = Some(FAILED),
            (End::Released, _) if is_last => self.failure = Some("released"),
            (End::Lost, _) if is_last => self.failure = Some("lost"),
            _ => {}
        }
        match delay {
            _ if is_last => {
                self.state = TaskState::Buried;
                self.group = self.failure;
            }
            Some((ready_at, delay)) => self.delay(ready_at, delay),
            None => {}
        }
    }
}

impl Contents {
    /// Counts the take of a task, if its attempts are limited; returns whether they are.
    pub fn count_take(&mut self, id: u64) -> bool {
        let is_limited = self.tasks.get(&id).is_some_and(|task| task.limit.is_some());
        is_limited
            && self.change(id, |task| {
                task.attempts += 1;
                task.is_counted = true;
            })
    }

    /// Ends an attempt at a task; returns whether the task is stored.
    pub fn end_attempt(&mut self, id: u64, end: End, delay: Option<(u64, Duration)>) -> bool {
        let is_stored = self.change(id, |task| task.end_attempt(end, delay));
        if self.tasks.get(&id).is_some_and(|task| task.state == TaskState::Buried) {
            self.keep(id);
        }
        is_stored
    }

    /// Whether the file has the claim on a task.
    pub fn has_stored_claim(&self, id: u64) -> bool {
        self.tasks.get(&id).is_some_and(|task| task.parked.is_some() || task.is_counted)
    }

    /// What the next run finds: the attempts that were under way are lost, at this time.
    pub fn of_next_run(self: &Arc<Contents>, now: u64) -> Arc<Contents> {
        let is_counted = |(id, task): (&u64, &Arc<Task>)| task.is_counted.then_some(*id);
        let counted: Vec<u64> = self.tasks.iter().filter_map(is_counted).collect();
        if counted.is_empty() {
            return self.clone();
        }
        let mut next = Contents { now, ..Contents::clone(self) };
        for id in counted {
            next.end_attempt(id, End::Lost, None);
        }
        Arc::new(next)
    }
}
