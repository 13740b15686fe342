//! The verbs that any caller may use on a stored task: bury, kick, delete.

use tubewell_drivers::{Found, Header, Shelf};

use super::outcome::check_not_done;
use crate::base::tube_no::TubeNo;
use crate::commit::Change;
use crate::core::history::Entry;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::values::ending::FailureKind;
use crate::{Error, EventKind, Failure, Receipt, Result, TaskState};

verb! {
    /// Buries a task, whatever its state and whichever session has taken it.
    15 InTube Edit: Bury { id: u64, failure: Option<Failure> } -> Receipt {
        fn check(&self, _: Limits) -> Result<()> {
            self.failure.as_ref().map_or(Ok(()), Failure::check)
        }

        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Bury {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        core.bury(on.number, self.id, self.failure.as_ref())
    }
}

verb! {
    /// Deletes a task, whatever its state and whichever session has taken it.
    21 InTube Edit: Delete { id: u64 } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Delete {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        let found = core.find(on.number, self.id)?;
        core.delete_found(on.number, self.id, &found)
    }
}

verb! {
    /// Kicks one buried task.
    16 InTube Edit: Kick { id: u64 } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Kick {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let Kick { id } = *self;
        let found = core.find(number, id)?;
        if found.shelf != Shelf::Buried {
            return Err(Error::NotBuried { id });
        }
        let change = core.kick_one(number, id, &found)?;
        core.forget_burial(number, id);
        Ok(core.apply_change(number, change))
    }
}

impl Core {
    pub(in crate::core) fn bury(
        &mut self,
        number: TubeNo,
        id: u64,
        failure: Option<&Failure>,
    ) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        if found.shelf == Shelf::Buried {
            let receipt = self.memory_receipt(number, id, TaskState::Buried);
            return Ok(Decided { answer: receipt, wait: self.batch_of_last_change(number, id) });
        }
        check_not_done(id, &found)?;
        let owner = self.claims.get(id).and_then(|claim| self.label_of(claim));
        let header = self.current_header(&found, id);
        let mut fate = self.rules(number)?.bury(header, failure.cloned(), FailureKind::Call);
        let visibility = self.visibility(number);
        self.carry_out_fate((number, id), &found, EventKind::Bury, &mut fate, owner, visibility)?;
        let from = self.remove_from_memory(number, &found, id);
        let (kind, to) = (EventKind::Bury, TaskState::Buried);
        let change = self.change(number, id, kind, Some(from), to, Some(fate.header));
        Ok(self.apply_and_trim(change, Shelf::Buried))
    }

    /// Kicks these buried tasks, or none of them. Returns how many. `are_first`: no task is buried
    /// before the last of them.
    pub(super) fn kick_all(
        &mut self,
        number: TubeNo,
        buried: &[(u64, Found)],
        are_first: bool,
    ) -> Result<Decided<u64>> {
        let visibility = self.visibility(number);
        let kicked = buried.len() as u64;
        let changes = self.atomically(number, |core| {
            let kicks = buried.iter().map(|(id, found)| core.kick_one(number, *id, found));
            kicks.collect::<Result<Vec<Change>>>()
        })?;
        // Before the changes are visible: takers may bury tasks then.
        for (id, _) in buried {
            self.forget_burial(number, *id);
        }
        if let (true, Some(tube), Some((id, last))) =
            (are_first, self.tubes.get_mut(number), buried.last())
        {
            let rank = (last.record.header.order_on(Shelf::Buried), *id);
            tube.empty_up_to.set(Shelf::Buried, rank);
        }
        self.publish_together(|core| {
            for change in changes {
                core.make_visible(change, visibility);
            }
        });
        Ok(self.decided(number, visibility, |_| kicked))
    }

    fn kick_one(&mut self, number: TubeNo, id: u64, found: &Found) -> Result<Change> {
        let (to, mut header) = self.rules(number)?.kicked(found.record.header.clone());
        let entry = Entry::new(EventKind::Kick, TaskState::on_shelf(to));
        self.move_with_entry(number, id, found, to, &mut header, entry)?;
        let (from, to) = (Some(TaskState::Buried), TaskState::on_shelf(to));
        Ok(self.change(number, id, EventKind::Kick, from, to, Some(header)))
    }

    /// Moves a task to a shelf, with an entry of its history.
    #[inline]
    pub(in crate::core) fn move_with_entry(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        to: Shelf,
        header: &mut Header,
        entry: Entry<'_>,
    ) -> Result<()> {
        let before = Some(&found.record.header);
        let entries = self.add_to_history(number, id, before, header, Some(entry));
        self.edit(number, |ledger| {
            ledger.move_to_shelf(id, found, to, header)?;
            ledger.write_entries(id, header, &entries);
            Ok(())
        })
    }
}
