//! `verify_rows` finds every row that is missing, duplicated, moved or swapped, and describes it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use common::{Memory, ledger, plain_header};
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, NEVER, Note, Position, Reads, RecordError, Row,
    Rows, Shelf, StepRow, StoredEntries, Table, TubeTotals, Value, encode_entry, encode_step, keys,
    verify_rows,
};

const PLAIN: u32 = 7;
const QUEUED: u32 = 8;
/// A space whose rows are being removed.
const PURGED: u32 = 9;

/// The tables with rows of tubes.
const TABLES: [Table; 7] = [
    Table::Tasks,
    Table::Bodies,
    Table::Places,
    Table::Heads,
    Table::Dues,
    Table::Index,
    Table::Notes,
];

/// The rows of two tubes, and of one that is being removed.
#[derive(Clone)]
struct Store {
    rows: Memory,
    tubes: Vec<TubeTotals>,
}

impl Store {
    /// Tasks on every shelf but one, with and without an order, a sub-queue, a ttl, and a separate body.
    fn full() -> Store {
        let mut store = Store { rows: Memory::default(), tubes: Vec::new() };
        let mut ids = 0..;
        for (name, space, sub_queued) in
            [("plain", PLAIN, false), ("queued", QUEUED, true), ("purged", PURGED, true)]
        {
            let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
            let mut ledger =
                ledger(&mut store.rows, (space, sub_queued), &mut counts, &mut head_cache);
            let mut parent = None;
            // `verify_schedules.rs` has those that are recurring.
            for shelf in Shelf::ALL.into_iter().filter(|shelf| *shelf != Shelf::Recurring) {
                for (order, sub, expires_at, size) in
                    [(0, "", NEVER, 3), (0, "x", 500, 5), (4, "x", NEVER, 2000), (2, "y", 900, 7)]
                {
                    let body = Body::new(vec![b'-'; size]);
                    assert_eq!(body.checksum().is_some(), size > INLINE_MAX);
                    let mut header = Header {
                        order,
                        expires_at,
                        ready_at: if shelf == Shelf::Delayed { 100 } else { 0 },
                        size: size as u64,
                        body_checksum: body.checksum(),
                        sub: if sub_queued { sub.into() } else { "".into() },
                        ..plain_header()
                    };
                    let id = ids.next().unwrap();
                    let parent = *parent.get_or_insert(id);
                    if shelf == Shelf::Blocked {
                        header.edit_more(|more| more.open_parents = 1);
                    }
                    if order != 2 {
                        header.edit_more(|more| {
                            more.notes = [1, 2, 3][size % 3];
                            more.ended = (shelf == Shelf::Done).then_some(300 + order);
                            more.until = (order == 4).then_some(700);
                            more.group = (order == 0).then(|| "timeout".into());
                            // Entries 0, 5 and 6.
                            more.history =
                                (order == 4).then_some(StoredEntries { total: 7, count: 3 });
                            more.has_steps = order == 4 && shelf != Shelf::Done;
                        });
                    }
                    ledger.insert(id, shelf, &header, &body).unwrap();
                    if shelf == Shelf::Blocked {
                        ledger.add_edge(id, (parent, space));
                    }
                    for note in Note::ALL.into_iter().filter(|note| note.is_in(&header)) {
                        ledger.set_note(id, false, note, &id.to_be_bytes()[..size % 8]);
                    }
                    let entries = (0..7).map(|n| (n, encode_entry(id, n, b"entry"))).collect();
                    ledger.write_entries(id, &header, &entries);
                    for (number, name) in (0..).zip(["fetch", "parse"]) {
                        if header.has_steps() {
                            let row = StepRow { number, kind: 1, value: b"value" };
                            ledger.write_step(id, name, encode_step(id, name, row));
                        }
                    }
                }
            }
            counts.edges = ledger.edge_changes.len() as u64;
            if space != PURGED {
                store.tubes.push(TubeTotals { name: Arc::from(name), space, sub_queued, counts });
            }
        }
        store
    }

