//! Limits, rates, cooldowns and pauses of sub-queues.

use arbitrary::Result;

use super::{MS, Source};
use crate::model::reference::{Driver, NEVER, Options, Rate};
use crate::model::steps::{Action, Alter, Setup};

/// The sub-queues of the tasks.
const NAMES: [&str; 4] = ["x", "y", "z", ""];

impl Source<'_> {
    /// Limits how many tasks of a sub-queue may be taken at a time, in a period, and after an end.
    pub(super) fn limit_sub_queues(&mut self, driver: Driver, options: &mut Options) -> Result<()> {
        if !driver.sub_queued() {
            return Ok(());
        }
        let choice = self.below_or_new(4, [224, 240])?;
        options.sub_queue_limit = [None, Some(2), Some(1), Some(3), None, Some(3)][choice];
        options.sub_queue_cooldown = [None, None, None, None, Some(2 * MS), Some(5 * MS)][choice];
        options.shared_limits = self.once_in(2)?;
        if self.once_in(3)? {
            let count = self.0.int_in_range(1..=2)?;
            options.sub_queue_rate = Some(Rate { count, period: MS * self.0.int_in_range(1..=8)? });
        }
        Ok(())
    }

    pub(super) fn change_limits(&mut self, setup: &Setup) -> Result<Action> {
        let tube = self.below(setup.tubes.len())?;
        let name = *self.0.choose(&NAMES)?;
        Ok(match self.below(4)? {
            0 => {
                let mut options = Options::default();
                self.limit_sub_queues(setup.tubes[tube].driver, &mut options)?;
                let by = *self.0.choose(&[Alter::Tube, Alter::Deferred, Alter::Create])?;
                Action::Alter { tube, options, by }
            }
            1 => {
                Action::SetLimit { name, most: *self.0.choose(&[Some(1), Some(2), None, Some(0)])? }
            }
            _ => {
                let time = *self.0.choose(&[0, MS, 2 * MS, 5 * MS, NEVER])?;
                Action::PauseSubQueue { tube, name, time, deferred: self.once_in(4)? }
            }
        })
    }
}
