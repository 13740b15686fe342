//! What falls due, and in which order.

use std::collections::BTreeSet;

use super::{Cause, Micros, Model, NEVER, Place, Refusal, State, TaskNo, Verb};

/// Kinds of things that fall due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Due {
    /// A delay is over.
    Delay,
    /// A life is over.
    Dead,
    /// A hold is over.
    Hold,
    /// A session that everybody left has waited long enough for somebody to come back.
    Grace,
    /// A wait has lasted long enough.
    Wait,
}

/// In which order things are done that fall due at one moment; those of one kind in that of their
/// numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ties {
    pub kinds: [Due; 5],
    pub serve: Serve,
}

/// When those who wait are served meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serve {
    AfterEach,
    AfterEachKind,
    AtTheEnd,
}

impl Default for Ties {
    fn default() -> Ties {
        let kinds = [Due::Delay, Due::Dead, Due::Hold, Due::Grace, Due::Wait];
        Ties { kinds, serve: Serve::AfterEachKind }
    }
}

impl Ties {
    /// Every order there is.
    pub fn all() -> Vec<Ties> {
        let mut orders: Vec<Vec<Due>> = vec![Vec::new()];
        for kind in Ties::default().kinds {
            orders = orders.iter().flat_map(|order| insertions(order, kind)).collect();
        }
        let kinds = orders.into_iter().filter_map(|order| <[Due; 5]>::try_from(order).ok());
        let serves = [Serve::AfterEachKind, Serve::AfterEach, Serve::AtTheEnd];
        kinds.flat_map(|kinds| serves.map(|serve| Ties { kinds, serve })).collect()
    }

    fn rank(self, kind: Due) -> Option<usize> {
        self.kinds.iter().position(|other| *other == kind)
    }
}

/// The list with one more at each of the places where it can go.
fn insertions(list: &[Due], kind: Due) -> Vec<Vec<Due>> {
    let insert = |at: usize| [&list[..at], &[kind], &list[at..]].concat();
    (0..=list.len()).map(insert).collect()
}

impl Model {
    /// Everything that will fall due, as things are: when, and the number of what.
    fn dues(&self) -> Vec<(Micros, Due, u64)> {
        let mut dues = Vec::new();
        for (id, task) in &self.tasks {
            match task.state() {
                State::Delayed => dues.push((task.due(), Due::Delay, *id)),
                State::Taken => dues.push((task.due(), Due::Hold, *id)),
                _ => {}
            }
            // A delay is part of the life, and over before it.
            if task.state() != State::Delayed {
                dues.push((task.dead, Due::Dead, *id));
            }
        }
        for (no, until) in &self.sessions {
            dues.extend(until.map(|until| (until, Due::Grace, *no)));
        }
        let waiting = self.waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::Wait, *no)));
        let waiting = self.put_waits.iter().filter(|(_, wait)| wait.answer.is_none());
        dues.extend(waiting.map(|(no, wait)| (wait.until, Due::Wait, *no)));
        dues.retain(|(when, ..)| *when != NEVER);
        dues
    }

    /// The moments at which something falls due, in order.
    pub fn moments(&self) -> BTreeSet<Micros> {
        self.dues().iter().map(|(when, ..)| *when).collect()
    }

    /// Moves the clock on, and does everything that falls due on the way, each at its moment.
    pub fn advance(&mut self, by: Micros, ties: Ties) {
        let target = self.now.saturating_add(by);
        while let Some(moment) = self.moments().first().filter(|moment| **moment <= target) {
            self.now = self.now.max(*moment);
            self.fall_due(ties);
        }
        self.now = target;
    }

    /// Does what is due by now.
    fn fall_due(&mut self, ties: Ties) {
        let mut before = None;
        loop {
            let due = self.dues().into_iter().filter(|(when, ..)| *when <= self.now);
            let Some((_, kind, no)) = due.min_by_key(|(_, kind, no)| (ties.rank(*kind), *no))
            else {
                break;
            };
            if ties.serve == Serve::AfterEachKind && before.is_some_and(|before| before != kind) {
                before = None;
                self.serve();
                continue;
            }
            before = Some(kind);
            match kind {
                Due::Delay => self.change(no, Cause::Verb(Verb::Delay), Place::Ready),
                Due::Hold => self.change(no, Cause::Verb(Verb::Ttr), Place::Ready),
                Due::Dead => self.expire(no),
                Due::Grace => self.forget_session(no),
                Due::Wait if self.waits.contains_key(&no) => self.end_wait(no, Ok(None)),
                Due::Wait => self.end_put_wait(no, Err(Refusal::Full)),
            }
            if ties.serve == Serve::AfterEach {
                self.serve();
            }
        }
        self.serve();
    }

    /// The end of a life counts as a delete too, and before it the end of a hold.
    fn expire(&mut self, id: TaskNo) {
        let state = self.tasks[&id].state();
        if state == State::Taken {
            self.count_call(id, Verb::Ttr, State::Ready);
        }
        self.count_call(id, Verb::Delete, State::Done);
        self.remove(id, Cause::Verb(Verb::Ttl));
    }
}
