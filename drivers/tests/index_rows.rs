//! The index rows in the tables are those that `index_rows` returns: the ledger writes them, a
//! purge removes them, and `verify_rows` finds each that differs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeMap;

use common::Memory;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use proptest::sample::select;
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, Ledger, NEVER, Reads, RecordError, Row, Rows,
    Shelf, Table, TubeTotals, Value, encode, index_rows, keys, position_of, purge_slice,
    verify_rows,
};

const SPACE: u32 = 7;
const INDEXES: [Table; 2] = [Table::Places, Table::Dues];

type Task = (Shelf, Header);
type RowMap = BTreeMap<(Table, Vec<u8>), Value>;

/// The rows of one tube, and the tasks that should be there.
struct Tube {
    rows: Edited,
    sub_queued: bool,
    counts: Counts,
    head_cache: HeadCache,
    tasks: BTreeMap<u64, Task>,
}

/// Rows that list their edits. With `reads_left`, reads fail after this number of reads.
#[derive(Default)]
struct Edited {
    memory: Memory,
    edits: Vec<(Table, Vec<u8>)>,
    reads_left: Option<usize>,
}

#[derive(Clone, Debug)]
enum Change {
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
    fn new(sub_queued: bool) -> Tube {
        Tube {
            rows: Edited::default(),
            sub_queued,
            counts: Counts::default(),
            head_cache: HeadCache::default(),
            tasks: BTreeMap::new(),
        }
    }

