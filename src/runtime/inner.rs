//! The state that the handles and threads of a store share: the core behind its lock, and the calls
//! on it.
//!
//! A call that needs a flush becomes the leader if there is none: it moves the active edits into
//! flight, commits them without the lock, and makes them visible. The edits of calls that are
//! decided meanwhile go into the next commit. Its leader is one of the followers that wait for it,
//! or the writer thread if none is parked.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};

use tubewell_drivers::{NEVER, Reads, Table, Value};
use tubewell_wire::HomeProcess;

use super::after_call::{end_call, leave_to_writer, serve_line};
use super::core_lock::CoreLock;
use super::in_transaction::InTransaction;
use super::leadership::{reclaim_lead, request_commit_now};
use crate::base::clock::Clock;
use crate::base::sync::thread::ThreadId;
use crate::base::sync::{Condvar, Mutex, MutexGuard, RwLock};
use crate::commit::{Batch, LoggedRecord, Wakeup};
use crate::core::verb::{Begin, Begun, Named};
use crate::core::{AfterUnlock, Buffer, Core, Decided, StoreId, Wait, Wall, WallClock};
use crate::events::Subscribers;
use crate::storage::{Engine, FailureCause};
use crate::{Error, Result};

/// Edited rows of temporary tubes above which the writer thread commits them to their engine.
const MEMORY_COMMIT_ROWS: usize = 2048;
/// Rows in the active buffer at which the sweeper waits for a commit. Callers share that commit,
/// and it must not take longer than a few milliseconds.
pub(super) const SWEEP_MAX_ACTIVE_ROWS: usize = 512;

/// An open store: the core behind its lock, the clock, and the condition variables of the threads.
pub(crate) struct StoreInner {
    pub(super) core: CoreLock,
    /// A fork must not touch the locks, which other threads may have held when the process forked.
    home: HomeProcess,
    pub(super) clock: Clock,
    pub(super) sweeper: Condvar,
    pub(super) writer: Condvar,
    pub(super) checkpointer: Condvar,
    /// A write buffer may have capacity again, or may have lost its leader.
    pub(super) capacity_freed: Condvar,
    /// The thread that is closing the store.
    pub(super) closing_thread: Mutex<Option<ThreadId>>,
    /// The close is done.
    pub(super) close_finished: Condvar,
    /// The thread that runs the closure of a transaction.
    pub(super) in_transaction: InTransaction,
    /// Held for reading by every read of an engine without the core's lock.
    pub(super) engine_reads: RwLock<()>,
    pub(crate) subscribers: Subscribers,
    /// When a write has last looked whether the file has its name still, on running time.
    pub(super) name_checked_at: AtomicU64,
    /// Once it was asked for.
    store_id: OnceLock<StoreId>,
}

