//! The state of an open store, and what every operation needs of it.
//!
//! The callers hold the store's lock.

#[cfg(debug_assertions)]
use std::cell::Cell;
use std::collections::BTreeSet;

use tubewell_drivers::{Ledger, NEVER};

use super::IdleState;
use super::all_gates::AllGates;
use super::buffers::{Buffer, PerBuffer};
use super::chores::Chores;
use super::claims::Claims;
use super::config::Config;
use super::days::Counted;
use super::decided::{Decided, Wait};
use super::effects::Effects;
use super::events::Events;
use super::health::Health;
use super::ids::Ids;
use super::now::{Now, Timer};
use super::publishing::Publishing;
use super::schedules::Schedules;
use super::sessions::Sessions;
use super::threads::Threads;
use super::tube::TubeState;
use super::tubes::Tubes;
use super::undo::Undo;
use super::waits::Waits;
use super::wall::Wall;
use super::wall_clock::Clocks;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility, WriteBuffer};
use crate::{Durability, Error, Receipt, Result, TaskState};

/// The state machine of an open store.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) now: Now,
    pub(crate) wall: Wall,
    pub(crate) buffers: PerBuffer<WriteBuffer>,
    pub(crate) tubes: Tubes,
    pub(in crate::core) chores: Chores,
    pub(in crate::core) claims: Claims,
    pub(in crate::core) gates: AllGates,
    pub(in crate::core) sessions: Sessions,
    pub(crate) waits: Waits<Core>,
    pub(in crate::core) timers: BTreeSet<(u64, Timer)>,
    pub(in crate::core) publishing: Publishing,
    pub(crate) ids: Ids,
    pub(crate) events: Events,
    pub(in crate::core) schedules: Schedules,
    /// How many tubes, waits and the like the loops of calls have looked at. Tests of costs ask for it.
    #[cfg(debug_assertions)]
    pub(in crate::core) visits: Cell<u64>,
    pub(crate) health: Health,
    pub(crate) effects: Effects,
    pub(in crate::core) idle: IdleState,
    pub(crate) undo: Undo,
    pub(crate) threads: Threads,
}

impl Core {
    pub(crate) fn tube(&self, number: TubeNo, name: &str) -> Result<&TubeState> {
        self.check_open()?;
        self.tubes.get(number).ok_or_else(|| Error::TubeDropped { name: name.into() })
    }

    /// Returns an error if the store is closed or its storage has failed.
    #[inline]
    pub(crate) fn check_open(&self) -> Result<()> {
        if self.health.is_closed() { Err(Error::Closed) } else { self.health.check() }
    }

    /// A loop looks at an element.
    #[inline]
    pub(in crate::core) fn visit(&self) {
        #[cfg(debug_assertions)]
        self.visits.set(self.visits.get() + 1);
    }

    /// How many elements the loops of calls have looked at.
    #[cfg(debug_assertions)]
    pub(crate) fn visits(&self) -> u64 {
        self.visits.get()
    }

    /// The write buffer that has the rows of a tube.
    pub(crate) fn buffer_of(&self, number: TubeNo) -> Buffer {
        self.tubes.get(number).map_or(Buffer::File, |tube| tube.buffer)
    }

