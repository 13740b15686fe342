//! A transaction has all of its effects or none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use tubewell::redb::{MultimapTableDefinition, ReadableTable};
use tubewell::{
    Durability, Ending, Error, FIFO, FIFOTTL, Failure, Filter, Keep, LIMFIFOTTL, ManualClock,
    Outcome, Put, Result, Store, TaskState, TubeOptions, UTUBE,
};

use super::support::{SERVED, serve, served};

#[test]
fn effects_of_tables_and_calls_are_visible_together() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let next = store.create_tube("next", TubeOptions::new().driver(FIFO)).unwrap();
    work.put("ann").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    let id = store
        .transact(|tx| -> Result<u64> {
            serve(tx, "ann")?;
            let id = tx.put(&next, "to: ann")?;
            tx.end(&claim, Outcome::done())?;
            assert_eq!(served(&store, "ann"), 0);
            assert_eq!(next.statistics().unwrap().tasks.ready, 0);
            assert_eq!(work.statistics().unwrap().tasks.taken, 1);
            Ok(id)
        })
        .unwrap();
    assert!(!claim.is_current().unwrap());
    drop(claim);
    assert_eq!(served(&store, "ann"), 1);
    assert_eq!(work.statistics().unwrap().tasks.total, 0);
    let put = next.try_take().unwrap().unwrap();
    assert_eq!((put.id(), put.body()), (id, &b"to: ann"[..]));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// A function before the puts of a handle is called for those of a transaction, too.
#[test]
fn put_through_a_handle_with_a_function_is_what_the_function_returns() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let tagged = work.before_put(|put| match put.get_body().len() {
        0 => Err(Error::Invalid { what: "an empty body".into() }),
        _ => Ok(put.tag("tenant ann")),
    });
    let id = store.transact(|tx| tx.put(&tagged, "bob")).unwrap();
    assert_eq!(work.query().task(id).unwrap().info.tags, ["tenant ann"]);
    let refused = store.transact(|tx| tx.put(&tagged, "carl").and_then(|_| tx.put(&tagged, "")));
    assert_eq!(refused, Err(Error::Invalid { what: "an empty body".into() }));
    assert_eq!(work.statistics().unwrap().tasks.total, 1);
}

#[test]
fn error_of_the_closure_takes_everything_back() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put("ann").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    for _ in 0..2 {
        let failed = store.transact(|tx| -> std::result::Result<(), Box<dyn std::error::Error>> {
            serve(tx, "ann")?;
            tx.put(&work, "bob")?;
            tx.end(&claim, Outcome::done())?;
            Err("no".into())
        });
        assert_eq!(failed.unwrap_err().to_string(), "no");
        assert!(claim.is_current().unwrap());
        assert_eq!(served(&store, "ann"), 0);
        assert_eq!(work.statistics().unwrap().tasks.total, 1);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
    store.transact(|tx| tx.end(&claim, Outcome::done())).unwrap();
    assert_eq!(work.statistics().unwrap().tasks.total, 0);
}

#[test]
fn panic_of_the_closure_takes_everything_back_and_goes_on() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put("ann").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        store.transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            tx.end(&claim, Outcome::done())?;
            let _open = tx.open_table(SERVED)?;
            panic!("a defect of the application")
        })
    }));
    let message = panicked.unwrap_err();
    assert_eq!(message.downcast_ref::<&str>(), Some(&"a defect of the application"));
    assert_eq!(served(&store, "ann"), 0);
    claim.ack().unwrap();
    store.transact(|tx| serve(tx, "ann")).unwrap();
    assert_eq!(served(&store, "ann"), 1);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// A panic inside redb leaves its transaction unusable. It must not reach the commit.
#[test]
fn caught_panic_inside_redb_takes_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    for store in [Store::in_memory().unwrap(), Store::open(dir.path().join("store")).unwrap()] {
        let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        work.put("ann").unwrap();
        store.transact(|tx| serve(tx, "bob")).unwrap();
        let claim = work.try_take().unwrap().unwrap();
        let refused = store.transact(|tx| {
            serve(tx, "ann")?;
            tx.end(&claim, Outcome::done())?;
            let mut table = tx.open_table(SERVED)?;
            let caught =
                catch_unwind(AssertUnwindSafe(|| table.retain(|_, _| panic!("in a predicate"))));
            assert!(caught.is_err());
            Ok(())
        });
        assert!(matches!(refused, Err(Error::Table { .. })), "{refused:?}");
        assert_eq!((served(&store, "ann"), served(&store, "bob")), (0, 1));
        assert!(claim.is_current().unwrap());
        store
            .transact(|tx| serve(tx, "ann").and_then(|()| tx.end(&claim, Outcome::done())))
            .unwrap();
        assert_eq!(served(&store, "ann"), 1);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

/// The claim ends while the closure runs: the last check is before the commit.
#[test]
fn claim_that_ends_meanwhile_takes_everything_back() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many(["ann", "bob"]).unwrap();
    let claims = work.take_many(2, Duration::MAX).unwrap();
    let refused = store.transact(|tx| {
        serve(tx, "ann")?;
        tx.put(&work, "carl")?;
        tx.end(&claims[0], Outcome::done())?;
        tx.end(&claims[1], Outcome::done())?;
        std::thread::scope(|scope| {
            // The end of a claim changes memory only, so this call does not wait.
            scope.spawn(|| work.admin().revoke(Filter::new()).unwrap()).join().unwrap();
        });
        Ok(())
    });
    assert!(matches!(refused, Err(Error::NotTaken { .. })), "{refused:?}");
    assert_eq!(served(&store, "ann"), 0);
    let tasks = work.statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.taken, tasks.total), (2, 0, 2));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn expired_claim_is_refused() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().ttr(Duration::from_secs(1));
    let work = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
    work.put("ann").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    let refused = store.transact(|tx| {
        tx.end(&claim, Outcome::done())?;
        clock.advance(Duration::from_secs(1));
        serve(tx, "ann")
    });
    assert_eq!(refused, Err(Error::NotTaken { id: claim.id() }));
    assert_eq!(served(&store, "ann"), 0);
    assert!(work.try_take().unwrap().is_some());
}

