//! The first ready tasks of sub-queues, remembered so that a put or an ack need not look them up.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The order of takes: order key, then id.
pub(crate) type Rank = (u64, u64);

/// What is known of the sub-queues of a tube. What it says is always so; what it does not know is
/// read. It forgets all when it is full.
#[derive(Debug, Default)]
pub struct HeadCache {
    known: HashMap<Arc<str>, SubQueueHeads>,
    /// So many are full, if that is more than usual.
    room: usize,
}

/// The first ready tasks of a sub-queue in order, claims ignored; without any there are none.
#[derive(Debug)]
pub(crate) struct SubQueueHeads {
    ranks: VecDeque<Rank>,
    /// There are no others.
    complete: bool,
}

impl HeadCache {
    const MAX: usize = 16_384;

    /// Forgets everything, as when the tube gets a new space.
    pub fn clear(&mut self) {
        self.known.clear();
    }

    /// Makes room for what a call looks up first, of so many sub-queues: it forgets nothing of that
    /// until then. Such a call reads before it edits anything.
    pub fn reserve(&mut self, more: usize) {
        if self.known.len() + more > Self::MAX {
            self.known.clear();
        }
        self.room = more;
    }

    pub(crate) fn of(&self, sub: &str) -> Option<&SubQueueHeads> {
        self.known.get(sub)
    }

    pub(crate) fn of_mut(&mut self, sub: &str) -> Option<&mut SubQueueHeads> {
        self.known.get_mut(sub)
    }

    pub(crate) fn insert(&mut self, sub: &Arc<str>, heads: SubQueueHeads) {
        if self.known.len() >= Self::MAX.max(self.room) && !self.known.contains_key(sub) {
            self.known.clear();
            self.room = 0;
        }
        self.known.insert(sub.clone(), heads);
    }
}

impl SubQueueHeads {
    /// Most tasks that are remembered of a sub-queue.
    pub(crate) const MAX: usize = 8;

    pub(crate) fn new(ranks: VecDeque<Rank>, complete: bool) -> SubQueueHeads {
        SubQueueHeads { ranks, complete }
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
        if self.ranks.len() > SubQueueHeads::MAX {
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

    const MAX: u64 = SubQueueHeads::MAX as u64;

    fn heads(ids: impl Iterator<Item = u64>, complete: bool) -> SubQueueHeads {
        SubQueueHeads::new(ids.map(|id| (0, id)).collect(), complete)
    }

    /// It was read before the first edit, so that a failing storage leaves no call half done.
    #[test]
    fn what_a_call_looks_up_is_known_until_it_has_used_it() {
        let name = |n: usize| Arc::<str>::from(n.to_string());
        let mut head_cache = HeadCache::default();
        (0..10).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        let many = HeadCache::MAX + 1000;
        head_cache.reserve(many);
        (0..many).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        head_cache.insert(&name(7), heads(0..2, true));
        assert!((0..many).all(|n| head_cache.of(&name(n)).is_some()));
        head_cache.insert(&name(many), heads(0..1, true));
        assert_eq!(head_cache.known.len(), 1, "and no longer than that");
        (0..2 * HeadCache::MAX).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        assert!(head_cache.known.len() <= HeadCache::MAX);
    }

    #[test]
    fn a_front_that_knows_all_says_when_there_are_no_more() {
        let mut heads = heads(1..3, true);
        assert_eq!(heads.after((0, 1)), Some(Some((0, 2))));
        assert!(heads.remove((0, 1)) && heads.remove((0, 2)));
        assert_eq!((heads.head(), heads.after((0, 2))), (None, Some(None)));
        heads.add((0, 9));
        assert_eq!(heads.head(), Some((0, 9)));
    }

    #[test]
    fn a_front_that_overflows_forgets_that_it_knew_all() {
        let mut heads = heads(1..=MAX, true);
        heads.add((0, 0));
        assert_eq!((heads.ranks.len(), heads.complete), (SubQueueHeads::MAX, false));
        assert_eq!((heads.head(), heads.after((0, MAX - 1))), (Some((0, 0)), None));
    }

    #[test]
    fn what_comes_behind_the_known_ones_is_left_to_be_read() {
        let mut heads = heads(1..2, false);
        heads.add((0, 5));
        assert_eq!(heads.after((0, 1)), None);
        assert!(!heads.remove((0, 1)), "what is behind the last one must be read");
        assert_eq!(heads.head(), Some((0, 1)), "and until then it stays");
        heads.add((0, 0));
        assert!(heads.remove((0, 1)));
        assert_eq!(heads.head(), Some((0, 0)));
    }
}
