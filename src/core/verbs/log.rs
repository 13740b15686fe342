//! The history of a task for callers: read it, and add entries of a program.

use super::outcome::check_no_schedule;
use crate::base::tube_no::TubeNo;
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::values::history::HistoryEntry;
use crate::values::history::check_text;
use crate::{Error, EventKind, Receipt, Result};

verb! {
    /// Adds an entry of any caller to the history of a task, in any state.
    67 InTube Edit: Log { id: u64, text: Box<str> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Log {
    fn decide(&self, core: &mut Core, on: TubeRef<'_>) -> Result<Decided<Receipt>> {
        core.log_entry(on.number, self.id, &self.text)
    }
}

verb! {
    /// Adds an entry of the holder of a task to its history.
    10 OfClaim Edit: LogHeld { text: Box<str> } -> Receipt
}

impl Decide for LogHeld {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.check_claim(key)?;
        core.log_entry(key.tube, key.id, &self.text)
    }
}

verb! {
    /// The history of a task. If its last change is not yet visible, the answer waits for the flush.
    98 InTube Read: HistoryOf { id: u64 } -> Vec<HistoryEntry> {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for HistoryOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<HistoryEntry>>> {
        let found = core.find(number, self.id)?;
        let entries = core.history_of(number, self.id, &found.record.header)?;
        Ok(core.once_visible(number, self.id, entries))
    }
}

impl Core {
    fn log_entry(&mut self, number: TubeNo, id: u64, text: &str) -> Result<Decided<Receipt>> {
        self.check_log(number, text)?;
        let found = self.find_current(number, id)?;
        check_no_schedule(id, &found)?;
        let (before, claim) = (&found.record.header, self.claims.get(id));
        let mut header = claim.map_or(before, |claim| &claim.header).clone();
        let (kind, state) = (EventKind::Log, self.state_of(id, found.shelf));
        let entry = Entry { text: Some(text), ..Entry::new(kind, state) };
        let entries = self.add_to_history(number, id, Some(before), &mut header, Some(entry));
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, &header);
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        let change = self.updated((number, id), kind, &found, found.shelf, header);
        Ok(self.apply_change(number, change))
    }

    /// Refuses a text that is too long, and a tube without a history.
    fn check_log(&self, number: TubeNo, text: &str) -> Result<()> {
        check_text(text)?;
        if self.history_limit(number) > 0 {
            return Ok(());
        }
        let name = self.tubes.get(number).map_or("", |tube| &tube.definition.name);
        Err(Error::invalid(format!(
            "tube {name:?} keeps no history; create it with history, or alter it"
        )))
    }
}
