//! Tasks that wait for others, and tasks with keys.

use arbitrary::Result;

use super::{NEVER, Source};
use crate::model::reference::{OnKey, OnParent};
use crate::model::steps::{
    Action, AfterTemplate, Among, ByClaim, ById, CLIENTS, Choice, Pick, TaskTemplate,
};

/// How many dues the sweeper handles in one step.
const DUES_PER_STEP: usize = 64;

impl Source<'_> {
    /// A put of a child, a change of its parents, or a step towards the end of a parent.
    pub(super) fn wait_for_others(&mut self, tubes: usize) -> Result<Action> {
        Ok(match self.below(16)? {
            0..5 => Action::Put {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                template: self.child(tubes)?,
                deferred: self.once_in(4)?,
            },
            5 => {
                let (client, tube) = (self.below(CLIENTS)?, self.below(tubes)?);
                let (mut template, count) =
                    (self.child(tubes)?, *self.0.choose(&[2, 10, 65, 330])?);
                if count > DUES_PER_STEP {
                    // The model does not say which children are told between the steps of a sweep.
                    template.ttl = Some(NEVER);
                }
                Action::PutBatch { client, tube, templates: vec![template], count }
            }
            6 => Action::Requeue {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                template: self.child(tubes)?,
                deferred: self.once_in(4)?,
            },
            7 => Action::PutWait {
                client: self.below(CLIENTS)?,
                tube: self.below(tubes)?,
                template: self.child(tubes)?,
                timeout: self.span()?,
            },
            8..10 => Action::Claim {
                client: self.below(CLIENTS)?,
                pick: self.family(tubes)?,
                keep: true,
            },
            10 => Action::ByClaim {
                claim: Choice(usize::MAX),
                verb: ByClaim::Ack { deferred: self.once_in(2)? },
            },
            11 => {
                let into = (self.below(tubes)?, self.child(tubes)?);
                let (puts, advance) =
                    if self.once_in(2)? { (vec![into], None) } else { (Vec::new(), Some(into)) };
                let deferred = self.once_in(2)?;
                let verb = ByClaim::Finish { result: None, puts, advance, deferred };
                Action::ByClaim { claim: Choice(usize::MAX), verb }
            }
            _ => Action::ById {
                client: self.below(CLIENTS)?,
                pick: self.family(tubes)?,
                verb: self.edit_of_family(tubes)?,
                deferred: self.once_in(4)?,
            },
        })
    }

    fn edit_of_family(&mut self, tubes: usize) -> Result<ById> {
        Ok(match self.below(12)? {
            0..3 => ById::AddParents {
                of: self.below(tubes)?,
                parents: (0..self.below(3)?).map(|_| self.parent(tubes)).collect::<Result<_>>()?,
            },
            3..5 => ById::RemoveParents { parent: self.maybe(2, Self::choice)? },
            5..7 => ById::Bury,
            7 => ById::Kick,
            8 => ById::Resolve { size: None },
            9 => ById::Delete,
            10 => ById::MoveTo { to: self.below(tubes)? },
            _ => {
                let delay = self.maybe(2, Self::short_span)?;
                ById::Update { size: Some(3), priority: None, delay, not_before: None }
            }
        })
    }

    /// A task that waits for others, or that others wait for.
    fn family(&mut self, tubes: usize) -> Result<Pick> {
        let among = *self.0.choose(&[Among::Children, Among::Parents, Among::Present])?;
        self.pick_of(tubes, among)
    }

    fn parent(&mut self, tubes: usize) -> Result<Pick> {
        let among = [Among::Present, Among::Present, Among::Children, Among::Held, Among::EverPut];
        Ok(Pick { tube: self.below(tubes)?, among: *self.0.choose(&among)?, index: self.choice()? })
    }

    fn child(&mut self, tubes: usize) -> Result<TaskTemplate> {
        let parents = (0..self.below(3)?).map(|_| self.parent(tubes)).collect::<Result<_>>()?;
        let rules = [OnParent::Wait, OnParent::Release, OnParent::Bury];
        let on_parent = *self.0.choose(&rules)?;
        let after = AfterTemplate { parents, key: self.maybe(8, Self::key)?, on_parent };
        let key = self.maybe(3, Self::key)?;
        let on_key =
            *self.0.choose(&[OnKey::Replace, OnKey::Replace, OnKey::Keep, OnKey::Reject])?;
        Ok(TaskTemplate { key, on_key, after, ..self.task_template()? })
    }
}
