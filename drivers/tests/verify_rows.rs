//! Whatever row is taken away, doubled, moved or exchanged, the audit says so, in words.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, Ledger, NEVER, Reads, RecordError, Row, Rows,
    Shelf, Table, TubeTotals, Value, keys, verify_rows,
};

const PLAIN: u32 = 7;
const QUEUED: u32 = 8;
const DYING: u32 = 9;

/// All that tubes have, Meta aside.
const TABLES: [Table; 5] = [Table::Tasks, Table::Bodies, Table::Places, Table::Heads, Table::Dues];

#[derive(Clone, Default)]
struct Memory(BTreeMap<(Table, Vec<u8>), Value>);

impl Reads for Memory {
    type Error = RecordError;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, RecordError> {
        Ok(self.0.get(&(table, key.to_vec())).cloned())
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        let range = self.0.range((table, from.to_vec())..(table, to.to_vec()));
        Ok(range.take(limit).map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }
}

impl Rows for Memory {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        assert!(self.0.insert((table, key), value).is_none(), "a row was there already");
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.0.insert((table, key), value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        assert!(self.0.remove(&(table, key)).is_some(), "no row was there");
    }
}

/// The rows of two tubes, and of one that is being removed.
#[derive(Clone)]
struct Store {
    rows: Memory,
    ledger: Vec<TubeTotals>,
}

impl Store {
    /// Tasks on every shelf, with and without an order, a sub-queue, an end, and a body apart.
    fn full() -> Store {
        let mut store = Store { rows: Memory::default(), ledger: Vec::new() };
        let mut ids = 0..;
        for (name, space, sub_queued) in
            [("plain", PLAIN, false), ("queued", QUEUED, true), ("dying", DYING, true)]
        {
            let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
            let mut ledger = Ledger {
                rows: &mut store.rows,
                space,
                sub_queued,
                counts: &mut counts,
                head_cache: &mut head_cache,
                earliest_due: NEVER,
            };
            for shelf in Shelf::ALL {
                for (order, sub, dead, size) in
                    [(0, "", NEVER, 3), (0, "x", 500, 5), (4, "x", NEVER, 2000), (2, "y", 900, 7)]
                {
                    let body = Body::new(vec![b'-'; size]);
                    assert_eq!(body.apart().is_some(), size > INLINE_MAX);
                    let header = Header {
                        pri: 0,
                        order,
                        created: 1,
                        dead,
                        ttr: NEVER,
                        wake: if shelf == Shelf::Delayed { 100 } else { 0 },
                        takes: 0,
                        size: size as u64,
                        apart: body.apart(),
                        sub: if sub_queued { sub.into() } else { "".into() },
                    };
                    ledger.insert(ids.next().unwrap(), shelf, &header, &body).unwrap();
                }
            }
            if space != DYING {
                store.ledger.push(TubeTotals { name: Arc::from(name), space, sub_queued, counts });
            }
        }
        store
    }

    fn findings(&self) -> Vec<String> {
        verify_rows(&mut self.rows.clone(), &self.ledger, &[DYING], &mut |_| {}).unwrap()
    }

