//! The application's tables in the file: open, backup, compact, salvage, and older releases.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

use tubewell::expert::Salvaged;
use tubewell::redb::{Database, MultimapTableDefinition, TableDefinition};
use tubewell::{Error, FIFO, Outcome, Result, Store, TubeOptions};

use super::support::{serve, served};

#[test]
fn own_tables_and_calls_are_in_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for round in 1..4 {
        let store = Store::open(&path).unwrap();
        let work = store.open_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let id = store.transact(|tx| serve(tx, "ann").and_then(|()| tx.put(&work, "a"))).unwrap();
        store.close().unwrap();
        let store = Store::open(&path).unwrap();
        assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (round, Vec::new()));
        let work = store.find_tube("work").unwrap();
        assert_eq!(work.query().task(id).unwrap().body, b"a");
        let claim = work.try_take().unwrap().unwrap();
        store.transact(|tx| tx.end(&claim, Outcome::done())).unwrap();
        drop((work, claim));
        store.close().unwrap();
    }
}

#[test]
fn transaction_has_one_flush_and_none_of_its_calls_has_another() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many((0..12).map(|_| "task")).unwrap();
    let transact = || {
        let claim = work.try_take().unwrap().unwrap();
        let ended = store.transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            tx.put(&work, "next")?;
            tx.end(&claim, Outcome::done())
        });
        ended.unwrap();
    };
    // The file grows and the journal is taken in.
    transact();
    let before = store.admin().counters().unwrap();
    (0..10).for_each(|_| transact());
    let after = store.admin().counters().unwrap();
    assert_eq!(after.flushes - before.flushes, 10);
    assert_eq!(after.commits - before.commits, 10);
}

