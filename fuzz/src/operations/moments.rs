//! Moments of tasks, and a wall clock that is set.

use arbitrary::Result;

use super::{MS, Source};
use crate::model::steps::{
    Action, Among, ByClaim, ById, CLIENTS, Choice, Moment, TaskTemplate, WallMove,
};

impl Source<'_> {
    /// Gives a task a moment, in every second case.
    pub(super) fn add_moment(&mut self, template: &mut TaskTemplate) -> Result<()> {
        template.not_before = self.maybe(2, Self::moment)?;
        Ok(())
    }

    fn moment(&mut self) -> Result<Moment> {
        Ok(match self.below(8)? {
            0 => Moment::Never,
            1 => Moment::In(0),
            2 | 3 => Moment::Ago(MS * self.0.int_in_range(0..=3)?),
            4 => Moment::In(20 * MS),
            _ => Moment::In(MS * self.0.int_in_range(1..=5)?),
        })
    }

    /// A move of the wall clock, a change of a moment, or a step after which a task waits for its
    /// moment again.
    pub(super) fn use_moments(&mut self, tubes: usize) -> Result<Action> {
        let client = self.below(CLIENTS)?;
        let last = Choice(usize::MAX);
        Ok(match self.below(16)? {
            0..3 => Action::SetWall { to: self.wall_move()? },
            // Tasks that are taken wait for their moments again.
            3..6 => Action::SetWall { to: WallMove::Back(20 * MS) },
            6 => {
                let delay = self.maybe(2, Self::short_span)?;
                let not_before = Some(self.maybe(2, Self::moment)?);
                let verb = ById::Update { size: None, priority: None, delay, not_before };
                let (pick, deferred) = (self.pick_of(tubes, Among::Present)?, false);
                Action::ById { client, pick, verb, deferred }
            }
            7..10 => {
                Action::Claim { client, pick: self.pick_of(tubes, Among::Present)?, keep: true }
            }
            10 => {
                let delay = self.short_span()?;
                Action::ByClaim { claim: last, verb: ByClaim::Release { delay } }
            }
            11 => Action::ByClaim { claim: last, verb: ByClaim::Drop },
            12 | 13 => Action::ById {
                client,
                pick: self.pick_of(tubes, Among::Present)?,
                verb: match self.below(3)? {
                    0 => ById::Bury,
                    1 => ById::Kick,
                    _ => ById::Revoke,
                },
                deferred: false,
            },
            _ => Action::ReleaseAll { tube: self.below(tubes)?, forgive: self.once_in(2)? },
        })
    }

    fn wall_move(&mut self) -> Result<WallMove> {
        Ok(match self.below(6)? {
            0 => WallMove::Ahead(MS * self.0.int_in_range(1..=10)?),
            1 | 2 => WallMove::Back(MS * self.0.int_in_range(1..=10)?),
            3 | 4 => {
                WallMove::ToMoment { nth: self.below(3)?, offset: self.0.int_in_range(-1..=1)? }
            }
            _ => WallMove::Right,
        })
    }
}
