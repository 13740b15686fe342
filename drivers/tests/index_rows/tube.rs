//! A tube whose rows are compared with those that its tasks should have.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, Ledger, NEVER, Note, Reads, RecordError, Row,
    Rows, Shelf, Table, TubeTotals, Value, index_rows, verify_rows,
};

use crate::common::Memory;

pub const SPACE: u32 = 7;
pub const INDEXES: [Table; 2] = [Table::Places, Table::Dues];

/// Shelf and header of a task.
pub type Task = (Shelf, Header);
/// Rows by table and key.
pub type RowMap = BTreeMap<(Table, Vec<u8>), Value>;

/// The rows of one tube, and the tasks that should be there.
pub struct Tube {
    pub rows: Edited,
    pub sub_queued: bool,
    pub counts: Counts,
    pub head_cache: HeadCache,
    pub tasks: BTreeMap<u64, Task>,
    /// The bytes of the notes that should be there.
    notes: BTreeMap<(u64, Note), Vec<u8>>,
    changes: u8,
}

/// Rows that list their edits. With `reads_left`, reads fail after this number of reads.
#[derive(Default)]
pub struct Edited {
    pub memory: Memory,
    pub edits: Vec<(Table, Vec<u8>)>,
    pub reads_left: Option<usize>,
}

#[derive(Clone, Debug)]
pub enum Change {
    /// Puts the task if there is none with this id, else moves it.
    Set(u64, Task),
    /// Gives the task another header at its position.
    Rewrite(u64, Task),
    Remove(u64),
}

impl Edited {
    fn before_read(&mut self) -> Result<(), RecordError> {
        match &mut self.reads_left {
            None => Ok(()),
            Some(0) => Err(RecordError { id: 0, what: "a row of this test".into() }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
        }
    }
}

impl Reads for Edited {
    type Error = RecordError;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, RecordError> {
        self.before_read()?;
        self.memory.get(table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        self.before_read()?;
        self.memory.scan(table, from, to, limit)
    }
}

impl Rows for Edited {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.edits.push((table, key.clone()));
        self.memory.insert(table, key, value);
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        let old = self.memory.get(table, &key).unwrap();
        assert!(old.is_some(), "the row does not exist");
        assert!(table == Table::Tasks || old != Some(value.clone()), "the row is equal");
        self.edits.push((table, key.clone()));
        self.memory.replace(table, key, value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.edits.push((table, key.clone()));
        self.memory.remove(table, key);
    }
}

impl Tube {
    pub fn new(sub_queued: bool) -> Tube {
        Tube {
            rows: Edited::default(),
            sub_queued,
            counts: Counts::default(),
            head_cache: HeadCache::default(),
            tasks: BTreeMap::new(),
            notes: BTreeMap::new(),
            changes: 0,
        }
    }

    pub fn with(sub_queued: bool, tasks: &[Task]) -> Tube {
        let mut tube = Tube::new(sub_queued);
        for (id, task) in (0..).zip(tasks) {
            tube.apply(&Change::Set(id, task.clone()), None).unwrap();
        }
        tube
    }

    fn ledger(&mut self) -> Ledger<'_, Edited> {
        Ledger {
            rows: &mut self.rows,
            space: SPACE,
            sub_queued: self.sub_queued,
            counts: &mut self.counts,
            head_cache: &mut self.head_cache,
            earliest_due: NEVER,
        }
    }

    /// Makes a change. Its reads fail after this number of reads, if there is one. Returns the
    /// earliest due that it has written.
    pub fn apply(&mut self, change: &Change, reads: Option<usize>) -> Result<u64, RecordError> {
        let (Change::Set(id, _) | Change::Rewrite(id, _) | Change::Remove(id)) = *change;
        let old = self.tasks.get(&id).cloned();
        let new = match (change, &old) {
            (Change::Set(_, (shelf, header)), _) => {
                Some((*shelf, self.header(header, old.as_ref())))
            }
            (Change::Rewrite(_, (_, header)), Some((shelf, kept))) => {
                let mut header = self.header(header, old.as_ref());
                (header.order, header.sub) = (kept.order, kept.sub.clone());
                Some((*shelf, header))
            }
            _ => None,
        };
        let found = self.ledger().find(id).unwrap();
        self.rows.edits.clear();
        self.rows.reads_left = reads;
        let mut ledger = self.ledger();
        let done = match (&old, &new) {
            (None, None) => Ok(()),
            (None, Some((shelf, header))) => {
                let body = Body::new(vec![b'-'; usize::try_from(header.size).unwrap()]);
                ledger.insert(id, *shelf, header, &body).map(drop)
            }
            (Some((shelf, header)), None) => ledger.remove(id, *shelf, header),
            (Some(_), Some((_, header))) if matches!(change, Change::Rewrite(..)) => {
                ledger.rewrite(id, &found.unwrap(), header);
                Ok(())
            }
            (Some(_), Some((shelf, header))) => {
                ledger.move_to_shelf(id, &found.unwrap(), *shelf, header)
            }
        };
        let earliest_due = ledger.earliest_due;
        self.rows.reads_left = None;
        done?;
        self.set_notes(id, old.as_ref(), new.as_ref());
        match new {
            None => self.tasks.remove(&id),
            Some(new) => self.tasks.insert(id, new),
        };
        Ok(earliest_due)
    }

