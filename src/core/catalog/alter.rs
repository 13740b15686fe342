//! Changes of the definition of a tube.

use tubewell_drivers::Table;

use super::rows::tube_key;
use super::tubes::TubeHead;
use crate::base::tube_no::TubeNo;
use crate::core::state::limits::SubQueueLimits;
use crate::core::state::{Buffer, Core, DayState, Decided, Definition, EmptyUpTo};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::{Error, Result, TubeOptions};

verb! {
    /// Gives a tube the options that are named. The other options and the pause stay.
    47 InTube Edit: Alter { options: TubeOptions } -> ()
}

impl Decide for Alter {
    fn decide(&self, core: &mut Core, TubeRef { number, .. }: TubeRef<'_>) -> Result<Decided<()>> {
        Ok(core.alter_named(number, &self.options)?.map(drop))
    }
}

impl Core {
    /// Gives a tube the options that are named, if its driver is the one that is named.
    pub(super) fn alter_named(
        &mut self,
        number: TubeNo,
        options: &TubeOptions,
    ) -> Result<Decided<TubeHead>> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        let existing = &tube.definition;
        let differs = |what| Error::TubeDiffers { name: existing.name.to_string(), what };
        if let Some(driver) = options.driver.as_ref().filter(|driver| **driver != *existing.driver)
        {
            let what = format!("its driver is {}, not {driver:?}", existing.driver);
            return Err(differs(what));
        }
        if !options.name_any() {
            return Ok(self.definition_stored(number));
        }
        let traits = tube.driver(|| self.tubes.known_drivers())?.traits();
        let policies = existing.policies.altered(options, &existing.driver, traits)?;
        if let Some(what) = existing.policies.lasting_difference(&policies) {
            return Err(differs(what));
        }
        let wanted = Definition { policies, ..existing.clone() };
        if wanted == *existing {
            return Ok(self.definition_stored(number));
        }
        self.alter_to(number, wanted)
    }

    /// Gives a tube another definition.
    fn alter_to(&mut self, number: TubeNo, wanted: Definition) -> Result<Decided<TubeHead>> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        let existing = &tube.definition;
        let metrics_differ = wanted.policies.metrics != existing.policies.metrics;
        let gets_history = existing.policies.history == 0 && wanted.policies.history > 0;
        let limits_differ = SubQueueLimits::options(&wanted.policies)
            != SubQueueLimits::options(&existing.policies);
        if wanted.policies.metrics == 0 && metrics_differ {
            self.remove_days(number)?;
        }
        // The history has the takes of these claims too, also after a kill.
        let claims = if gets_history { self.dated_rows(number)? } else { Vec::new() };
        let Some(tube) = self.tubes.get_mut(number) else { return Err(Error::Closed) };
        match &mut tube.days {
            Some(days) if wanted.policies.metrics > 0 => days.removed_on = None,
            days => *days = DayState::new(&wanted.policies),
        }
        tube.durability = wanted.policies.durability.unwrap_or(self.config.durability);
        if tube.definition.policies.rate != wanted.policies.rate {
            tube.gates.set_rate(wanted.policies.rate);
        }
        tube.definition = wanted;
        // Tasks that another retention has kept may be before those that it has removed.
        tube.empty_up_to = EmptyUpTo::default();
        for (id, row) in claims {
            self.write_claim_row(number, id, &row, false);
        }
        let freed = if limits_differ { self.sub_queue_limits_changed(number) } else { Vec::new() };
        let changed = self.definition_changed(number);
        self.note_surplus(number);
        self.shared_limits_freed(&freed);
        if let Err(error) = self.admit_waiting_puts(number) {
            self.fail_with(&error);
        }
        Ok(changed)
    }

    /// Stores the definition of a tube, which has changed, and serves the takes that wait for it.
    pub(in crate::core) fn definition_changed(&mut self, number: TubeNo) -> Decided<TubeHead> {
        if let Some(tube) = self.tubes.get(number) {
            let definition = tube.definition.clone();
            self.write_definition(&definition);
        }
        // Before the storage can fail, which ends this wait with an error.
        let changed = self.catalog_changed(number);
        self.gates_changed(number);
        changed
    }

    /// The answer to a call that has found the definition of a tube as it is wanted: once that is in
    /// the file.
    pub(in crate::core) fn definition_stored(&self, number: TubeNo) -> Decided<TubeHead> {
        let answer = self.head(number);
        let is_pending =
            self.buffers[Buffer::File].edits.get(Table::Meta, &tube_key(&answer.name)).is_some();
        let wait = is_pending.then(|| self.flush_of(Buffer::File));
        Decided { answer, wait }
    }
}
