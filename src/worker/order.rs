//! The order in which a worker asks its tubes for a task.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::base::random::random_u64;
use crate::core::TubeHead;

/// The order in which a [`Worker`](super::Worker) asks its tubes for the next task. Default:
/// [`Listed`](Order::Listed).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Order {
    /// The first tube first: a later tube is asked only while no earlier one has a ready task.
    #[default]
    Listed,
    /// The tube after the one that gave the last task first, so that the tubes take turns. Tubes
    /// without a ready task are skipped.
    RoundRobin,
    /// A random order for each take.
    Shuffled,
}

/// The tubes in the order in which the next take asks them, as one thread or future sees it.
pub(super) struct TakeOrder {
    order: Order,
    /// The tubes, with their places in the worker. Twice in a row for round robin, so that every
    /// rotation of them is a slice.
    heads: Vec<TubeHead>,
    places: Vec<usize>,
    random: u64,
}

impl TakeOrder {
    pub(super) fn new(order: Order, heads: Vec<TubeHead>) -> TakeOrder {
        let random = if order == Order::Shuffled { random_u64() | 1 } else { 0 };
        let places = (0..heads.len()).collect();
        let mut order = TakeOrder { order, heads, places, random };
        order.double();
        order
    }

    /// The tubes for the next take. `last` is the place of the tube that gave the last task.
    pub(super) fn next(&mut self, last: &AtomicUsize) -> &[TubeHead] {
        match self.order {
            Order::Listed => &self.heads,
            Order::RoundRobin => {
                let (count, last) = (self.heads.len() / 2, last.load(Ordering::Relaxed));
                let after = |place: &usize| last != NO_TUBE && *place > last;
                let start = self.places[..count].iter().position(after).unwrap_or(0);
                &self.heads[start..start + count]
            }
            Order::Shuffled => {
                for at in (1..self.heads.len()).rev() {
                    let other = self.random_below(at + 1);
                    self.heads.swap(at, other);
                    self.places.swap(at, other);
                }
                &self.heads
            }
        }
    }

    /// Leaves a tube out from now on. Returns whether another one is left.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let keep: Vec<bool> = self.heads.iter().map(|head| *head.name != *name).collect();
        let (mut heads, mut places) = (keep.iter(), keep.iter());
        self.heads.retain(|_| heads.next().is_none_or(|keep| *keep));
        self.places.retain(|_| places.next().is_none_or(|keep| *keep));
        !self.heads.is_empty()
    }

    fn double(&mut self) {
        if self.order == Order::RoundRobin {
            self.heads.extend_from_within(..);
            self.places.extend_from_within(..);
        }
    }

    /// Xorshift: the order of takes needs no better one.
    fn random_below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 1).unwrap_or(0) % limit
    }
}

/// No tube has given a task yet.
pub(super) const NO_TUBE: usize = usize::MAX;

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::base::tube_no::TubeNo;
    use crate::core::Buffer;

    fn heads(names: &[&str]) -> Vec<TubeHead> {
        let head = |name: &&str| TubeHead {
            number: TubeNo(0),
            name: (*name).into(),
            driver: "fifo".into(),
            buffer: Buffer::File,
        };
        names.iter().map(head).collect()
    }

    fn names(heads: &[TubeHead]) -> String {
        heads.iter().map(|head| &*head.name).collect()
    }

    #[test]
    fn round_robin_begins_after_the_tube_of_the_last_task() {
        let mut order = TakeOrder::new(Order::RoundRobin, heads(&["a", "b", "c"]));
        let last = AtomicUsize::new(NO_TUBE);
        assert_eq!(names(order.next(&last)), "abc");
        for (place, rotated) in [(0, "bca"), (1, "cab"), (2, "abc")] {
            last.store(place, Ordering::Relaxed);
            assert_eq!(names(order.next(&last)), rotated);
        }
        assert!(order.remove("b"));
        for (place, rotated) in [(0, "ca"), (1, "ca"), (2, "ac")] {
            last.store(place, Ordering::Relaxed);
            assert_eq!(names(order.next(&last)), rotated);
        }
        assert!(order.remove("a"));
        assert_eq!(names(order.next(&last)), "c");
        assert!(!order.remove("c"));
    }

    #[test]
    fn shuffled_order_has_every_tube_once() {
        let mut order = TakeOrder::new(Order::Shuffled, heads(&["a", "b", "c", "d"]));
        let last = AtomicUsize::new(NO_TUBE);
        let mut seen = HashSet::new();
        for _ in 0..1000 {
            let shuffled = names(order.next(&last));
            let mut sorted: Vec<char> = shuffled.chars().collect();
            sorted.sort_unstable();
            assert_eq!(sorted, ['a', 'b', 'c', 'd']);
            seen.insert(shuffled);
        }
        assert_eq!(seen.len(), 24);
    }
}
