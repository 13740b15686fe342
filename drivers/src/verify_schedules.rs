//! Verification of schedules: what a task on shelf `Recurring` has, and no other task.

use crate::keys::Shelf;
use crate::limits::NEVER;
use crate::record::Header;
use crate::recur::RecurRule;
use crate::tables::Reads;
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// A recurring task has a schedule, a key, and a time that is not before its next run. Its rows by
    /// that time and by the key are index rows as those of any task.
    pub(crate) fn expect_schedule(
        &mut self,
        tube: &TubeTotals,
        shelf: Shelf,
        id: u64,
        header: &Header,
    ) {
        let Some(recur) = header.recur() else {
            if shelf == Shelf::Recurring {
                self.report(tube.space, format_args!("recurring task {id} has no schedule"));
            }
            return;
        };
        if shelf != Shelf::Recurring {
            self.report(
                tube.space,
                format_args!("task {id} has a schedule, but it is not recurring"),
            );
            return;
        }
        if header.more.as_ref().is_none_or(|more| more.key.is_none()) {
            self.report(tube.space, format_args!("schedule {id} has no key"));
        }
        let due = match recur.rule {
            RecurRule::Every(_) => header.due(shelf),
            RecurRule::Cron { .. } => header.moment(shelf).filter(|moment| *moment != NEVER),
        };
        if due.is_none_or(|due| due < recur.next) && recur.next != NEVER {
            self.report(tube.space, format_args!("schedule {id} is not due at its next run"));
        }
    }
}
