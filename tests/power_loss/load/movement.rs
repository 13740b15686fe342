//! The calls of a load with which tasks go on in other tubes.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use tubewell::{Claim, Error, Outcome, Put, Receipt, Result, TaskState, Ticket, Tube};

use super::verbs::unless_ended;
use super::{Answer, Deferred, Load};
use crate::attempts::End;
use crate::by_id;
use crate::image_run::micros;
use crate::state::{Kind, NEVER, Survival, Task};

/// A task to put, with its tube.
type NewTask = (Arc<Kind>, Tube, Put<Vec<u8>>, Task);

impl Load {
    /// A call with which a task goes to another tube, or one that it needs.
    pub(super) fn call_of_moves(&mut self, full: bool) -> Result<()> {
        if self.contents.tubes.len() < 4 {
            return self.create_tube();
        }
        match self.rng.below(16) {
            0..5 if full => self.delete(),
            0..4 => self.put(),
            4 => self.put_with_key(),
            5..8 => self.take(),
            8 => self.bury(),
            9..12 => {
                let Some(claim) = self.claims.pop() else { return Ok(()) };
                let Some(kind) = self.contents.tubes.get(claim.tube()).cloned() else {
                    return Ok(());
                };
                self.finish(claim, &kind)
            }
            _ => self.move_task(),
        }
    }

    /// Moves a task to another tube.
    pub(super) fn move_task(&mut self) -> Result<()> {
        if self.contents.tubes.len() < 2 {
            return self.create_tube();
        }
        // Most pairs of a task and a tube do not fit.
        for _ in 0..8 {
            if self.move_random_task()? {
                break;
            }
        }
        Ok(())
    }

    /// Moves a task to another tube, whatever its state is. The attempts of a task depend on its tube:
    /// those that are limited stay. Returns whether it was moved.
    fn move_random_task(&mut self) -> Result<bool> {
        let Some((name, id)) = self.random_task() else { return Ok(false) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(false) };
        let Some((to, target, to_kind)) = self.other_tube(name)? else { return Ok(false) };
        if kind.temporary != to_kind.temporary && !self.rng.one_in(8) {
            return Ok(false);
        }
        let has_limit = kind.limit.is_some() || to_kind.limit.is_some();
        // Two tasks that move at the same time would expire at the same time.
        let gets_ttl = !kind.timed() && to_kind.ttl.is_some();
        let task = self.contents.tasks.get(&id).cloned();
        let stays = |task: &Arc<Task>| task.tube != name || task.limit.is_some();
        if has_limit || gets_ttl || task.as_ref().is_some_and(stays) {
            return Ok(false);
        }
        let tube = self.store.find_tube(name)?;
        let issued = self.disk.position();
        let mut ticket = None;
        let is_live = task.as_ref().is_some_and(|task| task.state != TaskState::Done);
        let moved = if !kind.temporary && self.rng.one_in(3) && is_live {
            self.begin_move(&tube, &target, id).map(|begun| ticket = begun)
        } else {
            by_id::move_to(&tube, &target, id).map(drop)
        };
        match moved {
            // Its times or its sub-queue; a limited tube; a tube in memory.
            Err(Error::Unsupported { .. } | Error::Full { .. } | Error::Invalid { .. }) => {
                return Ok(false);
            }
            Err(Error::NotReady { state, .. }) => {
                assert_eq!(
                    (state, task.map(|task| task.state)),
                    (TaskState::Done, Some(TaskState::Done))
                );
                return Ok(false);
            }
            moved => {
                if unless_ended(moved)?.is_none() {
                    return Ok(false);
                }
            }
        }
        self.record_move(id, to, &kind, &to_kind);
        let survival = kind.survival(self.durability).min(to_kind.survival(self.durability));
        match ticket {
            Some(ticket) => {
                let ticket = Deferred::Counted(ticket);
                self.deferred_until("deferred move", issued, ticket, survival);
            }
            None => self.moved("move", issued, survival, None),
        }
        Ok(true)
    }

