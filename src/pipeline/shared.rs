//! The store as its handles and threads share it: the core behind its lock, and the commit.
//!
//! Whoever needs a flush and finds nobody leading one leads it: moves the pending edits into
//! flight, commits them without the lock, and makes them visible. Whatever was decided meanwhile
//! goes into the next commit, whose leader is one of those who wait for it, or the writer thread
//! if nobody sleeps on it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{NEVER, Reads, Table, Value};

use super::Woken;
use super::batch::Batch;
use super::lead::{next_work, recall, want, want_now};
use crate::clock::{Clock, Ticked};
use crate::core::{Cause, Core, Decided, Errands, FILE, MEMORY};
use crate::events::Listeners;
use crate::storage::Engine;
use crate::sync::thread::ThreadId;
use crate::sync::{Condvar, Mutex, MutexGuard, RwLock};
use crate::{Error, Result};

/// Edits of temporary tubes that wait before they are moved into their engine.
const MEMORY_STEP: usize = 2048;
/// What the sweeper does under one hold of the lock.
const SWEEP_STEP: usize = 64;
/// The sweeper waits for a commit when so many rows are pending: callers share that commit, and
/// it is to be over in a few milliseconds.
const SWEEP_PENDING: usize = 512;
/// The sweeper looks at the clock this often even if nothing is due: clocks are set, machines
/// sleep.
const LONGEST_SLEEP: Duration = Duration::from_secs(30);

/// Whether a call may be held up by a full lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    Block,
    Refuse,
}

pub(crate) struct Shared {
    pub(super) core: Mutex<Core>,
    clock: Clock,
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
    pub(crate) listeners: Listeners,
}

