//! The first ready tasks of sub-queues, remembered so that a put or an ack need not look them up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The order of takes: order key, then id.
pub(crate) type Rank = (u64, u64);

/// What is known of the sub-queues of a tube. What it says is always so; what it does not know is
/// read. It forgets all when it is full.
#[derive(Debug, Default)]
pub struct Fronts {
    known: HashMap<Arc<str>, Front>,
    /// So many are full, if that is more than usual.
    room: usize,
}

/// The first ready tasks of a sub-queue in order, claims ignored; without any there are none.
#[derive(Debug)]
pub(crate) struct Front {
    ranks: VecDeque<Rank>,
    /// There are no others.
    complete: bool,
}

impl Fronts {
    const MAX: usize = 16_384;

    /// Forgets everything, as when the tube gets a new space.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Makes room for what a call looks up first, of so many sub-queues: it forgets nothing of that
    /// until then. Such a call reads before it edits anything.
    pub fn make_room(&mut self, more: usize) {
        if self.known.len() + more > Self::MAX {
            self.known.clear();
        }
        self.room = more;
    }

    pub(crate) fn of(&self, sub: &str) -> Option<&Front> {
        self.known.get(sub)
    }

    pub(crate) fn of_mut(&mut self, sub: &str) -> Option<&mut Front> {
        self.known.get_mut(sub)
    }

    pub(crate) fn know(&mut self, sub: &Arc<str>, front: Front) {
        if self.known.len() >= Self::MAX.max(self.room) && !self.known.contains_key(sub) {
            self.known.clear();
            self.room = 0;
        }
        self.known.insert(sub.clone(), front);
    }
}

impl Front {
    /// Most tasks that are remembered of a sub-queue.
    pub(crate) const MAX: usize = 8;

    pub(crate) fn new(ranks: VecDeque<Rank>, complete: bool) -> Front {
        Front { ranks, complete }
    }

    pub(crate) fn head(&self) -> Option<Rank> {
        self.ranks.front().copied()
    }

    /// The first task behind this one; `None` if that is not known.
    pub(crate) fn after(&self, rank: Rank) -> Option<Option<Rank>> {
        let next = self.ranks.iter().find(|other| **other > rank).copied();
        (next.is_some() || self.complete).then_some(next)
    }

    /// A ready task came.
    pub(crate) fn add(&mut self, rank: Rank) {
        let at = self.ranks.partition_point(|other| *other < rank);
        if at < self.ranks.len() || self.complete {
            self.ranks.insert(at, rank);
        }
        if self.ranks.len() > Front::MAX {
            self.ranks.pop_back();
            self.complete = false;
        }
    }

    /// A ready task left. False if nothing would be known then: the next ones are to be read.
    pub(crate) fn remove(&mut self, rank: Rank) -> bool {
        if !self.complete && self.ranks.len() == 1 && self.head() == Some(rank) {
            return false;
        }
        self.ranks.retain(|other| *other != rank);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = Front::MAX as u64;

    fn front(ids: impl Iterator<Item = u64>, complete: bool) -> Front {
        Front::new(ids.map(|id| (0, id)).collect(), complete)
    }

    /// It was read before the first edit, so that a failing storage leaves no call half done.
    #[test]
    fn what_a_call_looks_up_is_known_until_it_has_used_it() {
        let name = |n: usize| Arc::<str>::from(n.to_string());
        let mut fronts = Fronts::default();
        (0..10).for_each(|n| fronts.know(&name(n), front(0..1, true)));
        let many = Fronts::MAX + 1000;
        fronts.make_room(many);
        (0..many).for_each(|n| fronts.know(&name(n), front(0..1, true)));
        fronts.know(&name(7), front(0..2, true));
        assert!((0..many).all(|n| fronts.of(&name(n)).is_some()));
        fronts.know(&name(many), front(0..1, true));
        assert_eq!(fronts.known.len(), 1, "and no longer than that");
        (0..2 * Fronts::MAX).for_each(|n| fronts.know(&name(n), front(0..1, true)));
        assert!(fronts.known.len() <= Fronts::MAX);
    }

    #[test]
    fn a_front_that_knows_all_says_when_there_are_no_more() {
        let mut front = front(1..3, true);
        assert_eq!(front.after((0, 1)), Some(Some((0, 2))));
        assert!(front.remove((0, 1)) && front.remove((0, 2)));
        assert_eq!((front.head(), front.after((0, 2))), (None, Some(None)));
        front.add((0, 9));
        assert_eq!(front.head(), Some((0, 9)));
    }

    #[test]
    fn a_front_that_overflows_forgets_that_it_knew_all() {
        let mut front = front(1..=MAX, true);
        front.add((0, 0));
        assert_eq!((front.ranks.len(), front.complete), (Front::MAX, false));
        assert_eq!((front.head(), front.after((0, MAX - 1))), (Some((0, 0)), None));
    }

    #[test]
    fn what_comes_behind_the_known_ones_is_left_to_be_read() {
        let mut front = front(1..2, false);
        front.add((0, 5));
        assert_eq!(front.after((0, 1)), None);
        assert!(!front.remove((0, 1)), "what is behind the last one must be read");
        assert_eq!(front.head(), Some((0, 1)), "and until then it stays");
        front.add((0, 0));
        assert!(front.remove((0, 1)));
        assert_eq!(front.head(), Some((0, 0)));
    }
}
