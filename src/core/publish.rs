//! Publishing: a change becomes visible to statistics, events, watches, waiting puts, sub-queues and
//! takes.
//!
//! Each change is published exactly once, in the order of its task's changes. A change whose
//! visibility is `Flushed` is published after its commit.

use std::sync::Arc;

use tubewell_drivers::Header;

use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Keeping};
use crate::core::state::holders::Holders;
use crate::core::state::window::{Rank, WindowEntry, WindowSlot};
use crate::core::state::{Buffer, Core};
use crate::values::statistics::Statistics;
use crate::{EventKind, Result, TaskState};

impl Core {
    /// The checkpoint of a write buffer is in the database.
    pub(crate) fn finish_checkpoint(&mut self, buffer: Buffer) {
        let finished = self.buffers[buffer].finish_checkpoint();
        if let Some(finished) = finished {
            self.effects.after_unlock.deeds().checkpointed.push(finished);
        }
    }

    /// Makes the changes of a successful flush visible, in order.
    pub(crate) fn finish_flush(&mut self, buffer: Buffer) {
        if buffer == Buffer::File {
            self.ids.flush_has_ended();
        }
        let mut changes = self.buffers[buffer].finish_flush();
        self.publish_together(|core| {
            while !changes.is_empty() {
                for mut change in changes.drain(..) {
                    core.change_committed(&mut change);
                }
                std::mem::swap(&mut changes, &mut core.buffers[buffer].changes_in_flight);
            }
        });
        self.effects.capacity_freed |= self.waits.has_blocked();
    }

    /// Runs a call whose changes become visible together: a take sees all of them or none.
    pub(in crate::core) fn publish_together<T>(&mut self, call: impl FnOnce(&mut Core) -> T) -> T {
        if !self.publishing.begin_together() {
            return call(self);
        }
        let answer = call(self);
        let tubes = self.publishing.end_together();
        if let Err(error) = self.serve(&tubes) {
            self.fail_with(&error);
        }
        while let Some(number) = self.publishing.next_maybe_drained() {
            self.answer_drained(number);
        }
        answer
    }

    /// Drops all callbacks, since no more events are delivered. They may own handles of this store.
    pub(crate) fn drop_callbacks(&mut self) {
        let callbacks = self.tubes.values_mut().filter_map(|tube| tube.callback.take());
        self.effects.after_unlock.deeds().callbacks.extend(callbacks);
    }

    fn change_committed(&mut self, change: &mut Change) {
        // If the task has a later change that is not yet visible, no take may get it before.
        change.is_intermediate |= self.publishing.remove(change.id) == Some(true);
        self.publish(change);
    }

    /// Makes one change visible. Takes its header and its row.
    pub(in crate::core) fn publish(&mut self, change: &mut Change) {
        let number = change.tube;
        let is_watched = !self.waits.watches.is_empty();
        if is_watched {
            self.answer_watches(change);
        }
        let Some(tube) = self.tubes.get_mut(number) else { return self.forget_origin(change.id) };
        let is_current = tube.definition.space == change.space;
        update_statistics(&mut tube.visible, change, is_current);
        let done = change.to == TaskState::Done;
        if is_current && done && change.from.is_some_and(takes_a_place) {
            tube.occupied = tube.occupied.saturating_sub(1);
        }
        let has_waiters = tube.has_waiting_takers();
        if !self.events.readers.wanted().is_empty()
            || tube.callback.is_some()
            || self.events.has_origins()
        {
            self.queue_event(change);
        }
        if !is_current {
            return;
        }
        let freed = self.offer(change);
        let admitted = if done { self.admit_waiting_puts(number) } else { Ok(()) };
        let served = match freed {
            Ok(mut freed) if !freed.is_empty() => {
                freed.push(number);
                self.serve_now_or_later(&freed)
            }
            Ok(_) if has_waiters => self.serve_now_or_later(&[number]),
            freed => freed.map(drop),
        };
        if let Err(error) = admitted.and(served) {
            self.fail_with(&error);
        }
        if is_watched {
            self.drained_now_or_later(number);
        }
    }

