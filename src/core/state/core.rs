//! The state of an open store, and what every verb needs of it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use tubewell_drivers::{Driver, Ledger, NEVER};

use super::IdleState;
use super::claims::{ClaimState, SessionState};
use super::config::Config;
use super::decided::Decided;
use super::effects::Effects;
use super::outage::Outage;
use super::time::{Now, Timer};
use super::tube::TubeState;
use super::waits::{CapacityQueue, WaitingTake};
use crate::commit::{Batch, Change, Visibility, WriteBuffer};
use crate::id_map::IdMap;
use crate::{Durability, Error, Receipt, Result, SessionId, State};

/// The lane of the file.
pub(crate) const FILE: usize = 0;
/// The lane of the temporary tubes.
pub(crate) const MEMORY: usize = 1;

/// How the ids stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) next: u64,
    /// Ids below are never given again, whatever happens: the file says so.
    pub(crate) reserved: u64,
    /// As `reserved`, once the pending commit is in the file.
    pub(crate) reserving: u64,
}

/// See the module.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) now: Now,
    /// What the wall clock showed at open, if it was not believed.
    pub(crate) untrusted: Option<u64>,
    pub(crate) buffers: [WriteBuffer; 2],
    pub(crate) tubes: IdMap<u32, TubeState>,
    pub(crate) names: BTreeMap<Arc<str>, u32>,
    pub(in crate::core) spaces: IdMap<u32, u32>,
    pub(in crate::core) next_space: u32,
    /// Spaces whose rows are being removed, and their lane.
    pub(in crate::core) purges: VecDeque<(usize, u32)>,
    pub(in crate::core) drivers: BTreeMap<String, Arc<dyn Driver>>,
    pub(in crate::core) claims: IdMap<u64, ClaimState>,
    pub(in crate::core) sessions: IdMap<SessionId, SessionState>,
    pub(in crate::core) waiting_takes: IdMap<u64, WaitingTake>,
    pub(in crate::core) timers: BTreeSet<(u64, Timer)>,
    /// Tasks with changes that wait for a commit: how many, and the number of the last one.
    pub(in crate::core) invisible: IdMap<u64, (u32, u64)>,
    pub(crate) ids: Ids,
    /// About how many bytes inside the file are free, as far as this life has seen to it: what
    /// there is to put into once the disk is full.
    pub(in crate::core) free_inside: u64,
    pub(in crate::core) epoch: u64,
    pub(in crate::core) arrivals: u64,
    /// Somebody may subscribe to events.
    pub(crate) has_subscribers: bool,
    /// Waiters are being served.
    pub(in crate::core) serving: bool,
    /// Changes are being published that become visible together: these tubes are served after the
    /// last of them, so that the best task of all goes to the first who waits.
    pub(in crate::core) publish_together: Option<Vec<u32>>,
    /// Changes in whose midst a driver is being asked: they must not stay half done.
    pub(crate) edits_in_progress: u32,
    /// Why nothing more is written.
    pub(crate) outage: Option<Outage>,
    pub(crate) closed: bool,
    pub(crate) effects: Effects,
    pub(in crate::core) idle: IdleState,
    /// Futures that wait for space, by write buffer.
    pub(in crate::core) capacity_queues: [CapacityQueue; 2],
    /// Callers held up by a full lane.
    pub(crate) blocked_callers: usize,
    /// When the sweeper means to wake, on running time.
    pub(crate) sweeper_wakes: u64,
}

impl Core {
    pub(crate) fn tube(&self, number: u32, name: &str) -> Result<&TubeState> {
        self.check_open()?;
        self.tubes.get(&number).ok_or_else(|| Error::TubeDropped { name: name.into() })
    }

    /// The lane that has the tasks of a tube.
    pub(crate) fn buffer_of(&self, number: u32) -> usize {
        self.tubes.get(&number).map_or(FILE, |tube| tube.buffer)
    }

