//! The next takeable tasks of a tube, kept in memory.
//!
//! The window has every takeable task up to its cursor, and the cursor moves on by short reads.
//! So a take looks at the window only, and memory does not grow with the backlog. In a sub-queued
//! tube an entry stands for its sub-queue: the best ready task of one that is free. Such entries
//! may lie beyond the cursor; they are not taken before the cursor has passed them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use tubewell_drivers::{Header, Record, Value};

/// The order of takes: order key, then id.
pub(crate) type Rank = (u64, u64);

/// Most entries that stay; beyond it the last ones are forgotten and read again later.
const MAX: usize = 2048;
const FIRST_READ: usize = 16;
const LONGEST_READ: usize = 256;
/// Most bytes of rows that are kept for those who take; other bodies are read by whoever takes.
const MAX_BYTES: usize = 256 << 10;

/// How far the window has looked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ReadUpTo {
    Start,
    /// Up to this one, which is included.
    At(u64, u64),
    End,
}

/// A takeable task.
#[derive(Debug)]
pub(crate) enum WindowSlot {
    Read(WindowEntry),
    /// The best of this sub-queue; its record is still to be read.
    Unread(Arc<str>),
}

/// What whoever takes a task needs of its record.
#[derive(Debug)]
pub(crate) struct WindowEntry {
    pub(crate) header: Header,
    /// The row at whose end the body is, if it came with it.
    pub(crate) row: Option<Value>,
}

impl From<Record> for WindowEntry {
    fn from(record: Record) -> WindowEntry {
        let (header, row) = record.into_parts();
        WindowEntry { row: Some(row).filter(|_| header.body_checksum.is_none()), header }
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Window {
    entries: BTreeMap<Rank, WindowSlot>,
    by_sub: HashMap<Arc<str>, Rank>,
    /// Bytes of the entries' rows.
    bytes: usize,
    read_up_to: ReadUpTo,
    read: usize,
    /// The first entry beyond the cursor that was forgotten since the last read began.
    lost: Option<Rank>,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            entries: BTreeMap::new(),
            by_sub: HashMap::new(),
            bytes: 0,
            read_up_to: ReadUpTo::Start,
            read: FIRST_READ,
            lost: None,
        }
    }
}

impl Window {
    pub(crate) fn read_up_to(&self) -> ReadUpTo {
        self.read_up_to
    }

    /// Whether a task of this rank belongs into the window as it stands.
    pub(crate) fn covers(&self, rank: Rank) -> bool {
        ReadUpTo::At(rank.0, rank.1) <= self.read_up_to
    }

    /// The best task, if the cursor has passed it.
    pub(crate) fn best(&self) -> Option<Rank> {
        self.entries.keys().next().copied().filter(|rank| self.covers(*rank))
    }

    /// The entry of a sub-queue.
    pub(crate) fn of_sub(&self, sub: &str) -> Option<Rank> {
        self.by_sub.get(sub).copied()
    }

    /// Adds a task; `grouped` if the entry stands for its sub-queue.
    pub(crate) fn insert(&mut self, rank: Rank, mut entry: WindowSlot, grouped: bool) {
        if grouped {
            self.by_sub.insert(entry.sub().clone(), rank);
        }
        if let WindowSlot::Read(known) = &mut entry
            && self.bytes + known.bytes() > MAX_BYTES
        {
            known.row = None;
        }
        self.bytes += entry.bytes();
        if let Some(old) = self.entries.insert(rank, entry) {
            self.bytes -= old.bytes();
        }
        if self.entries.len() > MAX {
            self.forget_last();
        }
    }

    pub(crate) fn remove(&mut self, rank: Rank) -> Option<WindowSlot> {
        let entry = self.entries.remove(&rank)?;
        self.bytes -= entry.bytes();
        if self.by_sub.get(entry.sub()) == Some(&rank) {
            self.by_sub.remove(entry.sub());
        }
        Some(entry)
    }

    /// How many rows to read next.
    pub(crate) fn next_read(&mut self) -> usize {
        self.lost = None;
        let now = self.read;
        self.read = (self.read * 2).min(LONGEST_READ);
        now
    }