    /// The ledger of a tube.
    pub(in crate::core) fn ledger<'a>(
        buffers: &'a mut PerBuffer<WriteBuffer>,
        tube: &'a mut TubeState,
    ) -> Ledger<'a, WriteBuffer> {
        Ledger {
            rows: &mut buffers[tube.buffer],
            space: tube.definition.space,
            sub_queued: tube.definition.sub_queued,
            counts: &mut tube.counts,
            head_cache: &mut tube.head_cache,
            earliest_due: NEVER,
            earliest_moment: NEVER,
            edge_changes: Vec::new(),
        }
    }

    /// Runs edits on the ledger of a tube, and notes changed counts and new dues.
    pub(crate) fn edit<T>(
        &mut self,
        number: TubeNo,
        edits: impl FnOnce(&mut Ledger<'_, WriteBuffer>) -> Result<T>,
    ) -> Result<T> {
        let tube = self.tubes.get_mut(number).ok_or(Error::Closed)?;
        let buffer = tube.buffer;
        let before = tube.counts;
        let mut ledger = Core::ledger(&mut self.buffers, tube);
        let answer = edits(&mut ledger);
        let (due, moment) = (ledger.earliest_due, ledger.earliest_moment);
        let edge_changes = ledger.edge_changes;
        if tube.counts != before {
            self.buffers[buffer].dirty_counts.insert(number);
        }
        self.buffers[buffer].include_dues(due, moment);
        if !edge_changes.is_empty() {
            self.count_edges(edge_changes);
        }
        answer
    }

    /// When changes that a caller makes in this tube become visible.
    pub(in crate::core) fn visibility(&self, number: TubeNo) -> Visibility {
        let Some(tube) = self.tubes.get(number) else { return Visibility::Memory };
        match (tube.buffer, tube.durability) {
            (Buffer::Memory, _) => Visibility::Memory,
            (_, Durability::Flush) => Visibility::Flushed,
            (_, Durability::Write { flush_within }) => {
                Visibility::Written(crate::base::micros::micros_ceil(flush_within))
            }
            (_, Durability::Relaxed { max_delay }) => {
                Visibility::Within(crate::base::micros::micros_ceil(max_delay))
            }
        }
    }

    /// The answer to a call that made edits of this tube.
    pub(in crate::core) fn decided<T>(
        &mut self,
        number: TubeNo,
        visibility: Visibility,
        answer: impl FnOnce(u64) -> T,
    ) -> Decided<T> {
        let buffer = self.buffer_of(number);
        // A caller must not learn an id before the file records that it is used up.
        let id_at_risk = self.ids.are_at_risk_below(self.ids.next());
        let wait = match visibility {
            Visibility::Flushed => Some(self.flush_of(buffer)),
            _ if id_at_risk => Some(self.flush_of(Buffer::File)),
            Visibility::Written(_) => Some(self.write_of(buffer)),
            Visibility::Memory | Visibility::Within(_) => None,
        };
        Decided { answer: answer(self.buffers[buffer].edits.next_commit()), wait }
    }

    /// A wait for the write of everything that is decided so far: for its flush if there is no
    /// journal.
    pub(in crate::core) fn write_of(&self, buffer: Buffer) -> Wait {
        if self.buffers[Buffer::File].journal().is_none() {
            return self.flush_of(buffer);
        }
        Wait::Write(self.buffers[Buffer::File].write_batch().clone())
    }

    /// A wait for the flush of everything that is decided so far.
    pub(crate) fn flush_of(&self, buffer: Buffer) -> Wait {
        Wait::Flush(buffer, self.buffers[buffer].batch.clone())
    }

    /// The answer to a call that changed memory only. It names a commit that no crash loses.
    pub(in crate::core) fn memory_receipt(
        &self,
        number: TubeNo,
        id: u64,
        state: TaskState,
    ) -> Receipt {
        let buffer = self.buffer_of(number);
        Receipt { id, state, commit: self.buffers[buffer].edits.flushed_commit() }
    }

    /// The batch of the task's last change, if that is not yet visible. No caller may learn the
    /// state of the task before this batch is in the file.
    pub(in crate::core) fn batch_of_last_change(&self, number: TubeNo, id: u64) -> Option<Wait> {
        let last = self.publishing.last_flush(id)?;
        let buffer = self.tubes.get(number)?.buffer;
        let in_flight_batch =
            self.buffers[buffer].in_flight_batch().filter(|batch| batch.flush == last);
        let batch = in_flight_batch.unwrap_or(&self.buffers[buffer].batch);
        Some(Wait::Flush(buffer, batch.clone()))
    }

    /// An answer that depends on the state of a task: returned once that state is in the file.
    pub(crate) fn once_visible<T>(&self, number: TubeNo, id: u64, answer: T) -> Decided<T> {
        Decided { answer, wait: self.batch_of_last_change(number, id) }
    }

    /// Makes a change visible, now or with its commit.
    pub(in crate::core) fn make_visible(&mut self, mut change: Change, visibility: Visibility) {
        let Some(tube) = self.tubes.get(change.tube) else { return };
        let of = tube.buffer;
        if tube.days.is_some() && change.is_put() {
            self.count(change.tube, Counted::Put);
        }
        self.schedule_flush(of, visibility);
        let buffer = &mut self.buffers[of];
        if visibility == Visibility::Flushed {
            self.publishing.add(change.id, buffer.batch.flush);
            return buffer.changes.push(change);
        }
        match self.publishing.add_behind(change.id) {
            // The changes of a task become visible in order.
            Some(last) if last == buffer.batch.flush => buffer.changes.push(change),
            Some(_) => buffer.changes_in_flight.push(change),
            None => {
                self.waits.watches.set_end_is_written(matches!(visibility, Visibility::Written(_)));
                self.publish(&mut change);
                self.waits.watches.set_end_is_written(false);
            }
        }
    }

    /// Whether there are changes that are visible after a flush only.
    pub(crate) fn has_invisible_changes(&self) -> bool {
        !self.publishing.is_all_visible()
    }

    /// Sets the timer of the flush of changes that are visible before it.
    pub(in crate::core) fn schedule_flush(&mut self, of: Buffer, visibility: Visibility) {
        let (Visibility::Within(delay) | Visibility::Written(delay)) = visibility else { return };
        let flush_by = self.now.running.saturating_add(delay);
        let buffer = &mut self.buffers[of];
        if buffer.flush_by.is_none_or(|old| flush_by < old) {
            if let Some(old) = buffer.flush_by.replace(flush_by) {
                self.timers.remove(&(old, Timer::Flush(of)));
            }
            self.timers.insert((flush_by, Timer::Flush(of)));
        }
    }

    /// The earliest moment, on running time, at which something is due.
    pub(crate) fn next_due(&self) -> u64 {
        if self.health.has_failed() {
            return self.retry_at().unwrap_or(NEVER);
        }
        let (gate_on_timeline, gate) = self.gates.alarms.first();
        let (sub_queue_on_timeline, sub_queue) = self.gates.sub_queue_alarms.first();
        let timer = self.timers.first().map_or(NEVER, |(due, _)| *due).min(gate).min(sub_queue);
        let earliest = self.buffers.iter().map(|buffer| buffer.dues.earliest).min();
        let holds = self.config.hold_due;
        let timeline = earliest.filter(|_| !holds).unwrap_or(NEVER);
        let timer = if holds { timer } else { timer.min(self.next_moment()) };
        let timer = if self.must_realign() { self.now.running } else { timer };
        let timeline =
            self.claims.first_parked().map_or(timeline, |(until, _)| timeline.min(until));
        let timeline = timeline.min(gate_on_timeline).min(sub_queue_on_timeline);
        if timeline == NEVER {
            return timer;
        }
        timer.min(self.now.running.saturating_add(timeline.saturating_sub(self.now.timeline)))
    }

    /// The clocks by which tasks become ready.
    pub(in crate::core) fn clocks(&self) -> Clocks<'_> {
        Clocks { now: self.now.timeline, wall: self.wall.clock() }
    }

    /// When the next moment for which tasks wait comes, on running time. Reads the wall clock only
    /// if there is one.
    fn next_moment(&self) -> u64 {
        let earliest = self.buffers.iter().map(|buffer| buffer.moments.earliest).min();
        let moment = earliest.filter(|moment| *moment != NEVER);
        moment.map_or(NEVER, |moment| self.now.running.saturating_add(self.clocks().until(moment)))
    }

    /// Whether a write buffer has as many edits as one commit may hold.
    pub(crate) fn buffer_is_full(&self, buffer: Buffer) -> bool {
        let active = &self.buffers[buffer].edits.active;
        active.len() >= self.config.max_pending_rows
            || active.bytes() >= self.config.max_pending_bytes
    }

    /// Removes the flush timer of a write buffer whose flush begins.
    pub(crate) fn cancel_flush_timer(&mut self, buffer: Buffer) {
        if let Some(by) = self.buffers[buffer].flush_by {
            self.timers.remove(&(by, Timer::Flush(buffer)));
        }
    }
}
