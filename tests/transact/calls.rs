//! What a transaction refuses: reserved names, other types, temporary tubes.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::redb::TableDefinition;
use tubewell::{Error, FIFO, FIFOTTL, ManualClock, Put, Result, Store, TaskState, TubeOptions};

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

/// The transaction can store it in a table of its own, and a token is no part of what is taken back.
#[test]
fn token_of_a_put_is_refused() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let put = || Put::new("a").idempotency_key("t");
    let refused = store.transact(|tx| tx.put(&work, put()).map(drop));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let id = work.put(put()).unwrap().id;
    store
        .transact(|tx| -> Result<()> {
            assert!(matches!(tx.put(&work, put()), Err(Error::Invalid { .. })));
            serve(tx, "ann")
        })
        .unwrap();
    assert_eq!(work.put(put()).unwrap().id, id);
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

#[test]
fn put_and_release_of_a_transaction_wait_for_their_moments() {
    const START: Duration = Duration::from_secs(1_767_225_600);
    let hour = Duration::from_secs(3600);
    let clock = ManualClock::at(START + hour);
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let work = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    let moment = UNIX_EPOCH + START + hour;
    let put = || Put::new("x").not_before(moment);
    work.put(put()).unwrap();
    let claim = work.try_take().unwrap().unwrap();
    clock.set_wall(START);
    store
        .transact(|tx| -> Result<()> {
            tx.put(&work, put())?;
            tx.release(&claim, Duration::ZERO)?;
            serve(tx, "ann")
        })
        .unwrap();
    let states = |id| work.peek(id).unwrap().info.state;
    assert_eq!([0, 1].map(states), [TaskState::Delayed; 2]);
    assert_eq!(store.verify().unwrap(), [""; 0]);
    clock.advance(hour);
    assert_eq!([0, 1].map(states), [TaskState::Ready; 2]);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}
