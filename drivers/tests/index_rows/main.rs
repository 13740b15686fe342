//! The index rows in the tables are those that `index_rows` returns: the ledger writes them, a
//! purge removes them, and `verify_rows` finds each that differs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/mod.rs"]
mod common;
mod tube;

use common::Memory;
use proptest::collection::vec;
use proptest::option::weighted;
use proptest::prelude::*;
use tube::{SPACE, Task, Tube, changes, index_of, is_index, keyed, tasks};
use tubewell_drivers::{Body, NEVER, Rows, Shelf, Table, encode, keys, position_of, purge_slice};

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn change_writes_the_difference_of_the_index_rows(
        sub_queued: bool,
        changes in vec((changes(), weighted(0.5, 0..5_usize), any::<bool>()), 1..40),
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
            edits.retain(|(table, key)| is_index(*table, key));
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
            tube.check_notes();
            tube.check_groups();
            tube.check_tags();
            tube.check_done();
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

/// The tube of a task was truncated, and its key was put again before the rows were purged.
#[test]
fn purge_leaves_a_key_that_another_task_has_by_now() {
    let task = |space: u32, id: u64| {
        let mut tube = Tube::with(false, &[]);
        let (header, body) = (keyed("mail"), Body::new(Vec::new()));
        tube.ledger_of(space).insert(id, Shelf::Delayed, &header, &body).unwrap();
        tube.rows.memory
    };
    let kept = task(SPACE + 1, 2);
    let mut rows = task(SPACE, 1);
    rows.0.extend(kept.0.clone());
    while !purge_slice(&mut rows, SPACE, 2).unwrap() {}
    assert_eq!(rows, kept);
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
