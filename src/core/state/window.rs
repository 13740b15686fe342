//! The next takeable tasks of a tube, kept in memory.
//!
//! Invariant: the window has every takeable task up to its cursor (`read_up_to`). The cursor
//! advances by short reads, so a take looks at the window only, and memory does not grow with the
//! backlog. In a sub-queued tube a slot stands for a free sub-queue and has its best ready task.
//! Such slots may lie beyond the cursor; they are not taken before the cursor has reached them.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tubewell_drivers::{Header, Record, Value};

/// The order of takes: order key, then id.
pub(crate) type Rank = (u64, u64);

/// The last rank before this one; `None` if it is the first.
pub(in crate::core) fn rank_before((order, id): Rank) -> Option<Rank> {
    match id.checked_sub(1) {
        Some(id) => Some((order, id)),
        None => Some((order.checked_sub(1)?, u64::MAX)),
    }
}

/// The maximum number of slots. Above it the last slots are evicted, and read again later.
const MAX_SLOTS: usize = 2048;
/// The rows of the first read. Each further read has twice as many.
const FIRST_READ_ROWS: usize = 16;
/// The maximum rows of one read.
const MAX_READ_ROWS: usize = 256;
/// The maximum bytes of rows that the window keeps for takes. A take reads other bodies from the
/// file.
const MAX_ROW_BYTES: usize = 256 << 10;

/// The cursor: how far the window has read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadUpTo {
    Start,
    /// Up to and including this rank.
    At(u64, u64),
    End,
}

/// A takeable task in the window.
#[derive(Debug)]
pub(crate) enum WindowSlot {
    Read(WindowEntry),
    /// The best task of this sub-queue. Its record has not been read.
    Unread(Arc<str>),
}

/// The part of a task's record that a take needs.
#[derive(Debug)]
pub(crate) struct WindowEntry {
    pub(crate) header: Header,
    /// The row that ends with the body, if the window keeps it.
    pub(crate) row: Option<Value>,
}

impl From<Record> for WindowEntry {
    fn from(record: Record) -> WindowEntry {
        let (header, row) = record.into_parts();
        WindowEntry { row: Some(row).filter(|_| header.body_checksum.is_none()), header }
    }
}

/// The next takeable tasks of a tube.
#[derive(Debug)]
pub(crate) struct Window {
    slots: BTreeMap<Rank, WindowSlot>,
    by_sub: HashMap<Arc<str>, Rank>,
    /// Bytes of the rows in the slots.
    bytes: usize,
    read_up_to: ReadUpTo,
    /// Rows of the next read.
    read_rows: usize,
    /// The first slot beyond the cursor that was evicted since the last read began.
    first_evicted: Option<Rank>,
    /// A slot was evicted since this was last asked.
    has_evicted: bool,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            slots: BTreeMap::new(),
            by_sub: HashMap::new(),
            bytes: 0,
            read_up_to: ReadUpTo::Start,
            read_rows: FIRST_READ_ROWS,
            first_evicted: None,
            has_evicted: false,
        }
    }
}

impl Window {
    pub(crate) fn read_up_to(&self) -> ReadUpTo {
        self.read_up_to
    }

    /// Whether the cursor has reached this rank.
    pub(crate) fn covers(&self, rank: Rank) -> bool {
        ReadUpTo::At(rank.0, rank.1) <= self.read_up_to
    }

    /// The best task, if the cursor has reached it.
    pub(crate) fn best(&self) -> Option<Rank> {
        self.slots.keys().next().copied().filter(|rank| self.covers(*rank))
    }

    /// The first task, or the next one after a rank, if the cursor has reached it.
    pub(crate) fn next_after(&self, after: Option<Rank>) -> Option<(Rank, &WindowSlot)> {
        let from = after.map_or(Unbounded, Excluded);
        let (rank, slot) = self.slots.range((from, Unbounded)).next()?;
        Some((*rank, slot)).filter(|(rank, _)| self.covers(*rank))
    }

    /// The rank of the slot of a sub-queue.
    pub(crate) fn of_sub(&self, sub: &str) -> Option<Rank> {
        self.by_sub.get(sub).copied()
    }

    /// Adds a slot. `sub_queued`: it stands for its sub-queue.
    pub(crate) fn insert(&mut self, rank: Rank, mut slot: WindowSlot, sub_queued: bool) {
        if sub_queued {
            self.by_sub.insert(slot.sub().clone(), rank);
        }
        if let WindowSlot::Read(entry) = &mut slot
            && self.bytes + entry.bytes() > MAX_ROW_BYTES
        {
            entry.row = None;
        }
        self.bytes += slot.bytes();
        if let Some(old) = self.slots.insert(rank, slot) {
            self.bytes -= old.bytes();
        }
        if self.slots.len() > MAX_SLOTS {
            self.evict_last();
        }
    }

    pub(crate) fn remove(&mut self, rank: Rank) -> Option<WindowSlot> {
        let slot = self.slots.remove(&rank)?;
        self.bytes -= slot.bytes();
        if self.by_sub.get(slot.sub()) == Some(&rank) {
            self.by_sub.remove(slot.sub());
        }
        Some(slot)
    }