    fn findings(&self) -> Vec<String> {
        verify_rows(&mut self.rows.clone(), &self.tubes, &[PURGED], &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
    }

    /// The rows of a table that are verified.
    fn rows(&self, table: Table) -> Vec<(Vec<u8>, Value)> {
        let rows = self.rows.0.iter().filter(|((of, _), _)| *of == table);
        let rows = rows.map(|((_, key), value)| (key.clone(), value.clone()));
        rows.filter(|(key, value)| space_of(table, key, value) != PURGED).collect()
    }
}

fn space_of(table: Table, key: &[u8], value: &[u8]) -> u32 {
    match table {
        Table::Dues => keys::split_due(key).unwrap().1,
        Table::Index if keys::split_edge(key).is_ok() => keys::edge_space(0, value).unwrap(),
        Table::Index => keys::space_of(&key[1..]).unwrap(),
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
        let at = usize::from(table == Table::Index);
        key[at..at + 4].copy_from_slice(&space.to_be_bytes());
    }
    if let Some(id) = id {
        if table == Table::Index && key[0] == keys::GROUP_COUNT {
            // The name of another group.
            key.extend_from_slice(b"99");
            return key;
        }
        let at = if table == Table::Notes { 4 } else { key.len() - 8 };
        key[at..at + 8].copy_from_slice(&id.to_be_bytes());
    }
    key
}

/// The same key for a task that does not exist.
fn with_unknown_id(table: Table, key: &[u8]) -> Vec<u8> {
    altered(table, key, None, Some(99))
}

/// The findings without their numbers.
fn without_numbers(findings: &[String]) -> BTreeSet<String> {
    let plain = |finding: &String| finding.chars().filter(|char| !char.is_ascii_digit()).collect();
    findings.iter().map(plain).collect()
}

#[test]
fn intact_rows_have_no_findings() {
    let store = Store::full();
    assert_eq!(store.findings(), [""; 0]);
    for table in TABLES {
        assert!(store.rows(table).len() >= 2, "{table:?}: too few rows for this test");
    }
}

#[test]
fn missing_row_is_found() {
    let intact = Store::full();
    for table in TABLES {
        for (key, _) in intact.rows(table) {
            let mut store = intact.clone();
            store.rows.remove(table, key.clone());
            let findings = store.findings();
            // The last step of a task may not have been stored.
            let is_last_step = table == Table::Notes && key.ends_with(b"sparse");
            assert_eq!(findings.is_empty(), is_last_step, "{table:?}: without {key:?}");
            assert!(findings.iter().all(|finding| finding.starts_with("tube \"")), "{findings:?}");
        }
    }
}

#[test]
fn duplicated_row_is_found() {
    let intact = Store::full();
    for table in TABLES {
        for (key, value) in intact.rows(table) {
            let mut store = intact.clone();
            store.rows.insert(table, with_unknown_id(table, &key), value);
            assert!(!store.findings().is_empty(), "{table:?}: no finding with {key:?} twice");
        }
    }
}

#[test]
fn swapped_values_are_found() {
    let intact = Store::full();
    for table in TABLES {
        let rows = intact.rows(table);
        for (at, (key, value)) in rows.iter().enumerate() {
            for (other_key, other) in &rows[..at] {
                if value == other {
                    continue;
                }
                let mut store = intact.clone();
                store.rows.replace(table, key.clone(), other.clone());
                store.rows.replace(table, other_key.clone(), value.clone());
                assert!(!store.findings().is_empty(), "{table:?}: {key:?} for {other_key:?}");
            }
        }
    }
}

#[test]
fn rows_without_a_tube_and_invalid_keys_are_found() {
    for table in TABLES {
        let intact = Store::full();
        let (key, value) = intact.rows(table).swap_remove(0);
        let mut store = intact.clone();
        store.rows.insert(table, altered(table, &key, Some(77), None), value.clone());
        let expected =
            format!("rows of no tube (space 77): a row of {:?} is left over", table.name());
        assert_eq!(store.findings(), [expected]);

        let mut store = intact;
        store.rows.insert(table, vec![0], value);
        assert_eq!(store.findings().len(), 1, "{:?}", store.findings());
    }
}

#[test]
fn wrong_counts_are_found() {
    for tube in 0..2 {
        for shelf in Shelf::ALL {
            let mut store = Store::full();
            *store.tubes[tube].counts.on(shelf) += 1;
            let findings = store.findings();
            let name = &store.tubes[tube].name;
            assert_eq!(findings.len(), 1);
            assert!(findings[0].starts_with(&format!("tube {name:?}: the counts say")));
        }
    }
}

/// Each kind of damage has its own description.
#[test]
fn findings_name_the_tube_the_task_and_the_damage() {
    let intact = Store::full();
    let findings_after = |table: Table, duplicate: bool| {
        let mut all = BTreeSet::new();
        for (key, value) in intact.rows(table) {
            let mut store = intact.clone();
            if duplicate {
                store.rows.insert(table, with_unknown_id(table, &key), value);
            } else {
                store.rows.remove(table, key);
            }
            all.extend(without_numbers(&store.findings()));
        }
        all
    };
    for (table, duplicate, expected) in [
        (Table::Tasks, false, "tube \"queued\": task  should be the head of its sub-queue"),
        (Table::Tasks, false, "tube \"plain\": the body of task  has no task"),
        (Table::Tasks, false, "tube \"plain\": a pointer leads to task , which is not there"),
        (Table::Tasks, false, "tube \"plain\": a row of \"dues\" does not match task "),
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
        (Table::Notes, false, "tube \"plain\": task : its failure note (missing) cannot be read"),
        (Table::Notes, false, "tube \"queued\": task : its result note (missing) cannot be read"),
        (Table::Notes, true, "tube \"queued\": a row of \"notes\" does not match task "),
        (
            Table::Notes,
            false,
            "tube \"plain\": task : entry  of its history (missing) cannot be read",
        ),
        (Table::Notes, false, "tube \"queued\": a step of task  is missing"),
        (
            Table::Notes,
            true,
            "tube \"plain\": task : its step \"parse\" (wrong checksum) cannot be read",
        ),
        (Table::Index, false, "tube \"plain\": task  has no matching row in \"index\""),
        (Table::Index, false, "tube \"queued\": failure group \"timeout\" has no count"),
        (
            Table::Index,
            false,
            "tube \"plain\": failure group \"timeout\" has the count  and  tasks",
        ),
        (Table::Index, true, "tube \"queued\": a row of \"index\" does not match task "),
        (Table::Index, true, "tube \"queued\": failure group \"timeout\" has no task"),
        (Table::Dues, false, "tube \"plain\": task  has no matching row in \"dues\""),
        (Table::Dues, true, "tube \"queued\": a row of \"dues\" does not match task "),
    ] {
        let all = findings_after(table, duplicate);
        assert!(all.contains(expected), "{table:?}: {expected:?} is not among {all:#?}");
    }
}

#[test]
fn damaged_note_is_not_returned() {
    let mut store = Store { rows: Memory::default(), tubes: Vec::new() };
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let mut header = plain_header();
    header.edit_more(|more| more.notes = Note::Failure.bit());
    let expected = [Ok(None), Ok(Some(b"text".to_vec()))];
    let key = keys::note(PLAIN, 5, Note::Failure);
    let mut read = |store: &mut Store| {
        let mut ledger = ledger(&mut store.rows, (PLAIN, false), &mut counts, &mut head_cache);
        if ledger.find(5).unwrap().is_none() {
            ledger.insert(5, Shelf::Ready, &header, &Body::new(Vec::new())).unwrap();
            ledger.set_note(5, false, Note::Failure, b"text");
        }
        [Note::Result, Note::Failure].map(|note| ledger.note(5, &header, note))
    };
    assert_eq!(read(&mut store), expected);
    let sound = store.rows.0[&(Table::Notes, key.clone())].to_vec();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        store.rows.replace(Table::Notes, key.clone(), damaged.into());
        let error = read(&mut store)[1].clone().unwrap_err();
        assert_eq!(error.to_string(), "task 5: its failure note (wrong checksum) cannot be read");
    }
    store.rows.replace(Table::Notes, key.clone(), sound[..7].into());
    assert!(read(&mut store)[1].is_err());
    store.rows.remove(Table::Notes, key);
    let error = read(&mut store)[1].clone().unwrap_err();
    assert_eq!(error.to_string(), "task 5: its failure note (missing) cannot be read");
}

