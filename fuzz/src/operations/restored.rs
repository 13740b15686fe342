//! Tasks of another store that are put back.

use arbitrary::Result;

use super::{MS, SIZES, Source};
use crate::model::steps::{
    Action, CLIENTS, FailureTemplate, RestoredTemplate, StateTemplate, TaskTemplate,
};

impl Source<'_> {
    pub(super) fn restore(&mut self, tubes: usize) -> Result<Action> {
        Ok(Action::Restore {
            client: self.below(CLIENTS)?,
            tube: self.below(tubes)?,
            tasks: (0..self.below(4)?).map(|_| self.restored_task()).collect::<Result<_>>()?,
            deferred: self.once_in(2)?,
        })
    }

    fn restored_task(&mut self) -> Result<RestoredTemplate> {
        if self.1.restored_keys && self.once_in(3)? {
            // Only one like this may replace the task that has its key.
            return Ok(RestoredTemplate { put: self.restored_put()?, ..Default::default() });
        }
        let state = match self.below(8)? {
            0 | 1 => StateTemplate::Open,
            2 | 3 => StateTemplate::Buried { group: self.maybe(2, Self::group)? },
            _ => StateTemplate::Done {
                size: self.maybe(2, |it| it.0.choose(&SIZES).copied())?,
                ttl: self.maybe(2, Self::span)?,
            },
        };
        let takes = self.0.int_in_range(0..=3)?;
        Ok(RestoredTemplate {
            put: self.restored_put()?,
            skipped_ids: self.maybe(2, |it| it.0.int_in_range(0..=2))?,
            takes,
            // One in eight has too many.
            forgiven: if self.once_in(8)? { 4 } else { self.0.int_in_range(0..=takes)? },
            failure: self.maybe(2, Self::failure)?,
            put_at: None,
            state,
        })
    }

    fn restored_put(&mut self) -> Result<TaskTemplate> {
        let put = self.task_template()?;
        let key = put.key.clone().filter(|_| self.1.restored_keys);
        Ok(TaskTemplate { key, ..put })
    }

    fn failure(&mut self) -> Result<FailureTemplate> {
        Ok(FailureTemplate {
            group: self.group()?,
            attempt: self.0.int_in_range(0..=3)?,
            ago: MS * self.0.int_in_range(0..=8)?,
        })
    }
}