    /// Writes all notes of a task again.
    fn set_notes(&mut self, id: u64, old: Option<&Task>, new: Option<&Task>) {
        let has = |task: Option<&Task>, note: Note| task.is_some_and(|task| note.is_in(&task.1));
        self.changes += 1;
        for note in Note::ALL {
            self.notes.remove(&(id, note));
            if has(new, note) {
                let bytes = vec![self.changes; 1 + usize::from(self.changes % 3)];
                self.ledger().set_note(id, has(old, note), note, &bytes);
                self.notes.insert((id, note), bytes);
            }
        }
    }

    /// Checks that each task has the notes that its header names, and that there are no others.
    pub fn check_notes(&mut self) {
        for (id, (_, header)) in self.tasks.clone() {
            for note in Note::ALL {
                let expected = self.notes.get(&(id, note)).cloned();
                assert_eq!(self.ledger().note(id, &header, note).unwrap(), expected);
            }
        }
        let rows = self.rows.memory.0.keys().filter(|(table, _)| *table == Table::Notes);
        assert_eq!(rows.count(), self.notes.len());
    }

    /// The header as a tube of this kind has it, with the body of `old`.
    pub fn header(&self, header: &Header, old: Option<&Task>) -> Header {
        let mut header = header.clone();
        if !self.sub_queued {
            header.sub = "".into();
        }
        if let Some((_, old)) = old {
            (header.size, header.body_checksum) = (old.size, old.body_checksum);
        }
        header
    }

    /// The index rows in the tables.
    pub fn index(&self) -> RowMap {
        let rows = self.rows.memory.0.iter().filter(|((table, _), _)| INDEXES.contains(table));
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The index rows that should be in the tables.
    pub fn expected_index(&self) -> RowMap {
        let mut expected = RowMap::new();
        for (id, (shelf, header)) in &self.tasks {
            for row in index_rows(SPACE, *id, *shelf, header) {
                let other = expected.insert((row.table(), row.key()), row.value());
                assert_eq!(other, None, "two rows have the same key");
            }
        }
        expected
    }

    pub fn findings(&self, rows: &Memory) -> Vec<String> {
        let totals = TubeTotals {
            name: "tube".into(),
            space: SPACE,
            sub_queued: self.sub_queued,
            counts: self.counts,
        };
        verify_rows(&mut rows.clone(), &[totals], &[], &mut |_| {}).unwrap()
    }
}

fn shelves() -> impl Strategy<Value = Shelf> {
    select(&Shelf::ALL[..])
}

/// Few values of each field, so that many tasks have equal rows.
pub fn tasks() -> impl Strategy<Value = Task> {
    let fields = (
        select(&[0_u64, 0, 1, 9][..]),
        select(&["", "a", "b"][..]),
        select(&[NEVER, NEVER, 500, 900][..]),
        select(&[0, 500, 900, NEVER][..]),
        (0..3_u32, 0..4_u32),
        select(&[0, 5, INLINE_MAX + 1][..]),
    );
    (shelves(), fields).prop_map(|(shelf, (order, sub, expires_at, ready_at, more, size))| {
        let ((takes, notes), body) = (more, Body::new(vec![b'-'; size]));
        let mut header = Header {
            pri: 0,
            order,
            created: 1,
            expires_at,
            ttr: NEVER,
            ready_at,
            takes,
            size: size as u64,
            body_checksum: body.checksum(),
            sub: sub.into(),
            more: None,
        };
        header.edit_more(|more| (more.forgiven, more.notes) = (takes, notes));
        (shelf, header)
    })
}

pub fn changes() -> impl Strategy<Value = Change> {
    let ids = || 0..6_u64;
    prop_oneof![
        4 => (ids(), tasks()).prop_map(|(id, task)| Change::Set(id, task)),
        2 => (ids(), tasks()).prop_map(|(id, task)| Change::Rewrite(id, task)),
        1 => ids().prop_map(Change::Remove),
    ]
}

/// The index rows of a task.
pub fn index_of(id: u64, (shelf, header): &Task) -> RowMap {
    index_rows(SPACE, id, *shelf, header)
        .map(|row| ((row.table(), row.key()), row.value()))
        .collect()
}
