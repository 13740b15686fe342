//! How many bytes of answers and items the clients of a server have left unread.

use crate::limits::FREE;
use crate::sync::{AtomicUsize, Ordering};

/// The bytes of all connections of a server.
pub(crate) struct OutputBudget {
    most: usize,
    used: AtomicUsize,
}

impl OutputBudget {
    pub(crate) fn new(most: usize) -> OutputBudget {
        OutputBudget { most, used: AtomicUsize::new(0) }
    }

    /// Whether an answer of so many bytes may be added. A short one may in any case.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        bytes <= FREE || self.used.load(Ordering::Relaxed).saturating_add(bytes) <= self.most
    }

    /// Whether connections must make do with their free bytes, and clients read at a least rate.
    pub(crate) fn is_short(&self) -> bool {
        self.used.load(Ordering::Relaxed) >= self.most / 2
    }

    fn change(&self, before: usize, after: usize) {
        if after >= before {
            self.used.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }
}

/// The bytes of one connection that count for all of them.
#[derive(Default)]
pub(crate) struct UnreadBytes(usize);

impl UnreadBytes {
    /// The client has left so many bytes unread. Returns how many of them count.
    pub(crate) fn set(&mut self, unsent: usize, budget: &OutputBudget) -> usize {
        let counted = unsent.saturating_sub(FREE);
        budget.change(self.0, counted);
        self.0 = counted;
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_answer_has_room_until_those_of_all_connections_are_at_the_limit() {
        let budget = OutputBudget::new(10 * FREE);
        let [mut one, mut other] = [UnreadBytes::default(), UnreadBytes::default()];
        assert_eq!(one.set(FREE, &budget), 0, "the first bytes of a connection are free");
        assert_eq!(one.set(7 * FREE, &budget), 6 * FREE);
        assert!(budget.is_short() && budget.has_room(4 * FREE) && !budget.has_room(4 * FREE + 1));
        other.set(5 * FREE, &budget);
        assert!(budget.has_room(FREE) && !budget.has_room(FREE + 1));
        one.set(0, &budget);
        assert!(!budget.is_short() && budget.has_room(6 * FREE));
    }
}
