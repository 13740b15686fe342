//! What a change does once it is visible: counts, events, free places and sub-queues, takers.

use std::sync::Arc;

use tubewell_drivers::Header;

use crate::commit::Change;
use crate::core::state::window::{Rank, WindowEntry, WindowSlot};
use crate::core::state::{Core, TubeState};
use crate::events::QueuedEvent;
use crate::statistics::Statistics;
use crate::{Event, EventKind, Result, State};

impl Core {
    /// A commit of this lane is in the file: what it holds becomes visible, in order.
    pub(crate) fn finish_commit(&mut self, buffer: usize) {
        let mut changes = self.buffers[buffer].finish_commit();
        self.publish_together(|core| {
            while !changes.is_empty() {
                for change in changes.drain(..) {
                    core.change_committed(change);
                }
                std::mem::swap(&mut changes, &mut core.buffers[buffer].changes_in_flight);
            }
        });
        self.effects.room |= self.blocked_callers > 0;
    }

    /// Runs a call whose changes become visible together: takers see all of them or none.
    pub(in crate::core) fn publish_together<T>(&mut self, call: impl FnOnce(&mut Core) -> T) -> T {
        if self.publish_together.is_some() {
            return call(self);
        }
        self.publish_together = Some(Vec::new());
        let answer = call(self);
        let tubes = self.publish_together.take().unwrap_or_default();
        if let Err(error) = self.serve(&tubes) {
            self.fail_with(&error);
        }
        answer
    }

    /// Nothing more is told: what callbacks own, handles of this store perhaps, is let go.
    pub(crate) fn forget_callbacks(&mut self) {
        let callbacks = self.tubes.values_mut().filter_map(|tube| tube.callback.take());
        self.effects.after_unlock.callbacks.extend(callbacks);
    }

    fn change_committed(&mut self, mut change: Change) {
        if let Some((count, _)) = self.invisible.get_mut(&change.id) {
            *count -= 1;
            if *count == 0 {
                self.invisible.remove(&change.id);
            } else {
                // More became of the task meanwhile; takers wait for the last of it.
                change.is_intermediate = true;
            }
        }
        self.publish(change);
    }

    /// Makes a change visible.
    pub(in crate::core) fn publish(&mut self, change: Change) {
        let number = change.tube;
        let Some(tube) = self.tubes.get_mut(&number) else { return };
        let present = tube.definition.space == change.space;
        count(&mut tube.visible, &change, present);
        if self.has_subscribers || tube.callback.is_some() {
            self.effects.events.push(emission(tube, &change));
        }
        if !present {
            return;
        }
        let done = change.to == State::Done;
        if done && change.from.is_some_and(|from| from != State::Done) {
            tube.places = tube.places.saturating_sub(1);
        }
        let has_waiters = !tube.waiting_takes.is_empty();
        let offered = self.offer(change);
        let granted = if done { self.admit_waiting_puts(number) } else { Ok(()) };
        let served = match &mut self.publish_together {
            None if has_waiters => self.serve(&[number]),
            Some(tubes) if has_waiters && !tubes.contains(&number) => {
                tubes.push(number);
                Ok(())
            }
            _ => Ok(()),
        };
        if let Err(error) = offered.and(granted).and(served) {
            self.fail_with(&error);
        }
    }

    /// Lets takers see what the change left behind.
    fn offer(&mut self, change: Change) -> Result<()> {
        let (Some(tube), Some(header)) = (self.tubes.get_mut(&change.tube), change.header) else {
            return Ok(());
        };
        let rank = (header.order, change.id);
        if tube.definition.sub_queued {
            let sub = header.sub.clone();
            if tube.busy.get(&sub) == Some(&change.id) {
                tube.busy.remove(&sub);
            }
            let known = WindowEntry { header, row: change.row };
            return self.offer_sub(change.tube, &sub, Some((rank, known)));
        }
        if change.to == State::Ready && !change.is_intermediate && tube.window.covers(rank) {
            let known = WindowEntry { header, row: change.row };
            tube.window.insert(rank, WindowSlot::Read(known), false);
        }
        Ok(())
    }

