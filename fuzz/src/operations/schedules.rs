//! Schedules and their runs.

use arbitrary::Result;

use super::{MS, Source};
use crate::model::reference::{Micros, Missed, NEVER};
use crate::model::steps::{
    Action, Among, ById, CLIENTS, ClockMove, Moment, RestoredRunsTemplate, TermsTemplate,
};

const SECOND: Micros = 1000 * MS;

impl Source<'_> {
    /// A call on a schedule, or a step from which runs follow.
    pub(super) fn use_schedules(&mut self, tubes: usize) -> Result<Action> {
        let (client, tube) = (self.below(CLIENTS)?, self.below(tubes)?);
        Ok(match self.below(16)? {
            0..5 => {
                let (every, times) = self.interval()?;
                let terms = TermsTemplate {
                    every: Some(every),
                    times: Some(times),
                    put: Some(self.task_template()?),
                    ..self.terms()?
                };
                let restored = if self.once_in(8)? { Some(self.restored_runs()?) } else { None };
                let (key, deferred) = (self.key()?, self.once_in(4)?);
                Action::Schedule { client, tube, key, terms, restored, deferred }
            }
            5..8 => {
                let (mut terms, key) = (self.terms()?, self.key()?);
                if self.once_in(2)? {
                    let (every, times) = self.interval()?;
                    (terms.every, terms.times) = (Some(every), Some(times));
                }
                Action::Reschedule { client, tube, key, terms, deferred: self.once_in(4)? }
            }
            8 => {
                let (key, task) = (self.key()?, self.task_template()?);
                Action::ChangeTask { client, tube, key, task, deferred: self.once_in(4)? }
            }
            9 => Action::Unschedule { tube, key: self.key()?, deferred: self.once_in(4)? },
            10 => {
                let verb = *self.0.choose(&[0, 1, 2, 3])?;
                let verb = match verb {
                    0 => ById::Delete,
                    1 => ById::Peek,
                    2 => ById::Bury,
                    _ => ById::MoveTo { to: self.below(tubes)? },
                };
                let (pick, deferred) = (self.pick_of(tubes, Among::Schedules)?, false);
                Action::ById { client, pick, verb, deferred }
            }
            11 => Action::Take { client, tube, keep: true },
            12 => Action::Reopen { closed_for: ClockMove::By(MS * self.0.int_in_range(0..=40)?) },
            _ => Action::Advance { by: ClockMove::By(MS * self.0.int_in_range(1..=9)?) },
        })
    }

    /// Runs that follow each other shortly are few, as in the random steps of `tests/model`.
    fn interval(&mut self) -> Result<(Micros, Option<u64>)> {
        let times = self.0.int_in_range(1..=5)?;
        if self.once_in(4)? {
            let every = *self.0.choose(&[SECOND, 61 * SECOND, NEVER])?;
            return Ok((every, self.maybe(2, |_| Ok(times))?));
        }
        Ok((MS * self.0.int_in_range(1..=9)?, Some(times)))
    }

    fn terms(&mut self) -> Result<TermsTemplate> {
        let missed = [Missed::Latest(1), Missed::All, Missed::Skip, Missed::Latest(3)];
        Ok(TermsTemplate {
            starting: self.maybe(4, |it| {
                let by = MS * it.0.int_in_range(0..=7)?;
                Ok(if it.once_in(2)? { Moment::In(by) } else { Moment::Ago(by) })
            })?,
            missed: self.maybe(2, |it| it.0.choose(&missed).copied())?,
            within: self.maybe(4, |it| {
                let within = [None, Some(0), Some(2 * MS), Some(5 * MS)];
                it.0.choose(&within).copied()
            })?,
            skips_overlap: self.maybe(2, |it| it.once_in(2))?,
            ..TermsTemplate::default()
        })
    }

    fn restored_runs(&mut self) -> Result<RestoredRunsTemplate> {
        Ok(RestoredRunsTemplate {
            skipped_ids: self.maybe(2, |it| it.0.int_in_range(0..=2))?,
            runs: self.0.int_in_range(0..=3)?,
            skipped: self.0.int_in_range(0..=2)?,
        })
    }
}
