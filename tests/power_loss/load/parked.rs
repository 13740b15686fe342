//! The calls on parked claims that a load makes.

use std::time::Duration;

use tubewell::{Claim, ClaimToken, Filter, Result};

use super::verbs::unless_ended;
use super::{Answer, Load};
use crate::attempts::End;
use crate::by_id;
use crate::image_run::micros;
use crate::state::{Kind, NEVER, Parked, Survival};

/// Longer than any load.
const LONG: Duration = Duration::from_secs(1_000_000_000);

impl Load {
    pub(super) fn park(&mut self, claim: Claim, kind: &Kind) -> Result<()> {
        let id = claim.id();
        let (until, hold) = self.free_hold();
        let issued = self.disk.position();
        let Some(token) = unless_ended(claim.park(hold))? else { return Ok(()) };
        if kind.temporary {
            return Ok(());
        }
        self.history.tokens.push(token.clone());
        self.contents().park(id, Parked { until, token });
        let survival = kind.survival(self.durability);
        self.step("park", issued, Answer { survival, ..Answer::default() });
        Ok(())
    }

    /// How long to park a claim, so that it ends at a unique time.
    fn free_hold(&mut self) -> (u64, Duration) {
        // With the clock of the system its time would not be known.
        if self.clock.is_none() || self.rng.one_in(3) {
            return (NEVER, Duration::MAX);
        }
        let now = self.now();
        if self.rng.one_in(2) {
            return (now + micros(LONG), LONG);
        }
        let until = self.unique_due(now, 20);
        (until, Duration::from_micros(until - now))
    }

    /// Resumes or revokes a parked claim, unless there is none.
    pub(super) fn resume_or_revoke(&mut self) -> Result<()> {
        let stored = self.contents.tasks.iter();
        let stored = stored.filter_map(|(id, task)| Some((*id, task.parked.clone()?)));
        let parked: Vec<(u64, Parked)> = stored.collect();
        if parked.is_empty() {
            return Ok(());
        }
        let nth = self.rng.index(parked.len());
        let (id, Parked { until, token }) = parked[nth].clone();
        // A resumed claim may last longer than it was parked for, and is then parked until a time
        // that has elapsed. So the load resumes none whose time may come.
        if until < self.now() + micros(LONG) / 2 || self.rng.one_in(3) {
            return self.revoke(id, &token);
        }
        // Not taken if it is resumed already.
        let Some(claim) = unless_ended(self.store.resume_claim(&token))? else { return Ok(()) };
        let task = &self.contents.tasks[&id];
        assert!(*task.body == *claim.body(), "the body of {claim:?}");
        if self.rng.one_in(3) {
            self.detached.push((task.tube, claim.detach().info.id));
        } else {
            self.claims.push(claim);
        }
        Ok(())
    }

    fn revoke(&mut self, id: u64, token: &ClaimToken) -> Result<()> {
        let Some(kind) = self.contents.tubes.get(token.tube()).cloned() else { return Ok(()) };
        let tube = self.store.find_tube(token.tube())?;
        let issued = self.disk.position();
        by_id::revoke(&tube, id)?;
        self.contents().unpark(id);
        self.changed("revoke", issued, &kind, &[]);
        Ok(())
    }

    /// Drops a claim. If the file has it, this changes the file.
    pub(super) fn drop_claim(&mut self, claim: Claim) {
        let (id, name) = (claim.id(), claim.tube().to_owned());
        let is_current = claim.is_current().unwrap();
        let issued = self.disk.position();
        drop(claim);
        self.claim_was_dropped(id, &name, issued, is_current);
    }

    pub(super) fn claim_was_dropped(
        &mut self,
        id: u64,
        name: &str,
        issued: usize,
        is_current: bool,
    ) {
        if !is_current || !self.contents.has_stored_claim(id) {
            return;
        }
        let was_parked = self.contents.tasks[&id].parked.is_some();
        self.contents().end_attempt(id, End::Released, None);
        if was_parked {
            self.swept("drop of a parked claim", issued, name);
        } else {
            self.step("drop of a counted claim", issued, Answer::default());
        }
    }

    pub(super) fn drop_claims(&mut self) {
        for claim in std::mem::take(&mut self.claims) {
            self.drop_claim(claim);
        }
    }

    /// Ends the claims of a tube.
    pub(super) fn release_all(&mut self, name: &str) -> Result<()> {
        for claim in self.claims.extract_if(.., |claim| claim.tube() == name).collect::<Vec<_>>() {
            self.drop_claim(claim);
        }
        let issued = self.disk.position();
        self.store.find_tube(name)?.admin().release(Filter::new())?;
        let of_tube = self.contents.tasks.iter().filter(|(_, task)| task.tube == name);
        let has_parked = of_tube.clone().any(|(_, task)| task.parked.is_some());
        let ids: Vec<u64> = of_tube.map(|(id, _)| *id).collect();
        for id in ids {
            if self.contents.has_stored_claim(id) {
                self.contents().end_attempt(id, End::Released, None);
            }
        }
        if has_parked {
            self.swept("release_all", issued, name);
        } else {
            self.step("release_all", issued, Answer::default());
        }
        Ok(())
    }

    /// Adds a step that is flushed soon, and whose call does not wait for the flush.
    fn swept(&mut self, what: &'static str, issued: usize, tube: &str) {
        let survival = match self.contents.tubes[tube].survival(self.durability) {
            Survival::FromAnswer => Survival::Within(Duration::from_millis(50)),
            later => later,
        };
        self.step(what, issued, Answer { survival, ..Answer::default() });
    }
}
