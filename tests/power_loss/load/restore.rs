//! Tasks of another store that a load puts back: done ones, and others beside them.

use std::time::Duration;

use tubewell::expert::Restore;
use tubewell::{Error, Put, Result, TaskState};

use super::Load;
use crate::state::{Kind, Task};

impl Load {
    /// Puts a few tasks back with one call.
    pub(super) fn restore(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return self.create_tube() };
        let count = 1 + self.rng.below(4);
        let drawn = (0..count).map(|_| self.random_restored(name, &kind));
        let (mut restored, tasks): (Vec<Restore>, Vec<Task>) = drawn.unzip();
        // The ids in between are never assigned.
        let first = self.next_id.filter(|_| self.rng.one_in(2)).map(|id| id + self.rng.below(5));
        if let Some(id) = first {
            restored[0] = restored[0].clone().id(id);
        }
        let has_done = tasks.iter().any(|task| task.state == TaskState::Done);
        let issued = self.disk.position();
        let receipts = match tube.admin().restore_many(restored) {
            Err(Error::Full { .. }) => return Ok(()),
            Err(Error::Invalid { .. }) if has_done && !kind.keeps_done() => return Ok(()),
            receipts => receipts?,
        };
        self.next_id = first.or(self.next_id);
        for (receipt, task) in receipts.iter().zip(&tasks) {
            assert_eq!(receipt.state, task.state);
            self.record_put(&kind, receipt.id, task.clone());
        }
        if has_done {
            self.contents().trim(name, TaskState::Done);
        }
        self.changed("restore_many", issued, &kind, &receipts);
        Ok(())
    }

    /// Two of three tasks are done.
    fn random_restored(&mut self, name: &'static str, kind: &Kind) -> (Restore, Task) {
        if self.rng.one_in(3) {
            let (put, task) = self.random_put(name, kind, false);
            return (Restore::new(put), task);
        }
        let (now, body, result) = (self.now(), self.body(), self.result());
        let mut put = Put::new(&*body);
        let mut task = Task::plain(name, kind, &body, now);
        if kind.sub_queued() && self.rng.one_in(2) {
            put = put.sub_queue("x");
            task.sub_queue = Some("x".to_owned());
        }
        // Without a clock of the load, the times would be those of the system.
        let until = self.clock.is_some() && self.rng.one_in(2);
        let until = until.then(|| self.unique_due(now, 40));
        if let Some(until) = until {
            put = put.ttl(Duration::from_micros(until - now));
        }
        let takes = task.limit.map_or(0, |limit| self.rng.below(u64::from(limit) + 1));
        task.attempts = u32::try_from(takes).unwrap();
        (task.state, task.result) = (TaskState::Done, result.clone());
        kind.keep_restored(&mut task, now, until);
        let result = result.as_deref().map(<[u8]>::to_vec);
        (Restore::new(put).takes(task.attempts).done(result), task)
    }
}
