//! The state machine of the queue.
//!
//! It has no threads and no clock of its own: the moment is set before each call, reads go through
//! the lanes, and whom to wake and what to tell listeners is left in the [`Outbox`] for the caller
//! who holds the lock. What is decided here is laid over the file at once; it becomes visible
//! either at once or with the commit that holds it.

mod catalog;
mod change;
mod check;
mod claims;
mod clear;
mod failure;
mod line;
mod numbered;
mod open;
mod peek;
mod publish;
mod put;
mod rest;
mod sessions;
mod slot;
mod sweep;
mod take;
mod tube;
mod verbs;
mod waits;
mod window;

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;

use tubewell_drivers::{Driver, Ledger, NEVER};

pub(crate) use catalog::durability_of;
pub(crate) use catalog::{TubeHead, TubeRequest};
pub(crate) use change::{Change, Settle};
pub(crate) use claims::ClaimState;
pub(crate) use clear::clear_the_dead;
pub(crate) use failure::Cause;
pub(crate) use line::{DOUBTED, line_of_reader};
pub(crate) use open::{HEADER, check_format, last_commit, read_catalog, read_header, stored_books};
pub(crate) use peek::describe;
pub(crate) use publish::state_on;
pub(crate) use put::PutRequest;
pub(crate) use rest::is_drained;
pub(crate) use slot::Slot;
pub(crate) use take::{Grant, Next, TAKE_EXPIRES};
pub(crate) use tube::{Definition, TubeState};
pub(crate) use verbs::{Holder, KICK_STEP};
pub(crate) use waits::{PutSlot, Putter, TakeNow, TakeSlot};

use crate::error::Error;
use crate::events::{Callback, Emission};
use crate::pipeline::{Batch, Lane, Leader, Outcome};
use crate::{Durability, Receipt, Result, SessionId, State, others};
use numbered::Numbered;
use sessions::SessionState;
use waits::Waiter;

/// The lane of the file.
pub(crate) const FILE: usize = 0;
/// The lane of the temporary tubes.
pub(crate) const MEMORY: usize = 1;

/// The moment of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// On the store's time line: ttl and delay. Survives restarts, counts suspend.
    pub(crate) line: u64,
    /// On running time: holds, waits, grace.
    pub(crate) running: u64,
    /// The elapsed time that was read last, if any.
    read: Option<u64>,
}

impl Now {
    /// Goes on by as much as the clocks have gone on since they were read last. They never run
    /// backwards, but if one does the moment stands still, and elapsed time counts on from there.
    /// The very last moment is never reached: it stands for never.
    pub(crate) fn go_on(&mut self, elapsed: u64, running: u64) {
        let passed = elapsed.saturating_sub(self.read.unwrap_or(elapsed));
        self.read = Some(elapsed);
        self.line = self.line.saturating_add(passed).min(line::LAST);
        self.running = self.running.max(running).min(line::LAST);
    }
}

/// What falls due on running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Claim(u64),
    Wait(u64),
    Putter(u32, u64),
    Grace(SessionId),
    Flush(usize),
    /// Nothing has been committed for a while, if so.
    Rest,
}

/// What is to be done once the lock is free, or by others.
#[derive(Default)]
pub(crate) struct Outbox {
    pub(crate) events: Vec<Emission>,
    /// The writer thread has work.
    pub(crate) call_writer: bool,
    /// It waits for such a call, and begins what it is asked to lead as soon as it wakes.
    pub(crate) writer_rests: bool,
    /// There is room again for those whom a full lane holds up.
    pub(crate) room: bool,
    pub(crate) errands: Errands,
}

/// What is done without the lock, when this is dropped: some of it is others' code.
#[derive(Default)]
pub(crate) struct Errands {
    /// To be woken first: the next commit waits for it.
    pub(crate) leader: Option<Leader>,
    /// To be dropped: a callback may own handles, whose end needs the lock.
    pub(crate) callbacks: Vec<Callback>,
    /// Batches whose outcome is known.
    pub(crate) finished: Vec<(Arc<Batch>, Outcome)>,
    pub(crate) takers: Vec<Arc<TakeSlot>>,
    pub(crate) putters: Vec<Arc<PutSlot>>,
}

impl Drop for Errands {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            leader.wake();
        }
        for (batch, outcome) in self.finished.drain(..) {
            batch.finish(outcome);
        }
        self.takers.drain(..).for_each(|slot| slot.wake());
        self.putters.drain(..).for_each(|slot| slot.wake());
        for callback in self.callbacks.drain(..) {
            others::isolated(|| drop(callback));
        }
    }
}

/// An answer, and the batch that must be in the file before it is given.
pub(crate) struct Decided<T> {
    pub(crate) answer: T,
    pub(crate) wait: Option<(usize, Arc<Batch>)>,
}