impl Shared {
    /// `floor` is where the last life left the time line.
    pub(crate) fn new(mut core: Core, clock: Clock, floor: Option<u64>) -> Result<Shared> {
        core.begin_line(floor, clock.wall())?;
        core.now.go_on(clock.elapsed(), clock.running());
        Ok(Shared {
            core: Mutex::new(core),
            clock,
            sweeper: Condvar::new(),
            writer: Condvar::new(),
            room: Condvar::new(),
            closing: Mutex::default(),
            gone: Condvar::new(),
            reading: RwLock::new(()),
            listeners: Listeners::default(),
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
        lane: usize,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<T> {
        let core = self.enter_with_room(lane, Patience::Block, usize::MAX)?;
        let (mut core, decided) = self.decide(core, decide);
        let mut lead = None;
        if let Ok(Decided { wait: Some((lane, batch)), .. }) = &decided
            && want_now(&mut core, *lane, batch)
        {
            lead = Some(*lane);
        }
        let errands = self.unlock(core);
        // First: an errand may be others' code, and wait for the very commit that is led here.
        if let Some(lane) = lead {
            self.lead(lane);
        }
        drop(errands);
        self.wait(decided?)
    }

    /// Decides a call whose caller comes for the answer later, or not at all.
    pub(crate) fn defer<T>(
        &self,
        lane: usize,
        patience: Patience,
        decide: impl FnOnce(&mut Core) -> Result<Decided<T>>,
    ) -> Result<Decided<T>> {
        let core = self.enter_with_room(lane, patience, usize::MAX)?;
        let (mut core, decided) = self.decide(core, decide);
        if let Ok(Decided { wait: Some((lane, batch)), .. }) = &decided
            && want(&mut core, *lane, batch)
        {
            core.lanes[*lane].led = false;
            core.outbox.call_writer = true;
        }
        self.leave(core);
        decided
    }

    fn decide<'a, T>(
        &'a self,
        core: MutexGuard<'a, Core>,
        call: impl FnOnce(&mut Core) -> T,
    ) -> (MutexGuard<'a, Core>, T) {
        let tripwire = Tripwire(self);
        // Moved, so that a panic unlocks before the tripwire strikes.
        let mut core = core;
        let answer = call(&mut core);
        std::mem::forget(tripwire);
        (core, answer)
    }

    /// Waits for the commit that an answer depends on, leading it if that is this caller's turn.
    pub(crate) fn wait<T>(&self, decided: Decided<T>) -> Result<T> {
        if let Some((lane, batch)) = decided.wait {
            self.wait_batch(lane, &batch)?;
        }
        Ok(decided.answer)
    }

    /// As `wait`, for an answer that was left to the writer thread: whoever comes for it leads the
    /// commit if nobody has begun to.
    pub(crate) fn come_for<T>(&self, decided: Decided<T>) -> Result<T> {
        if let Some((lane, batch)) = &decided.wait
            && batch.outcome().is_none()
        {
            let mut core = self.enter();
            let lead = want_now(&mut core, *lane, batch);
            self.leave(core);
            if lead {
                self.lead(*lane);
            }
        }
        self.wait(decided)
    }

    pub(crate) fn wait_batch(&self, lane: usize, batch: &Batch) -> Result<()> {
        loop {
            match batch.wait_or_lead() {
                Woken::Done(outcome) => return outcome,
                Woken::Lead => self.lead(lane),
            }
        }
    }

    /// Commits all that is decided so far; answers with the number of the commit.
    pub(crate) fn flush(&self) -> Result<u64> {
        let mut core = self.enter();
        core.check_open()?;
        let lane = &mut core.lanes[FILE];
        let batch = if lane.is_dirty() || lane.wanted {
            lane.batch.clone()
        } else {
            match lane.flying() {
                Some(batch) => batch.clone(),
                None => return Ok(lane.batch.number.saturating_sub(1)),
            }
        };
        let lead = want_now(&mut core, FILE, &batch);
        self.leave(core);
        if lead {
            self.lead(FILE);
        }
        self.wait_batch(FILE, &batch)?;
        Ok(batch.number)
    }

    /// Reads a row without the core's lock.
    pub(crate) fn read(&self, lane: usize, table: Table, key: &[u8]) -> Result<Option<Value>> {
        self.with_engine(lane, |engine| engine.snapshot()?.get(table, key))
    }

    /// The engine, for as long as the answer is used.
    pub(crate) fn with_engine<T>(
        &self,
        lane: usize,
        read: impl FnOnce(&Engine) -> Result<T>,
    ) -> Result<T> {
        let found = {
            let _reading = self.reading.read();
            let engine = self.engine(lane)?;
            read(&engine)
        };
        self.noted(found)
    }

    /// An answer that came from the engine without the core's lock: if the storage has failed, the
    /// core learns it. An engine that could not read once reads no more, and is to be reopened.
    pub(crate) fn noted<T>(&self, found: Result<T>) -> Result<T> {
        if let Err(error) = &found
            && Cause::from(error) == Cause::Storage
        {
            self.run(|core| core.fail_with(error));
        }
        found
    }

    fn engine(&self, lane: usize) -> Result<Arc<Engine>> {
        let core = self.core.lock();
        let engine = core.lanes[lane].engine().cloned();
        engine.map_or_else(|| core.check_open().and(Err(Error::Closed)), Ok)
    }

    /// The loop of the sweeper thread.
    pub(crate) fn sweep_on(&self) {
        loop {
            if self.sweep_step() {
                continue;
            }
            let mut core = self.enter();
            if core.closed {
                return;
            }
            let now = core.now.running;
            let due = core.next_due();
            let sleep = crate::clock::duration(due.saturating_sub(now)).min(LONGEST_SLEEP);
            if !sleep.is_zero() {
                core.sweeper_wakes = now.saturating_add(crate::clock::micros_ceil(sleep));
                self.sweeper.wait_for(&mut core, sleep);
                core.sweeper_wakes = 0;
            }
            drop(core);
        }
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
    pub(crate) fn make_room(&self, lane: usize) -> Result<()> {
        let core = self.enter_with_room(lane, Patience::Block, SWEEP_PENDING)?;
        self.leave(core);
        Ok(())
    }

    /// As `enter`, once the lane has room for more edits: less than `most` rows wait in it.
    fn enter_with_room(
        &self,
        lane: usize,
        patience: Patience,
        most: usize,
    ) -> Result<MutexGuard<'_, Core>> {
        let mut core = self.enter();
        while core.check_open().is_ok()
            && (core.lane_is_full(lane) || core.lanes[lane].pending.len() >= most)
        {
            if patience == Patience::Refuse {
                core.lanes[lane].wanted = true;
                core.outbox.call_writer = true;
                self.leave(core);
                return Err(Error::Overloaded);
            }
            recall(&mut core, lane);
            if core.lanes[lane].led {
                core.held_up += 1;
                self.room.wait(&mut core);
                core.held_up -= 1;
                self.set_time(&mut core);
            } else {
                core.lanes[lane].led = true;
                self.leave(core);
                self.lead(lane);
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
    fn unlock(&self, mut core: MutexGuard<'_, Core>) -> Errands {
        for number in [FILE, MEMORY] {
            let lane = &mut core.lanes[number];
            lane.end_call();
            if let Some(error) = lane.broken.take() {
                core.fail_with(&error);
            }
        }
        let full = core.config.max_pending_rows / 2;
        for (lane, most) in [(FILE, full), (MEMORY, MEMORY_STEP.min(full))] {
            let lane = &mut core.lanes[lane];
            if lane.pending.len() > most && !lane.wanted {
                lane.wanted = true;
                core.outbox.call_writer = true;
            }
        }
        let outbox = &mut core.outbox;
        if !outbox.events.is_empty() {
            core.listened = self.listeners.tell(&mut outbox.events, &mut outbox.errands.callbacks);
        }
        if core.next_due() < core.sweeper_wakes {
            core.sweeper_wakes = 0;
            self.sweeper.notify_one();
        }
        if std::mem::take(&mut core.outbox.call_writer) {
            self.writer.notify_one();
        }
        if std::mem::take(&mut core.outbox.room) {
            self.room.notify_all();
        }
        std::mem::take(&mut core.outbox.errands)
    }

    /// As `leave`. A manual clock has everything done on the thread that moves it, and so always in
    /// the same order: what the writer thread would lead is led here, before it can come by. True
    /// if there was something.
    pub(super) fn leave_and_lead(&self, mut core: MutexGuard<'_, Core>) -> bool {
        let mut work = None;
        if self.clock.is_manual() && core.check_open().is_ok() {
            core.outbox.call_writer = false;
            work = next_work(&mut core, true);
        }
        let errands = self.unlock(core);
        if let Some(work) = work {
            self.perform(work);
        }
        drop(errands);
        work.is_some()
    }

    /// Sweeps until nothing is due.
    pub(crate) fn catch_up(&self) -> Result<()> {
        while self.sweep_step() {}
        self.enter().check_open()
    }

    /// Sweeps a little; true if more is due. The sweeper does not die: what goes wrong stops the
    /// store and is told to everyone.
    fn sweep_step(&self) -> bool {
        let Ok(mut core) = self.enter_with_room(FILE, Patience::Block, SWEEP_PENDING) else {
            return false;
        };
        if core.failed.is_some() {
            drop(core);
            return self.revive(false);
        }
        let swept = catch_unwind(AssertUnwindSafe(|| core.sweep(SWEEP_STEP)));
        let more = match swept {
            Ok(Ok(more)) => more,
            Ok(Err(error)) => {
                core.fail_with(&error);
                false
            }
            Err(_) => {
                core.fail("the sweeper met a defect of its own", Cause::Defect);
                false
            }
        };
        self.leave_and_lead(core) || more
    }
}

/// Strikes if a call panics. Drivers are to blame, and mostly before anything has changed; but
/// nobody must wait for what a change that was broken off has left undone.
struct Tripwire<'a>(&'a Shared);

impl Drop for Tripwire<'_> {
    fn drop(&mut self) {
        self.0.run(|core| {
            if core.halfway > 0 {
                core.fail("a change was broken off by a defect", Cause::Defect);
            }
        });
    }
}

impl Ticked for Shared {
    fn next_due(&self) -> Option<u64> {
        let core = self.enter();
        let idle = core.failed.is_none() && core.lanes.iter().all(|lane| !lane.led);
        let due = match &*core {
            core if core.closed => NEVER,
            core if core.has_dying() && idle => 0,
            core => core.next_due(),
        };
        (due != NEVER).then(|| due.max(core.now.running))
    }

    fn sweep_due(&self) {
        while self.sweep_step() {}
        // Whoever moves the clock sees what fell due done, flushes included, whoever leads them.
        for lane in [FILE, MEMORY] {
            let mut core = self.enter();
            let wanted = core.lanes[lane].wanted && core.check_open().is_ok();
            let known = &core.lanes[lane];
            let batch = if wanted { Some(&known.batch) } else { known.flying() }.cloned();
            let lead = wanted && batch.as_ref().is_some_and(|it| want_now(&mut core, lane, it));
            let errands = self.unlock(core);
            if lead {
                self.lead(lane);
            }
            drop(errands);
            if let Some(batch) = batch {
                // A failure is told to those whose calls it concerns.
                let _ = self.wait_batch(lane, &batch);
            }
        }
    }
}
