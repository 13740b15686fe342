//! What the leader of the file does in a pause.

use super::lead::{Dart, hand_on};
use super::shared::Shared;
use crate::core::{Cause, FILE, is_drained};
use crate::storage::Engine;

impl Shared {
    /// Uses a pause: gives room back. The caller has marked the file as led; whoever decides
    /// something meanwhile ends the pause.
    pub(super) fn rest(&self) {
        let dart = Dart { shared: self, lane: FILE };
        let engine = self.enter().lanes[FILE].engine().cloned();
        if let Some(engine) = engine
            && self.noted(is_drained(&engine)).unwrap_or(false)
        {
            self.shrink(&engine);
        }
        let mut core = self.enter();
        hand_on(&mut core, FILE);
        self.leave(core);
        std::mem::forget(dart);
    }

    /// Gives back the room of a file in which little lives.
    fn shrink(&self, engine: &Engine) {
        let mut core = self.enter();
        let pausing = core.is_pausing();
        if pausing {
            core.give_up_room_inside();
        }
        self.leave(core);
        if !pausing {
            return;
        }
        let shrunk = engine.shrink();
        let mut core = self.enter();
        match shrunk {
            Ok(true) => {}
            // Somebody reads.
            Ok(false) => core.await_pause(),
            Err(error) => core.fail(&error.why, Cause::from(&error)),
        }
        self.leave(core);
    }
}
