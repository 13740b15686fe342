//! Verification of the steps: a task has some if its header says so, and none of them is missing.

use crate::record::Header;
use crate::steps::{StepNumbers, each_step, number_of};
use crate::tables::Reads;
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// A task whose header says that it has steps has some, and no number is left out.
    /// [`note`](RowVerifier::note) checks each of them.
    pub(crate) fn expect_steps(
        &mut self,
        tube: &TubeTotals,
        id: u64,
        header: &Header,
    ) -> Result<(), R::Error> {
        if !header.has_steps() {
            // A row of a task without steps is found in its table.
            return Ok(());
        }
        let mut numbers = StepNumbers::default();
        each_step(self.rows, tube.space, id, |(key, row)| numbers.add(number_of(id, &key, &row)))?;
        if !numbers.are_complete() {
            self.report(tube.space, format_args!("a step of task {id} is missing"));
        }
        Ok(())
    }
}
