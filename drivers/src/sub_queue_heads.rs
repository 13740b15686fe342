//! The heads of sub-queues: the first ready task of each, in the table `heads` and in the cache.
//!
//! Invariant: a sub-queue with ready tasks has one row in `heads`, that of its first ready task.

use std::sync::Arc;

use crate::head_cache::{Rank, SubQueueHeads};
use crate::keys;
use crate::ledger::Ledger;
use crate::tables::{Rows, Table};

impl<R: Rows> Ledger<'_, R> {
    /// Returns order and id of the first ready task of a sub-queue, taken or not.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn head_of(&mut self, sub: &Arc<str>) -> Result<Option<Rank>, R::Error> {
        if let Some(heads) = self.head_cache.get(sub) {
            return Ok(heads.head());
        }
        let heads = self.read_heads(sub, None, 1)?;
        let head = heads.head();
        self.head_cache.insert(sub, heads);
        Ok(head)
    }

    /// Returns order and id of the first ready task of a sub-queue after another one, taken or not.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn ready_after(&mut self, sub: &Arc<str>, after: Rank) -> Result<Option<Rank>, R::Error> {
        match self.head_cache.get(sub).and_then(|heads| heads.after(after)) {
            Some(next) => Ok(next),
            None => Ok(self.read_heads(sub, Some(after), 1)?.head()),
        }
    }

    /// Reads the first ready tasks of a sub-queue, or the first ones after another task.
    fn read_heads(
        &mut self,
        sub: &str,
        after: Option<Rank>,
        limit: usize,
    ) -> Result<SubQueueHeads, R::Error> {
        let prefix = keys::sub_prefix(self.space, sub);
        let from = match after {
            None => prefix.clone(),
            Some((order, id)) => keys::after(&keys::ranked(&prefix, order, id)),
        };
        let rows = self.rows.scan(Table::Tasks, &from, &keys::end_of(&prefix), limit)?;
        let ranks =
            rows.iter().map(|(key, _)| keys::order_and_id(key)).collect::<Result<_, _>>()?;
        Ok(SubQueueHeads::new(ranks, rows.len() < limit))
    }

    /// Adds a ready task to its sub-queue. It becomes the head if it comes before the present one.
    pub(crate) fn add_to_heads(&mut self, sub: &Arc<str>, added: Rank) -> Result<(), R::Error> {
        let Some(heads) = self.head_cache.get_mut(sub) else {
            self.head_of(sub)?;
            return self.add_to_heads(sub, added);
        };
        let old = heads.head();
        heads.add(added);
        let head = heads.head();
        self.move_head(sub, old, head);
        Ok(())
    }

    /// Removes a ready task from its sub-queue. If it was the head, the next task becomes the head.
    pub(crate) fn remove_from_heads(
        &mut self,
        sub: &Arc<str>,
        removed: Rank,
    ) -> Result<(), R::Error> {
        let Some(heads) = self.head_cache.get_mut(sub) else {
            self.head_of(sub)?;
            return self.remove_from_heads(sub, removed);
        };
        let old = heads.head();
        let head = if heads.remove(removed) {
            heads.head()
        } else {
            let heads = self.read_heads(sub, Some(removed), SubQueueHeads::MAX)?;
            let head = heads.head();
            self.head_cache.insert(sub, heads);
            head
        };
        self.move_head(sub, old, head);
        Ok(())
    }

    fn move_head(&mut self, sub: &str, from: Option<Rank>, to: Option<Rank>) {
        if from == to {
            return;
        }
        if let Some((order, id)) = from {
            self.rows.remove(Table::Heads, keys::head(self.space, order, id));
        }
        if let Some((order, id)) = to {
            let key = keys::head(self.space, order, id);
            self.rows.insert(Table::Heads, key, sub.as_bytes().into());
        }
    }
}
