//! Verification of the numbers of the tubes with metrics: each row can be read, and its bins add up.

use crate::days::{DayCounts, Spread};
use crate::keys;
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::RowVerifier;

impl DayCounts {
    /// Describes each sum that does not agree with its parts.
    #[must_use]
    pub fn disagreements(&self) -> Vec<String> {
        let spreads =
            [("waits", &self.wait, "takes", self.takes), ("runs", &self.run, "acks", self.acks)];
        let mut found = Vec::new();
        for (name, spread, calls, counted) in spreads {
            let Spread { count, .. } = *spread;
            let binned = spread.binned();
            if binned != count {
                found.push(format!("the bins of its {name} add up to {binned}, not to {count}"));
            }
            if counted != count {
                found.push(format!("it has {counted} {calls} and {count} {name}"));
            }
        }
        found
    }
}

impl<R: Reads> RowVerifier<'_, R> {
    /// A row of `days`.
    #[expect(
        clippy::needless_pass_by_value,
        clippy::unnecessary_wraps,
        reason = "the type of all checks"
    )]
    pub(crate) fn day(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Days) else { return Ok(()) };
        let Ok((space, day)) = keys::split_day(key) else {
            self.report(tube.space, "a key of \"days\" cannot be read");
            return Ok(());
        };
        match DayCounts::from_row(space, day, &value) {
            Err(error) => self.report(tube.space, format_args!("{} cannot be read", error.what)),
            Ok(counts) => {
                for what in counts.disagreements() {
                    self.report(tube.space, format_args!("the numbers of day {day}: {what}"));
                }
            }
        }
        Ok(())
    }
}
