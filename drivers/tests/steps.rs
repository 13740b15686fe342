//! The rows of steps: names are read without values, and lists of steps have a bound.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{Memory, ledger, plain_header};
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, Reads, RecordError, Row, Rows, Shelf, StepRow, Table, Value,
    encode_step,
};

const SPACE: (u32, bool) = (7, false);

/// Rows whose values of steps cannot be scanned.
struct WithoutValues(Memory);

impl Reads for WithoutValues {
    type Error = RecordError;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, RecordError> {
        self.0.get(table, key)
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        assert!(table != Table::Notes, "values are read");
        self.0.scan(table, from, to, limit)
    }

    fn scan_keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>, RecordError> {
        self.0.scan_keys(table, from, to, limit)
    }

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        self.0.scan_back(table, from, to, limit)
    }
}

impl Rows for WithoutValues {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.0.insert(table, key, value);
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.0.replace(table, key, value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.0.remove(table, key);
    }
}

fn header() -> Header {
    let mut header = plain_header();
    header.edit_more(|more| more.has_steps = true);
    header
}

/// A task with steps of these sizes, named by their numbers.
fn task(id: u64, sizes: &[usize]) -> Memory {
    let (mut rows, mut counts) = (Memory::default(), Counts::default());
    let mut head_cache = HeadCache::default();
    let mut ledger = ledger(&mut rows, SPACE, &mut counts, &mut head_cache);
    ledger.insert(id, Shelf::Ready, &header(), &Body::new(Vec::new())).unwrap();
    for (number, size) in (0..).zip(sizes) {
        let (name, value) = (format!("{number:04}"), vec![7; *size]);
        let row = StepRow { number, kind: 0, value: &value };
        ledger.write_step(id, &name, encode_step(id, &name, row));
    }
    rows
}

#[test]
fn names_of_steps_are_read_without_their_values() {
    for count in [1, 5, 1000, 1024, 1025] {
        let mut rows = WithoutValues(task(5, &vec![10; count]));
        let mut counts = Counts { ready: 1, ..Counts::default() };
        let mut head_cache = HeadCache::default();
        let mut ledger = ledger(&mut rows, SPACE, &mut counts, &mut head_cache);
        let mut names = Vec::new();
        let next = ledger.visit_step_names(5, &header(), |name| names.push(name.to_owned()));
        assert_eq!(next, Ok(u32::try_from(count).unwrap()));
        assert!(names.iter().cloned().eq((0..count).map(|n| format!("{n:04}"))));
        ledger.remove(5, Shelf::Ready, &header()).unwrap();
        assert!(!rows.0.0.keys().any(|(table, _)| *table == Table::Notes), "{count}");
    }
}

#[test]
fn page_of_steps_has_as_many_as_fit_and_at_least_one_and_counts_the_rest() {
    let mut rows = task(5, &[400, 400, 400, 5000, 10, 10]);
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let mut ledger = ledger(&mut rows, SPACE, &mut counts, &mut head_cache);
    let mut page = |after: Option<&str>, most, bytes| {
        let page = ledger.steps_after(5, &header(), after, most, bytes).unwrap();
        let names: Vec<String> = page.rows.into_iter().map(|(name, _)| name).collect();
        (names.join(" "), page.left)
    };
    let texts = |names: &str, left| (names.to_owned(), left);
    assert_eq!(page(None, 9, 100_000), texts("0000 0001 0002 0003 0004 0005", 0));
    assert_eq!(page(None, 9, 1000), texts("0000 0001", 4));
    assert_eq!(page(Some("0001"), 9, 1000), texts("0002", 3));
    assert_eq!(page(Some("0002"), 9, 1000), texts("0003", 2));
    assert_eq!(page(Some("0003"), 9, 1000), texts("0004 0005", 0));
    assert_eq!(page(Some("0005"), 9, 1000), texts("", 0));
    assert_eq!(page(Some("00025"), 9, 1), texts("0003", 2));
    assert_eq!(page(None, 6, 100_000), texts("0000 0001 0002 0003 0004 0005", 0));
    assert_eq!(page(None, 2, 100_000), texts("0000 0001", 4));
    assert_eq!(page(Some("0003"), 1, 100_000), texts("0004", 1));
}

#[test]
fn steps_are_counted_without_their_values() {
    for count in [0, 1, 5, 1000] {
        let mut rows = WithoutValues(task(5, &vec![10; count]));
        let mut counts = Counts { ready: 1, ..Counts::default() };
        let mut head_cache = HeadCache::default();
        let mut ledger = ledger(&mut rows, SPACE, &mut counts, &mut head_cache);
        let page = ledger.steps_after(5, &header(), None, 0, 100_000);
        if count == 0 {
            assert!(page.unwrap_err().to_string().contains("one is missing"));
        } else {
            assert_eq!(page.unwrap().left, count);
        }
    }
}

/// The numbers of all rows are complete only if they are those from 0 on, each once.
#[test]
fn step_that_is_missing_still_shows_after_a_further_step() {
    let mut rows = task(5, &[1, 1, 1]);
    rows.remove(Table::Notes, tubewell_drivers::keys::step(SPACE.0, 5, "0001"));
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let mut ledger = ledger(&mut rows, SPACE, &mut counts, &mut head_cache);
    for n in 3..6 {
        let next = ledger.visit_step_names(5, &header(), |_| {}).unwrap();
        let (number, name) = (u16::try_from(next).unwrap(), format!("{n:04}"));
        ledger.write_step(5, &name, encode_step(5, &name, StepRow { number, kind: 0, value: &[] }));
        let damaged = ledger.steps_after(5, &header(), None, 9, 100_000).unwrap_err();
        assert!(damaged.to_string().contains("one is missing"), "{damaged}");
        assert!(ledger.stored_steps(5, &header()).is_err());
    }
}