/// How the ids stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ids {
    pub(crate) next: u64,
    /// Ids below may have been given out by puts, so none of them is restored.
    pub(crate) floor: u64,
    /// Ids below are never given again, whatever happens: the file says so.
    pub(crate) reserved: u64,
    /// As `reserved`, once the pending commit is in the file.
    pub(crate) reserving: u64,
}

/// What holds for the whole store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) durability: Durability,
    pub(crate) grace: u64,
    pub(crate) max_pending_rows: usize,
    pub(crate) max_pending_bytes: usize,
    pub(crate) max_body: usize,
    /// How far the wall clock may be beyond the last commit to be believed at open.
    pub(crate) wall_limit: u64,
    pub(crate) trust_wall: bool,
}

/// See the module.
pub(crate) struct Core {
    pub(crate) config: Config,
    pub(crate) now: Now,
    /// What the wall clock showed at open, if it was not believed.
    pub(crate) doubted: Option<u64>,
    pub(crate) lanes: [Lane; 2],
    pub(crate) tubes: Numbered<u32, TubeState>,
    pub(crate) names: BTreeMap<Arc<str>, u32>,
    spaces: Numbered<u32, u32>,
    next_space: u32,
    /// Spaces whose rows are being removed, and their lane.
    dying: VecDeque<(usize, u32)>,
    drivers: BTreeMap<String, Arc<dyn Driver>>,
    claims: Numbered<u64, ClaimState>,
    sessions: Numbered<SessionId, SessionState>,
    waiters: Numbered<u64, Waiter>,
    timers: BTreeSet<(u64, Timer)>,
    /// Tasks with changes that wait for a commit: how many, and the number of the last one.
    unsettled: Numbered<u64, (u32, u64)>,
    pub(crate) ids: Ids,
    /// The ids that were restored, from `ids.floor` on: each may be restored once.
    restored: HashSet<u64>,
    /// About how many bytes inside the file are free, as far as this life has seen to it: what
    /// there is to put into once the disk is full.
    room_inside: u64,
    epoch: u64,
    arrivals: u64,
    /// Somebody may subscribe to events.
    pub(crate) listened: bool,
    /// Waiters are being served.
    serving: bool,
    /// Changes are being published that become visible together: these tubes are served after the
    /// last of them, so that the best task of all goes to the first who waits.
    together: Option<Vec<u32>>,
    /// Changes in whose midst a driver is being asked: they must not stay half done.
    pub(crate) halfway: u32,
    /// Why nothing more is written.
    pub(crate) failed: Option<failure::Failure>,
    pub(crate) closed: bool,
    pub(crate) outbox: Outbox,
    rest: rest::Rest,
    /// Callers held up by a full lane.
    pub(crate) held_up: usize,
    /// When the sweeper means to wake, on running time.
    pub(crate) sweeper_wakes: u64,
}

impl Core {
    pub(crate) fn tube(&self, number: u32, name: &str) -> Result<&TubeState> {
        self.check_open()?;
        self.tubes.get(&number).ok_or_else(|| Error::TubeDropped { name: name.into() })
    }

    /// The lane that has the tasks of a tube.
    pub(crate) fn lane_of(&self, number: u32) -> usize {
        self.tubes.get(&number).map_or(FILE, |tube| tube.lane)
    }

    /// The books of a tube. `None` only if the tube is gone.
    fn ledger<'a>(lanes: &'a mut [Lane; 2], tube: &'a mut TubeState) -> Ledger<'a, Lane> {
        Ledger {
            rows: &mut lanes[tube.lane],
            space: tube.definition.space,
            sub_queued: tube.definition.sub_queued,
            counts: &mut tube.counts,
            fronts: &mut tube.fronts,
            earliest_due: NEVER,
        }
    }

