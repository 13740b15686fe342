//! The end of a life: what is left is written, everyone is told, the file is free.

use std::sync::Arc;

use tubewell_drivers::NEVER;

use super::inner::StoreInner;
use crate::commit::WriteBuffer;
use crate::core::{Core, FILE, MEMORY};
use crate::sync::{MutexGuard, thread};
use crate::{Error, Result};

impl StoreInner {
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
        let _closing = CloseGuard(self);
        self.close_now(core)
    }

    fn close_now(&self, mut core: MutexGuard<'_, Core>) -> Result<()> {
        core.wake_all(&Error::Closed);
        core.effects.room = true;
        core.effects.call_writer = true;
        core.sweeper_wakes = NEVER;
        self.leave(core);
        let mut core = self.core.lock();
        core.buffers.iter_mut().for_each(WriteBuffer::reclaim_lead);
        while core.buffers.iter().any(|buffer| buffer.has_leader) {
            core.blocked_callers += 1;
            self.room.wait(&mut core);
            core.blocked_callers -= 1;
            core.buffers.iter_mut().for_each(WriteBuffer::reclaim_lead);
        }
        if core.retry_at().is_some() {
            drop(core);
            self.reopen(true);
            core = self.core.lock();
        }
        let (mut core, written, last_commit) = match core.check_failure() {
            Ok(()) => self.write_last(core),
            Err(failure) => (core, Err(failure), None),
        };
        core.forget_callbacks();
        core.buffers.iter_mut().for_each(WriteBuffer::end_call);
        let engines = [core.buffers[FILE].take_engine(), core.buffers[MEMORY].take_engine()];
        self.writer.notify_all();
        self.sweeper.notify_all();
        self.leave(core);
        drop(last_commit);
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
struct CloseGuard<'a>(&'a StoreInner);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        let _core = self.0.core.lock();
        *self.0.closing.lock() = None;
        self.0.gone.notify_all();
    }
}
