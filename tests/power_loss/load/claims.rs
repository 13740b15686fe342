//! The calls on claims that a load makes: takes, and the verbs of the holder.

use std::time::Duration;

use tubewell::{Claim, Error, Outcome, Result, TaskState};

use super::attempts::{Ended, Held};
use super::verbs::unless_ended;
use super::{Answer, Load};
use crate::attempts::End;
use crate::image_run::micros;
use crate::state::Kind;

impl Load {
    pub(super) fn take(&mut self) -> Result<()> {
        if self.rng.one_in(3) {
            return self.claim();
        }
        let Some((name, _, tube)) = self.random_tube()? else { return Ok(()) };
        let most = 1 + self.rng.index(4);
        let issued = self.disk.position();
        for claim in tube.take_many(most, Duration::ZERO)? {
            self.taken(name, claim, issued);
        }
        Ok(())
    }

    /// Takes a task by its id.
    fn claim(&mut self) -> Result<()> {
        let Some((name, id)) = self.random_task() else { return Ok(()) };
        let Some(tube) = self.contents.tubes.get(name).map(|_| self.store.find_tube(name)) else {
            return Ok(());
        };
        let issued = self.disk.position();
        match tube?.claim(id) {
            Err(Error::NotReady { state, why, .. }) => {
                let (task, now) = (self.contents.tasks.get(&id), self.now());
                let kind = &self.contents.tubes[name];
                let is_expected = match state {
                    TaskState::Taken => self.may_have_claim(|other| other == (name, id)),
                    TaskState::Ready if kind.is_paused(now) => true,
                    TaskState::Ready if kind.may_pause(task.map(|task| &**task), now) => true,
                    // Another task of its sub-queue is taken, or the end of its claim is not flushed.
                    TaskState::Ready => {
                        !self.tickets.is_empty()
                            || self.may_have_claim(|(tube, other)| tube == name && other != id)
                    }
                    // The tasks of temporary tubes are not known here.
                    _ if kind.temporary => true,
                    _ => task.is_some_and(|task| task.state == state),
                };
                assert!(is_expected, "task {id} is not ready but {state:?}, {why}: {task:?}");
            }
            claimed => {
                if let Some(claim) = unless_ended(claimed)? {
                    self.taken(name, claim, issued);
                }
            }
        }
        Ok(())
    }

    /// Whether the load has taken such a task, and the claim may not have ended.
    pub(super) fn may_have_claim(&self, is: impl Fn((&str, u64)) -> bool) -> bool {
        let mut claims = self.claims.iter().map(|claim| (claim.tube(), claim.id()));
        let mut parked = self.contents.tasks.iter().filter(|(_, task)| task.parked.is_some());
        parked.any(|(id, task)| is((task.tube, *id)))
            || claims.any(&is)
            || self.detached.iter().any(|(tube, id)| is((tube, *id)))
    }

    fn taken(&mut self, name: &'static str, claim: Claim, issued: usize) {
        if let Some(task) = self.contents.tasks.get(&claim.id()) {
            assert_eq!((task.tube, task.state), (name, TaskState::Ready), "{claim:?}");
            assert!(*task.body == *claim.body(), "the body of {claim:?}");
        }
        self.count_take(&claim, issued);
        if self.rng.one_in(3) {
            self.detached.push((name, claim.detach().info.id));
        } else {
            self.claims.push(claim);
        }
    }

    /// Replaces the body of a taken task.
    fn checkpoint(&mut self, mut claim: Claim, kind: &Kind) -> Result<()> {
        let (id, body) = (claim.id(), self.body());
        let issued = self.disk.position();
        if self.rng.one_in(3) {
            let mut later = None;
            let stored = self.given_of(claim, |mut claim| {
                let ticket = claim.checkpoint(&*body);
                later = Some(claim);
                ticket
            });
            let Some(ticket) = unless_ended(stored)? else { return Ok(()) };
            claim = later.unwrap().into_blocking();
            self.contents().change(id, |task| task.body = body);
            if !kind.temporary {
                self.deferred("deferred checkpoint", issued, ticket, kind);
            }
        } else {
            let Some(receipt) = unless_ended(claim.checkpoint(&*body))? else { return Ok(()) };
            self.contents().change(id, |task| task.body = body);
            self.changed("checkpoint", issued, kind, &[receipt]);
        }
        self.claims.push(claim);
        Ok(())
    }