impl StoreInner {
    /// `floor` is the moment of the timeline at which the last run ended.
    pub(crate) fn new(mut core: Core, clock: Clock, floor: Option<u64>) -> Result<StoreInner> {
        let limit = if core.config.trust_wall { NEVER } else { core.config.wall_limit };
        let wall = clock.clone();
        core.wall = Wall::new(WallClock::new(limit, move || wall.wall()));
        core.start_timeline(floor, clock.wall())?;
        core.now.advance(clock.elapsed(), clock.running());
        core.begin_gates();
        core.end_lost_claims()?;
        let subscribers = Subscribers::new(&core.events.readers);
        Ok(StoreInner {
            core: CoreLock::new(core),
            home: HomeProcess::current(),
            clock,
            sweeper: Condvar::new(),
            writer: Condvar::new(),
            checkpointer: Condvar::new(),
            capacity_freed: Condvar::new(),
            closing_thread: Mutex::default(),
            close_finished: Condvar::new(),
            in_transaction: InTransaction::default(),
            engine_reads: RwLock::new(()),
            subscribers,
            name_checked_at: AtomicU64::new(0),
            store_id: OnceLock::new(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Refuses a fork of the process that has opened the store.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.home.is_here() { Ok(()) } else { Err(Error::Forked { opened_in: self.home.id() }) }
    }

    /// Refuses a call that may wait for a commit, inside a transaction.
    #[inline]
    pub(crate) fn check_outside_transaction(&self) -> Result<()> {
        if self.in_transaction.is_here() { Err(Error::InTransaction) } else { Ok(()) }
    }

    /// Runs a call on the core, then carries out its effects.
    pub(crate) fn run<T>(&self, call: impl FnOnce(&mut Core) -> T) -> T {
        let (core, answer) = self.run_guarded(self.lock(), call);
        self.unlock(core);
        answer
    }

    /// As `run`. If the call returns true, logs its edits too, under the same hold of the lock.
    /// Returns the record, which the caller writes; `None` if the edits wait for a commit.
    pub(crate) fn run_and_log(
        &self,
        call: impl FnOnce(&mut Core) -> Result<bool>,
    ) -> Result<Option<LoggedRecord>> {
        self.check_outside_transaction()?;
        let (mut core, ran) = self.run_guarded(self.lock(), call);
        let record = if ran == Ok(true) { core.log_to_journal() } else { None };
        self.unlock(core);
        ran.map(|_| record)
    }

    /// Makes a call. If its answer depends on a commit, returns after that commit.
    #[inline]
    pub(crate) fn make<V: Begin>(
        &self,
        buffer: Buffer,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<V::Answer> {
        let begun = if V::AT_ONCE {
            self.run(|core| core.begin_verb(on, verb))?.answer
        } else {
            let core = self.lock_with_space(V::KIND.space_in(buffer))?;
            if verb.refusal_waits() {
                self.call_locked(core, |core| core.make(on, verb, true))??
            } else {
                self.call_locked(core, |core| core.begin_verb(on, verb))?
            }
        };
        self.finish(V::begun(begun))
    }

    /// Blocks until the answer of a verb that has begun is there.
    #[inline]
    pub(crate) fn finish<T>(&self, begun: Begun<T>) -> Result<T> {
        match begun {
            Begun::Done(answer) => Ok(answer),
            Begun::Later(later) => self.wait_deferred(later.slot.wait()?),
        }
    }

    /// Decides a call. If its answer depends on a commit, returns after that commit. `space`: the write
    /// buffer that must have space first.
    pub(crate) fn call<T>(
        &self,
        space: Option<Buffer>,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<T> {
        let core = self.lock_with_space(space)?;
        self.call_locked(core, decide)
    }

    fn call_locked<T>(
        &self,
        core: MutexGuard<'_, Core>,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<T> {
        let (mut core, mut decided) = self.run_guarded(core, decide);
        self.core.note_decided(&decided);
        let mut lead = None;
        let (mut record, mut written) = (None, None);
        if let Ok(Decided { wait: Some(wait), .. }) = &mut decided {
            if let Wait::Write(_) = wait {
                record = core.log_to_journal();
                let buffer = &mut core.buffers[Buffer::File];
                if record.is_some() && buffer.needs_write {
                    // Others wait for a write: this one has their records.
                    written = buffer.take_write_batch();
                }
                if record.is_none() {
                    *wait = core.flush_of(Buffer::File);
                }
            }
            if let Wait::Flush(buffer, batch) = wait
                && request_commit_now(&mut core, *buffer, batch)
            {
                lead = Some(*buffer);
            }
        }
        match lead {
            // Under the same hold of the lock. The effects come after the flush: they may run user code
            // that waits for this very commit.
            Some(buffer) => self.lead_locked(core, buffer),
            None => self.unlock(core),
        }
        let Some(record) = record else { return self.wait(decided?) };
        // After the effects: a take does not wait for this write.
        let outcome = self.write_record(&record);
        if let Some(batch) = written {
            batch.0.finish(outcome.clone());
        }
        outcome?;
        Ok(decided?.answer)
    }

    /// Decides a call and leaves its commit to the writer thread.
    pub(super) fn decide_deferred<T>(
        &self,
        core: MutexGuard<'_, Core>,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Decided<T>> {
        self.check_outside_transaction()?;
        let (mut core, decided) = self.run_guarded(core, decide);
        self.core.note_decided(&decided);
        leave_to_writer(&mut core, decided.as_ref().ok().and_then(|it| it.wait.as_ref()));
        self.unlock(core);
        decided
    }

    /// Runs a call with a [`CallGuard`].
    pub(super) fn run_guarded<'a, T>(
        &'a self,
        core: MutexGuard<'a, Core>,
        call: impl FnOnce(&mut Core) -> T,
    ) -> (MutexGuard<'a, Core>, T) {
        let guard = CallGuard(self);
        // Moved, so that a panic releases the lock before the guard takes it.
        let mut core = core;
        let answer = call(&mut core);
        std::mem::forget(guard);
        (core, answer)
    }

    /// Waits for the commit that an answer depends on. Leads it if this caller is chosen.
    pub(crate) fn wait<T>(&self, decided: Decided<T>) -> Result<T> {
        if let Some(wait) = decided.wait {
            self.wait_batch(wait.buffer(), wait.batch())?;
        }
        Ok(decided.answer)
    }

    /// As `wait`, for a commit that was left to the writer thread: the caller leads it if no leader
    /// has begun it.
    pub(crate) fn wait_deferred<T>(&self, decided: Decided<T>) -> Result<T> {
        match &decided.wait {
            Some(wait) if wait.batch().outcome().is_some() => {}
            Some(_) if self.in_transaction.is_here() => {
                let why =
                    "the call was waited for inside a transaction, which its commit may wait for";
                return Err(Error::OutcomeUnknown { why: why.to_owned() });
            }
            Some(Wait::Flush(buffer, batch)) => {
                let mut core = self.lock();
                let lead = request_commit_now(&mut core, *buffer, batch);
                self.unlock(core);
                if lead {
                    self.lead(*buffer);
                }
            }
            Some(Wait::Write(batch)) => {
                let core = self.lock();
                if Arc::ptr_eq(core.buffers[Buffer::File].write_batch(), batch) {
                    self.write_deferred(core, true);
                }
            }
            None => {}
        }
        self.wait(decided)
    }

    pub(crate) fn wait_batch(&self, buffer: Buffer, batch: &Batch) -> Result<()> {
        loop {
            match batch.wait_or_lead() {
                Wakeup::Done(outcome) => return outcome,
                Wakeup::Lead => self.lead(buffer),
            }
        }
    }

    /// The id of the store, if it was asked for once while its file could be read.
    pub(crate) fn known_store_id(&self) -> Option<StoreId> {
        self.store_id.get().copied().or_else(|| {
            let id = self.run(Core::known_store_id).ok()??;
            Some(*self.store_id.get_or_init(|| id))
        })
    }

    /// Commits everything that is decided so far. Returns the number of the commit.
    pub(crate) fn flush(&self) -> Result<u64> {
        self.check_outside_transaction()?;
        self.flush_buffer(Buffer::File)
    }

    /// Commits everything that is decided so far in a write buffer. Returns the number of the commit.
    pub(super) fn flush_buffer(&self, buffer: Buffer) -> Result<u64> {
        let mut core = self.lock();
        core.check_open()?;
        let Some(batch) = last_batch(&core, buffer) else {
            return Ok(core.buffers[buffer].edits.last_commit());
        };
        let number = core.buffers[buffer].newest_commit();
        let lead = request_commit_now(&mut core, buffer, &batch);
        self.unlock(core);
        if lead {
            self.lead(buffer);
        }
        self.wait_batch(buffer, &batch)?;
        Ok(number)
    }

    /// Reads a row without the core's lock.
    pub(crate) fn read(&self, buffer: Buffer, table: Table, key: &[u8]) -> Result<Option<Value>> {
        self.with_engine(buffer, |engine| engine.snapshot()?.get(table, key))
    }

    /// Reads from an engine without the core's lock.
    pub(crate) fn with_engine<T>(
        &self,
        buffer: Buffer,
        read: impl FnOnce(&Engine) -> Result<T>,
    ) -> Result<T> {
        let found = {
            let _reading = self.engine_reads.read();
            let engine = self.engine(buffer)?;
            read(&engine)
        };
        self.report_failure(found)
    }

    /// Passes on the result of a read without the core's lock. If the storage has failed, the store
    /// fails too: an engine that has failed a read must be reopened before the next one.
    pub(crate) fn report_failure<T>(&self, found: Result<T>) -> Result<T> {
        if let Err(error) = &found
            && FailureCause::from(error) == FailureCause::Storage
        {
            self.run(|core| core.fail_with(error));
        }
        found
    }

    fn engine(&self, buffer: Buffer) -> Result<Arc<Engine>> {
        let core = self.core.lock();
        let engine = core.buffers[buffer].engine().cloned();
        engine.map_or_else(|| core.check_open().and(Err(Error::Closed)), Ok)
    }

    /// Does work without the lock. Returns how long it took too, in microseconds of running time.
    pub(super) fn timed<T>(&self, work: impl FnOnce() -> T) -> (T, u64) {
        let begun = self.clock.running();
        let done = work();
        (done, self.clock.running().saturating_sub(begun))
    }

    /// Locks the core and sets its time.
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        self.set_time(&mut core);
        core
    }

    pub(super) fn set_time(&self, core: &mut Core) {
        let elapsed = self.clock.elapsed();
        if self.clock.is_manual() || !core.now.advance_both(elapsed) {
            core.now.advance(elapsed, self.clock.running());
        }
    }

    /// Waits until a write buffer has capacity for more edits of the sweeper.
    pub(crate) fn wait_for_capacity(&self, buffer: Buffer) -> Result<()> {
        let core = self.lock_with_capacity(buffer, SWEEP_MAX_ACTIVE_ROWS)?;
        self.unlock(core);
        Ok(())
    }

    /// As `lock`, once this write buffer has space, if there is one that must have it.
    fn lock_with_space(&self, space: Option<Buffer>) -> Result<MutexGuard<'_, Core>> {
        match space {
            Some(buffer) => self.lock_with_capacity(buffer, usize::MAX),
            None => self.check_outside_transaction().map(|()| self.lock()),
        }
    }

    /// As `lock`, once the write buffer has capacity: fewer than `most` active rows.
    pub(super) fn lock_with_capacity(
        &self,
        buffer: Buffer,
        most: usize,
    ) -> Result<MutexGuard<'_, Core>> {
        self.check_outside_transaction()?;
        let mut core = self.lock();
        let mut is_blocked = false;
        while core.check_open().is_ok()
            && (core.buffer_is_full(buffer) || core.buffers[buffer].edits.active.len() >= most)
        {
            if !is_blocked {
                core.waits.block();
                is_blocked = true;
            }
            reclaim_lead(&mut core, buffer);
            if core.buffers[buffer].has_leader {
                self.capacity_freed.wait(&mut core);
                self.set_time(&mut core);
            } else {
                core.buffers[buffer].has_leader = true;
                self.unlock(core);
                self.lead(buffer);
                core = self.lock();
            }
        }
        if is_blocked {
            core.waits.unblock();
        }
        Ok(core)
    }

    /// Unlocks the core, and carries out its effects before and after.
    pub(super) fn unlock(&self, core: MutexGuard<'_, Core>) {
        drop(self.unlock_only(core));
    }

    /// Unlocks the core, and carries out the effects that need the lock before. Returns the others,
    /// which run when they are dropped.
    pub(super) fn unlock_only(&self, mut core: MutexGuard<'_, Core>) -> AfterUnlock {
        end_call(&mut core);
        if core.someone_waits_for_space() {
            serve_line(&mut core);
        }
        core.end_late_waits();
        let full = core.config.max_pending_rows / 2;
        for (buffer, most) in [(Buffer::File, full), (Buffer::Memory, MEMORY_COMMIT_ROWS.min(full))]
        {
            let buffer = &mut core.buffers[buffer];
            if buffer.edits.active.len() > most && !buffer.has_waiters {
                buffer.has_waiters = true;
                core.effects.call_writer = true;
            }
        }
        let effects = &mut core.effects;
        if !effects.events.is_empty() {
            let deeds = effects.after_unlock.deeds();
            self.subscribers.deliver(&mut effects.events, &mut deeds.callbacks, &mut deeds.wakers);
            effects.bytes_of_events = 0;
        }
        let calls_sweeper = std::mem::take(&mut core.effects.call_sweeper);
        if calls_sweeper || core.next_due() < core.threads.sweeper_wakes_at {
            core.threads.sweeper_wakes_at = 0;
            self.sweeper.notify_one();
        }
        if std::mem::take(&mut core.effects.call_writer) {
            self.writer.notify_one();
        }
        if std::mem::take(&mut core.effects.call_checkpointer) && !self.clock.is_manual() {
            self.checkpointer.notify_one();
        }
        if std::mem::take(&mut core.effects.capacity_freed) {
            self.capacity_freed.notify_all();
        }
        std::mem::take(&mut core.effects.after_unlock)
    }
}

/// The batch whose commit completes a flush; `None` if there is nothing to commit.
pub(super) fn last_batch(core: &Core, of: Buffer) -> Option<Arc<Batch>> {
    let buffer = &core.buffers[of];
    if buffer.is_dirty() || buffer.has_waiters {
        return Some(buffer.batch.clone());
    }
    buffer.in_flight_batch().cloned()
}

/// Stops the store if a call panics in the middle of a change, so that no caller waits for the rest
/// of it. Such a panic comes from a driver; most come before anything has changed, and then the
/// store continues.
struct CallGuard<'a>(&'a StoreInner);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.run(|core| {
            drop(core.fail_after_panic(String::new()));
        });
    }
}
