//! The end of a life: what is left is written, everyone is told, the file is free.

use std::sync::Arc;

use tubewell_drivers::NEVER;

use super::lane::Lane;
use super::shared::Shared;
use crate::core::{Core, FILE, MEMORY};
use crate::sync::{MutexGuard, thread};
use crate::{Error, Result};

impl Shared {
    /// Writes what is left, wakes everyone and lets the file go. Threads end by themselves. Who
    /// comes second waits for the first, unless it is the first: in others' code, of a waker.
    pub(crate) fn close(&self) -> Result<()> {
        let this = thread::current().id();
        let mut core = self.enter();
        if core.closed {
            while self.closing.lock().is_some_and(|by| by != this) {
                self.gone.wait(&mut core);
            }
            return Ok(());
        }
        core.closed = true;
        *self.closing.lock() = Some(this);
        let _closing = Closing(self);
        self.close_now(core)
    }

    fn close_now(&self, mut core: MutexGuard<'_, Core>) -> Result<()> {
        core.wake_all(&Error::Closed);
        core.outbox.room = true;
        core.outbox.call_writer = true;
        core.sweeper_wakes = NEVER;
        self.leave(core);
        let mut core = self.core.lock();
        core.lanes.iter_mut().for_each(Lane::recall);
        while core.lanes.iter().any(|lane| lane.led) {
            core.held_up += 1;
            self.room.wait(&mut core);
            core.held_up -= 1;
            core.lanes.iter_mut().for_each(Lane::recall);
        }
        if core.retry_at().is_some() {
            drop(core);
            self.revive(true);
            core = self.core.lock();
        }
        let written = core.check_failure().and_then(|()| self.write_last(&mut core));
        core.forget_callbacks();
        core.lanes.iter_mut().for_each(Lane::end_call);
        let engines = [core.lanes[FILE].take_engine(), core.lanes[MEMORY].take_engine()];
        self.writer.notify_all();
        self.sweeper.notify_all();
        self.leave(core);
        // Reads that are under way finish first.
        drop(self.reading.write());
        let mut closed = Ok(());
        for engine in engines.into_iter().flatten() {
            if let Some(engine) = Arc::into_inner(engine) {
                closed = closed.and(engine.close());
            }
        }
        written.and(closed)
    }
}

/// Tells those who close the store, too, that it is closed.
struct Closing<'a>(&'a Shared);

impl Drop for Closing<'_> {
    fn drop(&mut self) {
        let _core = self.0.core.lock();
        *self.0.closing.lock() = None;
        self.0.gone.notify_all();
    }
}
