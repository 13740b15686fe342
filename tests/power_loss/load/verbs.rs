//! The calls on tasks that a load makes, but for those of claims.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, Filter, Put, Result, TaskState};

use super::{Answer, Load, LoadProfile};
use crate::image_run::micros;
use crate::moments::moment;
use crate::state::{Kind, NEVER, Survival, Task, tags_for};

impl Load {
    /// A body whose length is often near a limit of the format.
    pub(super) fn body(&mut self) -> Arc<[u8]> {
        let rng = &mut self.rng;
        let len = match (self.profile, rng.below(12)) {
            (LoadProfile::LargeBodies | LoadProfile::LongTail, 0..8) => 2000 + rng.below(30_000),
            // Too large for the journal: the commit goes to the tables, with all that it has.
            (LoadProfile::LargeBodies, 8) => 270_000,
            (LoadProfile::ManyTasks, _) => rng.below(20),
            (_, 0) => 0,
            (_, 1) => 1020 + rng.below(10),
            (_, 2) => 4000 + rng.below(200),
            (_, 3) => 1000 + rng.below(9000),
            _ => 1 + rng.below(300),
        };
        let salt = rng.next();
        let byte = |n: u64| ((salt >> (n % 57)) ^ n).to_le_bytes()[0];
        (0..len).map(byte).collect()
    }

    /// A random time, at most `seconds` after `from`, at which no other task falls due.
    pub(super) fn unique_due(&mut self, from: u64, seconds: u64) -> u64 {
        loop {
            let due = from + 1_000_000 * self.rng.below(seconds) + self.rng.below(1_000_000) + 1;
            if self.dues.insert(due) {
                return due;
            }
        }
    }

    /// A put for a tube of this kind, and the task that it stores. With `alone`, the clock may
    /// advance first.
    pub(super) fn random_put(
        &mut self,
        tube: &'static str,
        kind: &Kind,
        alone: bool,
    ) -> (Put<Vec<u8>>, Task) {
        let body = self.body();
        // Two tasks put at the same time with the tube's ttl would expire at the same time.
        let by_tube = kind.ttl.filter(|_| alone && self.rng.one_in(2));
        while by_tube.is_some_and(|ttl| !self.dues.insert(self.now() + micros(ttl))) {
            self.advance(1);
        }
        let now = self.now();
        let mut task = Task::plain(tube, kind, &body, now);
        task.tags = tags_for(body.len());
        let mut put = task.tags.iter().fold(Put::new(body.to_vec()), |put, tag| put.tag(*tag));
        if kind.sub_queued() && !self.rng.one_in(4) {
            let name = self.rng.pick(&["x", "y", "zebra"]);
            put = put.sub_queue(name);
            task.sub_queue = Some(name.to_owned());
        }
        if kind.limit.is_some() && self.rng.one_in(3) {
            let limit = u32::try_from(1 + self.rng.below(3)).unwrap();
            put = put.max_attempts(limit);
            task.limit = Some(limit);
        }
        if !kind.timed() {
            return (put, task);
        }
        if self.rng.one_in(2) {
            task.priority = u32::try_from(self.rng.below(4)).unwrap();
            put = put.priority(task.priority);
        }
        if kind.limit.is_none() && self.rng.one_in(3) {
            task.ttr = 1_000_000 * (1 + self.rng.below(30));
            put = put.ttr(Duration::from_micros(task.ttr));
        }
        let with_ttl = kind.ttl.is_some() || kind.limit.is_none() && self.rng.one_in(3);
        if by_tube.is_none() && with_ttl {
            task.expires_at = self.unique_due(now, 40);
            put = put.ttl(Duration::from_micros(task.expires_at - now));
        }
        if self.rng.one_in(3) {
            let (ready_at, delay) = self.free_delay(task.expires_at);
            if self.may_use_moments() && self.rng.one_in(2) {
                task.wait_until(ready_at, delay);
                put = put.not_before(moment(ready_at));
                // Not a shorter one: tasks that are overdue become ready in the order of what the file has
                // of them, and that a delay has elapsed before the moment may be lost with a power cut.
                put = if ready_at % 2 == 0 { put.delay(delay) } else { put };
            } else {
                task.delay(ready_at, delay);
                put = put.delay(delay);
            }
        }
        (put, task)
    }

    /// The clock of the system does not show the time of the load.
    pub(super) fn may_use_moments(&self) -> bool {
        self.clock.is_some()
    }

    pub(super) fn record_put(&mut self, kind: &Kind, id: u64, task: Task) {
        if let Some(next) = self.next_id {
            assert_eq!(id, next, "ids increase by one");
        }
        self.next_id = Some(id + 1);
        if !kind.temporary {
            self.contents().tasks.insert(id, Arc::new(task));
        }
    }