    /// Calls a random verb of a claim through its handle. Most end the claim.
    pub(super) fn finish_claim(&mut self) -> Result<()> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let nth = self.rng.index(self.claims.len());
        let claim = self.claims.swap_remove(nth);
        let (id, name) = (claim.id(), claim.tube().to_owned());
        let Some(kind) = self.contents.tubes.get(name.as_str()).cloned() else { return Ok(()) };
        if self.rng.one_in(if kind.limit.is_some() { 2 } else { 8 }) {
            return self.end_attempt(Held::Claim(claim), id, &kind);
        }
        let issued = self.disk.position();
        match self.rng.below(12) {
            8 | 9 => return self.finish(claim, &kind),
            10.. if kind.limit.is_none() => return self.park(claim, &kind),
            6.. => return self.checkpoint(claim, &kind),
            0 | 1 => return self.ack(Held::Claim(claim), id, &kind),
            2 => return self.ack_deferred(claim, &kind),
            3 => {
                let Some(receipt) = unless_ended(claim.bury(None))? else { return Ok(()) };
                self.contents().bury(id, None);
                self.changed("bury claim", issued, &kind, &[receipt]);
            }
            4 if kind.timed() => {
                let more = self.free_touch(id);
                let touched = unless_ended(claim.touch(more))?.flatten();
                self.claims.push(claim);
                let Some(receipt) = touched else { return Ok(()) };
                self.contents().change(id, |task| {
                    task.expires_at = task.expires_at.saturating_add(micros(more));
                    task.ttr = task.ttr.saturating_add(micros(more));
                });
                self.changed("touch", issued, &kind, &[receipt]);
            }
            _ if kind.timed() => {
                let (ready_at, delay) = self.free_delay(self.expires_at(id));
                let Some(receipt) = unless_ended(claim.release_in(delay))? else { return Ok(()) };
                self.contents().end_attempt(id, End::Released, Some((ready_at, delay)));
                self.changed("delayed release", issued, &kind, &[receipt]);
            }
            // Changes memory only, unless the claim was parked.
            _ => {
                let released = unless_ended(claim.release())?;
                self.given_back(id, issued, &kind, End::Released, released.map(Ended::from));
            }
        }
        Ok(())
    }

    /// Ends a claim of the session by the task's id.
    pub(super) fn finish_by_id(&mut self) -> Result<()> {
        let Some((name, id)) = self.detached.pop() else { return Ok(()) };
        let Some(kind) = self.contents.tubes.get(name).cloned() else { return Ok(()) };
        let tube = self.store.find_tube(name)?;
        if self.rng.one_in(if kind.limit.is_some() { 2 } else { 8 }) {
            return self.end_attempt(Held::Id(tube), id, &kind);
        }
        let issued = self.disk.position();
        match self.rng.below(3) {
            0 => return self.ack(Held::Id(tube), id, &kind),
            1 if kind.timed() => {
                let (ready_at, delay) = self.free_delay(self.expires_at(id));
                let Some(receipt) =
                    unless_ended(tube.claimed(id).and_then(|claim| claim.release_in(delay)))?
                else {
                    return Ok(());
                };
                self.contents().end_attempt(id, End::Released, Some((ready_at, delay)));
                self.changed("release by id", issued, &kind, &[receipt]);
            }
            _ => {
                let released = unless_ended(tube.claimed(id).and_then(tubewell::Claim::release))?;
                self.given_back(id, issued, &kind, End::Released, released.map(Ended::from));
            }
        }
        Ok(())
    }

    /// Acks claims of several tubes, or those that were detached in one.
    pub(super) fn ack_many(&mut self) -> Result<()> {
        let claims = if self.rng.one_in(2) {
            std::mem::take(&mut self.claims)
        } else {
            let Some((name, _)) = self.detached.last().copied() else { return Ok(()) };
            let tube = self.store.find_tube(name)?;
            let of_tube = self.detached.iter().filter(|(tube, _)| *tube == name);
            let found = of_tube.map(|(_, id)| unless_ended(tube.claimed(*id)));
            let found = found.collect::<Result<Vec<_>>>()?;
            self.detached.retain(|(tube, _)| *tube != name);
            found.into_iter().flatten().collect()
        };
        let issued = self.disk.position();
        let ids: Vec<_> =
            claims.iter().map(|claim| (claim.tube().to_owned(), claim.id())).collect();
        let answers = Claim::end_many(claims, |_| Outcome::done())?;
        let mut answer = Answer::default();
        for ((name, id), receipt) in ids.into_iter().zip(answers) {
            let Some(receipt) = unless_ended(receipt)? else { continue };
            let kind = self.contents.tubes[name.as_str()].clone();
            self.contents().finish(id, None);
            answer.survival = answer.survival.min(kind.survival(self.durability));
            if !kind.temporary {
                answer.commit = Some(receipt.commit);
            }
        }
        self.step("ack_many", issued, answer);
        Ok(())
    }
}
