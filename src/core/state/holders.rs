//! The taken tasks of a sub-queue.

use super::window::{Rank, rank_before};
use crate::base::id_map::IdSet;

/// The tasks of a sub-queue that are taken, or whose end is not yet visible. Never empty. One task, the
/// most that most tubes allow, needs no allocation.
#[derive(Debug)]
pub(crate) enum Holders {
    One(u64),
    Many(Box<Many>),
}

/// The holders of a sub-queue of which several tasks may be taken.
#[derive(Debug)]
pub(crate) struct Many {
    ids: IdSet<u64>,
    /// Up to this rank no ready task of the sub-queue can be taken: each is taken, or has a change that
    /// is not yet visible. So a take does not look at all holders.
    searched: Option<Rank>,
}

impl Holders {
    pub(crate) fn len(&self) -> usize {
        match self {
            Holders::One(_) => 1,
            Holders::Many(many) => many.ids.len(),
        }
    }

    pub(crate) fn contains(&self, id: u64) -> bool {
        match self {
            Holders::One(one) => *one == id,
            Holders::Many(many) => many.ids.contains(&id),
        }
    }

    pub(crate) fn ids(&self) -> Vec<u64> {
        match self {
            Holders::One(one) => vec![*one],
            Holders::Many(many) => many.ids.iter().copied().collect(),
        }
    }

    /// Adds a holder. Returns whether it was none before.
    pub(crate) fn add(&mut self, id: u64) -> bool {
        if self.contains(id) {
            return false;
        }
        match self {
            Holders::One(one) => {
                let ids = IdSet::from_iter([*one, id]);
                *self = Holders::Many(Box::new(Many { ids, searched: None }));
            }
            Holders::Many(many) => drop(many.ids.insert(id)),
        }
        true
    }

    /// Removes a holder. Returns whether it was one. The caller drops what is empty then.
    pub(crate) fn remove(&mut self, id: u64) -> Removed {
        match self {
            Holders::One(one) if *one == id => Removed::Last,
            Holders::One(_) => Removed::None,
            Holders::Many(many) => match (many.ids.remove(&id), many.ids.is_empty()) {
                (false, _) => Removed::None,
                (true, false) => Removed::OneOfMany,
                (true, true) => Removed::Last,
            },
        }
    }

    pub(crate) fn searched(&self) -> Option<Rank> {
        match self {
            Holders::One(_) => None,
            Holders::Many(many) => many.searched,
        }
    }

    pub(crate) fn set_searched(&mut self, rank: Option<Rank>) {
        if let Holders::Many(many) = self {
            many.searched = rank;
        }
    }

    /// The task of this rank has changed: it may be takeable.
    pub(crate) fn search_again_from(&mut self, rank: Rank) {
        if let Holders::Many(many) = self
            && many.searched.is_some_and(|searched| searched >= rank)
        {
            many.searched = rank_before(rank);
        }
    }
}

/// What the removal of a holder has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Removed {
    None,
    OneOfMany,
    Last,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removal_reports_whether_holders_are_left() {
        let mut holders = Holders::One(7);
        assert!(!holders.add(7) && holders.add(8) && !holders.add(8));
        assert_eq!((holders.len(), holders.remove(9)), (2, Removed::None));
        assert_eq!((holders.remove(7), holders.len()), (Removed::OneOfMany, 1));
        assert_eq!((holders.remove(7), holders.remove(8)), (Removed::None, Removed::Last));
        assert_eq!(
            (Holders::One(3).remove(4), Holders::One(3).remove(3)),
            (Removed::None, Removed::Last)
        );
    }

    #[test]
    fn changed_task_is_searched_again() {
        let mut holders = Holders::One(7);
        holders.set_searched(Some((5, 5)));
        assert_eq!(holders.searched(), None, "one holder is passed by looking at it");
        holders.add(8);
        holders.set_searched(Some((5, 5)));
        for (changed, searched) in [
            ((5, 6), Some((5, 5))),
            ((5, 5), Some((5, 4))),
            ((5, 0), Some((4, u64::MAX))),
            ((4, 9), Some((4, 8))),
            ((0, 0), None),
        ] {
            holders.search_again_from(changed);
            assert_eq!(holders.searched(), searched);
        }
    }

    #[test]
    fn one_holder_needs_no_allocation_and_little_memory() {
        assert_eq!(size_of::<Holders>(), 16);
    }
}