#[test]
fn damaged_entry_of_a_history_is_not_returned() {
    let mut store = Store { rows: Memory::default(), tubes: Vec::new() };
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let mut header = plain_header();
    header.edit_more(|more| more.history = Some(StoredEntries { total: 9, count: 3 }));
    let row = |number: u64| (number, encode_entry(5, number, format!("{number}").as_bytes()));
    let mut read = |store: &mut Store| {
        let mut ledger = ledger(&mut store.rows, (PLAIN, false), &mut counts, &mut head_cache);
        if ledger.find(5).unwrap().is_none() {
            ledger.insert(5, Shelf::Ready, &header, &Body::new(Vec::new())).unwrap();
            // Those that the header does not name are left out.
            ledger.write_entries(5, &header, &(0..9).map(row).collect());
        }
        ledger.stored_entries(5, &header)
    };
    assert_eq!(read(&mut store), Ok(vec![row(0), row(7), row(8)]));
    let error = |how: &str| format!("task 5: entry 7 of its history ({how}) cannot be read");
    let key = keys::history_entry(PLAIN, 5, 7);
    let sound = store.rows.0[&(Table::Notes, key.clone())].to_vec();
    for at in 0..sound.len() {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        store.rows.replace(Table::Notes, key.clone(), damaged.into());
        assert_eq!(read(&mut store).unwrap_err().to_string(), error("wrong checksum"));
    }
    // The entry of another number.
    store.rows.replace(Table::Notes, key.clone(), row(8).1);
    assert_eq!(read(&mut store).unwrap_err().to_string(), error("wrong checksum"));
    store.rows.remove(Table::Notes, key);
    assert_eq!(read(&mut store).unwrap_err().to_string(), error("missing"));
}

