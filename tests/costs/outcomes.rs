//! Tasks that are kept after their end, and callers that wait for it.

use std::future::Future;
use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, Failure, Filter, Keep, ManualClock, Outcome, Store, TubeOptions,
};

use crate::{allocations, assert_plain_costs, flushes_and_commits, rows_edited, with_tube};

type End = fn(Claim) -> tubewell::Result<tubewell::Receipt>;

/// A kept task moves to another row, and has a place. More rows: the result, a due if there is an
/// age, the task that is forgotten, and the two rows of a failure group.
#[test]
fn outcomes_edit_few_rows_in_the_commit_of_the_end() {
    let count = Keep::new().count(1);
    let age = Duration::from_secs(60);
    let kept = |keep| TubeOptions::new().keep_done(keep);
    let fail = |claim: Claim| claim.fail(Failure::new("group", "message"));
    let ends: [(TubeOptions, End, u64); 7] = [
        (TubeOptions::new(), |claim| claim.end(Outcome::result("result")), 3),
        (kept(Keep::new()), |claim| claim.ack(), 5),
        (kept(Keep::new()), |claim| claim.end(Outcome::result("result")), 6),
        (kept(Keep::new().age(age)), |claim| claim.end(Outcome::result("result")), 7),
        (kept(count), |claim| claim.end(Outcome::result("result")), 9),
        (kept(count.age(age)), |claim| claim.end(Outcome::result("result")), 11),
        (TubeOptions::new().max_attempts(1), fail, 9),
    ];
    for (options, end, most) in ends {
        with_tube(FIFO, options.clone(), |store, tube| {
            let mut cost = (0, 0);
            let mut rows = 0;
            for _ in 0..3 {
                tube.put("x").unwrap();
                let claim = tube.try_take().unwrap().unwrap();
                rows = rows_edited(store, || {
                    cost = flushes_and_commits(store, || _ = end(claim).unwrap());
                });
            }
            assert_eq!((rows, cost), (most, (1, 1)), "{options:?}");
        });
    }
}

#[test]
fn kept_ack_allocates_little() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    for (keep, most) in [(None, 8), (Some(Keep::new().count(1)), 36)] {
        let options = keep.into_iter().fold(relaxed.clone(), TubeOptions::keep_done);
        with_tube(FIFO, options, |_, tube| {
            let cycle = allocations(500, || {
                tube.put(&[7; 128]).unwrap();
                tube.try_take().unwrap().unwrap().end(Outcome::result([7; 128])).unwrap();
            });
            println!("{keep:?}: {cycle} allocations");
            assert!(cycle <= most, "{keep:?}: {cycle} allocations per cycle");
        });
    }
}

/// The database still has the rows that the last acks have removed.
#[test]
fn kept_ack_that_trims_does_not_read_the_rows_of_earlier_trims() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let open = || Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let keep = TubeOptions::new().keep_done(Keep::new().count(600));
    let store = open();
    store.create_tube("work", keep.durability(Durability::relaxed()).driver(FIFO)).unwrap();
    let end = |store: &Store, tasks: usize| {
        let tube = store.find_tube("work").unwrap();
        tube.put_many(vec!["x"; tasks]).unwrap();
        let claims = tube.take_many(tasks, Duration::ZERO).unwrap();
        assert_eq!(Claim::end_many(claims, |_| Outcome::done()).unwrap().len(), tasks);
        clock.advance(Duration::from_micros(1));
    };
    end(&store, 600);
    store.close().unwrap();
    let store = open();
    end(&store, 400);
    let tube = store.find_tube("work").unwrap();
    tube.put_many(["x"; 100]).unwrap();
    let ack = allocations(50, || _ = tube.try_take().unwrap().unwrap().ack().unwrap());
    println!("{ack} allocations");
    assert!(ack <= 60, "{ack} allocations per ack");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The database still has the rows that the last kicks have removed. A task that is buried again
/// before them is the first one.
#[test]
fn kick_does_not_read_the_rows_of_earlier_kicks() {
    for options in [TubeOptions::new(), TubeOptions::new().keep_buried(Keep::new().count(2000))] {
        let dir = tempfile::tempdir().unwrap();
        let clock = ManualClock::new();
        let open = || Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
        let store = open();
        let options = options.durability(Durability::relaxed());
        let tube = store.create_tube("work", options.clone().driver(FIFO)).unwrap();
        for receipt in tube.put_many(["x"; 1000]).unwrap() {
            tube.admin().bury(receipt.id, None).unwrap();
        }
        drop(tube);
        store.close().unwrap();
        drop(store);
        let store = open();
        let tube = store.find_tube("work").unwrap();
        let kick = || assert_eq!(tube.admin().kick(Filter::new().limit(1)), Ok(1));
        (0..600).for_each(|_| kick());
        let kicks = allocations(50, kick);
        println!("{kicks} allocations of {options:?}");
        assert!(kicks <= 60, "{kicks} allocations per kick of {options:?}");
        let again = allocations(50, || {
            tube.admin().bury(0, None).unwrap();
            kick();
        });
        println!("{again} allocations with a bury");
        assert!(again <= 100, "{again} allocations per bury and kick of {options:?}");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

/// Another tube of the store keeps outcomes, and a caller waits for the end of one of its tasks.
#[test]
fn outcomes_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, plain| {
        let keep = TubeOptions::new().keep_done(Keep::new().count(100));
        let keeping = store.create_tube("keeping", keep.driver(FIFO)).unwrap();
        keeping.put_many(["x"; 101]).unwrap();
        let claims = keeping.take_many(100, Duration::ZERO).unwrap();
        assert_eq!(Claim::end_many(claims, |_| Outcome::done()).unwrap().len(), 100);
        let mut wait = std::pin::pin!(keeping.to_async().wait_done(100, Duration::MAX));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        assert_plain_costs(store, plain);
    });
}
