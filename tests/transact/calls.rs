//! What a transaction refuses: reserved names, other types, temporary tubes.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::redb::TableDefinition;
use tubewell::{
    Error, FIFO, FIFOTTL, ManualClock, Outcome, Put, Result, Store, TaskState, TubeOptions,
};

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
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
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
    let temporary = store.create_tube("temporary", options.driver(FIFO)).unwrap();
    temporary.put("a").unwrap();
    let claim = temporary.try_take().unwrap().unwrap();
    store
        .transact(|tx| -> Result<()> {
            assert!(matches!(tx.put(&temporary, "b"), Err(Error::Invalid { .. })));
            assert!(matches!(tx.end(&claim, Outcome::done()), Err(Error::Invalid { .. })));
            serve(tx, "ann")
        })
        .unwrap();
    claim.ack().unwrap();
}

/// The transaction can store it in a table of its own, and a token is no part of what is taken back.
#[test]
fn token_of_a_put_is_refused() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
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
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
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
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let moment = UNIX_EPOCH + START + hour;
    let put = || Put::new("x").not_before(moment);
    work.put(put()).unwrap();
    let claim = work.try_take().unwrap().unwrap();
    clock.set_wall(START);
    store
        .transact(|tx| -> Result<()> {
            tx.put(&work, put())?;
            tx.end(&claim, Outcome::release())?;
            serve(tx, "ann")
        })
        .unwrap();
    let states = |id| work.query().task(id).unwrap().info.state;
    assert_eq!([0, 1].map(states), [TaskState::Delayed; 2]);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    clock.advance(hour);
    assert_eq!([0, 1].map(states), [TaskState::Ready; 2]);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn end_of_a_claim_puts_tasks_in_the_transaction() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mail = store.create_tube("mail", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many(["a", "b", "c"]).unwrap();
    let claims = work.take_many(3, Duration::ZERO).unwrap();
    store
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            tx.end(&claims[0], Outcome::result("R").and_put(&mail, "to: ann"))?;
            tx.end(&claims[1], Outcome::release().and_put(&mail, "to: bob").and_put(&mail, "x"))?;
            tx.end(&claims[2], Err::<(), _>("it failed".to_owned()))
        })
        .unwrap();
    let tasks = work.statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.taken, tasks.done), (2, 0, 1));
    assert_eq!(work.query().task(2).unwrap().info.failure.unwrap().message, "it failed");
    assert_eq!(mail.statistics().unwrap().tasks.ready, 3);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn refused_end_of_a_claim_leaves_nothing_of_it_in_the_transaction() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let options = TubeOptions::new().capacity(1);
    let next = store.create_tube("next", options.driver(tubewell::LIMFIFOTTL)).unwrap();
    work.put("a").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    let large = vec![0; tubewell::MAX_BODY + 1];
    store
        .transact(|tx| -> Result<()> {
            let done = Outcome::done;
            for refused in [
                tx.end(&claim, Outcome::advance(&next, "b")),
                tx.end(&claim, Outcome::detach()),
                tx.end(&claim, Outcome::result(large.clone())),
                tx.end(&claim, done().and_put(&work, large.clone())),
                tx.end(&claim, done().and_put(&work, Put::new("b").idempotency_key("t"))),
                tx.end(
                    &claim,
                    done().and_put(&work, "b").and_put(&work, Put::new("b").after(&work, [0])),
                ),
            ] {
                assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            }
            let full = tx.end(&claim, done().and_put(&next, "b").and_put(&next, "c"));
            assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
            let late = tx.end(&claim, Outcome::release_in(Duration::from_secs(1)));
            assert!(matches!(late, Err(Error::Unsupported { .. })), "{late:?}");
            tx.end(&claim, done().and_put(&next, "b"))?;
            assert_eq!(tx.end(&claim, done()), Err(Error::NotTaken { id: 0 }));
            Ok(())
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.total, 0);
    assert_eq!(next.statistics().unwrap().tasks.ready, 1);
}