    /// Runs edits in the books of a tube, and keeps what follows from them.
    pub(crate) fn edit<T>(
        &mut self,
        number: u32,
        edits: impl FnOnce(&mut Ledger<'_, Lane>) -> Result<T>,
    ) -> Result<T> {
        let tube = self.tubes.get_mut(&number).ok_or(Error::Closed)?;
        let lane = tube.lane;
        let before = tube.counts;
        let mut ledger = Core::ledger(&mut self.lanes, tube);
        let answer = edits(&mut ledger);
        let due = ledger.earliest_due;
        if tube.counts != before {
            self.lanes[lane].recounted.insert(number);
        }
        if due != NEVER {
            self.lanes[lane].note_due(due);
        }
        answer
    }

    /// How changes of this tube settle when a caller makes them.
    fn settles(&self, number: u32) -> Settle {
        let Some(tube) = self.tubes.get(&number) else { return Settle::Memory };
        match (tube.lane, tube.durability) {
            (MEMORY, _) => Settle::Memory,
            (_, Durability::Flush) => Settle::Flushed,
            (_, Durability::Relaxed { max_delay }) => {
                Settle::Within(crate::clock::micros_ceil(max_delay))
            }
        }
    }

    /// The answer to a call that made edits of this tube.
    fn decided<T>(
        &mut self,
        number: u32,
        settle: Settle,
        answer: impl FnOnce(u64) -> T,
    ) -> Decided<T> {
        let lane = self.lane_of(number);
        // An id must not be known to anybody before the file says that it is used up.
        let id_at_risk = self.ids.next > self.ids.reserved;
        let wait = match settle {
            Settle::Flushed => Some(lane),
            _ if id_at_risk => Some(FILE),
            _ => None,
        };
        Decided {
            answer: answer(self.lanes[lane].batch.number),
            wait: wait.map(|lane| (lane, self.lanes[lane].batch.clone())),
        }
    }

    /// The answer to a call that changed memory alone.
    fn remembered(&self, number: u32, id: u64, state: State) -> Receipt {
        let lane = self.lane_of(number);
        Receipt { id, state, commit: self.lanes[lane].batch.number.saturating_sub(1) }
    }

    /// The batch that must be in the file before anybody learns how things stand with a task.
    fn unsettled_batch(&self, number: u32, id: u64) -> Option<(usize, Arc<Batch>)> {
        let (_, last) = self.unsettled.get(&id)?;
        let lane = self.tubes.get(&number)?.lane;
        let flying = self.lanes[lane].flying().filter(|batch| batch.number == *last);
        Some((lane, flying.unwrap_or(&self.lanes[lane].batch).clone()))
    }

    /// An answer that depends on how things stand with a task: given once that is in the file.
    pub(crate) fn once_settled<T>(&self, number: u32, id: u64, answer: T) -> Decided<T> {
        Decided { answer, wait: self.unsettled_batch(number, id) }
    }

    /// The commit that makes a new file a store.
    pub(crate) fn first_commit(&self) -> Decided<()> {
        Decided { answer: (), wait: Some((FILE, self.lanes[FILE].batch.clone())) }
    }

    /// Makes a change visible, now or with its commit.
    fn settle(&mut self, change: Change, settle: Settle) {
        let Some(tube) = self.tubes.get(&change.tube) else { return };
        let number = tube.lane;
        let lane = &mut self.lanes[number];
        if let Settle::Within(delay) = settle {
            let by = self.now.running.saturating_add(delay);
            if lane.flush_by.is_none_or(|old| by < old) {
                if let Some(old) = lane.flush_by.replace(by) {
                    self.timers.remove(&(old, Timer::Flush(number)));
                }
                self.timers.insert((by, Timer::Flush(number)));
            }
        }
        match (settle, self.unsettled.get_mut(&change.id)) {
            // What a task went through becomes visible in order.
            (Settle::Flushed, known) => {
                let last = lane.batch.number;
                match known {
                    Some((count, number)) => (*count, *number) = (*count + 1, last),
                    None => {
                        self.unsettled.insert(change.id, (1, last));
                    }
                }
                lane.changes.push(change);
            }
            (_, Some((count, last))) => {
                *count += 1;
                if *last == lane.batch.number {
                    lane.changes.push(change);
                } else {
                    lane.changes_in_flight.push(change);
                }
            }
            (_, None) => self.publish(change),
        }
    }

    /// The earliest moment, on running time, at which something is due.
    pub(crate) fn next_due(&self) -> u64 {
        if self.failed.is_some() {
            return self.retry_at().unwrap_or(NEVER);
        }
        let timer = self.timers.first().map_or(NEVER, |(due, _)| *due);
        let line = self.lanes.iter().map(|lane| lane.earliest_due).min().unwrap_or(NEVER);
        if line == NEVER {
            return timer;
        }
        timer.min(self.now.running.saturating_add(line.saturating_sub(self.now.line)))
    }

    /// Whether more edits would be more than one commit should hold.
    pub(crate) fn lane_is_full(&self, lane: usize) -> bool {
        let pending = &self.lanes[lane].pending;
        pending.len() >= self.config.max_pending_rows
            || pending.bytes() >= self.config.max_pending_bytes
    }

    /// The pending edits of a lane are on their way: no timer need see to it.
    pub(crate) fn calm_flush_timer(&mut self, lane: usize) {
        if let Some(by) = self.lanes[lane].flush_by.take() {
            self.timers.remove(&(by, Timer::Flush(lane)));
        }
    }

    /// The names of the registered drivers, for people.
    pub(crate) fn known_drivers(&self) -> String {
        let names: Vec<&str> = self.drivers.keys().map(String::as_str).collect();
        names.join(", ")
    }
}