    /// Answers the watches of a tube if it is drained, once the changes that become visible together
    /// have.
    fn drained_now_or_later(&mut self, number: TubeNo) {
        if !self.publishing.is_together() {
            self.answer_drained(number);
        } else if self.waits.watches.waits_for_drain(number) {
            self.publishing.note_maybe_drained(number);
        }
    }

    /// Serves the takes that wait in these tubes, once the changes that become visible together have.
    fn serve_now_or_later(&mut self, tubes: &[TubeNo]) -> Result<()> {
        if self.publishing.serve_later(tubes) { Ok(()) } else { self.serve(tubes) }
    }

    /// Adds the task, or the best task of the sub-queue that the change has freed, to the window. Returns
    /// the other tubes that share the limit that it has freed, and that were refused a task.
    fn offer(&mut self, change: &mut Change) -> Result<Vec<TubeNo>> {
        let (Some(tube), Some(header)) = (self.tubes.get_mut(change.tube), change.header.take())
        else {
            return Ok(Vec::new());
        };
        let rank = (header.order, change.id);
        if tube.definition.sub_queued {
            let sub = header.sub.clone();
            let frees_shared = self.free_holder(change.tube, &sub, rank);
            let entry = WindowEntry { header, row: change.row.take() };
            // The task may be another one after the change that follows.
            let known = (!change.is_intermediate).then_some((rank, entry));
            self.offer_sub(change.tube, &sub, known)?;
            return if frees_shared { self.offer_freed(&sub) } else { Ok(Vec::new()) };
        }
        if change.to == TaskState::Ready && !change.is_intermediate && tube.window.covers(rank) {
            let entry = WindowEntry { header, row: change.row.take() };
            tube.window.insert(rank, WindowSlot::Read(entry), false);
        }
        Ok(Vec::new())
    }

    /// Puts the best task of a sub-queue into the window, if the sub-queue is free and has one.
    /// `known` is the rank and the entry of a task that has been read already.
    pub(in crate::core) fn offer_sub(
        &mut self,
        number: TubeNo,
        sub: &Arc<str>,
        known: Option<(Rank, WindowEntry)>,
    ) -> Result<()> {
        if self.is_refused(number, sub) {
            return Ok(());
        }
        let Some(tube) = self.tubes.get(number) else { return Ok(()) };
        if self.is_sub_queue_shut(tube, sub) {
            return Ok(());
        }
        // Only a tube with limits offers a sub-queue that has holders.
        let holders = tube.limits.as_ref().and_then(|_| tube.busy.get(sub));
        let searched = holders.and_then(Holders::searched);
        let best = self.best_of_sub(number, sub, searched)?;
        let Some(tube) = self.tubes.get_mut(number) else { return Ok(()) };
        let old = tube.window.of_sub(sub);
        if old == best {
            return Ok(());
        }
        if let Some(rank) = old {
            tube.window.remove(rank);
        }
        if let Some(rank) = best {
            let slot = match known {
                Some((known_rank, entry)) if known_rank == rank => WindowSlot::Read(entry),
                _ => WindowSlot::Unread(sub.clone()),
            };
            tube.window.insert(rank, slot, true);
        }
        Ok(())
    }

    /// The first ready task of a sub-queue that a take may get. `searched`: up to this rank there is
    /// none.
    fn best_of_sub(
        &mut self,
        number: TubeNo,
        sub: &Arc<str>,
        searched: Option<Rank>,
    ) -> Result<Option<Rank>> {
        let (best, last) = self.next_of_sub(number, sub, searched)?;
        if last != searched
            && let Some(tube) = self.tubes.get_mut(number)
            && let Some(holders) = tube.busy.get_mut(sub)
        {
            holders.set_searched(last);
        }
        Ok(best)
    }

    /// The first ready task of a sub-queue after this rank that a take may get, and the rank up to
    /// which there is none.
    pub(in crate::core) fn next_of_sub(
        &mut self,
        number: TubeNo,
        sub: &Arc<str>,
        mut after: Option<Rank>,
    ) -> Result<(Option<Rank>, Option<Rank>)> {
        loop {
            let next = match after {
                None => self.edit(number, |ledger| ledger.head_of(sub))?,
                Some(rank) => self.edit(number, |ledger| ledger.ready_after(sub, rank))?,
            };
            match next {
                Some((_, id)) if self.publishing.is_invisible(id) || self.is_claimed(id) => {
                    after = next;
                }
                next => return Ok((next, after)),
            }
        }
    }