#[test]
fn backup_is_ended_while_it_copies_own_tables() {
    const TEXTS: TableDefinition<u64, &[u8]> = TableDefinition::new("texts");
    let dir = tempfile::tempdir().unwrap();
    let store = Store::in_memory().unwrap();
    let text = vec![7; 1 << 20];
    for number in 0..20 {
        let inserted = store.transact(|tx| -> Result<()> {
            tx.open_table(TEXTS)?.insert(number, &text[..])?;
            Ok(())
        });
        inserted.unwrap();
    }
    let path = dir.path().join("copy");
    let calls_until = |end: usize| {
        let mut calls = 0;
        let copied = store.admin().backup_with(&path, |_, _| {
            calls += 1;
            if calls == end { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        (copied, calls)
    };
    let (copied, calls) = calls_until(usize::MAX);
    assert_eq!(copied, Ok(true));
    std::fs::remove_file(&path).unwrap();
    // 20 MB are copied in steps of 4 MiB, the tables of the application last.
    for end in calls - 4..=calls {
        assert_eq!(calls_until(end), (Ok(false), end));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
    let panics = || {
        let mut made = 0;
        store.admin().backup_with(&path, |_, _| {
            made += 1;
            assert!(made < calls, "a defect of the caller");
            ControlFlow::Continue(())
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn backup_has_the_own_tables_of_all_types() {
    const PAIRS: TableDefinition<(u64, &str), [u8; 3]> = TableDefinition::new("pairs");
    const NUMBERS: TableDefinition<u64, Option<u32>> = TableDefinition::new("numbers");
    const SIGNED: TableDefinition<i64, &[u8]> = TableDefinition::new("signed");
    const EMPTY: TableDefinition<u8, u8> = TableDefinition::new("empty");
    const TAGS: MultimapTableDefinition<&str, i32> = MultimapTableDefinition::new("tags");
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["store", "copy"].map(|name| dir.path().join(name));
    let store = Store::open(&path).unwrap();
    let body = vec![7; 9000];
    store
        .transact(|tx| -> Result<()> {
            let (mut pairs, mut numbers) = (tx.open_table(PAIRS)?, tx.open_table(NUMBERS)?);
            let (mut signed, mut tags) = (tx.open_table(SIGNED)?, tx.open_multimap_table(TAGS)?);
            tx.open_table(EMPTY)?;
            for n in 0..1000_u64 {
                pairs.insert((n % 7, &*format!("name {n}")), [1, 2, 3])?;
                numbers.insert(n * 1_000_003 % 65_537, Some(9))?;
                let value = if n % 100 == 0 { &body[..] } else { &[][..] };
                signed.insert(500 - i64::try_from(n).unwrap(), value)?;
                tags.insert(&*format!("{}", n % 5), i32::try_from(n).unwrap() - 500)?;
            }
            Ok(())
        })
        .unwrap();
    store.admin().backup(&copy).unwrap();
    let copy = Store::open(&copy).unwrap();
    assert_eq!(copy.admin().verify().unwrap(), [""; 0]);
    let content = |store: &Store| {
        store.view(|view| -> Result<_> {
            use tubewell::redb::{ReadableMultimapTable, ReadableTable};
            let mut rows = Vec::new();
            for row in view.open_table(PAIRS)?.unwrap().iter()? {
                let row = row?;
                rows.push(format!("{:?} {:?}", row.0.value(), row.1.value()));
            }
            for row in view.open_table(NUMBERS)?.unwrap().iter()? {
                let row = row?;
                rows.push(format!("{:?} {:?}", row.0.value(), row.1.value()));
            }
            for row in view.open_table(SIGNED)?.unwrap().iter()? {
                let row = row?;
                rows.push(format!("{:?} {:?}", row.0.value(), row.1.value()));
            }
            for row in view.open_multimap_table(TAGS)?.unwrap().iter()? {
                let (key, values) = row?;
                for value in values {
                    rows.push(format!("{:?} {:?}", key.value(), value?.value()));
                }
            }
            assert!(view.open_table(EMPTY)?.is_some());
            Ok(rows)
        })
    };
    let rows = content(&store).unwrap();
    assert!(rows.len() >= 4000);
    assert_eq!(content(&copy).unwrap(), rows);
    // They can be looked up and written in the copy.
    copy.transact(|tx| -> Result<()> {
        let mut numbers = tx.open_table(NUMBERS)?;
        for n in 0..1000_u64 {
            assert_eq!(numbers.remove(n * 1_000_003 % 65_537)?.unwrap().value(), Some(9));
        }
        let mut pairs = tx.open_table(PAIRS)?;
        assert!(pairs.remove((3, "name 3"))?.is_some());
        assert_eq!(tx.open_multimap_table(TAGS)?.remove_all("4")?.len(), 200);
        Ok(())
    })
    .unwrap();
    assert_eq!(copy.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn compact_keeps_the_own_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many((0..500).map(|_| vec![7; 9000])).unwrap();
    store.transact(|tx| serve(tx, "ann")).unwrap();
    store.drop_tube("work").unwrap();
    drop(work);
    store.close().unwrap();
    let (before, after) = Store::options().compact(&path, |_, _| {}).unwrap();
    assert!(after < before);
    let store = Store::open(&path).unwrap();
    assert_eq!((served(&store, "ann"), store.admin().verify().unwrap()), (1, Vec::new()));
}

/// Salvage reads tasks, and changes nothing: the own tables are still there.
#[test]
fn salvage_reads_the_tasks_of_a_file_with_own_tables() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    store.transact(|tx| serve(tx, "ann").and_then(|()| tx.put(&work, "a"))).unwrap();
    drop(work);
    store.close().unwrap();
    let mut bodies = Vec::new();
    Store::options()
        .salvage(&path, |found| {
            assert!(!matches!(found, Salvaged::Lost { .. }), "{found:?}");
            if let Salvaged::Task { task, .. } = found {
                bodies.push(task.body);
            }
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(bodies, [b"a"]);
    assert_eq!(served(&Store::open(&path).unwrap(), "ann"), 1);
}

/// A database of another program may have multimap tables only.
#[test]
fn database_with_multimap_tables_only_is_not_taken_for_an_empty_store() {
    const TAGS: MultimapTableDefinition<&str, u64> = MultimapTableDefinition::new("tags");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("database");
    let database = Database::create(&path).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_multimap_table(TAGS).unwrap().insert("a", 1).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let refused = Store::open(&path).map(drop);
    assert!(matches!(refused, Err(Error::NotAStore { .. })), "{refused:?}");
}
