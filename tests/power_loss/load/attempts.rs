//! The calls on attempts that a load makes: takes that are counted, and what their holders report.

use std::time::Duration;

use tubewell::{Claim, Failure, Outcome, Receipt, Result, TaskState, Tube};

use super::verbs::unless_ended;
use super::{Answer, Load};
use crate::attempts::{End, FAILED, POISON};
use crate::by_id;
use crate::state::Kind;

/// How the load has a claim.
pub(super) enum Held {
    Claim(Claim),
    /// The session of this handle has it.
    Id(Tube),
}

/// How a claim has ended: its task is in this state, and the call may have a receipt.
pub(super) struct Ended {
    state: TaskState,
    receipt: Option<Receipt>,
}

impl From<Receipt> for Ended {
    fn from(receipt: Receipt) -> Ended {
        Ended { state: receipt.state, receipt: Some(receipt) }
    }
}

impl Load {
    /// Counts a take, if the attempts of its task are limited.
    pub(super) fn count_take(&mut self, claim: &Claim, issued: usize) {
        let id = claim.id();
        if !self.contents().count_take(id) {
            return;
        }
        let task = &self.contents.tasks[&id];
        let left = task.limit.and_then(|limit| limit.checked_sub(task.attempts));
        assert!(left.is_some(), "an attempt beyond the last one: {task:?}");
        assert_eq!((claim.attempt(), claim.attempts_left()), (task.attempts, left), "{claim:?}");
        let is_flushed = self.contents.tubes[task.tube].counts_flushed();
        let answer = if is_flushed { Answer::durable() } else { Answer::default() };
        self.step("counted take", issued, answer);
    }

    /// Calls a random verb that ends an attempt and keeps the task.
    pub(super) fn end_attempt(&mut self, held: Held, id: u64, kind: &Kind) -> Result<()> {
        match self.rng.below(6) {
            0 => self.forgive(held, id, kind),
            1 => self.bury_with(held, id, kind),
            2 if kind.timed() => {
                let (ready_at, delay) = self.free_delay(self.expires_at(id));
                let issued = self.disk.position();
                let snoozed = match held {
                    Held::Claim(claim) => claim.end(Outcome::snooze(delay)),
                    Held::Id(tube) => {
                        tube.claimed(id).and_then(|claim| claim.end(Outcome::snooze(delay)))
                    }
                };
                let Some(receipt) = unless_ended(snoozed)? else { return Ok(()) };
                self.contents().end_attempt(id, End::Forgiven, Some((ready_at, delay)));
                self.changed("snooze", issued, kind, &[receipt]);
                Ok(())
            }
            _ => self.fail(held, id, kind),
        }
    }

    fn fail(&mut self, held: Held, id: u64, kind: &Kind) -> Result<()> {
        let failure = Failure::new(FAILED, "x".repeat(self.rng.index(3000)));
        let with_delay = kind.timed() && self.rng.one_in(2);
        let after = with_delay.then(|| self.free_delay(self.expires_at(id)));
        let delay = after.map_or(Duration::ZERO, |(_, delay)| delay);
        let issued = self.disk.position();
        let failed = match held {
            Held::Claim(claim) if self.rng.one_in(3) => {
                let ticket =
                    self.given_of(claim, |claim| claim.end(Outcome::fail_in(delay, failure)));
                let Some(ticket) = unless_ended(ticket)? else { return Ok(()) };
                if self.contents().end_attempt(id, End::Failed, after) {
                    self.deferred("deferred fail", issued, ticket, kind);
                }
                return Ok(());
            }
            Held::Claim(claim) if with_delay => claim.end(Outcome::fail_in(delay, failure)),
            Held::Claim(claim) => claim.fail(failure),
            Held::Id(tube) if with_delay => tube
                .claimed(id)
                .and_then(|claim| claim.end(Outcome::fail_in(delay, failure.clone()))),
            Held::Id(tube) => tube.claimed(id).and_then(|claim| claim.fail(failure.clone())),
        };
        let Some(receipt) = unless_ended(failed)? else { return Ok(()) };
        self.contents().end_attempt(id, End::Failed, after);
        self.changed("fail", issued, kind, &[receipt]);
        Ok(())
    }

    fn bury_with(&mut self, held: Held, id: u64, kind: &Kind) -> Result<()> {
        let failure = Failure::new(POISON, "unreadable");
        let issued = self.disk.position();
        let buried = match held {
            Held::Claim(claim) => claim.bury(failure),
            Held::Id(tube) => tube.claimed(id).and_then(|claim| claim.bury(failure.clone())),
        };
        let Some(receipt) = unless_ended(buried)? else { return Ok(()) };
        self.contents().bury(id, Some(POISON));
        self.changed("bury_with", issued, kind, &[receipt]);
        Ok(())
    }

    /// Ends an attempt that does not count.
    fn forgive(&mut self, held: Held, id: u64, kind: &Kind) -> Result<()> {
        let is_revoked = self.rng.one_in(2);
        let issued = self.disk.position();
        let snooze = |claim: Claim| claim.end(Outcome::snooze(Duration::ZERO)).map(Ended::from);
        let ended = match held {
            Held::Claim(claim) => snooze(claim),
            Held::Id(tube) if is_revoked => {
                by_id::revoke(&tube, id).map(|state| Ended { state, receipt: None })
            }
            Held::Id(tube) => tube.claimed(id).and_then(snooze),
        };
        let ended = unless_ended(ended)?;
        self.given_back(id, issued, kind, End::Forgiven, ended);
        Ok(())
    }

    /// Adds a step for a claim that has ended without a delay. If the task is ready, only memory has
    /// changed, unless the claim was parked; the change goes to the file with a later commit.
    pub(super) fn given_back(
        &mut self,
        id: u64,
        issued: usize,
        kind: &Kind,
        end: End,
        ended: Option<Ended>,
    ) {
        let Some(Ended { state: now, receipt }) = ended else { return };
        if !self.contents.has_stored_claim(id) {
            if let (TaskState::Ready, Some(receipt)) = (now, receipt) {
                self.told_in_memory(receipt, kind);
            }
            return;
        }
        let was_parked = self.contents.tasks[&id].parked.is_some();
        self.contents().end_attempt(id, end, None);
        // It is gone if it was buried in a tube that keeps none.
        let state = self.contents.tasks.get(&id).map_or(TaskState::Buried, |task| task.state);
        assert_eq!(now, state);
        if was_parked || now == TaskState::Buried {
            self.changed("release of a stored claim", issued, kind, receipt.as_slice());
        } else {
            if let Some(receipt) = receipt {
                self.told_in_memory(receipt, kind);
            }
            self.step("release of a counted claim", issued, Answer::default());
        }
    }
}