    /// Creates a change of a task of this tube.
    pub(in crate::core) fn change(
        &self,
        number: TubeNo,
        id: u64,
        kind: EventKind,
        from: Option<TaskState>,
        to: TaskState,
        header: Option<Header>,
    ) -> Change {
        Change {
            tube: number,
            space: self.tubes.get(number).map_or(0, |tube| tube.definition.space),
            id,
            kind,
            from,
            to,
            header,
            row: None,
            keeping: Keeping::Unchanged,
            is_intermediate: false,
        }
    }
}

/// Counts a change. `is_current`: the task is in the tube's current space, which a truncate
/// replaces.
fn update_statistics(visible: &mut Statistics, change: &Change, is_current: bool) {
    let calls = &mut visible.calls;
    let call = match change.kind {
        EventKind::Put | EventKind::Replace => &mut calls.put,
        EventKind::Take => &mut calls.take,
        EventKind::Ack => &mut calls.ack,
        EventKind::Release | EventKind::Revoke => &mut calls.release,
        EventKind::Fail => &mut calls.fail,
        EventKind::Snooze => &mut calls.snooze,
        EventKind::Lost => &mut calls.lost,
        EventKind::Bury => &mut calls.bury,
        EventKind::Kick => &mut calls.kick,
        EventKind::Delete => &mut calls.delete,
        EventKind::Touch => &mut calls.touch,
        EventKind::Checkpoint => &mut calls.checkpoint,
        EventKind::Ttl => &mut calls.ttl,
        EventKind::Ttr => &mut calls.ttr,
        EventKind::Delay => &mut calls.delay,
        EventKind::Block => &mut calls.block,
        EventKind::Unblock => &mut calls.unblock,
        EventKind::Resolve => &mut calls.resolve,
        EventKind::Forget => &mut calls.forget,
        EventKind::Schedule => &mut calls.schedule,
        EventKind::Spawn => &mut calls.spawn,
        EventKind::Advance | EventKind::Move if change.from.is_none() => &mut calls.arrive,
        EventKind::Advance => &mut calls.advance,
        EventKind::Move => &mut calls.moved,
        EventKind::Update => &mut calls.update,
        // No change of the task.
        EventKind::Progress => return,
        EventKind::Log => &mut calls.log,
        EventKind::Step => &mut calls.step,
    };
    *call += 1;
    // One that arrives buried, from another tube or store, was counted there.
    let is_burial =
        change.to == TaskState::Buried && change.from.is_some_and(|from| from != TaskState::Buried);
    calls.buried += u64::from(is_burial);
    // A task that is restored as done has no state before.
    let leaves = change.from.is_some_and(takes_a_place) && change.to == TaskState::Done;
    visible.tasks.done += u64::from(leaves);
    if !is_current {
        return;
    }
    if let Some(count) = change.from.and_then(|state| task_count_mut(visible, state)) {
        *count = count.saturating_sub(1);
    }
    if let Some(count) = task_count_mut(visible, change.to) {
        *count += 1;
    }
    let tasks = &mut visible.tasks;
    match change.keeping {
        Keeping::Unchanged => {}
        Keeping::Kept => tasks.kept += 1,
        Keeping::Forgotten => tasks.kept = tasks.kept.saturating_sub(1),
    }
    tasks.total = tasks.ready + tasks.taken + tasks.delayed + tasks.blocked + tasks.buried;
}

fn task_count_mut(visible: &mut Statistics, state: TaskState) -> Option<&mut u64> {
    match state {
        TaskState::Ready => Some(&mut visible.tasks.ready),
        TaskState::Taken => Some(&mut visible.tasks.taken),
        TaskState::Delayed => Some(&mut visible.tasks.delayed),
        TaskState::Blocked => Some(&mut visible.tasks.blocked),
        TaskState::Buried => Some(&mut visible.tasks.buried),
        TaskState::Recurring => Some(&mut visible.tasks.recurring),
        TaskState::Done => None,
    }
}

/// Whether a task in this state takes a place of the capacity of its tube.
fn takes_a_place(state: TaskState) -> bool {
    !matches!(state, TaskState::Done | TaskState::Recurring)
}
