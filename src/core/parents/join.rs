//! Joins: tasks whose holders wait for others give their claims up, and are blocked until these are
//! done.

use tubewell_drivers::{NEVER, StepRow, encode_step};

use super::edges::{NamedParents, count_of};
use crate::base::tube_no::TubeNo;
use crate::core::claims::End;
use crate::core::state::{ClaimKey, Core, Decided, check_parents};
use crate::core::verb::{Decide, TubeName, verb};
use crate::values::step::StepKind;
use crate::{Error, Result, TaskState};

verb! {
    /// A wait for tasks of a tube. Answers whether it is over; otherwise
    /// the claim has ended, and the task is blocked.
    37 OfClaim Edit: Join { name: Box<str>, of: TubeName, ids: Vec<u64> } -> bool
}

impl Decide for Join {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<bool>> {
        let Join { name, of, ids } = self;
        let number = of.find(core)?;
        core.join(key, name, number, ids)
    }
}

impl Core {
    /// Whether the wait for these tasks is over. If it is not, the claim ends, and the task is blocked
    /// until they are: the step, the edges and the end of the claim are one commit.
    fn join(
        &mut self,
        key: ClaimKey,
        name: &str,
        of: TubeNo,
        ids: &[u64],
    ) -> Result<Decided<bool>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if self.stored_step(key, name, StepKind::Join)?.is_some() {
            return Ok(self.stored_before(key, true));
        }
        check_parents(ids.len())?;
        // No task has this id: it stands for one that was over when the task was restored.
        let ids: Vec<u64> = ids.iter().copied().filter(|id| *id != NEVER).collect();
        let mut named = NamedParents::default();
        self.find_open(number, of, &ids, &mut named)?;
        let (open, over) = named.counted();
        if open.is_empty() {
            return Ok(self.add_step(key, name, StepKind::Join, &[])?.map(|_| true));
        }
        self.check_no_cycle(number, id, &open)?;
        let next = self.next_step_number(key)?;
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let (header, owner) = (claim.header.clone(), self.label_of(claim));
        let end = End::Join { parents: count_of(&open) };
        let mut fate = self.rules(number)?.fate(id, header, end);
        fate.header.edit_more(|more| {
            (more.has_steps, more.done_parents, more.failed_parents) = (true, over, 0);
        });
        let row = StepRow { number: next, kind: StepKind::Join.byte(), value: &[] };
        let row = encode_step(id, name, row);
        let visibility = self.visibility(number);
        self.atomically(number, |core| {
            core.carry_out_fate((number, id), &found, end.kind(), &mut fate, owner, visibility)?;
            core.edit(number, |ledger| {
                ledger.write_step(id, name, row);
                ledger.add_edges(id, &open);
                Ok(())
            })
        })?;
        self.remove_claim(id);
        self.make_fate_visible((number, id), end.kind(), TaskState::Taken, fate, visibility);
        Ok(self.decided(number, visibility, |_| false))
    }
}
