//! Edges: which tasks wait for the end of which others.
//!
//! Invariants: each edge has a row in both directions. A task has as many edges from parents as its
//! header has open parents.

use crate::keys;
use crate::ledger::Ledger;
use crate::record::Header;
use crate::tables::{Reads, Rows, Table, Value};

/// The other end of an edge: the id of a task, and the space of its tube when the edge was written.
pub type EdgeEnd = (u64, u32);

/// Returns the parent of an edge to a task; `None` if there is no such edge.
///
/// # Errors
/// A row could not be read or is damaged.
pub fn edge<R: Reads>(rows: &mut R, child: u64, parent: u64) -> Result<Option<EdgeEnd>, R::Error> {
    match rows.get(Table::Index, &keys::parent_edge(child, parent))? {
        None => Ok(None),
        Some(value) => Ok(Some((parent, keys::edge_space(child, &value)?))),
    }
}

/// Returns up to `limit` parents of a task, in the order of their ids, from the first one or after
/// another one.
///
/// # Errors
/// A row could not be read or is damaged.
pub fn parents<R: Reads>(
    rows: &mut R,
    child: u64,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<EdgeEnd>, R::Error> {
    let from = after.map(|parent| keys::after(&keys::parent_edge(child, parent)));
    edges(rows, &keys::parents_prefix(child), from, limit)
}

/// Returns up to `limit` children of a task, in the order of their ids, from the first one or after
/// another one.
///
/// # Errors
/// A row could not be read or is damaged.
pub fn children<R: Reads>(
    rows: &mut R,
    parent: u64,
    after: Option<u64>,
    limit: usize,
) -> Result<Vec<EdgeEnd>, R::Error> {
    let from = after.map(|child| keys::after(&keys::child_edge(parent, child)));
    edges(rows, &keys::children_prefix(parent), from, limit)
}

/// Removes the rows of an edge. There must be one. The caller counts it.
pub fn remove_edge<R: Rows>(rows: &mut R, child: u64, parent: u64) {
    rows.remove(Table::Index, keys::child_edge(parent, child));
    rows.remove(Table::Index, keys::parent_edge(child, parent));
}

/// Writes that the parent of an edge is in another space now. There must be such an edge. The caller
/// counts it.
pub fn move_parent<R: Rows>(rows: &mut R, child: u64, (parent, space): EdgeEnd) {
    rows.replace(Table::Index, keys::parent_edge(child, parent), value_of(space));
}

impl<R: Rows> Ledger<'_, R> {
    /// Adds an edge from a parent to a task of this tube. There must be none. The header of the task
    /// counts it.
    pub fn add_edge(&mut self, child: u64, (parent, space): EdgeEnd) {
        let (down, up) = (keys::child_edge(parent, child), keys::parent_edge(child, parent));
        self.rows.insert(Table::Index, down, value_of(self.space));
        self.rows.insert(Table::Index, up, value_of(space));
        self.edge_changes.push((space, 1));
    }

    /// Removes an edge from a parent to a task of this tube. There must be one.
    pub fn remove_edge(&mut self, child: u64, (parent, space): EdgeEnd) {
        remove_edge(self.rows, child, parent);
        self.edge_changes.push((space, -1));
    }

    /// The edges that a change of a task removes: all from its parents, if it has open ones before
    /// and none afterwards.
    #[inline]
    pub(crate) fn read_parents(
        &mut self,
        child: u64,
        before: &Header,
        after: Option<&Header>,
    ) -> Result<Vec<EdgeEnd>, R::Error> {
        if before.open_parents() == 0 || after.is_some_and(|header| header.open_parents() > 0) {
            return Ok(Vec::new());
        }
        parents(self.rows, child, None, usize::MAX)
    }

    /// Adds edges from parents to a task. There must be none.
    pub fn add_edges(&mut self, child: u64, parents: &[EdgeEnd]) {
        for parent in parents {
            self.add_edge(child, *parent);
        }
    }

    /// Removes edges from parents to a task. There must be all of them.
    #[inline]
    pub fn remove_edges(&mut self, child: u64, parents: &[EdgeEnd]) {
        for parent in parents {
            self.remove_edge(child, *parent);
        }
    }
}

/// The value of a row of an edge: the space of the other task.
fn value_of(space: u32) -> Value {
    space.to_be_bytes().as_slice().into()
}

fn edges<R: Reads>(
    rows: &mut R,
    prefix: &[u8],
    from: Option<Vec<u8>>,
    limit: usize,
) -> Result<Vec<EdgeEnd>, R::Error> {
    let from = from.unwrap_or_else(|| prefix.to_vec());
    let found = rows.scan(Table::Index, &from, &keys::end_of(prefix), limit)?;
    let ends = found.into_iter().map(|(key, value)| {
        let (_, _, other) = keys::split_edge(&key)?;
        Ok((other, keys::edge_space(other, &value)?))
    });
    ends.collect()
}
