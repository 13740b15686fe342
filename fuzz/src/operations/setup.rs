//! The setup of a run: its tubes, and the choices that they add.

use arbitrary::{Arbitrary, Result};
use tubewell::Durability;

use super::{MS, Source};
use crate::model::reference::{Backoff, Counting, Driver, Keep, Options, Rate};
use crate::model::steps::{Definition, Setup, Workload};

impl Source<'_> {
    pub(super) fn setup(&mut self) -> Result<Setup> {
        let mut tubes = vec![self.definition(false, None)?];
        for kind in 0..self.0.int_in_range(0..=3)? {
            let (relaxed, written) = (Some(Durability::relaxed()), Some(Durability::write()));
            let (temporary, durability) = [(true, None), (false, relaxed), (false, written)][kind];
            tubes.push(self.definition(temporary, durability)?);
        }
        let grace = *self.0.choose(&[0, 2 * MS, 5 * MS])?;
        // Only the random generator of the model test uses the workload.
        Ok(Setup { tubes, grace, workload: Workload::MostlyPuts })
    }

    pub(super) fn definition(
        &mut self,
        temporary: bool,
        durability: Option<Durability>,
    ) -> Result<Definition> {
        let kind = self.below_or_new(5, [232, 249, 250, 251, 252, 253, 254, 255])?;
        // Below 5 it is a driver; those above draw their driver next.
        let (is_limited, keeps) = (matches!(kind, 5 | 11), matches!(kind, 8..=10));
        self.1.outcomes |= keeps;
        self.1.moves |= kind == 6;
        self.1.gates |= kind == 7;
        self.1.edits |= kind == 8;
        self.1.restores |= kind == 10;
        self.1.parks |= kind == 11;
        // Further choices are bits of a second byte.
        let choices = if kind == 12 { u8::arbitrary(&mut self.0)? } else { 0 };
        let (has_keys, has_limits, has_parents) =
            (choices & 1 != 0, choices & 2 != 0, choices & 4 != 0);
        self.1.keys |= has_keys;
        self.1.limits |= has_limits;
        self.1.parents |= has_parents;
        self.1.moments |= choices & 8 != 0;
        self.1.schedules |= choices & 32 != 0;
        self.1.tokens |= choices & 64 != 0;
        let restores_keys = choices & 16 != 0;
        self.1.restored_keys |= restores_keys;
        self.1.restores |= restores_keys;
        self.1.keys |= restores_keys;
        let keeps = keeps || has_parents || restores_keys;
        let driver = if kind < 5 { kind } else { self.below(Driver::ALL.len())? };
        let driver = Driver::ALL[driver];
        let mut options = Options { temporary, ..Options::default() };
        if driver.timed() && self.once_in(2)? {
            options.ttl = self.maybe(2, Self::span)?;
            options.ttr = self.maybe(2, Self::span)?;
            options.priority = self.maybe(2, Self::priority)?;
        }
        if driver.bounded() {
            options.capacity = self.maybe(2, |it| it.0.int_in_range(0..=5))?;
        }
        if keeps {
            options.keep_done = self.maybe(2, Self::keep)?;
            options.keep_buried = self.maybe(2, Self::keep)?;
        }
        if is_limited || (keeps && self.once_in(2)?) {
            self.limit_attempts(driver, &mut options)?;
        }
        if has_keys {
            options.keep_done = self.maybe(2, Self::keep)?;
        }
        if has_limits {
            self.limit_sub_queues(driver, &mut options)?;
        }
        if kind == 7 {
            self.gates(&mut options)?;
        }
        Ok(Definition { driver, options, durability })
    }

    /// Limits how many tasks may be taken at a time, and in a period.
    pub(super) fn gates(&mut self, options: &mut Options) -> Result<()> {
        options.max_taken = *self.0.choose(&[None, Some(1), Some(2), Some(3)])?;
        if self.once_in(2)? {
            let count = self.0.int_in_range(1..=3)?;
            options.rate = Some(Rate { count, period: MS * self.0.int_in_range(1..=8)? });
        }
        Ok(())
    }

    fn limit_attempts(&mut self, driver: Driver, options: &mut Options) -> Result<()> {
        options.max_attempts = *self.0.choose(&[Some(1), Some(2), Some(3), None])?;
        options.counting =
            *self.0.choose(&[Counting::Written, Counting::Flushed, Counting::Lazily])?;
        if driver.timed() {
            options.backoff = self.maybe(2, Self::backoff)?;
            options.reclaim_delay = *self.0.choose(&[0, 0, MS, 3 * MS])?;
        }
        Ok(())
    }

    fn keep(&mut self) -> Result<Keep> {
        let count = *self.0.choose(&[None, Some(0), Some(1), Some(2), Some(3)])?;
        let age = *self.0.choose(&[None, None, Some(0), Some(MS), Some(3 * MS), Some(20 * MS)])?;
        Ok(Keep { count, age })
    }

    fn backoff(&mut self) -> Result<Backoff> {
        let first = MS * self.0.int_in_range(1..=3)?;
        let factor = self.0.int_in_range(1..=3)?;
        Ok(Backoff { first, factor, cap: MS * self.0.int_in_range(2..=20)? })
    }
}