#[test]
fn damaged_step_is_not_returned() {
    let mut store = Store { rows: Memory::default(), tubes: Vec::new() };
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let (mut header, plain) = (plain_header(), plain_header());
    header.edit_more(|more| more.has_steps = true);
    let step = |name: &'static str, kind| {
        let number = match name {
            "a" => 1,
            _ => 0,
        };
        StepRow { number, kind, value: name.as_bytes() }
    };
    let row = |name: &'static str| encode_step(5, name, step(name, 3));
    let mut read = |store: &mut Store| {
        let mut ledger = ledger(&mut store.rows, (PLAIN, false), &mut counts, &mut head_cache);
        if ledger.find(5).unwrap().is_none() {
            ledger.insert(5, Shelf::Ready, &header, &Body::new(Vec::new())).unwrap();
            for name in ["b", "a"] {
                ledger.write_step(5, name, row(name));
            }
        }
        assert_eq!(ledger.step(5, &header, "c"), Ok(None));
        assert_eq!(ledger.step(5, &plain, "a"), Ok(None));
        assert_eq!(ledger.stored_steps(5, &plain), Ok(Vec::new()));
        (ledger.step(5, &header, "a"), ledger.stored_steps(5, &header))
    };
    let both = ["a", "b"].map(|name| (name.to_owned(), row(name)));
    assert_eq!(read(&mut store), (Ok(Some(row("a"))), Ok(both.to_vec())));
    let error = |how: &str| format!("task 5: its step \"a\" ({how}) cannot be read");
    let key = keys::step(PLAIN, 5, "a");
    let mut damaged: Vec<Value> =
        vec![row("b"), encode_step(4, "a", step("a", 3)), row("a")[..8].into()];
    let sound = row("a");
    damaged.extend((0..sound.len()).map(|at| {
        let mut bytes = sound.to_vec();
        bytes[at] ^= 1;
        Value::from(bytes)
    }));
    for damaged in damaged {
        store.rows.replace(Table::Notes, key.clone(), damaged);
        let (one, all) = read(&mut store);
        assert_eq!(one.unwrap_err().to_string(), error("wrong checksum"));
        assert_eq!(all.unwrap_err().to_string(), error("wrong checksum"));
    }
    store.rows.replace(Table::Notes, key.clone(), encode_step(5, "a", step("a", 4)));
    let newer = error("of a kind that this release does not know");
    assert_eq!(read(&mut store).0.unwrap_err().to_string(), newer);
    store.rows.remove(Table::Notes, key);
    let (one, all) = read(&mut store);
    assert_eq!((one, all), (Ok(None), Ok(both[1..].to_vec())), "the last one was never stored");
    store.rows.insert(Table::Notes, keys::step(PLAIN, 5, "a"), row("a"));
    // All of them, or another one than the last one.
    for left in [vec!["a"], vec![]] {
        store.rows.0.retain(|(table, key), _| {
            *table != Table::Notes || left.iter().any(|name| *key == keys::step(PLAIN, 5, name))
        });
        let missing = "task 5: its steps (one is missing) cannot be read";
        assert_eq!(read(&mut store).1.unwrap_err().to_string(), missing);
    }
}

