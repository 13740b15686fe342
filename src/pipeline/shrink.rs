//! What the leader of the file does in a pause.

use super::group_commit::LeaderGuard;
use super::inner::StoreInner;
use super::leadership::pass_lead;
use crate::core::{FILE, is_drained};
use crate::storage::{Engine, FailureCause};

impl StoreInner {
    /// Uses a pause: gives room back. The caller has marked the file as led; whoever decides
    /// something meanwhile ends the pause.
    pub(super) fn shrink_if_drained(&self) {
        let dart = LeaderGuard { inner: self, buffer: FILE };
        let engine = self.enter().buffers[FILE].engine().cloned();
        if let Some(engine) = engine
            && self.report_failure(is_drained(&engine)).unwrap_or(false)
        {
            self.shrink(&engine);
        }
        let mut core = self.enter();
        pass_lead(&mut core, FILE);
        self.leave(core);
        std::mem::forget(dart);
    }

    /// Gives back the room of a file in which little lives.
    fn shrink(&self, engine: &Engine) {
        let mut core = self.enter();
        let pausing = core.is_idle();
        if pausing {
            core.forget_free_inside();
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
            Ok(false) => core.start_idle_timer(),
            Err(error) => core.fail(&error.why, FailureCause::from(&error)),
        }
        self.leave(core);
    }
}
