//! Changes of tasks that are neither claims nor ends, and deletes on a condition.

use arbitrary::Result;

use super::{SIZES, Source};
use crate::model::reference::State;
use crate::model::steps::{Action, Among, ById, CLIENTS};

impl Source<'_> {
    pub(super) fn edit(&mut self, tubes: usize) -> Result<Action> {
        Ok(match self.below(10)? {
            0 => Action::DeleteMany {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                picks: (0..self.below(4)?).map(|_| self.pick(tubes)).collect::<Result<_>>()?,
            },
            1 => Action::DeleteWhere {
                tube: self.below(tubes)?,
                state: self.state()?,
                limit: self.below(3)?,
            },
            2 => Action::KickGroup {
                tube: self.below(tubes)?,
                group: self.group()?,
                limit: self.below(3)?,
            },
            _ => {
                let among = *self.0.choose(&[Among::Present, Among::Parked, Among::Kept])?;
                Action::ById {
                    client: self.below(CLIENTS)?,
                    pick: self.pick_of(tubes, among)?,
                    verb: self.edit_of_task()?,
                    deferred: self.once_in(4)?,
                }
            }
        })
    }

    fn edit_of_task(&mut self) -> Result<ById> {
        Ok(match self.below(8)? {
            0..3 => ById::SetPriority { priority: self.priority()? },
            3..6 => ById::Update {
                size: self.maybe(2, |it| it.0.choose(&SIZES).copied())?,
                priority: self.maybe(2, Self::priority)?,
                delay: self.maybe(2, Self::short_span)?,
                not_before: None,
            },
            6 => ById::Cancel,
            _ => ById::DeleteIf { state: self.state()? },
        })
    }

    fn state(&mut self) -> Result<State> {
        let all = [State::Ready, State::Taken, State::Delayed, State::Buried, State::Done];
        self.0.choose(&all).copied()
    }
}