    /// The rows of a table that the audit looks at.
    fn rows(&self, table: Table) -> Vec<(Vec<u8>, Value)> {
        let rows = self.rows.0.iter().filter(|((of, _), _)| *of == table);
        let rows = rows.map(|((_, key), value)| (key.clone(), value.clone()));
        rows.filter(|(key, _)| space_of(table, key) != DYING).collect()
    }
}

fn space_of(table: Table, key: &[u8]) -> u32 {
    match table {
        Table::Dues => keys::split_due(key).unwrap().1,
        _ => keys::space_of(key).unwrap(),
    }
}

/// The same key in another space, or for another task.
fn altered(table: Table, key: &[u8], space: Option<u32>, id: Option<u64>) -> Vec<u8> {
    let mut key = key.to_vec();
    if table == Table::Dues {
        let (time, was, of) = keys::split_due(&key).unwrap();
        return keys::due(time, space.unwrap_or(was), id.unwrap_or(of));
    }
    if let Some(space) = space {
        key[..4].copy_from_slice(&space.to_be_bytes());
    }
    if let Some(id) = id {
        let end = key.len() - 8;
        key[end..].copy_from_slice(&id.to_be_bytes());
    }
    key
}

/// The same key for a task that there is not.
fn of_nobody(table: Table, key: &[u8]) -> Vec<u8> {
    altered(table, key, None, Some(99))
}

/// What the damage is called, the numbers left out.
fn words(findings: &[String]) -> BTreeSet<String> {
    let plain = |finding: &String| finding.chars().filter(|char| !char.is_ascii_digit()).collect();
    findings.iter().map(plain).collect()
}

#[test]
fn sound_rows_are_found_to_be_sound() {
    let store = Store::full();
    assert_eq!(store.findings(), [""; 0]);
    for table in TABLES {
        assert!(store.rows(table).len() >= 2, "{table:?}: too few rows for this test");
    }
}

#[test]
fn a_row_that_is_missing_is_missed() {
    let sound = Store::full();
    for table in TABLES {
        for (key, _) in sound.rows(table) {
            let mut store = sound.clone();
            store.rows.remove(table, key.clone());
            let findings = store.findings();
            assert!(!findings.is_empty(), "{table:?}: nobody misses {key:?}");
            assert!(findings.iter().all(|finding| finding.starts_with("tube \"")), "{findings:?}");
        }
    }
}

#[test]
fn a_row_too_many_is_found() {
    let sound = Store::full();
    for table in TABLES {
        for (key, value) in sound.rows(table) {
            let mut store = sound.clone();
            store.rows.insert(table, of_nobody(table, &key), value);
            assert!(!store.findings().is_empty(), "{table:?}: {key:?} has a twin");
        }
    }
}

#[test]
fn a_row_that_says_what_another_should_say_is_found() {
    let sound = Store::full();
    for table in TABLES {
        let rows = sound.rows(table);
        for (at, (key, value)) in rows.iter().enumerate() {
            for (other_key, other) in &rows[..at] {
                if value == other {
                    continue;
                }
                let mut store = sound.clone();
                store.rows.replace(table, key.clone(), other.clone());
                store.rows.replace(table, other_key.clone(), value.clone());
                assert!(!store.findings().is_empty(), "{table:?}: {key:?} for {other_key:?}");
            }
        }
    }
}

#[test]
fn a_row_of_no_tube_and_a_key_that_is_none_are_found() {
    for table in TABLES {
        let sound = Store::full();
        let (key, value) = sound.rows(table).swap_remove(0);
        let mut store = sound.clone();
        store.rows.insert(table, altered(table, &key, Some(77), None), value.clone());
        let has_waiters =
            format!("rows of no tube (space 77): a row of {:?} is left over", table.name());
        assert_eq!(store.findings(), [has_waiters]);

        let mut store = sound;
        store.rows.insert(table, vec![0], value);
        assert_eq!(store.findings().len(), 1, "{:?}", store.findings());
    }
}

#[test]
fn counts_that_are_not_those_of_the_tasks_are_found() {
    for tube in 0..2 {
        for shelf in Shelf::ALL {
            let mut store = Store::full();
            *store.ledger[tube].counts.on(shelf) += 1;
            let findings = store.findings();
            let name = &store.ledger[tube].name;
            assert_eq!(findings.len(), 1);
            assert!(findings[0].starts_with(&format!("tube {name:?}: the counts say")));
        }
    }
}

/// Each kind of damage has words of its own, which name the tube and the task.
#[test]
fn what_is_wrong_is_said_in_words() {
    let sound = Store::full();
    let damaged = |table: Table, twin: bool| {
        let mut all = BTreeSet::new();
        for (key, value) in sound.rows(table) {
            let mut store = sound.clone();
            if twin {
                store.rows.insert(table, of_nobody(table, &key), value);
            } else {
                store.rows.remove(table, key);
            }
            all.extend(words(&store.findings()));
        }
        all
    };
    for (table, twin, expected) in [
        (Table::Tasks, false, "tube \"queued\": task  should be the head of its sub-queue"),
        (Table::Tasks, false, "tube \"plain\": the body of task  has no task"),
        (Table::Tasks, false, "tube \"plain\": a pointer leads to task , which is not there"),
        (Table::Tasks, false, "tube \"plain\": a due of task  does not belong to it"),
        (Table::Bodies, false, "tube \"plain\": task : its body (missing) cannot be read"),
        (Table::Bodies, true, "tube \"queued\": the body of task  has no task"),
        (Table::Places, false, "tube \"queued\": task  is not where its pointer says"),
        (Table::Places, true, "tube \"plain\": a pointer leads to task , which is not there"),
        (Table::Heads, false, "tube \"queued\": task  should be the head of its sub-queue"),
        (
            Table::Heads,
            true,
            "tube \"queued\": the head of a sub-queue is task , which is not ready there",
        ),
        (Table::Dues, false, "tube \"plain\": task  is missing among the dues"),
        (Table::Dues, true, "tube \"queued\": a due of task  does not belong to it"),
    ] {
        let all = damaged(table, twin);
        assert!(all.contains(expected), "{table:?}: nobody says {expected:?} but {all:#?}");
    }
}