    /// The rows up to here have been looked at.
    pub(crate) fn advance(&mut self, to: ReadUpTo) {
        self.read_up_to = self.read_up_to.max(to);
        if self.lost.is_some_and(|lost| self.covers(lost)) {
            self.step_back();
        }
    }

    fn forget_last(&mut self) {
        if let Some((&last, _)) = self.entries.last_key_value() {
            self.remove(last);
            if self.covers(last) {
                self.step_back();
            } else {
                self.lost = Some(self.lost.map_or(last, |lost| lost.min(last)));
            }
        }
    }

    /// The cursor goes back to the last entry that is left: what follows is read again.
    fn step_back(&mut self) {
        if let Some((&(order, id), _)) = self.entries.last_key_value() {
            self.read_up_to = ReadUpTo::At(order, id);
            self.read = FIRST_READ;
        }
    }
}

impl WindowSlot {
    fn sub(&self) -> &Arc<str> {
        match self {
            WindowSlot::Read(known) => &known.header.sub,
            WindowSlot::Unread(sub) => sub,
        }
    }

    fn bytes(&self) -> usize {
        match self {
            WindowSlot::Read(known) => known.bytes(),
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

    fn entry(sub: &str) -> WindowSlot {
        WindowSlot::Unread(sub.into())
    }

    fn entry_with_row(bytes: usize) -> WindowSlot {
        let header = Header {
            pri: 0,
            order: 0,
            created: 0,
            expires_at: NEVER,
            ttr: NEVER,
            ready_at: 0,
            takes: 0,
            size: bytes as u64,
            body_checksum: None,
            sub: Arc::default(),
        };
        WindowSlot::Read(WindowEntry { header, row: Some(vec![0; bytes].into()) })
    }

    #[test]
    fn rows_are_kept_as_long_as_there_is_room_for_them() {
        let mut window = Window::default();
        let kept = |window: &Window| window.entries.values().filter(|e| e.bytes() > 0).count();
        for _ in 0..3 {
            for id in 0..5 {
                window.insert((0, id), entry_with_row(MAX_BYTES / 4), false);
            }
            assert_eq!(kept(&window), 4);
            assert_eq!(window.bytes, MAX_BYTES);
            for id in 0..5 {
                window.remove((0, id));
            }
            assert_eq!(window.bytes, 0);
        }
    }

    #[test]
    fn what_lies_beyond_the_cursor_is_not_the_best_yet() {
        let mut window = Window::default();
        window.insert((5, 1), entry("x"), true);
        assert_eq!(window.best(), None);
        window.advance(ReadUpTo::At(5, 1));
        assert_eq!(window.best(), Some((5, 1)));
    }

    #[test]
    fn a_full_window_forgets_its_last_task_and_knows_that_it_did() {
        let mut window = Window::default();
        window.advance(ReadUpTo::End);
        for id in 0..=MAX as u64 {
            window.insert((0, id), entry(""), false);
        }
        assert_eq!(window.read_up_to(), ReadUpTo::At(0, MAX as u64 - 1));
        assert!(!window.covers((0, MAX as u64)));
        assert_eq!(window.best(), Some((0, 0)));
    }

    #[test]
    fn what_a_read_finds_and_cannot_keep_is_read_again() {
        let mut window = Window::default();
        for id in 0..MAX as u64 {
            window.insert((0, id), entry(""), false);
        }
        window.next_read();
        window.insert((0, MAX as u64), entry(""), false);
        window.insert((0, MAX as u64 + 1), entry(""), false);
        window.advance(ReadUpTo::End);
        assert_eq!(window.read_up_to(), ReadUpTo::At(0, MAX as u64 - 1));
    }

    #[test]
    fn a_sub_queue_has_one_entry() {
        let mut window = Window::default();
        window.insert((1, 1), entry("x"), true);
        assert_eq!(window.of_sub("x"), Some((1, 1)));
        window.remove((1, 1));
        assert_eq!(window.of_sub("x"), None);
    }
}
