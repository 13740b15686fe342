//! Transactions of the application: its own tables and calls of the queue, in one commit of the
//! database.
//!
//! The transaction of the database begins on the caller's thread, and its closure runs without the
//! lock of the core. No checkpoint can begin until it has ended; other callers commit to the journal
//! meanwhile. Then the calls of the transaction are decided under the lock, and the commit takes
//! their edits and those of the journal along, as a direct checkpoint does. No record is appended
//! while it is written.
//!
//! Invariant: an abort takes back what the application has written, and nothing else: nothing is
//! decided before the closure has succeeded.

use std::cell::Cell;
use std::sync::Arc;

use super::inner::StoreInner;
use super::leadership::publish_outcome;
use crate::base::clock::TimeDriven;
use crate::base::sync::MutexGuard;
use crate::commit::Logged;
use crate::core::{AfterUnlock, Buffer, Core, TransactionCall};
use crate::storage::{Engine, EngineTransaction, FailureCause};
use crate::{Error, Result, TaskState};

/// The database, reserved for one transaction. Dropping it releases the database.
pub(crate) struct Reservation<'a> {
    inner: &'a StoreInner,
    engine: Arc<Engine>,
    is_released: Cell<bool>,
}

impl StoreInner {
    /// Reserves the database: no checkpoint runs from now on. Blocks for the checkpoint in progress,
    /// and for the transactions of other threads.
    pub(crate) fn reserve_database(&self) -> Result<Reservation<'_>> {
        self.check_outside_transaction()?;
        let mut core = self.lock();
        let engine = loop {
            core.check_transaction()?;
            if core.buffers[Buffer::File].edits.is_checkpointing() {
                core = self.wait_for_checkpoint(core);
                continue;
            }
            let Some(engine) = core.buffers[Buffer::File].engine().cloned() else {
                return Err(Error::Closed);
            };
            let restarts = engine.journal().is_some_and(|journal| journal.must_restart());
            if !restarts || !core.buffers[Buffer::File].edits.has_logged() {
                break engine;
            }
            // Otherwise no other caller could commit before the end of the transaction.
            self.unlock(core);
            self.checkpoint_all()?;
            core = self.lock();
        };
        core.buffers[Buffer::File].edits.is_reserved = true;
        self.unlock(core);
        self.in_transaction.begin();
        Ok(Reservation { inner: self, engine, is_released: Cell::new(false) })
    }
}

impl Reservation<'_> {
    /// Begins the transaction of the database.
    pub(crate) fn begin(&self) -> Result<EngineTransaction<'_>> {
        self.inner.report_failure(self.engine.begin_transaction())
    }

    /// Takes back what the application has written.
    pub(crate) fn abort(&self, transaction: EngineTransaction<'_>) {
        self.inner.in_transaction.end();
        if let Err(error) = transaction.abort() {
            // Only a new engine is without the pages of the transaction.
            self.inner.run(|core| core.fail(&error.to_string(), FailureCause::Storage));
        }
    }

    /// Decides the calls, and commits them with the transaction. Returns the states of the tasks whose claims
    /// have ended.
    pub(crate) fn commit(
        &self,
        transaction: EngineTransaction<'_>,
        calls: Vec<TransactionCall>,
    ) -> Result<Vec<(u64, TaskState)>> {
        let inner = self.inner;
        inner.in_transaction.end();
        let usable = transaction.check_usable();
        let core = self.wait_for_flush();
        let usable = usable.and_then(|()| core.check_open());
        let (mut core, decided) =
            inner.run_guarded(core, |core| usable.and_then(|()| core.decide_transaction(calls)));
        let states = match decided {
            Ok(states) => states,
            Err(error) => {
                let after_unlock = inner.unlock_only(core);
                self.abort(transaction);
                self.release();
                drop(after_unlock);
                return Err(error);
            }
        };
        let (edits, batch) = core.begin_transaction_commit();
        let written = core.buffers[Buffer::File].take_write_batch();
        let after_unlock = inner.unlock_only(core);
        #[cfg(feature = "_shuttle")]
        crate::base::sync::explored::switch_point();
        let guard = CommitGuard(inner);
        let (result, took) = inner.timed(|| transaction.commit(&edits));
        std::mem::forget(guard);
        let logged = Logged::Direct(edits);
        let mut core = inner.lock();
        core.threads.checkpoints.add(took);
        if result.is_ok() {
            core.end_transaction();
        }
        let outcome = publish_outcome(&mut core, Buffer::File, &logged, result);
        if outcome.is_ok() {
            core.start_idle_timer();
        }
        let published = self.release_locked(core);
        for batch in std::iter::once(&batch).chain(&written) {
            batch.0.finish(outcome.clone());
        }
        // Not before: wakers may wait for this very commit.
        drop((after_unlock, published));
        // Without the lock: dropping many edits takes long.
        drop(logged);
        outcome.map(|()| states)
    }

    /// Waits until no flush is in flight, while no other one begins.
    fn wait_for_flush(&self) -> MutexGuard<'_, Core> {
        let inner = self.inner;
        let mut core = inner.lock();
        core.undo.set_transaction_is_next(true);
        while core.check_open().is_ok() && core.buffers[Buffer::File].in_flight_batch().is_some() {
            core.waits.block();
            inner.capacity_freed.wait(&mut core);
            core.waits.unblock();
            inner.set_time(&mut core);
        }
        core.undo.set_transaction_is_next(false);
        core
    }

    fn release(&self) {
        drop(self.release_locked(self.inner.lock()));
    }

    /// Lets checkpoints begin again. Returns the effects that run without the lock.
    fn release_locked(&self, mut core: MutexGuard<'_, Core>) -> AfterUnlock {
        self.is_released.set(true);
        core.buffers[Buffer::File].edits.is_reserved = false;
        core.effects.capacity_freed = true;
        core.effects.call_checkpointer |= core.buffers[Buffer::File].edits.has_waiting_checkpoint();
        self.inner.unlock_only(core)
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        self.inner.in_transaction.end();
        if !self.is_released.get() {
            self.release();
        }
        self.inner.run_checkpoint_here();
        if self.inner.in_transaction.take_skipped_sweep() {
            self.inner.sweep_due();
        }
    }
}

/// Stops the store if the commit of a transaction panics.
struct CommitGuard<'a>(&'a StoreInner);

impl Drop for CommitGuard<'_> {
    fn drop(&mut self) {
        self.0.run(|core| {
            core.fail("a defect interrupted the commit of a transaction", FailureCause::Defect);
        });
    }
}
