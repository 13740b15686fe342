//! Work of unknown size that calls leave behind: it is done a step at a time, and goes on after a crash.

use crate::base::tube_no::TubeNo;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use tubewell_drivers::keys;

use super::buffers::Buffer;
use super::parents::{Chore, ParentEnd};

/// The value of the mark of a space to purge: whether its tasks may have edges.
pub(in crate::core) fn mark_of_purge(may_have_edges: bool) -> &'static [u8] {
    if may_have_edges { b"e" } else { b"" }
}

/// What is to be done.
#[derive(Debug, Default)]
pub(in crate::core) struct Chores {
    /// Parents whose children are still to be told of their end, by write buffer and id.
    parents: BTreeMap<(Buffer, u64), Chore>,
    /// Tubes that may have more done or buried tasks than they keep.
    surplus: BTreeSet<TubeNo>,
    /// Spaces to purge, each with its write buffer.
    purges: VecDeque<(Buffer, u32)>,
    /// Those of them whose tasks may have edges: the key up to which these were removed.
    purges_with_edges: BTreeMap<u32, Vec<u8>>,
}

impl Chores {
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.parents.is_empty() && self.surplus.is_empty() && self.purges.is_empty()
    }

    /// Whether children are to be told of the ends of their parents.
    pub(in crate::core) fn has_ends_to_tell(&self) -> bool {
        !self.parents.is_empty() || !self.purges_with_edges.is_empty()
    }

    /// The next parent of a write buffer.
    pub(in crate::core) fn next_parent(&self, buffer: Buffer) -> Option<(u64, Chore)> {
        let mut parents = self.parents.range((buffer, 0)..=(buffer, u64::MAX));
        parents.next().map(|((_, parent), chore)| (*parent, *chore))
    }

    pub(in crate::core) fn parent(&self, buffer: Buffer, id: u64) -> Option<Chore> {
        self.parents.get(&(buffer, id)).copied()
    }

    /// Adds a parent, or replaces what was to be told of it.
    pub(in crate::core) fn add_parent(&mut self, buffer: Buffer, id: u64, chore: Chore) {
        self.parents.insert((buffer, id), chore);
    }

    /// Returns whether it was there.
    pub(in crate::core) fn remove_parent(&mut self, buffer: Buffer, id: u64) -> bool {
        self.parents.remove(&(buffer, id)).is_some()
    }

    /// All parents, as they are now.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn parents(&self) -> BTreeMap<(Buffer, u64), Chore> {
        self.parents.clone()
    }

    /// Whether the children of a parent are to be told of this end.
    pub(in crate::core) fn tells(&self, buffer: Buffer, id: u64, end: ParentEnd) -> bool {
        self.parent(buffer, id).is_some_and(|chore| chore.end == end)
    }

    /// Adds a tube that has more tasks than it keeps.
    pub(in crate::core) fn add_surplus(&mut self, tube: TubeNo) {
        self.surplus.insert(tube);
    }

    pub(in crate::core) fn remove_surplus(&mut self, tube: TubeNo) {
        self.surplus.remove(&tube);
    }

    /// The tubes that may have more tasks than they keep.
    pub(in crate::core) fn surplus(&self) -> impl Iterator<Item = TubeNo> {
        self.surplus.iter().copied()
    }

    /// Adds a space to purge.
    pub(in crate::core) fn add_purge(&mut self, buffer: Buffer, space: u32, may_have_edges: bool) {
        self.purges.push_back((buffer, space));
        if may_have_edges {
            self.purges_with_edges.insert(space, keys::space_prefix(space));
        }
    }

    /// All rows of a space are removed.
    pub(in crate::core) fn remove_purge(&mut self, space: u32) {
        self.purges.retain(|(_, of)| *of != space);
    }

    /// The next space of a write buffer to purge.
    pub(in crate::core) fn next_purge(&self, buffer: Buffer) -> Option<u32> {
        self.purges(buffer).next()
    }

    /// The spaces to purge in a write buffer.
    pub(in crate::core) fn purges(&self, buffer: Buffer) -> impl Iterator<Item = u32> {
        self.purges.iter().filter(move |(of, _)| *of == buffer).map(|(_, space)| *space)
    }

    /// From which key on the tasks of a space to purge may have edges; `None` if they have none.
    pub(in crate::core) fn edges_from(&self, space: u32) -> Option<&[u8]> {
        self.purges_with_edges.get(&space).map(Vec::as_slice)
    }

    /// The edges of a space to purge are removed up to this key; all of them with `None`.
    pub(in crate::core) fn edges_are_removed(&mut self, space: u32, up_to: Option<Vec<u8>>) {
        match up_to {
            Some(key) => self.purges_with_edges.insert(space, key),
            None => self.purges_with_edges.remove(&space),
        };
    }
}
