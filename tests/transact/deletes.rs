//! Deletes of a transaction: with its commit, or not at all.

use std::thread;
use std::time::{Duration, SystemTime};

use tubewell::{
    Error, FIFO, FIFOTTL, Failure, Keep, Outcome, Put, Result, Schedule, Store, TaskState, Tube,
    TubeOptions,
};

use super::support::{serve, served};

fn store() -> (Store, Tube) {
    let store = Store::in_memory().unwrap();
    let options = TubeOptions::new().driver(FIFOTTL).keep_done(Keep::new()).history(9);
    let work = store.create_tube("work", options).unwrap();
    (store, work)
}

/// Tasks that are ready, taken, delayed, buried and done, in this order. The claim on the second one is returned.
fn in_all_states(work: &Tube) -> tubewell::Claim {
    let ids = work.put_many(["a", "b", "c", "d"]).unwrap();
    work.put(Put::new("e").delay(Duration::from_secs(60))).unwrap();
    work.claim(ids[3].id).unwrap().end(Outcome::result("r")).unwrap();
    work.claim(ids[2].id).unwrap().bury(Failure::new("g", "m")).unwrap();
    work.claim(ids[1].id).unwrap()
}

#[test]
fn deletes_of_a_transaction_are_made_with_its_commit() {
    let (store, work) = store();
    let claim = in_all_states(&work);
    store
        .transact(|tx| -> Result<()> {
            for id in 0..5 {
                tx.delete(&work, id)?;
            }
            assert_eq!(tx.delete(&work, 0), Err(Error::NotFound { id: 0 }));
            assert_eq!(tx.end(&claim, Outcome::done()), Err(Error::NotTaken { id: claim.id() }));
            // Not before the commit.
            let tasks = work.statistics()?.tasks;
            assert_eq!((tasks.total, tasks.kept), (4, 1));
            serve(tx, "ann")
        })
        .unwrap();
    let statistics = work.statistics().unwrap();
    assert_eq!((statistics.tasks.total, statistics.tasks.kept), (0, 0));
    assert_eq!((statistics.calls.delete, served(&store, "ann")), (5, 1));
    assert!(matches!(claim.ack(), Err(Error::NotTaken { .. })));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn failed_transaction_deletes_nothing() {
    let (store, work) = store();
    let claim = in_all_states(&work);
    let failed = store.transact(|tx| -> Result<()> {
        serve(tx, "ann")?;
        for id in 0..5 {
            tx.delete(&work, id)?;
        }
        Err(Error::Overloaded)
    });
    assert_eq!((failed, served(&store, "ann")), (Err(Error::Overloaded), 0));
    let tasks = work.statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.taken, tasks.delayed, tasks.buried), (1, 1, 1, 1));
    claim.ack().unwrap();
    assert_eq!(work.try_take().unwrap().map(|claim| claim.id()), Some(0));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Another caller has deleted the task after the call.
#[test]
fn delete_of_a_task_that_has_gone_meanwhile_leaves_nothing_of_the_transaction() {
    // A store in memory has no journal, so that other callers would wait for the closure.
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let work = store.tube("work").unwrap();
    let ids = work.put_many(["a", "b"]).unwrap();
    let failed = store.transact(|tx| -> Result<()> {
        serve(tx, "ann")?;
        tx.delete(&work, ids[0].id)?;
        tx.delete(&work, ids[1].id)?;
        let delete = || work.delete(ids[1].id).map(drop);
        thread::scope(|scope| scope.spawn(delete).join().unwrap())
    });
    assert_eq!((failed, served(&store, "ann")), (Err(Error::NotFound { id: ids[1].id }), 0));
    assert_eq!(work.query().task(ids[0].id).unwrap().info.state, TaskState::Ready);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn tasks_with_edges_schedules_and_other_tubes_are_refused() {
    let (store, work) = store();
    let parent = work.put("parent").unwrap().id;
    let child = work.put(Put::new("child").after(&work, [parent])).unwrap().id;
    let hourly = Schedule::every("hourly", Duration::from_secs(3600));
    let hourly = hourly.starting(SystemTime::UNIX_EPOCH + Duration::from_secs(4_000_000_000));
    let schedule = work.schedule(hourly, "run").unwrap().id;
    let temporary = TubeOptions::new().driver(FIFO).temporary(true);
    let temporary = store.create_tube("temporary", temporary).unwrap();
    let elsewhere = Store::in_memory().unwrap().tube("work").unwrap();
    let gone = store.tube("gone").unwrap();
    store.drop_tube("gone").unwrap();
    let ids = [temporary.put("x").unwrap().id, elsewhere.put("x").unwrap().id];
    store
        .transact(|tx| -> Result<()> {
            let refused = tx.delete(&work, parent);
            assert_eq!(refused, Err(Error::HasDependents { id: parent, count: 1 }));
            assert_eq!(tx.delete(&work, 4711), Err(Error::NotFound { id: 4711 }));
            assert!(matches!(tx.delete(&gone, 0), Err(Error::TubeDropped { .. })));
            for refused in [
                tx.delete(&work, child),
                tx.delete(&work, schedule),
                tx.delete(&temporary, ids[0]),
                tx.delete(&elsewhere, ids[1]),
            ] {
                assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            }
            serve(tx, "ann")
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.total, 2);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The key is free after the commit, and not for a put of the transaction.
#[test]
fn key_of_a_deleted_task_is_free_after_the_commit() {
    let (store, work) = store();
    let id = work.put(Put::new("a").key("k")).unwrap().id;
    store
        .transact(|tx| -> Result<()> {
            tx.delete(&work, id)?;
            let refused = tx.put(&work, Put::new("b").key("k"));
            assert!(matches!(refused, Err(Error::KeyInUse { .. })), "{refused:?}");
            serve(tx, "ann")
        })
        .unwrap();
    work.put(Put::new("b").key("k")).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}
