//! Close: ends all waits, writes the last commit and releases the file.
//!
//! The file is free when `close` returns, also for a call that found the store closing.

use std::sync::Arc;

use tubewell_drivers::NEVER;

use super::inner::StoreInner;
use super::shrink::shrink_at_close;
use crate::base::sync::{MutexGuard, thread};
use crate::commit::WriteBuffer;
use crate::core::{Buffer, Core};
use crate::storage::Engine;
use crate::{Error, Result};

impl StoreInner {
    /// Writes what is left, ends all waits and releases the file. The threads end by themselves. A
    /// second call waits for the first one, unless it comes from the closing thread itself: a waker
    /// that the close calls may close the store too.
    pub(crate) fn close(&self) -> Result<()> {
        let this = thread::current().id();
        let mut core = self.empty_line(self.lock());
        if core.health.is_closed() {
            while self.closing_thread.lock().is_some_and(|closing| closing != this) {
                self.close_finished.wait(&mut core);
            }
            return Ok(());
        }
        core.health.close();
        *self.closing_thread.lock() = Some(this);
        let _closing = CloseGuard(self);
        self.close_now(core)
    }

    fn close_now(&self, mut core: MutexGuard<'_, Core>) -> Result<()> {
        core.end_all_waits(&Error::Closed);
        core.effects.capacity_freed = true;
        core.effects.call_writer = true;
        core.threads.sweeper_wakes_at = NEVER;
        self.unlock(core);
        let core = self.finish_checkpoints();
        let (mut core, written, last_commit) = match core.health.check() {
            Ok(()) => self.write_last(core),
            Err(failure) => (core, Err(failure), None),
        };
        core.drop_callbacks();
        core.buffers.iter_mut().for_each(WriteBuffer::end_call);
        let engines =
            [core.buffers[Buffer::File].take_engine(), core.buffers[Buffer::Memory].take_engine()];
        self.writer.notify_all();
        self.checkpointer.notify_all();
        self.sweeper.notify_all();
        self.unlock(core);
        drop(last_commit);
        // Wait for the reads that use an engine without the core's lock.
        drop(self.engine_reads.write());
        let [file, memory] = engines.map(|engine| engine.and_then(Arc::into_inner));
        let shrunk = match &file {
            Some(file) if written.is_ok() => shrink_at_close(file, || self.clock.running()),
            _ => Ok(()),
        };
        let [file, memory] = [file, memory].map(|engine| engine.map_or(Ok(()), Engine::close));
        written.and(shrunk).and(file).and(memory)
    }

    /// Writes the checkpoint that waits, and reopens a failed storage once. Returns when no thread
    /// leads a commit or writes a checkpoint: the writer thread may begin a commit meanwhile.
    fn finish_checkpoints(&self) -> MutexGuard<'_, Core> {
        let mut may_reopen = true;
        loop {
            let core = self.wait_for_leaders();
            if core.retry_at().is_some() && std::mem::take(&mut may_reopen) {
                drop(core);
                self.reopen(true);
            } else if !core.health.has_failed()
                && core.buffers[Buffer::File].edits.has_waiting_checkpoint()
            {
                drop(core);
                self.run_checkpoint();
            } else {
                return core;
            }
        }
    }

    /// Waits until no thread leads a commit or writes a checkpoint, and no transaction runs.
    fn wait_for_leaders(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        core.buffers.iter_mut().for_each(WriteBuffer::reclaim_lead);
        while core.buffers.iter().any(|buffer| buffer.has_leader)
            || core.threads.checkpoint_is_busy
            || core.buffers[Buffer::File].edits.is_reserved
        {
            core.waits.block();
            self.capacity_freed.wait(&mut core);
            core.waits.unblock();
            core.buffers.iter_mut().for_each(WriteBuffer::reclaim_lead);
        }
        core
    }
}

/// Wakes the other callers of `close` when the store is closed.
struct CloseGuard<'a>(&'a StoreInner);

impl Drop for CloseGuard<'_> {
    fn drop(&mut self) {
        let _core = self.0.core.lock();
        *self.0.closing_thread.lock() = None;
        self.0.close_finished.notify_all();
    }
}