    /// Makes a move whose answer comes later, once it has space: whether it is refused is known then. Returns
    /// no ticket if the answer has come.
    fn begin_move(&self, tube: &Tube, to: &Tube, id: u64) -> Result<Option<Ticket<u64>>> {
        let tube = tube.to_async().refuse_when_full();
        loop {
            let mut ticket = tube.admin().move_to(to, id);
            match Pin::new(&mut ticket).poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Pending => return Ok(Some(ticket)),
                Poll::Ready(Err(Error::Overloaded)) => {
                    self.store.to_async().admin().capacity().wait()?;
                }
                Poll::Ready(moved) => {
                    assert_eq!(moved?, 1);
                    return Ok(None);
                }
            }
        }
    }

    fn record_move(&mut self, id: u64, to: &'static str, from: &Kind, kind: &Kind) {
        let contents = self.contents();
        if contents.has_stored_claim(id) {
            contents.end_attempt(id, End::Forgiven, None);
        }
        contents.change(id, |task| {
            task.tube = to;
            if !from.timed() && kind.timed() {
                task.priority = kind.priority;
                task.ttr = kind.ttr.map_or(NEVER, micros);
            }
        });
        let Some(task) = contents.tasks.get(&id).filter(|task| task.state == TaskState::Buried)
        else {
            return;
        };
        // The time of its burial is stored in a group, or where the burial limits how long it is kept.
        let is_known = task.group.is_some() || from.keep_buried.is_some();
        let ended = if is_known { task.ended } else { contents.now };
        contents.keep_ended_at(id, ended);
    }

    /// Ends a task or lets it go on in another tube, and puts some tasks.
    pub(super) fn finish(&mut self, claim: Claim, kind: &Kind) -> Result<()> {
        if kind.temporary || self.next_id.is_none() {
            self.claims.push(claim);
            return Ok(());
        }
        let id = claim.id();
        let mut survival = kind.survival(self.durability);
        let (mut puts, mut and_put) = (Vec::new(), Vec::new());
        for _ in 0..self.rng.below(4) {
            let Some((kind, tube, put, task)) = self.put_somewhere()? else { continue };
            and_put.push((tube, put));
            survival = survival.min(kind.survival(self.durability));
            puts.push((kind, task));
        }
        let advance = if self.rng.one_in(2) { self.put_somewhere()? } else { None };
        let result = (advance.is_none() && self.rng.one_in(2)).then(|| self.body());
        let (end, advanced) = match advance {
            Some((kind, tube, put, task)) => {
                survival = survival.min(kind.survival(self.durability));
                (Outcome::advance(&tube, put), Some(task))
            }
            None => (result.as_deref().map_or_else(Outcome::done, Outcome::result), None),
        };
        let finish = and_put.into_iter().fold(end, |end, (tube, put)| end.and_put(&tube, put));
        let is_current = claim.is_current()?;
        let name = claim.tube().to_owned();
        let issued = self.disk.position();
        let ticket = match self.given_of(claim, |claim| claim.end(finish)) {
            Err(Error::Full { .. }) => {
                self.claim_was_dropped(id, &name, issued, is_current);
                return Ok(());
            }
            finished => finished,
        };
        let Some(ticket) = unless_ended(ticket)? else { return Ok(()) };
        match advanced {
            Some(task) => {
                // An advanced task keeps its key, and its tags if it gets no others.
                let before = self.contents.tasks.get(&id);
                let key = before.and_then(|before| before.key);
                let tags = before.map(|before| before.tags).filter(|_| task.tags.is_empty());
                let tags = tags.unwrap_or(task.tags);
                self.contents().tasks.insert(id, Arc::new(Task { key, tags, ..task }));
            }
            None => self.contents().finish(id, result),
        }
        for (kind, task) in puts {
            let next = self.next_id.unwrap_or_default();
            self.record_put(&kind, next, task);
        }
        if self.rng.one_in(3) {
            self.deferred_until("deferred finish", issued, Deferred::Told(ticket), survival);
        } else {
            let receipt = ticket.wait()?;
            self.moved("finish", issued, survival, Some(receipt));
        }
        Ok(())
    }

    fn moved(
        &mut self,
        what: &'static str,
        issued: usize,
        survival: Survival,
        receipt: Option<Receipt>,
    ) {
        let commit = receipt.map(|receipt| receipt.commit);
        self.step(what, issued, Answer { survival, commit, id: None });
    }

    /// A task for a random tube in the file.
    fn put_somewhere(&mut self) -> Result<Option<NewTask>> {
        let Some((name, kind, tube)) = self.random_tube()? else { return Ok(None) };
        if kind.temporary {
            return Ok(None);
        }
        let (put, task) = self.random_put(name, &kind, false);
        Ok(Some((kind, tube, put, task)))
    }

    fn other_tube(&mut self, name: &str) -> Result<Option<(&'static str, Tube, Arc<Kind>)>> {
        let Some((other, kind, tube)) = self.random_tube()? else { return Ok(None) };
        Ok((other != name).then_some((other, tube, kind)))
    }
}
