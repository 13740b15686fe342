//! Verification of the edges: each has a row in both directions, its child waits, and its parent is
//! not over.

use crate::keys::{self, Position, Shelf};
use crate::record::{Header, Record};
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// A task has as many parents as its header says, and a task with parents is blocked or buried.
    pub(crate) fn expect_edges(
        &mut self,
        tube: &TubeTotals,
        shelf: Shelf,
        id: u64,
        header: &Header,
    ) -> Result<(), R::Error> {
        let open = header.open_parents();
        let may_be_here = match shelf {
            Shelf::Blocked => open > 0,
            Shelf::Buried => true,
            Shelf::Ready | Shelf::Delayed | Shelf::Done | Shelf::Recurring => open == 0,
        };
        if !may_be_here {
            self.report(
                tube.space,
                format_args!("task {id} is {shelf:?} with {open} open parents"),
            );
        }
        if open > 0 {
            let prefix = keys::parents_prefix(id);
            let limit = usize::try_from(open).unwrap_or(usize::MAX).saturating_add(1);
            let edges = self.rows.scan(Table::Index, &prefix, &keys::end_of(&prefix), limit)?.len();
            if edges as u64 != u64::from(open) {
                self.report(
                    tube.space,
                    format_args!("task {id} has {open} open parents and {edges} edges"),
                );
            }
        }
        Ok(())
    }

    /// A row of `index` that is one direction of an edge.
    pub(crate) fn edge(
        &mut self,
        kind: u8,
        (id, other): (u64, u64),
        value: &Value,
    ) -> Result<(), R::Error> {
        let Ok(space) = keys::edge_space(other, value) else {
            self.found.push(format!("the edge of tasks {id} and {other} cannot be read"));
            return Ok(());
        };
        if kind == keys::CHILD {
            self.edge_down(id, other, space)
        } else {
            self.edge_up(id, other, space)
        }
    }

    /// The row that leads from a parent to a child.
    fn edge_down(&mut self, parent: u64, child: u64, space: u32) -> Result<(), R::Error> {
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        if self.rows.get(Table::Index, &keys::parent_edge(child, parent))?.is_none() {
            self.report(space, format_args!("task {child} has no edge from its parent {parent}"));
        }
        // A damaged record is a finding of its own.
        let waits = self.find(&tube, child)?.is_some_and(|record| {
            Record::decode(child, record).map_or(true, |record| record.header.open_parents() > 0)
        });
        if !waits {
            self.report_stray(&tube, Table::Index, child);
        }
        Ok(())
    }

    /// The row that leads from a child to a parent.
    fn edge_up(&mut self, child: u64, parent: u64, space: u32) -> Result<(), R::Error> {
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        if self.rows.get(Table::Index, &keys::child_edge(parent, child))?.is_none() {
            self.report(space, format_args!("task {parent} has no edge to its child {child}"));
        }
        self.counted.entry(space).or_default().edges += 1;
        if self.rows.get(Table::Meta, &keys::freed(parent))?.is_some() {
            // The parent is over, and its children are being freed.
            return Ok(());
        }
        if !self.is_open(&tube, parent)? {
            self.report(space, format_args!("task {child} waits for task {parent}, which is over"));
        }
        Ok(())
    }

    fn is_open(&mut self, tube: &TubeTotals, id: u64) -> Result<bool, R::Error> {
        let pointer = self.rows.get(Table::Places, &keys::by_id(tube.space, id))?;
        let shelf = match pointer.map(|pointer| Position::from_pointer(id, &pointer)) {
            None => Shelf::Ready,
            Some(Ok(position)) => position.shelf,
            // A damaged pointer is a finding of its own.
            Some(Err(_)) => return Ok(true),
        };
        Ok(shelf != Shelf::Done && self.find(tube, id)?.is_some())
    }
}
