//! Changes of the gates of a tube.

use arbitrary::Result;

use super::{MS, Source};
use crate::model::reference::{NEVER, Options};
use crate::model::steps::{Action, Alter, Setup};

impl Source<'_> {
    pub(super) fn change_gates(&mut self, setup: &Setup) -> Result<Action> {
        let tube = self.below(setup.tubes.len())?;
        if self.once_in(2)? {
            let time = *self.0.choose(&[0, 0, 0, MS, 2 * MS, 5 * MS, NEVER])?;
            return Ok(Action::Pause { tube, time, deferred: self.once_in(4)? });
        }
        let mut options = Options::default();
        self.gates(&mut options)?;
        let by = *self.0.choose(&[Alter::Tube, Alter::Deferred, Alter::Create])?;
        Ok(Action::Alter { tube, options, by })
    }
}
