//! The calls that change or delete chosen tasks.

use tubewell::{Error, Filter, Receipt, Result, TaskState, Ticket, Update};

use super::{Answer, Load};
use crate::moments::moment;
use crate::state::{Kind, Survival, tags_for};

impl Load {
    pub(super) fn edit(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(()) };
        if kind.temporary || !self.contents.tasks.contains_key(&id) {
            return Ok(());
        }
        match self.rng.below(8) {
            0 | 1 if kind.timed() => self.set_priority(name, id, &kind),
            2 => self.delete_many(name, id, &kind),
            3..5 if kind.keeps_histories() => self.log(name, id, &kind),
            _ => self.update(name, id, &kind),
        }
    }

    fn set_priority(&mut self, name: &'static str, id: u64, kind: &Kind) -> Result<()> {
        let priority = u32::try_from(self.rng.below(4)).unwrap();
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        let is_same = self.contents.tasks[&id].priority == priority;
        if !is_same && self.rng.one_in(4) {
            let ticket = match self.given(&tube, |tube| tube.admin().set_priority(id, priority)) {
                Err(Error::NotFound { .. }) => return Ok(()),
                ticket => ticket?,
            };
            self.contents().change(id, |task| task.priority = priority);
            self.deferred("deferred priority", issued, ticket, kind);
            return Ok(());
        }
        let receipt = match tube.admin().set_priority(id, priority) {
            Err(Error::NotFound { .. }) => return Ok(()),
            receipt => receipt?,
        };
        if !is_same {
            self.contents().change(id, |task| task.priority = priority);
            self.changed("priority", issued, kind, &[receipt]);
        }
        Ok(())
    }

    /// Adds an entry to the history of a task.
    fn log(&mut self, name: &'static str, id: u64, kind: &Kind) -> Result<()> {
        let number = self.rng.below(u64::MAX);
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        let receipt = match tube.admin().log(id, &number.to_string()) {
            Err(Error::NotFound { .. }) => return Ok(()),
            receipt => receipt?,
        };
        self.contents().change(id, |task| task.logged = Some(number));
        self.changed("log", issued, kind, &[receipt]);
        Ok(())
    }

    /// Changes the body of a task, and its priority and its delay or moment where that is possible.
    fn update(&mut self, name: &'static str, id: u64, kind: &Kind) -> Result<()> {
        let (body, task) = (self.body(), self.contents.tasks[&id].clone());
        let mut update = Update::new().body(&*body);
        let priority =
            (kind.timed() && self.rng.one_in(2)).then(|| u32::try_from(self.rng.below(4)).unwrap());
        update = priority.into_iter().fold(update, Update::priority);
        let is_ready = task.state == TaskState::Ready && kind.timed();
        let delay = (is_ready && self.rng.one_in(3)).then(|| self.free_delay(task.expires_at));
        let is_moment = delay.is_some() && self.may_use_moments() && self.rng.one_in(2);
        if let Some((ready_at, delay)) = delay {
            update =
                if is_moment { update.not_before(moment(ready_at)) } else { update.delay(delay) };
        }
        let tags = (body.len() % 5 == 0).then(|| tags_for(body.len() / 5));
        update = tags.into_iter().fold(update, |update, tags| update.tags(tags.iter().copied()));
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        let (mut ticket, mut receipt): (Option<Ticket<Receipt>>, _) = (None, None);
        let updated = if self.rng.one_in(4) {
            self.given(&tube, |tube| tube.update(id, update.clone()))
                .map(|updated| ticket = Some(updated))
        } else {
            tube.update(id, update).map(|updated| receipt = Some(updated))
        };
        match updated {
            Err(Error::NotReady { state, .. }) => {
                let is_taken = || self.may_have_claim(|other| other == (name, id));
                let is_done = task.state == TaskState::Done;
                let is_expected = if state == TaskState::Done { is_done } else { is_taken() };
                assert!(is_expected, "task {id} of {name:?} is not updated, it is {state:?}");
                return Ok(());
            }
            Err(Error::NotFound { .. }) => return Ok(()),
            updated => updated?,
        }
        self.contents().change(id, |task| {
            task.body = body;
            task.priority = priority.unwrap_or(task.priority);
            task.tags = tags.unwrap_or(task.tags);
            match delay {
                Some((ready_at, delay)) if is_moment => task.wait_until(ready_at, delay),
                Some((ready_at, delay)) => task.delay(ready_at, delay),
                None => {}
            }
        });
        match (ticket, receipt) {
            (Some(ticket), _) => self.deferred("deferred update", issued, ticket, kind),
            (_, receipt) => self.changed("update", issued, kind, receipt.as_slice()),
        }
        Ok(())
    }

    /// Deletes a task with those that follow in its tube, and one that does not exist.
    fn delete_many(&mut self, name: &'static str, id: u64, kind: &Kind) -> Result<()> {
        let count = 1 + self.rng.index(4);
        let of_tube = self.contents.tasks.range(id..).filter(|(_, task)| task.tube == name);
        let mut ids: Vec<u64> = of_tube.map(|(id, _)| *id).take(count).collect();
        ids.push(u64::MAX);
        let issued = self.disk.position();
        let deleted = self.store.find_tube(name)?.admin().delete(Filter::new().ids(&ids))?;
        for id in &ids {
            self.contents().tasks.remove(id);
        }
        let survival = if deleted > 0 { kind.survival(self.durability) } else { Survival::Unknown };
        self.step("delete_many", issued, Answer { survival, ..Answer::default() });
        Ok(())
    }
}
