//! Flushes and commits.

use std::time::Duration;

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, ManualClock, OnKey, Outcome, Put, Store, TubeOptions, UTUBE,
    Update,
};

use crate::{flushes_and_commits, with_tube};

#[test]
fn put_and_ack_cost_one_flush_each_and_take_costs_none() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        assert_eq!(flushes_and_commits(store, || _ = tube.put("warm").unwrap()), (1, 1));
        assert_eq!(flushes_and_commits(store, || _ = tube.put("one").unwrap()), (1, 1));
        let mut claim = None;
        assert_eq!(flushes_and_commits(store, || claim = tube.try_take().unwrap()), (0, 0));
        assert_eq!(flushes_and_commits(store, || _ = claim.take().unwrap().ack().unwrap()), (1, 1));
    });
}

#[test]
fn release_renew_and_claim_expiry_cost_no_flush() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(dir.path().join("store")).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put(Put::new("one").ttr(Duration::from_secs(5))).unwrap();
    let cost = flushes_and_commits(&store, || {
        let claim = tube.try_take().unwrap().unwrap();
        claim.renew(Duration::from_secs(7)).unwrap();
        claim.release().unwrap();
        drop(tube.try_take().unwrap().unwrap());
        let _ = tube.try_take().unwrap().unwrap().detach();
        clock.advance(Duration::from_secs(6));
        assert_eq!(tube.statistics().unwrap().calls.ttr, 1);
        assert_eq!(tube.query().task(0).unwrap().info.takes, 3);
    });
    assert_eq!(cost, (0, 0));
}

#[test]
fn batch_costs_one_flush_for_any_number_of_tasks() {
    with_tube(UTUBE, TubeOptions::new(), |store, tube| {
        let tasks = || (0..500).map(|n| Put::new("x").sub_queue(format!("s{n}")));
        assert_eq!(flushes_and_commits(store, || _ = tube.put_many(tasks()).unwrap()), (1, 1));
        let claims = tube.take_many(500, Duration::ZERO).unwrap();
        assert_eq!(claims.len(), 500);
        // On this clock the thread of a commit also writes the checkpoint that the commit begins.
        let (flushes, commits) = flushes_and_commits(store, || {
            _ = Claim::end_many(claims, |_| Outcome::done()).unwrap();
        });
        assert!(flushes <= 2 && commits == 1, "{flushes} flushes, {commits} commits");
    });
}

#[test]
fn deferred_calls_share_flushes() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let deferred = tube.to_async();
        let (flushes, _) = flushes_and_commits(store, || {
            let tickets: Vec<_> = (0..1000).map(|_| deferred.put("x")).collect();
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        });
        assert!(flushes <= 500, "1000 puts from one thread cost {flushes} flushes");
    });
}

#[test]
fn temporary_tubes_write_nothing() {
    with_tube(FIFO, TubeOptions::new().temporary(true), |store, tube| {
        tube.put("the first put of a run reserves ids").unwrap();
        let cost = flushes_and_commits(store, || {
            for _ in 0..3000 {
                tube.put("x").unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
        });
        assert_eq!(cost, (0, 0));
    });
}

/// Regression: a relaxed put was acked before the flush. The flush had nothing to write and
/// returned an earlier commit than the receipts.
#[test]
fn flush_returns_at_least_commit_of_earlier_receipts() {
    let store = Store::in_memory().unwrap();
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let tube = store.create_tube("work", relaxed.driver(FIFO)).unwrap();
    for _ in 0..3 {
        tube.put("x").unwrap();
        let ack = tube.try_take().unwrap().unwrap().ack().unwrap();
        assert!(store.flush().unwrap() >= ack.commit);
    }
}

/// The commit of their task is a later one, which is not flushed yet.
#[test]
fn calls_that_change_nothing_name_the_last_flushed_commit() {
    let dir = tempfile::tempdir().unwrap();
    for durability in [Durability::write(), Durability::relaxed()] {
        let options = Store::options().clock(ManualClock::new());
        let store = options.open(dir.path().join(durability.to_string())).unwrap();
        let options = TubeOptions::new().durability(durability);
        let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
        tube.put("the first ids").unwrap();
        let flushed = store.flush().unwrap();

        let put =
            || tube.put(Put::new("x").key("key").idempotency_key("token").tag("tag")).unwrap();
        let first = put();
        assert!(first.commit > flushed, "{durability}");
        let unchanged = [
            put(),
            tube.put(Put::new("y").key("key").on_key(OnKey::Keep)).unwrap(),
            tube.admin().set_priority(first.id, tubewell::DEFAULT_PRIORITY).unwrap(),
            tube.admin().add_tags(first.id, ["tag"]).unwrap(),
            tube.update(first.id, Update::new().priority(tubewell::DEFAULT_PRIORITY)).unwrap(),
        ];
        for receipt in unchanged {
            assert_eq!((receipt.id, receipt.commit), (first.id, flushed), "{durability}");
        }
        assert!(store.flush().unwrap() >= first.commit);
    }
}