/// Neither more nor fewer rows than it has, and none that is longer than a page of rows.
#[test]
fn steps_are_removed_with_their_task_or_by_a_header_without_steps() {
    for count in [1, 3, 4, 5, 12, 13, 1000] {
        let (mut rows, mut counts) = (Memory::default(), Counts::default());
        let mut head_cache = HeadCache::default();
        let mut ledger = ledger(&mut rows, (PLAIN, false), &mut counts, &mut head_cache);
        let mut header = plain_header();
        header.edit_more(|more| more.has_steps = true);
        for id in 4..=6 {
            ledger.insert(id, Shelf::Ready, &header, &Body::new(Vec::new())).unwrap();
            for n in 0..count {
                let name = format!("part {n}");
                let row = StepRow { number: n, kind: 0, value: &vec![7; n as usize * 100] };
                ledger.write_step(id, &name, encode_step(id, &name, row));
            }
        }
        let found = ledger.find(4).unwrap().unwrap();
        ledger.move_to_shelf(4, &found, Shelf::Delayed, &header).unwrap();
        assert_eq!(ledger.stored_steps(4, &header).unwrap().len(), count as usize);
        ledger.remove(5, Shelf::Ready, &header).unwrap();
        let found = ledger.find(6).unwrap().unwrap();
        ledger.move_to_shelf(6, &found, Shelf::Done, &plain_header()).unwrap();
        let left = rows.0.keys().filter(|(table, _)| *table == Table::Notes);
        assert!(left.map(|(_, key)| keys::id_of(key)).all(|id| id == Some(4)));
        let tubes =
            [TubeTotals { name: Arc::from("plain"), space: PLAIN, sub_queued: false, counts }];
        assert_eq!(
            verify_rows(&mut rows, &tubes, &[], &mut |_| ControlFlow::Continue(())).unwrap(),
            [""; 0]
        );
    }
}

/// Rows that count how often a body is looked up, and that may be read in short pages.
struct LookUps {
    rows: Memory,
    bodies: usize,
    /// How many rows a scan returns at most.
    page: usize,
}

impl LookUps {
    fn of(rows: Memory) -> LookUps {
        LookUps { rows, bodies: 0, page: usize::MAX }
    }
}

