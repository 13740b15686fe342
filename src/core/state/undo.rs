//! What may still be taken back: the edits of a call, and the transaction of the application.

#[cfg(feature = "redb")]
use super::days::Counted;
#[cfg(feature = "redb")]
use super::in_doubt::InDoubt;
#[cfg(feature = "redb")]
use crate::base::tube_no::TubeNo;

/// What is noted so that it can be taken back.
#[derive(Debug, Default)]
pub(crate) struct Undo {
    /// `Some` while the edits of a call may be taken back: the edges that it has added and removed, by
    /// the spaces of their parents.
    edges: Option<Vec<(u32, i64)>>,
    /// The transaction of the application whose commit is being written, or has failed.
    #[cfg(feature = "redb")]
    pub(in crate::core) in_doubt: Option<InDoubt>,
    /// `Some` while a transaction is decided: what its calls count, by tube.
    #[cfg(feature = "redb")]
    counted: Option<Vec<(TubeNo, Counted)>>,
    /// A transaction of the application is about to be committed, and no other commit begins.
    transaction_is_next: bool,
}

impl Undo {
    /// The edits of a call begin.
    pub(in crate::core) fn begin_edits(&mut self) {
        self.edges = Some(Vec::new());
    }

    /// Notes edges that were added or removed.
    pub(in crate::core) fn note_edges(&mut self, changes: Vec<(u32, i64)>) {
        if let Some(edges) = &mut self.edges {
            edges.extend(changes);
        }
    }

    /// The edits of the call have ended. Returns the edges that they have added and removed.
    pub(in crate::core) fn end_edits(&mut self) -> Vec<(u32, i64)> {
        self.edges.take().unwrap_or_default()
    }

    /// Whether a transaction is in doubt: what it has caused may be taken back.
    #[cfg_attr(
        not(feature = "redb"),
        expect(clippy::unused_self, reason = "there are no transactions")
    )]
    pub(in crate::core) fn is_in_doubt(&self) -> bool {
        #[cfg(feature = "redb")]
        return self.in_doubt.is_some();
        #[cfg(not(feature = "redb"))]
        false
    }

    /// Whether a transaction is being decided: its changes are visible after their flush, in tubes of any
    /// durability.
    #[cfg_attr(
        not(feature = "redb"),
        expect(clippy::unused_self, reason = "there are no transactions")
    )]
    #[inline]
    pub(in crate::core) fn is_in_transaction(&self) -> bool {
        #[cfg(feature = "redb")]
        return self.counted.is_some();
        #[cfg(not(feature = "redb"))]
        false
    }

    /// The calls of a transaction are being decided.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn begin_transaction(&mut self) {
        self.counted = Some(Vec::new());
    }

    /// The calls of the transaction are decided, or refused. Returns what they count.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn end_transaction(&mut self) -> Vec<(TubeNo, Counted)> {
        self.counted.take().unwrap_or_default()
    }

    /// Keeps what a call of a transaction counts. Returns false if none is being decided.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn count_later(&mut self, tube: TubeNo, counted: Counted) -> bool {
        let Some(held) = &mut self.counted else { return false };
        held.push((tube, counted));
        true
    }

    pub(crate) fn transaction_is_next(&self) -> bool {
        self.transaction_is_next
    }

    #[cfg(feature = "redb")]
    pub(crate) fn set_transaction_is_next(&mut self, is_next: bool) {
        self.transaction_is_next = is_next;
    }
}
