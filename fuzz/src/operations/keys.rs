//! Tasks with keys.

use arbitrary::Result;

use super::{SIZES, Source};
use crate::model::reference::OnKey;
use crate::model::steps::{Action, Among, ByClaim, ById, CLIENTS, KEYS, TaskTemplate};

impl Source<'_> {
    pub(super) fn key(&mut self) -> Result<String> {
        Ok((*self.0.choose(&KEYS)?).to_owned())
    }

    /// Gives a task a key, in every second case.
    pub(super) fn add_key(&mut self, template: &mut TaskTemplate) -> Result<()> {
        if self.once_in(2)? {
            template.key = Some(self.key()?);
            template.on_key = *self.0.choose(&[OnKey::Replace, OnKey::Keep, OnKey::Reject])?;
        }
        Ok(())
    }

    /// A put anew, or a step that brings a task with a key into another state.
    pub(super) fn use_keys(&mut self, tubes: usize) -> Result<Action> {
        let client = self.below(CLIENTS)?;
        Ok(match self.below(8)? {
            0..3 => {
                let (tube, mut template) = (self.below(tubes)?, self.task_template()?);
                if template.key.is_none() {
                    template.key = Some(self.key()?);
                }
                Action::Requeue { client, tube, template, deferred: self.once_in(2)? }
            }
            3 => Action::Claim { client, pick: self.pick_of(tubes, Among::Present)?, keep: true },
            4 => {
                let (claim, size) = (self.choice()?, *self.0.choose(&SIZES)?);
                Action::ByClaim { claim, verb: ByClaim::AckWith { size, deferred: false } }
            }
            5 => {
                let (claim, hold) = (self.choice()?, self.span()?);
                Action::ByClaim { claim, verb: ByClaim::Park { hold, deferred: false } }
            }
            6 => {
                let (pick, deferred) = (self.pick_of(tubes, Among::Present)?, false);
                Action::ById { client, pick, verb: ById::Bury, deferred }
            }
            _ => {
                let (pick, to) = (self.pick_of(tubes, Among::Present)?, self.below(tubes)?);
                Action::ById { client, pick, verb: ById::MoveTo { to }, deferred: false }
            }
        })
    }
}
