//! The calls on gates that a load makes.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Result, WhenFull};

use super::{Answer, Load};
use crate::gates::Gates;
use crate::state::{Kind, NEVER};

impl Load {
    /// Pauses a tube, continues its takes, or changes its limit. Most calls leave it open.
    pub(super) fn change_gates(&mut self) -> Result<()> {
        let Some((name, kind, tube)) = self.random_tube()? else { return Ok(()) };
        let issued = self.disk.position();
        let mut gates = kind.gates;
        let what = match self.rng.below(8) {
            0 => {
                gates.paused_until = NEVER;
                tube.pause()?;
                "pause"
            }
            // With the clock of the system it is not known when the pause ends.
            1 if self.clock.is_some() => {
                let time = 1 + self.rng.below(20_000_000);
                gates.paused_until = self.now() + time;
                tube.pause_for(Duration::from_micros(time))?;
                "pause for a time"
            }
            2 | 3 => {
                gates.change_limit(&mut self.rng);
                tube.alter(with(&kind, gates).options())?;
                "alter"
            }
            4 => {
                gates.change_limit(&mut self.rng);
                let altered = with(&kind, gates).options().or_alter(true);
                self.store.create_tube(name, kind.driver, altered)?;
                "create or alter"
            }
            5 => {
                gates.paused_until = 0;
                tube.deferred(WhenFull::Block).unpause()?.wait()?;
                "deferred unpause"
            }
            _ => {
                gates.paused_until = 0;
                tube.unpause()?;
                "unpause"
            }
        };
        if gates == kind.gates {
            return Ok(());
        }
        self.contents().tubes.insert(name, Arc::new(with(&kind, gates)));
        self.step(what, issued, Answer::durable());
        Ok(())
    }
}

fn with(kind: &Kind, gates: Gates) -> Kind {
    Kind { gates, ..kind.clone() }
}
