//! The store as its handles and threads share it: the core behind its lock, and the commit.
//!
//! Whoever needs a flush and finds nobody leading one leads it: moves the pending edits into
//! flight, commits them without the lock, and makes them visible. Whatever was decided meanwhile
//! goes into the next commit, whose leader is one of those who wait for it, or the writer thread
//! if nobody sleeps on it.

use std::sync::Arc;

use tubewell_drivers::{Reads, Table, Value};

use super::leadership::{reclaim_lead, request_commit, request_commit_now};
use crate::WhenFull;
use crate::clock::Clock;
use crate::commit::{Batch, Wakeup};
use crate::core::{AfterUnlock, Core, Decided, FILE, MEMORY};
use crate::events::Subscribers;
use crate::storage::{Engine, FailureCause};
use crate::sync::thread::ThreadId;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use crate::{Error, Result};

/// Edits of temporary tubes that wait before they are moved into their engine.
const MEMORY_STEP: usize = 2048;
/// The sweeper waits for a commit when so many rows are pending: callers share that commit, and
/// it is to be over in a few milliseconds.
pub(super) const SWEEP_PENDING: usize = 512;

/// An open store: the core behind its lock, the clock, and the condition variables of the threads.
pub(crate) struct StoreInner {
    pub(super) core: Mutex<Core>,
    pub(super) clock: Clock,
    pub(super) sweeper: Condvar,
    pub(super) writer: Condvar,
    /// There is room in a lane, or nobody leads it any more.
    pub(super) room: Condvar,
    /// Who closes the store, as long as that takes.
    pub(super) closing: Mutex<Option<ThreadId>>,
    /// It is closed.
    pub(super) gone: Condvar,
    /// Held for reading by those who read an engine without the core's lock.
    pub(super) reading: RwLock<()>,
    pub(crate) subscribers: Subscribers,
}

