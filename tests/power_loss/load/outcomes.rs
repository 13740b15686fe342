//! The calls on outcomes that a load makes: acks with results, and those on tasks that are done.

use std::sync::Arc;

use tubewell::{Claim, Error, Outcome, Result, TaskState};

use super::Load;
use super::attempts::Held;
use super::verbs::unless_ended;
use crate::state::Kind;

impl Load {
    /// Acks a task, with a result or without.
    pub(super) fn ack(&mut self, held: Held, id: u64, kind: &Kind) -> Result<()> {
        let result = self.result();
        let issued = self.disk.position();
        let acked = match (held, &result) {
            (Held::Claim(claim), Some(result)) => claim.end(Outcome::result(&**result)),
            (Held::Claim(claim), None) => claim.ack(),
            (Held::Id(tube), Some(result)) => {
                tube.claimed(id).and_then(|claim| claim.end(Outcome::result(&**result)))
            }
            (Held::Id(tube), None) => tube.claimed(id).and_then(tubewell::Claim::ack),
        };
        let Some(receipt) = unless_ended(acked)? else { return Ok(()) };
        let what = if result.is_some() { "ack with a result" } else { "ack" };
        self.contents().finish(id, result);
        self.changed(what, issued, kind, &[receipt]);
        Ok(())
    }

    pub(super) fn ack_deferred(&mut self, claim: Claim, kind: &Kind) -> Result<()> {
        let (id, result) = (claim.id(), self.result());
        let issued = self.disk.position();
        let acked = self.given_of(claim, |claim| match &result {
            Some(result) => claim.end(Outcome::result(&**result)),
            None => claim.ack(),
        });
        let Some(ticket) = unless_ended(acked)? else { return Ok(()) };
        self.contents().finish(id, result);
        if !kind.temporary {
            self.deferred("deferred ack", issued, ticket, kind);
        }
        Ok(())
    }

    /// Ends a task that is not taken, with a result or without.
    pub(super) fn resolve(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(()) };
        let (tube, result) = (self.store.find_tube(name)?, self.result());
        let done = result.as_deref().map_or_else(Outcome::done, Outcome::result);
        let is_done =
            self.contents.tasks.get(&id).is_some_and(|task| task.state == TaskState::Done);
        let issued = self.disk.position();
        let (mut ticket, mut receipt) = (None, None);
        let resolved = if !kind.temporary && self.rng.one_in(3) {
            let resolved = self.given(&tube, |tube| tube.admin().resolve(id, done.clone()));
            resolved.map(|resolved| ticket = Some(resolved))
        } else {
            tube.admin().resolve(id, done).map(|resolved| receipt = Some(resolved))
        };
        if let Err(Error::NotReady { state, .. }) = resolved {
            let is_taken = || self.may_have_claim(|other| other == (name, id));
            let is_expected = if state == TaskState::Done { is_done } else { is_taken() };
            assert!(is_expected, "task {id} of {name:?} cannot be resolved, it is {state:?}");
            return Ok(());
        }
        if unless_ended(resolved)?.is_none() {
            return Ok(());
        }
        self.contents().finish(id, result);
        match (ticket, receipt) {
            (Some(ticket), _) => self.deferred("deferred resolve", issued, ticket, &kind),
            (_, receipt) => self.changed("resolve", issued, &kind, receipt.as_slice()),
        }
        Ok(())
    }

    /// Removes a task that is done and kept.
    pub(super) fn forget(&mut self) -> Result<()> {
        let done = self.contents.tasks.iter().filter(|(_, task)| task.state == TaskState::Done);
        let done: Vec<_> = done.map(|(id, task)| (task.tube, *id)).collect();
        if done.is_empty() || self.rng.one_in(8) {
            return self.forget_any();
        }
        let (name, id) = self.rng.pick(&done);
        let (kind, tube) = (self.contents.tubes[name].clone(), self.store.find_tube(name)?);
        let issued = self.disk.position();
        if self.rng.one_in(4) {
            let ticket = self.given(&tube, |tube| tube.admin().forget(id))?;
            self.contents().tasks.remove(&id);
            self.deferred("deferred forget", issued, ticket, &kind);
        } else {
            let receipt = tube.admin().forget(id)?;
            self.contents().tasks.remove(&id);
            self.changed("forget", issued, &kind, &[receipt]);
        }
        Ok(())
    }

    /// Forgets a task that is not done, which is refused.
    fn forget_any(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let is_done =
            self.contents.tasks.get(&id).is_some_and(|task| task.state == TaskState::Done);
        if is_done || !self.contents.tubes.contains_key(name) {
            return Ok(());
        }
        match self.store.find_tube(name)?.admin().forget(id) {
            Err(Error::NotDone { .. }) => Ok(()),
            forgotten => {
                let forgotten = unless_ended(forgotten)?;
                assert!(forgotten.is_none(), "task {id} of {name:?} is forgotten: {forgotten:?}");
                Ok(())
            }
        }
    }

    pub(super) fn result(&mut self) -> Option<Arc<[u8]>> {
        (!self.rng.one_in(3)).then(|| self.body())
    }
}
