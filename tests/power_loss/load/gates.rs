//! The calls on gates that a load makes.

use std::sync::Arc;
use std::time::Duration;

use tubewell::Result;

use super::{Answer, Load};
use crate::gates::{Gates, SUB_QUEUES};
use crate::options::only;
use crate::state::{Kind, NEVER};

impl Load {
    /// Pauses a tube, continues its takes, or changes its limit. Most calls leave it open.
    pub(super) fn change_gates(&mut self) -> Result<()> {
        if self.rng.one_in(4) {
            return self.set_limit();
        }
        let Some((name, kind, tube)) = self.random_tube()? else { return Ok(()) };
        let issued = self.disk.position();
        let mut gates = kind.gates;
        let what = match self.rng.below(8) {
            _ if kind.sub_queued() && self.rng.one_in(2) => {
                let which = self.rng.index(SUB_QUEUES.len());
                let time = match self.rng.below(3) {
                    0 if self.clock.is_some() => 1 + self.rng.below(20_000_000),
                    1 => NEVER,
                    _ => 0,
                };
                let until = self.now().saturating_add(time);
                gates.sub_queues_paused_until[which] = if time == 0 { 0 } else { until };
                let time = if time == NEVER { Duration::MAX } else { Duration::from_micros(time) };
                tube.admin().pause_sub_queue(SUB_QUEUES[which], time)?;
                "pause a sub-queue"
            }
            6 if kind.sub_queued() => {
                let most = u32::try_from(2 + self.rng.below(3)).unwrap();
                gates.sub_queue_limit = Some(most).filter(|_| gates.sub_queue_limit != Some(most));
                tube.admin().alter(only(with(&kind, gates).options()))?;
                "alter the limit of sub-queues"
            }
            0 => {
                gates.paused_until = NEVER;
                tube.admin().pause()?;
                "pause"
            }
            // With the clock of the system it is not known when the pause ends.
            1 if self.clock.is_some() => {
                let time = 1 + self.rng.below(20_000_000);
                gates.paused_until = self.now() + time;
                tube.admin().pause_for(Duration::from_micros(time))?;
                "pause for a time"
            }
            2 | 3 => {
                gates.change_limit(&mut self.rng);
                tube.admin().alter(only(with(&kind, gates).options()))?;
                "alter"
            }
            4 => {
                gates.change_limit(&mut self.rng);
                let altered = with(&kind, gates).options();
                self.store.open_tube(name, altered.driver(kind.driver))?;
                "create or alter"
            }
            5 => {
                gates.paused_until = 0;
                tube.to_async().admin().unpause().wait()?;
                "deferred unpause"
            }
            _ => {
                gates.paused_until = 0;
                tube.admin().unpause()?;
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

impl Load {
    fn set_limit(&mut self) -> Result<()> {
        let issued = self.disk.position();
        let name = self.rng.pick(&SUB_QUEUES);
        let most = u32::try_from(self.rng.below(4)).unwrap();
        if self.contents.limits.get(name) == Some(&most) {
            self.store.admin().remove_limit(name)?;
            self.contents().limits.remove(name);
        } else {
            self.store.admin().set_limit(name, most)?;
            self.contents().limits.insert(name, most);
        }
        self.step("set a limit", issued, Answer::durable());
        Ok(())
    }
}

fn with(kind: &Kind, gates: Gates) -> Kind {
    Kind { gates, ..kind.clone() }
}