impl StoreInner {
    /// `floor` is where the last life left the time line.
    pub(crate) fn new(mut core: Core, clock: Clock, floor: Option<u64>) -> Result<StoreInner> {
        core.begin_timeline(floor, clock.wall())?;
        core.now.go_on(clock.elapsed(), clock.running());
        Ok(StoreInner {
            core: Mutex::new(core),
            clock,
            sweeper: Condvar::new(),
            writer: Condvar::new(),
            room: Condvar::new(),
            closing: Mutex::default(),
            gone: Condvar::new(),
            reading: RwLock::new(()),
            subscribers: Subscribers::default(),
        })
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Runs a call on the core, then does what it left in the outbox.
    pub(crate) fn run<T>(&self, call: impl FnOnce(&mut Core) -> T) -> T {
        let (core, answer) = self.decide(self.enter(), call);
        self.leave(core);
        answer
    }

    /// Decides a call and, if its answer waits for a commit, returns after that.
    pub(crate) fn call<T>(
        &self,
        buffer: usize,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<T> {
        let core = self.enter_with_capacity(buffer, WhenFull::Block, usize::MAX)?;
        let (mut core, decided) = self.decide(core, decide);
        let mut lead = None;
        if let Ok(Decided { wait: Some((buffer, batch)), .. }) = &decided
            && request_commit_now(&mut core, *buffer, batch)
        {
            lead = Some(*buffer);
        }
        let after_unlock = self.unlock(core);
        // First: an errand may be others' code, and wait for the very commit that is led here.
        if let Some(buffer) = lead {
            self.lead(buffer);
        }
        drop(after_unlock);
        self.wait(decided?)
    }

    /// Decides a call whose caller comes for the answer later, or not at all.
    pub(crate) fn defer<T>(
        &self,
        buffer: usize,
        when_full: WhenFull,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Decided<T>> {
        let core = self.enter_with_capacity(buffer, when_full, usize::MAX)?;
        self.decide_deferred(core, decide)
    }

    /// Decides a call and leaves its commit to the writer thread.
    pub(super) fn decide_deferred<T>(
        &self,
        core: MutexGuard<'_, Core>,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Decided<T>> {
        let (mut core, decided) = self.decide(core, decide);
        if let Ok(Decided { wait: Some((buffer, batch)), .. }) = &decided
            && request_commit(&mut core, *buffer, batch)
        {
            core.buffers[*buffer].has_leader = false;
            core.effects.call_writer = true;
        }
        self.leave(core);
        decided
    }

    fn decide<'a, T>(
        &'a self,
        core: MutexGuard<'a, Core>,
        call: impl FnOnce(&mut Core) -> T,
    ) -> (MutexGuard<'a, Core>, T) {
        let tripwire = CallGuard(self);
        // Moved, so that a panic unlocks before the tripwire strikes.
        let mut core = core;
        let answer = call(&mut core);
        std::mem::forget(tripwire);
        (core, answer)
    }

    /// Waits for the commit that an answer depends on, leading it if that is this caller's turn.
    pub(crate) fn wait<T>(&self, decided: Decided<T>) -> Result<T> {
        if let Some((buffer, batch)) = decided.wait {
            self.wait_batch(buffer, &batch)?;
        }
        Ok(decided.answer)
    }

    /// As `wait`, for an answer that was left to the writer thread: whoever comes for it leads the
    /// commit if nobody has begun to.
    pub(crate) fn wait_deferred<T>(&self, decided: Decided<T>) -> Result<T> {
        if let Some((buffer, batch)) = &decided.wait
            && batch.outcome().is_none()
        {
            let mut core = self.enter();
            let lead = request_commit_now(&mut core, *buffer, batch);
            self.leave(core);
            if lead {
                self.lead(*buffer);
            }
        }
        self.wait(decided)
    }

    pub(crate) fn wait_batch(&self, buffer: usize, batch: &Batch) -> Result<()> {
        loop {
            match batch.wait_or_lead() {
                Wakeup::Done(outcome) => return outcome,
                Wakeup::Lead => self.lead(buffer),
            }
        }
    }

    /// Commits all that is decided so far; answers with the number of the commit.
    pub(crate) fn flush(&self) -> Result<u64> {
        let mut core = self.enter();
        core.check_open()?;
        let Some(batch) = last_batch(&core) else {
            return Ok(core.buffers[FILE].batch.number.saturating_sub(1));
        };
        let lead = request_commit_now(&mut core, FILE, &batch);
        self.leave(core);
        if lead {
            self.lead(FILE);
        }
        self.wait_batch(FILE, &batch)?;
        Ok(batch.number)
    }

    /// Reads a row without the core's lock.
    pub(crate) fn read(&self, buffer: usize, table: Table, key: &[u8]) -> Result<Option<Value>> {
        self.with_engine(buffer, |engine| engine.snapshot()?.get(table, key))
    }

    /// The engine, for as long as the answer is used.
    pub(crate) fn with_engine<T>(
        &self,
        buffer: usize,
        read: impl FnOnce(&Engine) -> Result<T>,
    ) -> Result<T> {
        let found = {
            let _reading = self.reading.read();
            let engine = self.engine(buffer)?;
            read(&engine)
        };
        self.report_failure(found)
    }

    /// An answer that came from the engine without the core's lock: if the storage has failed, the
    /// core learns it. An engine that could not read once reads no more, and is to be reopened.
    pub(crate) fn report_failure<T>(&self, found: Result<T>) -> Result<T> {
        if let Err(error) = &found
            && FailureCause::from(error) == FailureCause::Storage
        {
            self.run(|core| core.fail_with(error));
        }
        found
    }

    fn engine(&self, buffer: usize) -> Result<Arc<Engine>> {
        let core = self.core.lock();
        let engine = core.buffers[buffer].engine().cloned();
        engine.map_or_else(|| core.check_open().and(Err(Error::Closed)), Ok)
    }

    /// Locks the core and tells it the time.
    pub(super) fn enter(&self) -> MutexGuard<'_, Core> {
        let mut core = self.core.lock();
        self.set_time(&mut core);
        core
    }

    pub(super) fn set_time(&self, core: &mut Core) {
        core.now.go_on(self.clock.elapsed(), self.clock.running());
    }

    /// Waits until a lane has room for more of what the clock does.
    pub(crate) fn wait_for_capacity(&self, buffer: usize) -> Result<()> {
        let core = self.enter_with_capacity(buffer, WhenFull::Block, SWEEP_PENDING)?;
        self.leave(core);
        Ok(())
    }

    /// As `enter`, once the lane has room for more edits: less than `most` rows wait in it.
    pub(super) fn enter_with_capacity(
        &self,
        buffer: usize,
        when_full: WhenFull,
        most: usize,
    ) -> Result<MutexGuard<'_, Core>> {
        let mut core = self.enter();
        while core.check_open().is_ok()
            && (core.buffer_is_full(buffer) || core.buffers[buffer].active.len() >= most)
        {
            if when_full == WhenFull::Refuse {
                core.buffers[buffer].has_waiters = true;
                core.effects.call_writer = true;
                self.leave(core);
                return Err(Error::Overloaded);
            }
            reclaim_lead(&mut core, buffer);
            if core.buffers[buffer].has_leader {
                core.blocked_callers += 1;
                self.room.wait(&mut core);
                core.blocked_callers -= 1;
                self.set_time(&mut core);
            } else {
                core.buffers[buffer].has_leader = true;
                self.leave(core);
                self.lead(buffer);
                core = self.enter();
            }
        }
        Ok(core)
    }