    /// Begins a read. Returns the number of rows to read.
    pub(crate) fn begin_read(&mut self) -> usize {
        self.first_evicted = None;
        let rows = self.read_rows;
        self.read_rows = (self.read_rows * 2).min(MAX_READ_ROWS);
        rows
    }

    /// Advances the cursor after a read.
    pub(crate) fn advance(&mut self, to: ReadUpTo) {
        self.read_up_to = self.read_up_to.max(to);
        if self.first_evicted.is_some_and(|evicted| self.covers(evicted)) {
            self.rewind();
        }
    }

    /// Whether slots were evicted since the last call.
    pub(crate) fn take_evicted(&mut self) -> bool {
        std::mem::take(&mut self.has_evicted)
    }

    fn evict_last(&mut self) {
        self.has_evicted = true;
        if let Some((&last, _)) = self.slots.last_key_value() {
            self.remove(last);
            if self.covers(last) {
                self.rewind();
            } else {
                let first = self.first_evicted.map_or(last, |evicted| evicted.min(last));
                self.first_evicted = Some(first);
            }
        }
    }

    /// Moves the cursor back to the last slot that is left. What follows it is read again.
    fn rewind(&mut self) {
        if let Some((&(order, id), _)) = self.slots.last_key_value() {
            self.read_up_to = ReadUpTo::At(order, id);
            self.read_rows = FIRST_READ_ROWS;
        }
    }
}

impl WindowSlot {
    pub(crate) fn sub(&self) -> &Arc<str> {
        match self {
            WindowSlot::Read(entry) => &entry.header.sub,
            WindowSlot::Unread(sub) => sub,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            WindowSlot::Read(entry) => entry.bytes(),
            WindowSlot::Unread(_) => 0,
        }
    }
}

impl WindowEntry {
    fn bytes(&self) -> usize {
        self.row.as_ref().map_or(0, |row| row.len())
    }
}

#[cfg(test)]
mod tests {
    use tubewell_drivers::NEVER;

    use super::*;

    fn unread(sub: &str) -> WindowSlot {
        WindowSlot::Unread(sub.into())
    }

    fn read_with_row(bytes: usize) -> WindowSlot {
        let header = Header {
            priority: 0,
            order: 0,
            created: 0,
            expires_at: NEVER,
            ttr: NEVER,
            ready_at: 0,
            takes: 0,
            size: bytes as u64,
            body_checksum: None,
            sub: Arc::default(),
            more: None,
        };
        WindowSlot::Read(WindowEntry { header, row: Some(vec![0; bytes].into()) })
    }

    #[test]
    fn insert_keeps_rows_up_to_the_limit() {
        let mut window = Window::default();
        let kept = |window: &Window| window.slots.values().filter(|slot| slot.bytes() > 0).count();
        for _ in 0..3 {
            for id in 0..5 {
                window.insert((0, id), read_with_row(MAX_ROW_BYTES / 4), false);
            }
            assert_eq!(kept(&window), 4);
            assert_eq!(window.bytes, MAX_ROW_BYTES);
            for id in 0..5 {
                window.remove((0, id));
            }
            assert_eq!(window.bytes, 0);
        }
    }

    #[test]
    fn best_ignores_tasks_beyond_the_cursor() {
        let mut window = Window::default();
        window.insert((5, 1), unread("x"), true);
        assert_eq!(window.best(), None);
        window.advance(ReadUpTo::At(5, 1));
        assert_eq!(window.best(), Some((5, 1)));
    }

    #[test]
    fn full_window_evicts_its_last_task_and_rewinds() {
        let mut window = Window::default();
        window.advance(ReadUpTo::End);
        for id in 0..=MAX_SLOTS as u64 {
            window.insert((0, id), unread(""), false);
        }
        assert_eq!(window.read_up_to(), ReadUpTo::At(0, MAX_SLOTS as u64 - 1));
        assert!(!window.covers((0, MAX_SLOTS as u64)));
        assert_eq!(window.best(), Some((0, 0)));
    }

    #[test]
    fn advance_rewinds_if_a_read_task_was_evicted() {
        let mut window = Window::default();
        for id in 0..MAX_SLOTS as u64 {
            window.insert((0, id), unread(""), false);
        }
        window.begin_read();
        window.insert((0, MAX_SLOTS as u64), unread(""), false);
        window.insert((0, MAX_SLOTS as u64 + 1), unread(""), false);
        window.advance(ReadUpTo::End);
        assert_eq!(window.read_up_to(), ReadUpTo::At(0, MAX_SLOTS as u64 - 1));
    }

    #[test]
    fn remove_clears_the_slot_of_a_sub_queue() {
        let mut window = Window::default();
        window.insert((1, 1), unread("x"), true);
        assert_eq!(window.of_sub("x"), Some((1, 1)));
        window.remove((1, 1));
        assert_eq!(window.of_sub("x"), None);
    }
}
