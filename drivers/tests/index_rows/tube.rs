//! A tube whose rows are compared with those that its tasks should have.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, Ledger, NEVER, Note, Reads, RecordError, Row,
    Rows, Shelf, Table, TubeTotals, Value, index_rows, keys, tag_counts, tagged, verify_rows,
};

use crate::common::{Memory, ledger, plain_header};

pub const SPACE: u32 = 7;
const INDEXES: [Table; 3] = [Table::Places, Table::Dues, Table::Index];

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

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        self.before_read()?;
        self.memory.scan_back(table, from, to, limit)
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
        self.ledger_of(SPACE)
    }

    pub fn ledger_of(&mut self, space: u32) -> Ledger<'_, Edited> {
        ledger(&mut self.rows, (space, self.sub_queued), &mut self.counts, &mut self.head_cache)
    }

    /// Makes a change. Its reads fail after this number of reads, if there is one. Returns the
    /// earliest due that it has written.
    pub fn apply(&mut self, change: &Change, reads: Option<usize>) -> Result<u64, RecordError> {
        let (Change::Set(id, _) | Change::Rewrite(id, _) | Change::Remove(id)) = *change;
        let old = self.tasks.get(&id).cloned();
        let new = match (change, &old) {
            (Change::Set(_, (shelf, header)), _) => {
                Some((*shelf, with_own_key(id, self.header(header, old.as_ref()))))
            }
            (Change::Rewrite(_, (_, header)), Some((shelf, kept))) => {
                let mut header = with_own_key(id, self.header(header, old.as_ref()));
                (header.order, header.sub) = (kept.order, kept.sub.clone());
                let group = kept.more.as_ref().and_then(|more| more.group.clone());
                header.edit_more(|more| more.group = group);
                // The position of a task that has ended follows from these.
                if matches!(shelf, Shelf::Done | Shelf::Buried) {
                    let end = kept.more.as_ref().and_then(|more| more.ended);
                    header.edit_more(|more| more.ended = end);
                }
                if *shelf == Shelf::Buried {
                    let until = kept.more.as_ref().and_then(|more| more.until);
                    header.edit_more(|more| more.until = until.and(more.until.or(until)));
                }
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
            (Some((_, old)), Some((shelf, header))) if matches!(change, Change::Rewrite(..)) => {
                if old.tags() == header.tags() {
                    ledger.rewrite(id, &found.unwrap(), header);
                    Ok(())
                } else {
                    ledger.update(id, &found.unwrap(), *shelf, header, None)
                }
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

    /// Checks that each failure group has its count and its tasks, in both orders and by pages.
    pub fn check_groups(&mut self) {
        let mut groups = BTreeMap::<String, Vec<(u64, u64)>>::new();
        for (id, (shelf, header)) in &self.tasks {
            let more = header.more.as_deref().filter(|_| *shelf == Shelf::Buried);
            if let Some(group) = more.and_then(|more| more.group.as_deref()) {
                let ended = more.unwrap().ended.unwrap_or(0);
                groups.entry(group.to_owned()).or_default().push((ended, *id));
            }
        }
        let counts: Vec<_> =
            groups.iter().map(|(group, tasks)| (group.clone(), tasks.len() as u64)).collect();
        assert_eq!(self.ledger().groups(9).unwrap(), counts);
        assert_eq!(self.ledger().groups(1).unwrap(), counts[..counts.len().min(1)]);
        for (group, mut tasks) in groups {
            tasks.sort_unstable();
            for newest_first in [false, true] {
                for limit in 1..4 {
                    let (mut found, mut after) = (Vec::new(), None);
                    loop {
                        let page = self.ledger().in_group(&group, after, limit, newest_first);
                        let Some((id, last)) = page.as_ref().unwrap().last() else { break };
                        after = Some((ended(&last.record.header), *id));
                        let ranks = page.iter().flatten();
                        found.extend(ranks.map(|(id, task)| (ended(&task.record.header), *id)));
                    }
                    assert_eq!(found, tasks);
                }
                tasks.reverse();
            }
        }
        assert!(self.ledger().in_group("unknown", None, 9, true).unwrap().is_empty());
    }

    /// Checks that each tag has its count and its tasks, in both orders and by pages.
    pub fn check_tags(&mut self) {
        let mut tags = BTreeMap::<String, Vec<u64>>::new();
        for (id, (_, header)) in &self.tasks {
            for tag in header.tags() {
                tags.entry(tag.to_string()).or_default().push(*id);
            }
        }
        let counts: Vec<_> =
            tags.iter().map(|(tag, ids)| (tag.clone(), ids.len() as u64)).collect();
        assert_eq!(tag_counts(&mut self.rows.memory, None, 9).unwrap(), counts);
        for (at, (tag, _)) in counts.iter().enumerate() {
            let rest = tag_counts(&mut self.rows.memory, Some(tag), 1).unwrap();
            assert_eq!(rest, counts[at + 1..].iter().take(1).cloned().collect::<Vec<_>>());
        }
        for (tag, mut ids) in tags {
            for newest_first in [false, true] {
                for limit in 1..4 {
                    let (mut found, mut after) = (Vec::new(), None);
                    loop {
                        let rows = &mut self.rows.memory;
                        let (page, last) = tagged(rows, &tag, after, limit, newest_first).unwrap();
                        found.extend(page.iter().map(|row| row.id));
                        assert!(page.iter().all(|row| row.space == SPACE));
                        after = last;
                        if after.is_none() {
                            break;
                        }
                    }
                    assert_eq!(found, ids);
                }
                ids.reverse();
            }
        }
    }

    /// Checks that the kept tasks are in the order of their ends, and that the counts say how many
    /// there are.
    pub fn check_done(&mut self) {
        let done = self.tasks.iter().filter(|(_, (shelf, _))| *shelf == Shelf::Done);
        let mut expected: Vec<_> = done.map(|(id, (_, header))| (ended(header), *id)).collect();
        expected.sort_unstable();
        assert_eq!(self.counts.done, expected.len() as u64);
        assert_eq!(self.counts.stored(), self.tasks.len() as u64);
        for limit in [1, 2, 9] {
            let oldest = self.ledger().undamaged(Shelf::Done, None, limit).unwrap();
            let ranks: Vec<_> =
                oldest.iter().map(|(id, task)| (ended(&task.record.header), *id)).collect();
            assert_eq!(ranks, expected[..limit.min(expected.len())]);
        }
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
        let rows = self.rows.memory.0.iter().filter(|((table, key), _)| is_index(*table, key));
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
        verify_rows(&mut rows.clone(), &[totals], &[], &mut |_| ControlFlow::Continue(())).unwrap()
    }
}

/// Whether a row is one of those that `index_rows` returns: a count is not.
pub fn is_index(table: Table, key: &[u8]) -> bool {
    let counts = [keys::GROUP_COUNT, keys::TAG_COUNT];
    INDEXES.contains(&table) && (table != Table::Index || !counts.contains(&key[0]))
}

/// Gives a task a key that no other task has, if it has one.
fn with_own_key(id: u64, mut header: Header) -> Header {
    header.edit_more(|more| {
        more.key = more.key.as_ref().map(|key| format!("{key} {id}").into());
    });
    header
}

fn ended(header: &Header) -> u64 {
    header.more.as_ref().and_then(|more| more.ended).unwrap_or(0)
}

/// The header of a task with this key.
pub fn keyed(key: &str) -> Header {
    let mut header = Header { ready_at: 500, ..plain_header() };
    header.edit_more(|more| more.key = Some(key.into()));
    header
}

fn shelves() -> impl Strategy<Value = Shelf> {
    // A blocked task has edges too: `edges.rs` has them.
    select(&[Shelf::Ready, Shelf::Delayed, Shelf::Buried, Shelf::Done][..])
}

/// The tags of a task.
const TAGS: &[&[&str]] = &[&[], &[], &["a"], &["b", "a"], &["a", "b"], &["ab", "a"]];

/// Few values of each field, so that many tasks have equal rows.
pub fn tasks() -> impl Strategy<Value = Task> {
    let fields = (
        select(&[0_u64, 0, 1, 9][..]),
        select(&["", "a", "b"][..]),
        select(&[NEVER, NEVER, 500, 900][..]),
        select(&[0, 500, 900, NEVER][..]),
        (0..3_u32, 0..4_u32),
        (select(&[None, Some("a"), Some("b"), Some("ab")][..]), weighted(0.8, 5..8_u64)),
        (weighted(0.3, select(&[600, 950, NEVER][..])), weighted(0.3, select(&[7, 8, NEVER][..]))),
        (select(&[0, 5, INLINE_MAX + 1][..]), select(&[None, Some("x"), Some("y")][..])),
        select(TAGS),
    );
    (shelves(), fields).prop_map(
        |(
            shelf,
            (order, sub, expires_at, ready_at, more, end, (until, moment), (size, key), tags),
        )| {
            let ((takes, notes), body) = (more, Body::new(vec![b'-'; size]));
            let mut header = Header {
                order,
                expires_at,
                ready_at,
                takes,
                size: size as u64,
                body_checksum: body.checksum(),
                sub: sub.into(),
                ..plain_header()
            };
            header.edit_more(|more| {
                (more.forgiven, more.notes) = (takes, notes);
                (more.group, more.ended) = (end.0.map(Into::into), end.1);
                (more.until, more.key) = (until, key.map(Into::into));
                more.not_before = moment;
                more.tags = tags.iter().map(|tag| (*tag).into()).collect();
            });
            (shelf, header)
        },
    )
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
