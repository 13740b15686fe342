//! Calls inside a closure: each works or returns a typed error, and none blocks forever.

use std::time::Duration;

use tubewell::{Error, FIFO, FIFOTTL, Filter, ManualClock, Outcome, Result, Store, TubeOptions};

use super::support::{serve, served};

#[test]
fn calls_that_may_wait_for_a_commit_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put_many(["a", "b"]).unwrap();
    let held = work.try_take().unwrap().unwrap();
    let ticket = work.to_async().put("c");
    let refused = Err(Error::InTransaction);
    store
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            assert_eq!(work.put("d").map(drop), refused);
            assert_eq!(work.put_many(["d"]).map(drop), refused);
            assert_eq!(work.try_take().map(drop), refused);
            assert_eq!(work.take_timeout(Duration::from_secs(9)).map(drop), refused);
            assert_eq!(work.query().task(0).map(drop), refused);
            assert_eq!(work.delete(1).map(drop), refused);
            assert_eq!(work.admin().kick(Filter::new().limit(1)).map(drop), refused);
            assert_eq!(work.admin().release(held.id()).map(drop), refused);
            assert_eq!(work.admin().truncate(), refused);
            assert_eq!(work.to_async().put("d").wait().map(drop), refused);
            assert_eq!(work.to_async().refuse_when_full().put("d").wait().map(drop), refused);
            assert_eq!(
                work.claimed(held.id()).and_then(tubewell::Claim::release).map(drop),
                refused
            );
            assert_eq!(
                work.claimed(held.id())
                    .and_then(|claim| claim.end(Outcome::snooze(Duration::ZERO)))
                    .map(drop),
                refused
            );
            assert_eq!(held.steps().map(drop), refused);
            assert_eq!(
                store.create_tube("new", TubeOptions::new().driver(FIFO)).map(drop),
                refused
            );
            assert_eq!(store.drop_tube("work"), refused);
            assert_eq!(store.flush().map(drop), refused);
            assert_eq!(store.admin().catch_up(), refused);
            assert_eq!(store.admin().verify().map(drop), refused);
            assert_eq!(store.admin().backup(dir.path().join("copy")), refused);
            assert_eq!(store.close(), refused);
            assert_eq!(store.transact(|_| Ok::<_, Error>(())), refused);
            assert!(matches!(ticket.wait(), Ok(_) | Err(Error::OutcomeUnknown { .. })));
            Ok(())
        })
        .unwrap();
    assert_eq!(served(&store, "ann"), 1);
    held.ack().unwrap();
    let tasks = work.statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.total), (2, 2));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn calls_that_do_not_block_work() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    work.put_many(["a", "b"]).unwrap();
    let [one, two] = work.take_many(2, Duration::MAX).unwrap().try_into().unwrap();
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    other.put("c").unwrap();
    let three = other.try_take().unwrap().unwrap();
    store
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            assert_eq!(work.statistics()?.tasks.taken, 2);
            assert_eq!(work.query().list(tubewell::TaskState::Taken, None, 9)?.items.len(), 2);
            assert_eq!(store.find_tube("work")?.name(), "work");
            assert_eq!(served(&store, "ann"), 0);
            one.renew(Duration::from_secs(60))?;
            one.progress(1, 2)?;
            one.progress_text("a step")?;
            assert!(one.is_current()?);
            drop(two);
            assert!(three.is_current()?);
            assert_eq!(work.statistics()?.tasks.taken, 1);
            let client = store.session("").unwrap();
            client.tube(&work)?;
            client.end()?;
            tx.end(&one, Outcome::done())
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.ready, 1);
    three.ack().unwrap();
}

/// The same task twice, and tables twice.
#[test]
fn call_that_repeats_another_one_is_refused() {
    let store = Store::in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    work.put("a").unwrap();
    let claim = work.try_take().unwrap().unwrap();
    store
        .transact(|tx| -> Result<()> {
            tx.end(&claim, Outcome::done())?;
            assert_eq!(tx.end(&claim, Outcome::done()), Err(Error::NotTaken { id: claim.id() }));
            assert_eq!(
                tx.end(&claim, Outcome::bury(None)),
                Err(Error::NotTaken { id: claim.id() })
            );
            let _open = tx.open_table(super::support::SERVED)?;
            assert!(matches!(serve(tx, "ann"), Err(Error::Table { .. })));
            Ok(())
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.total, 0);
}

/// What falls due while the closure runs is processed after it.
#[test]
fn manual_clock_may_be_advanced_inside() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let work = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let second = Duration::from_secs(1);
    work.put(tubewell::Put::new("late").delay(second)).unwrap();
    store
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            clock.advance(second);
            assert_eq!(work.statistics()?.tasks.ready, 0);
            Ok(())
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.ready, 1);
    assert!(work.try_take().unwrap().is_some());
}

#[test]
fn two_stores_may_be_nested() {
    let [outer, inner] = [(); 2].map(|()| Store::in_memory().unwrap());
    let work = inner.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    outer
        .transact(|tx| -> Result<()> {
            serve(tx, "ann")?;
            assert!(matches!(tx.put(&work, "a"), Err(Error::Invalid { .. })));
            inner.transact(|tx| tx.put(&work, "a").map(drop))
        })
        .unwrap();
    assert_eq!(work.statistics().unwrap().tasks.ready, 1);
    let claim = work.try_take().unwrap().unwrap();
    let refused = outer.transact(|tx| tx.end(&claim, Outcome::done()));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
}