    /// Unlocks the core; before and after, does what it left to be done.
    pub(super) fn leave(&self, core: MutexGuard<'_, Core>) {
        drop(self.unlock(core));
    }

    /// Unlocks the core; before that, does what it left to be done under the lock.
    pub(super) fn unlock(&self, mut core: MutexGuard<'_, Core>) -> AfterUnlock {
        for number in [FILE, MEMORY] {
            let buffer = &mut core.buffers[number];
            buffer.end_call();
            if let Some(error) = buffer.broken.take() {
                core.fail_with(&error);
            }
        }
        let full = core.config.max_pending_rows / 2;
        for (buffer, most) in [(FILE, full), (MEMORY, MEMORY_STEP.min(full))] {
            let buffer = &mut core.buffers[buffer];
            if buffer.active.len() > most && !buffer.has_waiters {
                buffer.has_waiters = true;
                core.effects.call_writer = true;
            }
        }
        let effects = &mut core.effects;
        if !effects.events.is_empty() {
            let AfterUnlock { callbacks, wakers, .. } = &mut effects.after_unlock;
            core.has_subscribers = self.subscribers.deliver(&mut effects.events, callbacks, wakers);
        }
        if core.next_due() < core.sweeper_wakes {
            core.sweeper_wakes = 0;
            self.sweeper.notify_one();
        }
        if std::mem::take(&mut core.effects.call_writer) {
            self.writer.notify_one();
        }
        if std::mem::take(&mut core.effects.room) {
            self.room.notify_all();
        }
        core.serve_capacity();
        std::mem::take(&mut core.effects.after_unlock)
    }
}

/// The batch whose commit completes a flush; `None` if there is nothing to commit.
pub(super) fn last_batch(core: &Core) -> Option<Arc<Batch>> {
    let buffer = &core.buffers[FILE];
    if buffer.is_dirty() || buffer.has_waiters {
        return Some(buffer.batch.clone());
    }
    buffer.in_flight_batch().cloned()
}

/// Strikes if a call panics. Drivers are to blame, and mostly before anything has changed; but
/// nobody must wait for what a change that was broken off has left undone.
struct CallGuard<'a>(&'a StoreInner);

impl Drop for CallGuard<'_> {
    fn drop(&mut self) {
        self.0.run(|core| {
            if core.edits_in_progress > 0 {
                core.fail("a change was broken off by a defect", FailureCause::Defect);
            }
        });
    }
}