#[test]
fn refused_put_takes_everything_back() {
    let store = Store::in_memory().unwrap();
    let full = TubeOptions::new().capacity(2);
    let full = store.create_tube("full", full.driver(LIMFIFOTTL)).unwrap();
    full.put("one").unwrap();
    let refused = store.transact(|tx| {
        serve(tx, "ann")?;
        tx.put(&full, "two")?;
        assert!(matches!(tx.put(&full, "three"), Err(Error::Full { .. })));
        std::thread::scope(|scope| {
            // Decided, and not waited for: its commit waits for the closure.
            let late = scope.spawn(|| full.to_async().put("late"));
            drop(late.join().unwrap());
        });
        Ok(())
    });
    assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
    store.flush().unwrap();
    assert_eq!(served(&store, "ann"), 0);
    assert_eq!(full.statistics().unwrap().tasks.total, 2);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn every_end_of_a_claim_is_part_of_the_commit() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().keep_done(Keep::new().count(2)).max_attempts(9);
    let work = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
    let ids: Vec<u64> =
        work.put_many(["a", "b", "c", "d", "e", "f"]).unwrap().iter().map(|put| put.id).collect();
    let claims = work.take_many(6, Duration::MAX).unwrap();
    store
        .transact(|tx| -> Result<()> {
            tx.end(&claims[0], Outcome::result("result"))?;
            tx.end(&claims[1], Outcome::release_in(Duration::from_secs(9)))?;
            tx.end(&claims[2], Outcome::snooze(Duration::ZERO))?;
            tx.end(&claims[3], Outcome::fail(Failure::new("timeout", "no answer")))?;
            tx.end(&claims[4], Outcome::bury(None))?;
            tx.end(&claims[5], Outcome::bury(Failure::new("broken", "unreadable")))
        })
        .unwrap();
    let states: Vec<TaskState> =
        ids.iter().map(|id| work.query().task(*id).unwrap().info.state).collect();
    let expected = [
        TaskState::Done,
        TaskState::Delayed,
        TaskState::Ready,
        TaskState::Ready,
        TaskState::Buried,
        TaskState::Buried,
    ];
    assert_eq!(states, expected);
    let result = Some(b"result".to_vec());
    assert_eq!(work.ending(ids[0]).unwrap(), Some(Ending::Done { result }));
    assert_eq!(work.query().groups().unwrap().len(), 1);
    let attempts = [2, 3].map(|task| work.query().task(ids[task]).unwrap().info.attempts);
    assert_eq!(attempts, [0, 1]);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Their effects are flushed with the commit, whatever their tube asks for.
#[test]
fn tubes_of_any_durability_and_driver_take_part() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    for (name, durability) in [
        ("flush", Durability::Flush),
        ("write", Durability::write()),
        ("relaxed", Durability::relaxed()),
    ] {
        let options = TubeOptions::new().durability(durability);
        let tube = store.create_tube(name, options.driver(UTUBE)).unwrap();
        let before = tube.put(Put::new("a").sub_queue("x")).unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.id(), before);
        let id = store
            .transact(|tx| -> Result<u64> {
                tx.end(&claim, Outcome::done())?;
                serve(tx, name)?;
                tx.put(&tube, Put::new("b").sub_queue("x"))
            })
            .unwrap();
        assert_eq!(tube.try_take().unwrap().unwrap().id(), id);
        assert_eq!(served(&store, name), 1);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn multimap_tables_take_part() {
    const TAGS: MultimapTableDefinition<&str, u64> = MultimapTableDefinition::new("tags");
    let store = Store::in_memory().unwrap();
    store
        .transact(|tx| -> Result<()> {
            let mut tags = tx.open_multimap_table(TAGS)?;
            tags.insert("a", 1)?;
            tags.insert("a", 2)?;
            Ok(())
        })
        .unwrap();
    let count = store.view(|view| -> Result<u64> {
        Ok(view.open_multimap_table(TAGS)?.unwrap().get("a")?.len())
    });
    assert_eq!(count.unwrap(), 2);
    assert!(store.transact(|tx| tx.delete_multimap_table(TAGS)).unwrap());
    assert!(!store.transact(|tx| tx.delete_multimap_table(TAGS)).unwrap());
    store.transact(|tx| serve(tx, "ann")).unwrap();
    assert!(store.transact(|tx| tx.delete_table(SERVED)).unwrap());
    assert_eq!(served(&store, "ann"), 0);
}

/// An own row and a stored task do not disturb each other's reads.
#[test]
fn rows_of_earlier_transactions_are_read() {
    let store = Store::in_memory().unwrap();
    for round in 0..3 {
        let seen = store.transact(|tx| -> Result<u64> {
            serve(tx, "ann")?;
            let served = tx.open_table(SERVED)?;
            Ok(served.get("ann")?.unwrap().value())
        });
        assert_eq!(seen.unwrap(), round + 1);
    }
}
