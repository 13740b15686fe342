//! Puts of tasks with a key: of new ones, and of those whose key a task has.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, OnKey, Put, Result, Ticket};

use super::Load;
use crate::moments::moment;
use crate::state::{Kind, NEVER, Survival, Task};

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

impl Load {
    pub(super) fn put_with_key(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return self.create_tube() };
        // The tasks of temporary tubes are not known here.
        if kind.temporary {
            return Ok(());
        }
        let (put, mut task) = self.random_put(name, &kind, true);
        let key = self.rng.pick(&KEYS);
        let put = put.key(key);
        task.key = Some(key);
        let of_key = self.contents.tasks.iter().find(|(_, task)| task.key == Some(key));
        let Some((id, old)) = of_key.map(|(id, old)| (*id, old.clone())) else {
            let issued = self.disk.position();
            let receipt = match tube.put(put) {
                Err(Error::Full { .. }) => return Ok(()),
                receipt => receipt?,
            };
            self.record_put(&kind, receipt.id, task);
            self.changed("put of a key", issued, &kind, &[receipt]);
            return Ok(());
        };
        match self.rng.below(5) {
            0 => {
                let refused = tube.put(put).err();
                let is_expected =
                    matches!(refused, Some(Error::KeyInUse { id: of, .. }) if of == id);
                assert!(is_expected, "a put of {key:?}, which task {id} has: {refused:?}");
            }
            1 => assert_eq!(tube.put(put.on_key(OnKey::Keep))?.id, id),
            // The limit of the task alone would stay.
            _ if old.limit.is_some() && kind.limit.is_none() => {}
            _ => self.replace(id, &old, put, task, &kind)?,
        }
        Ok(())
    }

    /// Puts a task over the one with this id, with all options.
    fn replace(
        &mut self,
        id: u64,
        old: &Task,
        put: Put<Vec<u8>>,
        mut task: Task,
        kind: &Arc<Kind>,
    ) -> Result<()> {
        let mut put = put.on_key(OnKey::Replace);
        if kind.timed() {
            let time = |until: u64| match until {
                NEVER => Duration::MAX,
                until => Duration::from_micros(until),
            };
            put = put.priority(task.priority).ttr(time(task.ttr));
            if task.expires_at == NEVER {
                put = put.ttl(Duration::MAX);
            }
            if task.not_before.is_none() && old.not_before.is_some() {
                // That of the task before would stay.
                put = put.not_before(moment(0));
                task.not_before = Some(0);
            }
        }
        if kind.sub_queued() {
            put = put.sub_queue(task.sub_queue.as_deref().unwrap_or_default());
        }
        put = task.limit.into_iter().fold(put, Put::max_attempts);
        if task.tags.is_empty() {
            task.tags = old.tags;
        }
        let was_done = old.state == tubewell::TaskState::Done;
        task.failure = old.failure.filter(|_| !was_done);
        let tube = self.store.find_tube(task.tube)?;
        let issued = self.disk.position();
        let mut ticket: Option<Ticket<_>> = None;
        let mut receipt = None;
        let replaced = if self.rng.one_in(4) {
            self.given(&tube, |tube| tube.put(put.clone())).map(|replaced| ticket = Some(replaced))
        } else {
            tube.put(put).map(|replaced| receipt = Some(replaced))
        };
        match replaced {
            Err(Error::Full { .. }) => return Ok(()),
            replaced => replaced?,
        }
        if let Some(receipt) = &receipt {
            assert_eq!((receipt.id, receipt.state), (id, task.state));
        }
        // The claims on it have ended.
        self.claims.retain(|claim| claim.id() != id);
        self.detached.retain(|(_, detached)| *detached != id);
        let before = self.contents.tubes.get(old.tube).cloned();
        self.contents().tasks.insert(id, Arc::new(task));
        let kind = self.stronger(before.as_ref().unwrap_or(kind), kind);
        match (ticket, receipt) {
            (Some(ticket), _) => self.deferred("deferred replacement", issued, ticket, &kind),
            (_, receipt) => self.changed("replacement", issued, &kind, receipt.as_slice()),
        }
        Ok(())
    }

    /// The one of two tubes whose changes are flushed first.
    fn stronger(&self, one: &Arc<Kind>, other: &Arc<Kind>) -> Arc<Kind> {
        let within = |kind: &Kind| match kind.survival(self.durability) {
            Survival::FromAnswer => Duration::ZERO,
            Survival::Within(time) => time,
            Survival::Unknown => Duration::MAX,
        };
        if within(one) < within(other) { one.clone() } else { other.clone() }
    }
}
