//! Verification of the steps: a task has as many as its header says.

use crate::record::Header;
use crate::steps::each_step;
use crate::tables::Reads;
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// As many steps are stored as the header says. [`note`](RowVerifier::note) checks each of them.
    pub(crate) fn expect_steps(
        &mut self,
        tube: &TubeTotals,
        id: u64,
        header: &Header,
    ) -> Result<(), R::Error> {
        if header.steps() == 0 {
            // A row of a task without steps is found in its table.
            return Ok(());
        }
        let mut found = 0;
        each_step(self.rows, tube.space, id, |_| found += 1)?;
        let expected = header.steps();
        if found != expected {
            self.report(
                tube.space,
                format_args!("task {id} has {found} steps, its record says {expected}"),
            );
        }
        Ok(())
    }
}
