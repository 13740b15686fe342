//! What a change does once it is visible: counts, events, free places and sub-queues, takers.

use std::sync::Arc;

use tubewell_drivers::{Header, Shelf};

use super::window::{Entry, Known, Rank};
use super::{Change, Core, TubeState};
use crate::events::Emission;
use crate::statistics::Statistics;
use crate::{Event, EventKind, Result, State};

impl Core {
    /// A commit of this lane is in the file: what it holds becomes visible, in order.
    pub(crate) fn land(&mut self, lane: usize) {
        let mut changes = self.lanes[lane].land();
        self.together(|core| {
            while !changes.is_empty() {
                for change in changes.drain(..) {
                    core.settled(change);
                }
                std::mem::swap(&mut changes, &mut core.lanes[lane].changes_in_flight);
            }
        });
        self.outbox.room |= self.held_up > 0;
    }

    /// Runs a call whose changes become visible together: takers see all of them or none.
    pub(super) fn together<T>(&mut self, call: impl FnOnce(&mut Core) -> T) -> T {
        if self.together.is_some() {
            return call(self);
        }
        self.together = Some(Vec::new());
        let answer = call(self);
        let tubes = self.together.take().unwrap_or_default();
        if let Err(error) = self.serve(&tubes) {
            self.fail_with(&error);
        }
        answer
    }

    /// Nothing more is told: what callbacks own, handles of this store perhaps, is let go.
    pub(crate) fn forget_callbacks(&mut self) {
        let callbacks = self.tubes.values_mut().filter_map(|tube| tube.callback.take());
        self.outbox.errands.callbacks.extend(callbacks);
    }

    fn settled(&mut self, mut change: Change) {
        if let Some((count, _)) = self.unsettled.get_mut(&change.id) {
            *count -= 1;
            if *count == 0 {
                self.unsettled.remove(&change.id);
            } else {
                // More became of the task meanwhile; takers wait for the last of it.
                change.passing = true;
            }
        }
        self.publish(change);
    }

    /// Makes a change visible.
    pub(super) fn publish(&mut self, change: Change) {
        let number = change.tube;
        let Some(tube) = self.tubes.get_mut(&number) else { return };
        let present = tube.definition.space == change.space;
        count(&mut tube.visible, &change, present);
        if self.listened || tube.callback.is_some() {
            self.outbox.events.push(emission(tube, &change));
        }
        if !present {
            return;
        }
        let done = change.to == State::Done;
        if done && change.from.is_some_and(|from| from != State::Done) {
            tube.places = tube.places.saturating_sub(1);
        }
        let awaited = !tube.waiters.is_empty();
        let offered = self.offer(change);
        let granted = if done { self.admit_putters(number) } else { Ok(()) };
        let served = match &mut self.together {
            None if awaited => self.serve(&[number]),
            Some(tubes) if awaited && !tubes.contains(&number) => {
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
            let known = Known { header, row: change.row };
            return self.offer_sub(change.tube, &sub, Some((rank, known)));
        }
        if change.to == State::Ready && !change.passing && tube.window.covers(rank) {
            let known = Known { header, row: change.row };
            tube.window.insert(rank, Entry::Read(known), false);
        }
        Ok(())
    }

    /// Puts the best task of a sub-queue into the window, if it is free and has one. It may be
    /// the one of which something is known.
    pub(super) fn offer_sub(
        &mut self,
        number: u32,
        sub: &Arc<str>,
        known: Option<(Rank, Known)>,
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
                Some((of, known)) if of == rank => Entry::Read(known),
                _ => Entry::Unread(sub.clone()),
            };
            tube.window.insert(rank, entry, true);
        }
        Ok(())
    }

    /// The first ready task of a sub-queue that takers may see.
    fn best_of_sub(&mut self, number: u32, sub: &Arc<str>) -> Result<Option<Rank>> {
        let mut best = self.edit(number, |books| books.head_of(sub))?;
        while let Some(rank) = best {
            if !self.unsettled.contains_key(&rank.1) && !self.claims.contains_key(&rank.1) {
                break;
            }
            best = self.edit(number, |books| books.ready_after(sub, rank))?;
        }
        Ok(best)
    }

    /// A change of a task of this tube.
    pub(super) fn change(
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
            passing: false,
        }
    }
}

/// The state of a task that is not taken.
pub(crate) fn state_on(shelf: Shelf) -> State {
    match shelf {
        Shelf::Ready => State::Ready,
        Shelf::Delayed => State::Delayed,
        Shelf::Buried => State::Buried,
    }
}

fn emission(tube: &TubeState, change: &Change) -> Emission {
    Emission {
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