    /// The books of a tube. `None` only if the tube is gone.
    pub(in crate::core) fn ledger<'a>(
        buffers: &'a mut [WriteBuffer; 2],
        tube: &'a mut TubeState,
    ) -> Ledger<'a, WriteBuffer> {
        Ledger {
            rows: &mut buffers[tube.buffer],
            space: tube.definition.space,
            sub_queued: tube.definition.sub_queued,
            counts: &mut tube.counts,
            head_cache: &mut tube.head_cache,
            earliest_due: NEVER,
        }
    }

    /// Runs edits in the books of a tube, and keeps what follows from them.
    pub(crate) fn edit<T>(
        &mut self,
        number: u32,
        edits: impl FnOnce(&mut Ledger<'_, WriteBuffer>) -> Result<T>,
    ) -> Result<T> {
        let tube = self.tubes.get_mut(&number).ok_or(Error::Closed)?;
        let buffer = tube.buffer;
        let before = tube.counts;
        let mut ledger = Core::ledger(&mut self.buffers, tube);
        let answer = edits(&mut ledger);
        let due = ledger.earliest_due;
        if tube.counts != before {
            self.buffers[buffer].dirty_counts.insert(number);
        }
        if due != NEVER {
            self.buffers[buffer].note_due(due);
        }
        answer
    }

    /// How changes of this tube settle when a caller makes them.
    pub(in crate::core) fn visibility(&self, number: u32) -> Visibility {
        let Some(tube) = self.tubes.get(&number) else { return Visibility::Memory };
        match (tube.buffer, tube.durability) {
            (MEMORY, _) => Visibility::Memory,
            (_, Durability::Flush) => Visibility::Flushed,
            (_, Durability::Relaxed { max_delay }) => {
                Visibility::Within(crate::micros::micros_ceil(max_delay))
            }
        }
    }

    /// The answer to a call that made edits of this tube.
    pub(in crate::core) fn decided<T>(
        &mut self,
        number: u32,
        visibility: Visibility,
        answer: impl FnOnce(u64) -> T,
    ) -> Decided<T> {
        let buffer = self.buffer_of(number);
        // An id must not be known to anybody before the file says that it is used up.
        let id_at_risk = self.ids.next > self.ids.reserved;
        let wait = match visibility {
            Visibility::Flushed => Some(buffer),
            _ if id_at_risk => Some(FILE),
            _ => None,
        };
        Decided {
            answer: answer(self.buffers[buffer].batch.number),
            wait: wait.map(|buffer| (buffer, self.buffers[buffer].batch.clone())),
        }
    }

    /// The answer to a call that changed memory alone.
    pub(in crate::core) fn memory_receipt(&self, number: u32, id: u64, state: State) -> Receipt {
        let buffer = self.buffer_of(number);
        Receipt { id, state, commit: self.buffers[buffer].batch.number.saturating_sub(1) }
    }

    /// The batch that must be in the file before anybody learns how things stand with a task.
    pub(in crate::core) fn batch_of_invisible(
        &self,
        number: u32,
        id: u64,
    ) -> Option<(usize, Arc<Batch>)> {
        let (_, last) = self.invisible.get(&id)?;
        let buffer = self.tubes.get(&number)?.buffer;
        let in_flight_batch =
            self.buffers[buffer].in_flight_batch().filter(|batch| batch.number == *last);
        Some((buffer, in_flight_batch.unwrap_or(&self.buffers[buffer].batch).clone()))
    }

    /// An answer that depends on how things stand with a task: given once that is in the file.
    pub(crate) fn once_visible<T>(&self, number: u32, id: u64, answer: T) -> Decided<T> {
        Decided { answer, wait: self.batch_of_invisible(number, id) }
    }

    /// The commit that makes a new file a store.
    pub(crate) fn first_commit(&self) -> Decided<()> {
        Decided { answer: (), wait: Some((FILE, self.buffers[FILE].batch.clone())) }
    }

    /// Makes a change visible, now or with its commit.
    pub(in crate::core) fn make_visible(&mut self, change: Change, visibility: Visibility) {
        let Some(tube) = self.tubes.get(&change.tube) else { return };
        let number = tube.buffer;
        let buffer = &mut self.buffers[number];
        if let Visibility::Within(delay) = visibility {
            let by = self.now.running.saturating_add(delay);
            if buffer.flush_by.is_none_or(|old| by < old) {
                if let Some(old) = buffer.flush_by.replace(by) {
                    self.timers.remove(&(old, Timer::Flush(number)));
                }
                self.timers.insert((by, Timer::Flush(number)));
            }
        }
        match (visibility, self.invisible.get_mut(&change.id)) {
            // What a task went through becomes visible in order.
            (Visibility::Flushed, known) => {
                let last = buffer.batch.number;
                match known {
                    Some((count, number)) => (*count, *number) = (*count + 1, last),
                    None => {
                        self.invisible.insert(change.id, (1, last));
                    }
                }
                buffer.changes.push(change);
            }
            (_, Some((count, last))) => {
                *count += 1;
                if *last == buffer.batch.number {
                    buffer.changes.push(change);
                } else {
                    buffer.changes_in_flight.push(change);
                }
            }
            (_, None) => self.publish(change),
        }
    }

    /// The earliest moment, on running time, at which something is due.
    pub(crate) fn next_due(&self) -> u64 {
        if self.outage.is_some() {
            return self.retry_at().unwrap_or(NEVER);
        }
        let timer = self.timers.first().map_or(NEVER, |(due, _)| *due);
        let timeline = self.buffers.iter().map(|buffer| buffer.earliest_due).min().unwrap_or(NEVER);
        if timeline == NEVER {
            return timer;
        }
        timer.min(self.now.running.saturating_add(timeline.saturating_sub(self.now.timeline)))
    }

    /// Whether more edits would be more than one commit should hold.
    pub(crate) fn buffer_is_full(&self, buffer: usize) -> bool {
        let active = &self.buffers[buffer].active;
        active.len() >= self.config.max_pending_rows
            || active.bytes() >= self.config.max_pending_bytes
    }

    /// The pending edits of a lane are on their way: no timer need see to it.
    pub(crate) fn cancel_flush_timer(&mut self, buffer: usize) {
        if let Some(by) = self.buffers[buffer].flush_by.take() {
            self.timers.remove(&(by, Timer::Flush(buffer)));
        }
    }

    /// The names of the registered drivers, for people.
    pub(crate) fn known_drivers(&self) -> String {
        let names: Vec<&str> = self.drivers.keys().map(String::as_str).collect();
        names.join(", ")
    }
}
