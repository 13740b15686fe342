//! Edges of the tasks of a transaction whose commit may fail. Other callers may add some before it is
//! in the file.
//!
//! A task that the transaction has acked or deleted is not over for them: they wait for it, until the commit is
//! in the file. No chore runs meanwhile, so what the transaction has caused can be taken back.

use tubewell_drivers::{EdgeEnd, children, edge, move_parent};

use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::state::{Buffer, Chore, Core, InDoubt, ParentEnd};

impl Core {
    /// The edge end of a task that a transaction in doubt has acked or deleted. The caller waits for it.
    pub(super) fn wait_for_over(&mut self, id: u64) -> Option<EdgeEnd> {
        let in_doubt = self.undo.in_doubt.as_mut()?;
        let over = in_doubt.over.iter().find(|over| over.id == id)?;
        in_doubt.waited_for.insert(id);
        Some((id, over.space))
    }

    /// The transaction is in the file: frees the tasks that wait for those that it has acked or deleted. Their
    /// edges are still among the active edits.
    pub(in crate::core) fn free_waiting(&mut self, in_doubt: &InDoubt) {
        for over in &in_doubt.over {
            if in_doubt.waited_for.contains(&over.id) {
                self.tell_later(over.number, over.id, ParentEnd::Done);
            }
        }
        self.effects.call_writer |= self.has_chores();
    }

    /// As `free_waiting`, for a transaction that is taken back: they are not there
    /// again if their tube was truncated or dropped since.
    pub(in crate::core) fn end_waits_of_purged(&mut self, in_doubt: &InDoubt) {
        for over in &in_doubt.over {
            let is_purged = self.tubes.of_space(over.space).is_none();
            if is_purged && in_doubt.waited_for.contains(&over.id) {
                self.tell_later(over.number, over.id, ParentEnd::Gone);
            }
        }
    }

    /// A task is in this tube again: the edges to its children, which were added or moved since, name
    /// that.
    pub(in crate::core) fn take_children_back(&mut self, number: TubeNo, id: u64) -> Result<()> {
        let Some(to) = self.tubes.get(number).map(|tube| tube.definition.space) else {
            return Ok(());
        };
        for (child, _) in children(&mut self.buffers[Buffer::File], id, None, usize::MAX)? {
            let rows = &mut self.buffers[Buffer::File];
            if let Some((_, from)) = edge(rows, child, id)?
                && from != to
            {
                move_parent(rows, child, (id, to));
                self.count_edges(vec![(from, -1), (to, 1)]);
            }
        }
        Ok(())
    }

    /// Whether tasks wait for one that the transaction has put.
    pub(in crate::core) fn is_waited_for(&mut self, id: u64) -> Result<bool> {
        Ok(!children(&mut self.buffers[Buffer::File], id, None, 1)?.is_empty())
    }

    /// What the children of a task are to be told is as before the transaction.
    pub(in crate::core) fn put_chore_back(&mut self, id: u64, before: Option<&Chore>) {
        match before {
            Some(chore) => self.store_chore((Buffer::File, id), *chore),
            None => self.remove_chore((Buffer::File, id)),
        }
    }
}
