//! Checkpoints: the database takes what the journal has, beside the callers.
//!
//! A commit that fills a half of the journal begins a checkpoint, and a thread of its own writes it.
//! With a manual clock the thread of that commit does, so that runs are repeatable.
//!
//! While the writer thread flushes, the checkpoint thread also writes the records of deferred calls:
//! these wait for a write only, and not for the flush. While it writes a checkpoint, the sweeper does.

use std::path::Path;

use super::inner::StoreInner;
use crate::base::sync::MutexGuard;
use crate::core::{Buffer, Core};
use crate::storage::{Checkpoint, CommitError, Engine, FailureCause, Snapshot};
use crate::{Error, Result};

impl StoreInner {
    /// The loop of the checkpoint thread.
    pub(crate) fn checkpoint_loop(&self) {
        loop {
            let mut core = self.core.lock();
            while !core.health.is_closed() && !has_work(&core) {
                self.checkpointer.wait(&mut core);
            }
            if core.health.is_closed() {
                return;
            }
            if must_write(&core) {
                self.set_time(&mut core);
                self.write_deferred(core, false);
            } else {
                drop(core);
            }
            // After each write, so that writes do not keep a checkpoint from being made.
            self.run_checkpoint();
        }
    }

    /// Writes the checkpoint that waits for a thread, if there is one.
    pub(super) fn run_checkpoint(&self) {
        let mut core = self.lock();
        if !core.health.has_failed()
            && let Some(edits) = core.buffers[Buffer::File].edits.take_waiting_checkpoint()
        {
            // The failure ends all waits.
            let _ = self.write_checkpoint(core, edits, |_| Ok(()));
        } else {
            self.unlock(core);
        }
    }

    /// As [`run_checkpoint`](StoreInner::run_checkpoint), with a manual clock only.
    pub(super) fn run_checkpoint_here(&self) {
        if self.clock.is_manual() {
            self.run_checkpoint();
        }
    }

    /// Waits until the checkpoint in progress has ended. One that no thread has begun is written
    /// here.
    pub(super) fn wait_for_checkpoint<'a>(
        &'a self,
        mut core: MutexGuard<'a, Core>,
    ) -> MutexGuard<'a, Core> {
        if !core.health.has_failed() && core.buffers[Buffer::File].edits.has_waiting_checkpoint() {
            self.unlock(core);
            self.run_checkpoint();
            return self.lock();
        }
        core.waits.block();
        self.capacity_freed.wait(&mut core);
        core.waits.unblock();
        self.set_time(&mut core);
        core
    }

    /// The database takes everything that is committed. Other calls go on meanwhile.
    pub(super) fn checkpoint_all(&self) -> Result<()> {
        self.checkpoint_all_then(|_| Ok(()))
    }

    /// The rows as of the last commit. Later commits do not appear in it. Makes a checkpoint.
    pub(crate) fn stable_snapshot(&self) -> Result<Snapshot> {
        let _reading = self.engine_reads.read();
        self.checkpoint_all_then(Engine::snapshot)
    }

    /// The rows that a backup saves in a file at `to`: as of the last commit, or as memory has them if the storage has failed and
    /// the database can still be read.
    pub(crate) fn rows_to_save(&self, to: &Path) -> Result<Snapshot> {
        let snapshot = |engine: &Engine| {
            engine.refuse_own_path(to)?;
            engine.snapshot()
        };
        let save = || {
            let _reading = self.engine_reads.read();
            self.checkpoint_all_then(snapshot)
        };
        let failed = match self.flush().and_then(|_| save()) {
            Err(
                error @ (Error::Unavailable { .. }
                | Error::OutcomeUnknown { .. }
                | Error::Io { .. }),
            ) => error,
            rows => return rows,
        };
        let _reading = self.engine_reads.read();
        let core = self.lock();
        let buffer = &core.buffers[Buffer::File];
        let Some(engine) = buffer.engine().cloned() else { return Err(failed) };
        let edits = buffer.edits.merged();
        self.unlock(core);
        engine.refuse_own_path(to)?;
        engine.snapshot_below(edits).map_err(|_| failed)
    }

    fn checkpoint_all_then<T>(&self, then: impl FnOnce(&Engine) -> Result<T>) -> Result<T> {
        self.check_outside_transaction()?;
        let mut core = self.lock();
        while core.check_open().is_ok() && core.buffers[Buffer::File].edits.is_checkpointing() {
            core = self.wait_for_checkpoint(core);
        }
        core.check_open()?;
        match core.buffers[Buffer::File].checkpoint_now() {
            Some(edits) => self.write_checkpoint(core, edits, then),
            None => core.buffers[Buffer::File]
                .engine()
                .map_or(Err(Error::Closed), |engine| then(engine)),
        }
    }

    /// Writes a checkpoint, and calls `then` before another commit can go to the database.
    fn write_checkpoint<T>(
        &self,
        mut core: MutexGuard<'_, Core>,
        edits: Checkpoint,
        then: impl FnOnce(&Engine) -> Result<T>,
    ) -> Result<T> {
        core.threads.checkpoint_is_busy = true;
        core.effects.call_sweeper |= must_write(&core);
        let engine = core.buffers[Buffer::File].engine().cloned();
        self.unlock(core);
        let guard = CheckpointGuard(self);
        #[cfg(feature = "_shuttle")]
        crate::base::sync::explored::switch_point();
        let (written, took) = self.timed(|| match &engine {
            Some(engine) => engine.checkpoint(&edits, true).map(|()| then(engine)),
            None => Err(CommitError::closed()),
        });
        drop((engine, edits));
        std::mem::forget(guard);
        let mut core = self.lock();
        core.threads.checkpoints.add(took);
        core.threads.checkpoint_is_busy = false;
        core.effects.capacity_freed = true;
        if let Err(error) = &written {
            core.fail(&error.why, FailureCause::from(error));
        } else {
            core.finish_checkpoint(Buffer::File);
        }
        self.unlock(core);
        written.map_err(Error::from)?
    }
}

/// Whether the checkpoint thread has something to do.
fn has_work(core: &Core) -> bool {
    must_write(core)
        || (!core.health.has_failed() && core.buffers[Buffer::File].edits.has_waiting_checkpoint())
}

/// Whether deferred calls wait for a write that the writer thread cannot make now.
pub(super) fn must_write(core: &Core) -> bool {
    !core.health.has_failed()
        && core.buffers[Buffer::File].needs_write
        && core.effects.writer_is_busy
}

/// Stops the store if the thread that writes a checkpoint panics.
struct CheckpointGuard<'a>(&'a StoreInner);

impl Drop for CheckpointGuard<'_> {
    fn drop(&mut self) {
        self.0.run(|core| {
            core.fail(
                "a defect interrupted a checkpoint: its thread panicked",
                FailureCause::Defect,
            );
            core.threads.checkpoint_is_busy = false;
            core.effects.capacity_freed = true;
        });
    }
}