    fn with(sub_queued: bool, tasks: &[Task]) -> Tube {
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
    fn apply(&mut self, change: &Change, reads: Option<usize>) -> Result<u64, RecordError> {
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
        match new {
            None => self.tasks.remove(&id),
            Some(new) => self.tasks.insert(id, new),
        };
        Ok(earliest_due)
    }

    /// The header as a tube of this kind has it, with the body of `old`.
    fn header(&self, header: &Header, old: Option<&Task>) -> Header {
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
    fn index(&self) -> RowMap {
        let rows = self.rows.memory.0.iter().filter(|((table, _), _)| INDEXES.contains(table));
        rows.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// The index rows that should be in the tables.
    fn expected_index(&self) -> RowMap {
        let mut expected = RowMap::new();
        for (id, (shelf, header)) in &self.tasks {
            for row in index_rows(SPACE, *id, *shelf, header) {
                let other = expected.insert((row.table(), row.key()), row.value());
                assert_eq!(other, None, "two rows have the same key");
            }
        }
        expected
    }

    fn findings(&self, rows: &Memory) -> Vec<String> {
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
fn tasks() -> impl Strategy<Value = Task> {
    let fields = (
        select(&[0_u64, 0, 1, 9][..]),
        select(&["", "a", "b"][..]),
        select(&[NEVER, NEVER, 500, 900][..]),
        select(&[0, 500, 900, NEVER][..]),
        0..3_u32,
        select(&[0, 5, INLINE_MAX + 1][..]),
    );
    (shelves(), fields).prop_map(|(shelf, (order, sub, expires_at, ready_at, takes, size))| {
        let body = Body::new(vec![b'-'; size]);
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
        header.edit_more(|more| more.forgiven = takes);
        (shelf, header)
    })
}

fn changes() -> impl Strategy<Value = Change> {
    let ids = || 0..6_u64;
    prop_oneof![
        4 => (ids(), tasks()).prop_map(|(id, task)| Change::Set(id, task)),
        2 => (ids(), tasks()).prop_map(|(id, task)| Change::Rewrite(id, task)),
        1 => ids().prop_map(Change::Remove),
    ]
}

/// The index rows of a task.
fn index_of(id: u64, (shelf, header): &Task) -> RowMap {
    index_rows(SPACE, id, *shelf, header)
        .map(|row| ((row.table(), row.key()), row.value()))
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn change_writes_the_difference_of_the_index_rows(
        sub_queued: bool,
        changes in vec((changes(), weighted(0.5, 0..3_usize), any::<bool>()), 1..40),
    ) {
        let mut tube = Tube::new(sub_queued);
        for (change, failing_read, is_cold) in &changes {
            if *is_cold {
                tube.head_cache.clear();
            }
            let (before, counts) = (tube.rows.memory.clone(), tube.counts);
            let old = tube.index();
            let done = tube.apply(change, *failing_read).or_else(|_| {
                assert_eq!(&tube.rows.memory, &before, "a failed change has edited rows");
                assert_eq!(tube.counts, counts, "a failed change has edited counts");
                tube.apply(change, None)
            });
            let index = tube.index();
            prop_assert_eq!(&index, &tube.expected_index());

            let mut edits = tube.rows.edits.clone();
            edits.retain(|(table, _)| INDEXES.contains(table));
            edits.sort();
            let mut changed: Vec<_> = old.keys().chain(index.keys()).cloned().collect();
            changed.retain(|key| old.get(key) != index.get(key));
            changed.sort();
            changed.dedup();
            prop_assert_eq!(edits, changed, "each row that differs is edited once, no other is");

            let written = index.iter().filter(|(key, value)| old.get(*key) != Some(*value));
            let dues = written.filter(|((table, _), _)| *table == Table::Dues);
            let times = dues.map(|((_, key), _)| keys::split_due(key).unwrap().0);
            prop_assert_eq!(done.unwrap(), times.min().unwrap_or(NEVER));
            prop_assert_eq!(tube.findings(&tube.rows.memory), [""; 0]);
        }
    }

    #[test]
    fn missing_changed_or_added_index_row_is_found(
        sub_queued: bool,
        tasks in vec((tasks(), tasks()), 1..6),
    ) {
        let (present, other): (Vec<Task>, Vec<Task>) = tasks.into_iter().unzip();
        let tube = Tube::with(sub_queued, &present);
        let intact = &tube.rows.memory;
        prop_assert_eq!(tube.findings(intact), [""; 0]);
        for ((table, key), value) in tube.index() {
            let mut rows = intact.clone();
            rows.remove(table, key.clone());
            prop_assert!(!tube.findings(&rows).is_empty(), "{:?} is missing", key);

            let mut rows = intact.clone();
            rows.insert(table, [&key[..], &[0]].concat(), value);
            prop_assert!(!tube.findings(&rows).is_empty(), "{:?} has a longer key", key);
        }
        for (id, (shelf, header)) in (0..).zip(&other) {
            let task = (*shelf, tube.header(header, None));
            for (key, value) in index_of(id, &task) {
                let mut rows = intact.clone();
                if rows.0.insert(key.clone(), value.clone()) != Some(value) {
                    prop_assert!(!tube.findings(&rows).is_empty(), "{:?} is added", key);
                }
            }
        }
    }

    #[test]
    fn second_record_of_a_task_is_found(task in tasks(), other in tasks()) {
        let mut tube = Tube::with(false, &[task]);
        let task = &tube.tasks[&0];
        let other = (other.0, tube.header(&other.1, Some(task)));
        let key = keys::task(SPACE, false, &position_of(0, other.0, &other.1));
        let mut rows = tube.rows.memory.clone();
        for (key, value) in index_of(0, &other) {
            rows.0.entry(key).or_insert(value);
        }
        let body = vec![b'-'; usize::try_from(other.1.size).unwrap()];
        if rows.0.insert((Table::Tasks, key), encode(0, &other.1, &body)).is_none() {
            *tube.counts.on(other.0) += 1;
            prop_assert!(!tube.findings(&rows).is_empty());
        }
    }

    #[test]
    fn purge_removes_all_rows(sub_queued: bool, tasks in vec(tasks(), 0..12), slice in 1..9_usize) {
        let mut rows = Tube::with(sub_queued, &tasks).rows.memory;
        while !purge_slice(&mut rows, SPACE, slice).unwrap() {}
        prop_assert_eq!(rows, Memory::default());
    }
}

#[test]
fn purge_removes_the_rows_of_one_space_only() {
    let rows_of = |space: u32| {
        let mut rows = Memory::default();
        for kind in [keys::GROUP, keys::GROUP_COUNT] {
            let key = [keys::index_prefix(kind, space), vec![0; 9]].concat();
            rows.insert(Table::Index, key, [0; 8][..].into());
        }
        for table in [Table::Bodies, Table::Claims, Table::Notes] {
            rows.insert(table, [keys::by_id(space, 1), vec![b'f']].concat(), [0; 8][..].into());
        }
        rows
    };
    let kept = rows_of(SPACE + 1);
    let mut rows = rows_of(SPACE);
    rows.0.extend(kept.0.clone());
    while !purge_slice(&mut rows, SPACE, 2).unwrap() {}
    assert_eq!(rows, kept);
}
