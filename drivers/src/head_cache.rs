//! The head cache: the first ready tasks of sub-queues, so that a put or an ack need not read them.
//!
//! Invariant: a cached sub-queue agrees with the rows. One that is not cached is read.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The order of takes: order key, then id.
pub(crate) type Rank = (u64, u64);

/// A cache of the first ready tasks of a tube's sub-queues. When it is full, it is cleared.
#[derive(Debug, Default)]
pub struct HeadCache {
    sub_queues: HashMap<Arc<str>, SubQueueHeads>,
    /// The number of entries that the current call needs. It raises the maximum.
    reserved: usize,
}

/// The first ready tasks of a sub-queue in order, taken or not. Empty if the sub-queue has none.
#[derive(Debug)]
pub(crate) struct SubQueueHeads {
    ranks: VecDeque<Rank>,
    /// The sub-queue has no other ready tasks.
    is_complete: bool,
}

impl HeadCache {
    const MAX: usize = 16_384;

    /// Clears the cache, for instance when the tube gets a new space.
    pub fn clear(&mut self) {
        self.sub_queues.clear();
    }

    /// Reserves capacity for `more` sub-queues that a call looks up before its first edit, so that
    /// the cache is not cleared before the call has used them.
    pub fn reserve(&mut self, more: usize) {
        if self.sub_queues.len() + more > Self::MAX {
            self.sub_queues.clear();
        }
        self.reserved = more;
    }

    pub(crate) fn get(&self, sub: &str) -> Option<&SubQueueHeads> {
        self.sub_queues.get(sub)
    }

    pub(crate) fn get_mut(&mut self, sub: &str) -> Option<&mut SubQueueHeads> {
        self.sub_queues.get_mut(sub)
    }

    pub(crate) fn insert(&mut self, sub: &Arc<str>, heads: SubQueueHeads) {
        if self.sub_queues.len() >= Self::MAX.max(self.reserved)
            && !self.sub_queues.contains_key(sub)
        {
            self.sub_queues.clear();
            self.reserved = 0;
        }
        self.sub_queues.insert(sub.clone(), heads);
    }
}

impl SubQueueHeads {
    /// Maximum number of tasks of a sub-queue.
    pub(crate) const MAX: usize = 8;

    pub(crate) fn new(ranks: VecDeque<Rank>, is_complete: bool) -> SubQueueHeads {
        SubQueueHeads { ranks, is_complete }
    }

    pub(crate) fn head(&self) -> Option<Rank> {
        self.ranks.front().copied()
    }

    /// The next task after this one; `None` if it is not cached, `Some(None)` if there is none.
    pub(crate) fn after(&self, rank: Rank) -> Option<Option<Rank>> {
        let next = self.ranks.iter().find(|other| **other > rank).copied();
        (next.is_some() || self.is_complete).then_some(next)
    }

    /// Adds a ready task.
    pub(crate) fn add(&mut self, rank: Rank) {
        let at = self.ranks.partition_point(|other| *other < rank);
        if at < self.ranks.len() || self.is_complete {
            self.ranks.insert(at, rank);
        }
        if self.ranks.len() > SubQueueHeads::MAX {
            self.ranks.pop_back();
            self.is_complete = false;
        }
    }

    /// Removes a ready task. Returns false, and does nothing, if it is the only cached task and the
    /// sub-queue may have more: the caller must read them.
    pub(crate) fn remove(&mut self, rank: Rank) -> bool {
        if !self.is_complete && self.ranks.len() == 1 && self.head() == Some(rank) {
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

    fn heads(ids: impl Iterator<Item = u64>, is_complete: bool) -> SubQueueHeads {
        SubQueueHeads::new(ids.map(|id| (0, id)).collect(), is_complete)
    }

    /// A call reads before its first edit, so that a failing storage leaves no call half done.
    #[test]
    fn reserved_sub_queues_stay_cached_until_another_is_added() {
        let name = |n: usize| Arc::<str>::from(n.to_string());
        let mut head_cache = HeadCache::default();
        (0..10).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        let many = HeadCache::MAX + 1000;
        head_cache.reserve(many);
        (0..many).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        head_cache.insert(&name(7), heads(0..2, true));
        assert!((0..many).all(|n| head_cache.get(&name(n)).is_some()));
        head_cache.insert(&name(many), heads(0..1, true));
        assert_eq!(head_cache.sub_queues.len(), 1, "one entry more clears the cache");
        (0..2 * HeadCache::MAX).for_each(|n| head_cache.insert(&name(n), heads(0..1, true)));
        assert!(head_cache.sub_queues.len() <= HeadCache::MAX);
    }

    #[test]
    fn complete_heads_report_the_end_of_the_sub_queue() {
        let mut heads = heads(1..3, true);
        assert_eq!(heads.after((0, 1)), Some(Some((0, 2))));
        assert!(heads.remove((0, 1)) && heads.remove((0, 2)));
        assert_eq!((heads.head(), heads.after((0, 2))), (None, Some(None)));
        heads.add((0, 9));
        assert_eq!(heads.head(), Some((0, 9)));
    }

    #[test]
    fn heads_that_overflow_are_no_longer_complete() {
        let mut heads = heads(1..=MAX, true);
        heads.add((0, 0));
        assert_eq!((heads.ranks.len(), heads.is_complete), (SubQueueHeads::MAX, false));
        assert_eq!((heads.head(), heads.after((0, MAX - 1))), (Some((0, 0)), None));
    }

    #[test]
    fn tasks_after_the_cached_ones_must_be_read() {
        let mut heads = heads(1..2, false);
        heads.add((0, 5));
        assert_eq!(heads.after((0, 1)), None);
        assert!(!heads.remove((0, 1)), "the tasks after the last one must be read");
        assert_eq!(heads.head(), Some((0, 1)), "until then it stays");
        heads.add((0, 0));
        assert!(heads.remove((0, 1)));
        assert_eq!(heads.head(), Some((0, 0)));
    }
}