impl Reads for LookUps {
    type Error = RecordError;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, RecordError> {
        self.bodies += usize::from(table == Table::Bodies);
        self.rows.get(table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        self.rows.scan(table, from, to, limit.min(self.page))
    }

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        self.rows.scan_back(table, from, to, limit)
    }
}

/// Regression: a task without a body of its own was looked up among the bodies, and each look-up read the large body
/// that is stored before it: 65 GB for 3,000 small tasks behind one of 16 MiB.
#[test]
fn small_tasks_are_not_looked_up_among_the_bodies() {
    let store = Store::full();
    let bodies = store.rows(Table::Bodies).len();
    assert!(bodies > 0 && store.rows(Table::Tasks).len() > 2 * bodies);
    let mut rows = LookUps::of(store.rows);
    let found = verify_rows(&mut rows, &store.tubes, &[PURGED], &mut |_| ControlFlow::Continue(()));
    assert_eq!(found.unwrap(), [""; 0]);
    assert_eq!(rows.bodies, bodies);
}

#[test]
fn check_that_is_ended_reports_what_was_found_up_to_there() {
    let mut store = Store::full();
    let (key, _) = store.rows(Table::Tasks).swap_remove(0);
    store.rows.replace(Table::Tasks, key, vec![0].into());
    let found =
        verify_rows(&mut store.rows, &store.tubes, &[PURGED], &mut |_| ControlFlow::Break(()));
    assert_eq!(found.unwrap().len(), 1, "neither its index rows nor the counts were checked");
}

/// Regression: an end in the middle of a failure group compared the part of its rows with their number.
#[test]
fn check_of_a_sound_store_finds_nothing_wherever_it_is_ended() {
    for last in 0.. {
        let store = Store::full();
        let mut pages = 0;
        // As large rows are read.
        let mut rows = LookUps { page: 1, ..LookUps::of(store.rows) };
        let found = verify_rows(&mut rows, &store.tubes, &[PURGED], &mut |_| {
            pages += 1;
            if pages > last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert_eq!(found.unwrap(), [""; 0], "after {last} pages");
        if pages <= last {
            break;
        }
    }
}

#[test]
fn wrong_count_of_a_failure_group_is_found() {
    for value in [&[0; 8][..], &[0; 7], &1_u64.to_be_bytes(), &3_u64.to_be_bytes()] {
        let mut store = Store::full();
        let key = keys::group_count(PLAIN, "timeout");
        assert_eq!(*store.rows.0[&(Table::Index, key.clone())], 2_u64.to_be_bytes());
        store.rows.replace(Table::Index, key, value.into());
        assert_eq!(store.findings().len(), 1, "{:?}", store.findings());
    }
}

#[test]
fn damaged_tasks_and_counts_of_a_failure_group_are_skipped() {
    let mut store = Store::full();
    let (mut counts, mut head_cache) = (store.tubes[0].counts, HeadCache::default());
    let mut group_in = |rows: &mut Memory| {
        let mut ledger = ledger(rows, (PLAIN, false), &mut counts, &mut head_cache);
        let tasks = ledger.in_group("timeout", None, 9, false).unwrap();
        (ledger.groups(9).unwrap(), tasks.iter().map(|(id, _)| *id).collect::<Vec<u64>>())
    };
    let (groups, ids) = group_in(&mut store.rows);
    assert_eq!((groups.len(), ids.len()), (1, 2));
    let position =
        Position { shelf: Shelf::Buried, order: 0, id: ids[0], sub: Arc::<str>::from("") };
    store.rows.replace(Table::Tasks, keys::task(PLAIN, false, &position), [1; 40][..].into());
    assert_eq!(group_in(&mut store.rows).1, ids[1..]);
    store.rows.remove(Table::Places, keys::by_id(PLAIN, ids[1]));
    assert_eq!(group_in(&mut store.rows).1, [0; 0]);
    store.rows.replace(Table::Index, keys::group_count(PLAIN, "timeout"), [0; 8][..].into());
    assert!(group_in(&mut store.rows).0.is_empty());
}
