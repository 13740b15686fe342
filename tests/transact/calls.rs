//! What a transaction refuses: reserved names, other types, temporary tubes.

use tubewell::redb::TableDefinition;
use tubewell::{Error, FIFO, Result, Store, TubeOptions};

use super::support::{SERVED, serve};

#[test]
fn names_of_the_store_are_refused() {
    let store = Store::in_memory().unwrap();
    let names = [
        "tasks",
        "bodies",
        "places",
        "heads",
        "dues",
        "meta",
        "claims",
        "index",
        "notes",
        "tubewell",
        "tubewell.later",
    ];
    for name in names {
        let table: TableDefinition<&[u8], &[u8]> = TableDefinition::new(name);
        let reserved = Error::TableReserved { name: name.to_owned() };
        store
            .transact(|tx| -> Result<()> {
                assert_eq!(tx.open_table(table).map(drop), Err(reserved.clone()));
                assert_eq!(tx.delete_table(table), Err(reserved.clone()));
                Ok(())
            })
            .unwrap();
        let read = store.view(|view| view.open_table(table).map(drop));
        assert_eq!(read, Err(reserved));
    }
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn table_of_other_types_is_refused() {
    const OTHER: TableDefinition<u64, u64> = TableDefinition::new("served");
    let store = Store::in_memory().unwrap();
    store.transact(|tx| serve(tx, "ann")).unwrap();
    let refused = store.transact(|tx| tx.open_table(OTHER).map(drop));
    assert!(matches!(refused, Err(Error::Table { .. })), "{refused:?}");
    let refused = store.view(|view| view.open_table(OTHER).map(drop));
    assert!(matches!(refused, Err(Error::Table { .. })), "{refused:?}");
}

#[test]
fn temporary_tubes_are_refused() {
    let store = Store::in_memory().unwrap();
    let options = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", FIFO, options).unwrap();
    temporary.put("a").unwrap();
    let claim = temporary.try_take().unwrap().unwrap();
    store
        .transact(|tx| -> Result<()> {
            assert!(matches!(tx.put(&temporary, "b"), Err(Error::Invalid { .. })));
            assert!(matches!(tx.ack(&claim), Err(Error::Invalid { .. })));
            serve(tx, "ann")
        })
        .unwrap();
    claim.ack().unwrap();
}

#[test]
fn view_of_a_table_that_does_not_exist_is_none() {
    let store = Store::in_memory().unwrap();
    let found = store.view(|view| view.open_table(SERVED).map(|table| table.is_some()));
    assert_eq!(found, Ok(false));
}

#[test]
fn dropped_tube_and_closed_store_are_refused() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    store.drop_tube("work").unwrap();
    let refused = store.transact(|tx| tx.put(&work, "a").map(drop));
    assert_eq!(refused, Err(Error::TubeDropped { name: "work".into() }));
    store.close().unwrap();
    assert_eq!(store.transact(|_| Ok::<_, Error>(())), Err(Error::Closed));
    assert_eq!(store.view(|_| Ok::<_, Error>(())), Err(Error::Closed));
}