    /// Puts the best task of a sub-queue into the window, if it is free and has one. It may be
    /// the one of which something is known.
    pub(in crate::core) fn offer_sub(
        &mut self,
        number: u32,
        sub: &Arc<str>,
        known: Option<(Rank, WindowEntry)>,
    ) -> Result<()> {
        let Some(tube) = self.tubes.get(&number) else { return Ok(()) };
        if tube.busy.contains_key(sub) {
            return Ok(());
        }
        let best = self.best_of_sub(number, sub)?;
        let Some(tube) = self.tubes.get_mut(&number) else { return Ok(()) };
        let old = tube.window.of_sub(sub);
        if old == best {
            return Ok(());
        }
        if let Some(rank) = old {
            tube.window.remove(rank);
        }
        if let Some(rank) = best {
            let entry = match known {
                Some((of, known)) if of == rank => WindowSlot::Read(known),
                _ => WindowSlot::Unread(sub.clone()),
            };
            tube.window.insert(rank, entry, true);
        }
        Ok(())
    }

    /// The first ready task of a sub-queue that takers may see.
    fn best_of_sub(&mut self, number: u32, sub: &Arc<str>) -> Result<Option<Rank>> {
        let mut best = self.edit(number, |ledger| ledger.head_of(sub))?;
        while let Some(rank) = best {
            if !self.invisible.contains_key(&rank.1) && !self.claims.contains_key(&rank.1) {
                break;
            }
            best = self.edit(number, |ledger| ledger.ready_after(sub, rank))?;
        }
        Ok(best)
    }

    /// A change of a task of this tube.
    pub(in crate::core) fn change(
        &self,
        number: u32,
        id: u64,
        kind: EventKind,
        from: Option<State>,
        to: State,
        header: Option<Header>,
    ) -> Change {
        Change {
            tube: number,
            space: self.tubes.get(&number).map_or(0, |tube| tube.definition.space),
            id,
            kind,
            from,
            to,
            header,
            row: None,
            is_intermediate: false,
        }
    }
}

fn emission(tube: &TubeState, change: &Change) -> QueuedEvent {
    QueuedEvent {
        event: Event {
            tube: tube.definition.name.clone(),
            id: change.id,
            kind: change.kind,
            state: change.to,
            seq: 0,
        },
        callback: tube.callback.clone(),
    }
}

fn count(visible: &mut Statistics, change: &Change, present: bool) {
    let calls = &mut visible.calls;
    let call = match change.kind {
        EventKind::Put => &mut calls.put,
        EventKind::Take => &mut calls.take,
        EventKind::Ack => &mut calls.ack,
        EventKind::Release => &mut calls.release,
        EventKind::Bury => &mut calls.bury,
        EventKind::Kick => &mut calls.kick,
        EventKind::Delete => &mut calls.delete,
        EventKind::Touch => &mut calls.touch,
        EventKind::Ttl => &mut calls.ttl,
        EventKind::Ttr => &mut calls.ttr,
        EventKind::Delay => &mut calls.delay,
    };
    *call += 1;
    let leaves = change.from != Some(State::Done) && change.to == State::Done;
    visible.tasks.done += u64::from(leaves);
    if !present {
        return;
    }
    if let Some(count) = change.from.and_then(|state| tally(visible, state)) {
        *count = count.saturating_sub(1);
    }
    if let Some(count) = tally(visible, change.to) {
        *count += 1;
    }
    let tasks = &mut visible.tasks;
    tasks.total = tasks.ready + tasks.taken + tasks.delayed + tasks.buried;
}

fn tally(visible: &mut Statistics, state: State) -> Option<&mut u64> {
    match state {
        State::Ready => Some(&mut visible.tasks.ready),
        State::Taken => Some(&mut visible.tasks.taken),
        State::Delayed => Some(&mut visible.tasks.delayed),
        State::Buried => Some(&mut visible.tasks.buried),
        State::Done => None,
    }
}