    pub(super) fn put(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return self.create_tube() };
        let (put, task) = self.random_put(name, &kind, true);
        let issued = self.disk.position();
        let receipt = match tube.put(put) {
            Err(Error::Full { .. }) => return Ok(()),
            receipt => receipt?,
        };
        assert_eq!(receipt.state, task.state);
        self.record_put(&kind, receipt.id, task);
        self.changed("put", issued, &kind, &[receipt]);
        Ok(())
    }

    pub(super) fn put_many(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return self.create_tube() };
        let many = if self.profile == LoadProfile::ManyTasks { 900 } else { 6 };
        let count = 2 + self.rng.below(many);
        let drawn = (0..count).map(|_| self.random_put(name, &kind, false));
        let (puts, tasks): (Vec<_>, Vec<_>) = drawn.unzip();
        let issued = self.disk.position();
        let receipts = match tube.put_many(puts) {
            Err(Error::Full { .. }) => return Ok(()),
            receipts => receipts?,
        };
        for (receipt, task) in receipts.iter().zip(tasks) {
            self.record_put(&kind, receipt.id, task);
        }
        self.changed("put_many", issued, &kind, &receipts);
        Ok(())
    }

    pub(super) fn put_deferred(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return self.create_tube() };
        // The answer with its id comes later, so the id must be known in advance.
        let Some(id) = self.next_id.filter(|_| !kind.temporary) else { return Ok(()) };
        let (put, task) = self.random_put(name, &kind, true);
        let issued = self.disk.position();
        let ticket = match self.given(&tube, |tube| tube.put(put.clone())) {
            Err(Error::Full { .. }) => return Ok(()),
            ticket => ticket?,
        };
        self.record_put(&kind, id, task);
        self.deferred("deferred put", issued, ticket, &kind);
        Ok(())
    }

    pub(super) fn bury(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(()) };
        let tube = self.store.find_tube(name)?;
        let before = self.contents.tasks.get(&id).map(|task| task.state);
        let issued = self.disk.position();
        if before == Some(TaskState::Done) {
            let refused = tube.admin().bury(id, None);
            let is_expected =
                matches!(refused, Err(Error::NotReady { state: TaskState::Done, .. }));
            assert!(is_expected, "bury of a done task: {refused:?}");
            return Ok(());
        }
        if self.rng.one_in(4) && before.is_some_and(|state| state != TaskState::Buried) {
            let ticket = self.given(&tube, |tube| tube.admin().bury(id, None))?;
            self.contents().bury(id, None);
            self.deferred("deferred bury", issued, ticket, &kind);
            return Ok(());
        }
        let Some(receipt) = unless_ended(tube.admin().bury(id, None))? else { return Ok(()) };
        if before == Some(TaskState::Buried) {
            self.told_in_memory(receipt, &kind);
        } else {
            self.contents().bury(id, None);
            self.changed("bury", issued, &kind, &[receipt]);
        }
        Ok(())
    }

    pub(super) fn kick(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return Ok(()) };
        let count = 1 + self.rng.below(4);
        let issued = self.disk.position();
        let kicked = tube.admin().kick(Filter::new().limit(count))?;
        if kind.temporary {
            return Ok(());
        }
        assert_eq!(
            kicked,
            self.contents().kick(name, count),
            "kicked tasks, of {count}, in {name}"
        );
        let survival = if kicked > 0 { kind.survival(self.durability) } else { Survival::Unknown };
        self.step("kick", issued, Answer { survival, ..Answer::default() });
        Ok(())
    }

    pub(super) fn delete(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(()) };
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        let Some(receipt) = unless_ended(tube.delete(id))? else { return Ok(()) };
        self.contents().tasks.remove(&id);
        self.changed("delete", issued, &kind, &[receipt]);
        Ok(())
    }

    /// How long to touch a task, so that its ttl elapses at a unique time.
    pub(super) fn free_touch(&mut self, id: u64) -> Duration {
        let expires_at = self.expires_at(id);
        let more = if expires_at == NEVER {
            1_000_000
        } else {
            self.unique_due(expires_at, 10) - expires_at
        };
        Duration::from_micros(more)
    }

    /// A delay for a task that expires at this time, so that both its due times are unique.
    pub(super) fn free_delay(&mut self, expires_at: u64) -> (u64, Duration) {
        loop {
            let now = self.now();
            let ready_at = self.unique_due(now, 10);
            let delay = ready_at - now;
            if expires_at == NEVER || self.dues.insert(expires_at + delay) {
                return (ready_at, Duration::from_micros(delay));
            }
        }
    }

    pub(super) fn expires_at(&self, id: u64) -> u64 {
        self.contents.tasks.get(&id).map_or(NEVER, |task| task.expires_at)
    }
}

/// The answer, or `None` if the claim has ended, or the task or tube is removed.
pub(super) fn unless_ended<T>(answer: Result<T>) -> Result<Option<T>> {
    match answer {
        Err(Error::NotTaken { .. } | Error::NotFound { .. } | Error::TubeDropped { .. }) => {
            Ok(None)
        }
        answer => answer.map(Some),
    }
}
