//! What a call looks at besides its own tube, task and session: nothing that it does not touch, however
//! many there are. The store counts the tubes, waits and the like that its loops look at.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use tubewell::{
    Durability, FIFO, FIFOTTL, ManualClock, Overlap, Put, Schedule, Store, Tube, TubeOptions, UTUBE,
};

/// How many tubes or waits there are besides.
const FEW: usize = 1;
const MANY: usize = 200;

fn store() -> Store {
    Store::options().clock(ManualClock::new()).open_in_memory().unwrap()
}

fn relaxed() -> TubeOptions {
    TubeOptions::new().durability(Durability::relaxed())
}

/// Checks that `work` looks at as much beside many others as beside few: `with` makes them, and returns
/// what keeps them alive. Returns how much it looks at.
fn assert_same_visits<T, K>(
    with: impl Fn(&Store, usize) -> (T, K),
    work: impl Fn(&Store, &T),
) -> u64 {
    let [few, many] = [FEW, MANY].map(|count| {
        let store = store();
        let (of_work, others) = with(&store, count);
        // The first time, what was read before the others changed is looked at again.
        work(&store, &of_work);
        let before = tubewell::costs::visits(&store).unwrap();
        work(&store, &of_work);
        let visits = tubewell::costs::visits(&store).unwrap() - before;
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        drop(others);
        visits
    });
    assert_eq!(few, many, "beside {FEW} and beside {MANY} others");
    few
}

/// Polls a wait for the first time.
fn begin<F: Future + Unpin>(mut wait: F) -> F {
    let mut context = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut wait).poll(&mut context).is_pending());
    wait
}

fn cycle_in(tube: &Tube, sub_queue: &str) {
    for _ in 0..20 {
        tube.put(Put::new("x").sub_queue(sub_queue)).unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
    }
}

/// Tubes that share limits. Each has a task of this sub-queue that a take has met.
fn sharing(store: &Store, count: usize, sub_queue: &str) -> (Tube, ()) {
    let options = relaxed().shared_limits(true);
    for n in 0..count {
        let tube = store.create_tube(&format!("other {n}"), options.clone().driver(UTUBE)).unwrap();
        tube.put(Put::new("x").sub_queue(sub_queue)).unwrap();
        drop(tube.try_take().unwrap().unwrap());
    }
    (store.create_tube("work", options.driver(UTUBE)).unwrap(), ())
}

#[test]
fn take_and_end_look_at_no_tube_that_shares_limits_and_has_no_task_of_the_sub_queue() {
    assert_same_visits(
        |store, count| sharing(store, count, "other"),
        |_, tube| cycle_in(tube, "db"),
    );
}

#[test]
fn take_and_end_look_at_no_tube_whose_takes_were_not_refused_by_the_limit() {
    let visits = assert_same_visits(
        |store, count| sharing(store, count, "db"),
        |_, tube| cycle_in(tube, "db"),
    );
    assert!(visits > 0, "nothing counts what is looked at");
}

/// Each tube that a take was refused in is offered its task once, whichever takes and ends follow.
#[test]
fn tubes_that_were_refused_are_offered_their_tasks_once() {
    let store = store();
    let (tube, ()) = sharing(&store, MANY, "db");
    tube.put(Put::new("x").sub_queue("db")).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    for n in 0..MANY {
        assert!(store.find_tube(&format!("other {n}")).unwrap().try_take().unwrap().is_none());
    }
    let before = tubewell::costs::visits(&store).unwrap();
    claim.ack().unwrap();
    let freed = tubewell::costs::visits(&store).unwrap() - before;
    assert!(freed >= MANY as u64 && freed <= MANY as u64 + 10, "{freed} visits");
    let before = tubewell::costs::visits(&store).unwrap();
    cycle_in(&tube, "db");
    let again = tubewell::costs::visits(&store).unwrap() - before;
    assert!(again < MANY as u64, "{again} visits");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// The task of the last run is over, and so is the parent: neither is in any tube.
#[test]
fn task_that_is_over_is_looked_for_in_no_tube_to_which_none_has_moved() {
    let [few, many] = [FEW, MANY].map(|count| {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        for n in 0..count {
            let other = store.create_tube(&format!("other {n}"), relaxed().driver(FIFO)).unwrap();
            other.put("x").unwrap();
        }
        let tube = store.create_tube("work", relaxed().driver(FIFO)).unwrap();
        let schedule = Schedule::every("tick", Duration::from_secs(1)).overlap(Overlap::Skip);
        tube.schedule(schedule, "x").unwrap();
        let parent = tube.put("parent").unwrap().id;
        tube.claim(parent).unwrap().ack().unwrap();
        clock.advance(Duration::from_secs(1));
        tube.try_take().unwrap().unwrap().ack().unwrap();
        let before = tubewell::costs::visits(&store).unwrap();
        clock.advance(Duration::from_secs(1));
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
        assert!(tube.put(Put::new("child").after(&tube, [parent])).is_ok());
        let visits = tubewell::costs::visits(&store).unwrap() - before;
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        visits
    });
    assert_eq!(few, many);
}

#[test]
fn put_looks_at_no_caller_that_waits_until_another_tube_is_drained() {
    assert_same_visits(
        |store, count| {
            let other = store.create_tube("other", relaxed().driver(FIFO)).unwrap();
            other.put("x").unwrap();
            let waits = (0..count).map(|_| begin(other.to_async().wait_drained(Duration::MAX)));
            let waits: Vec<_> = waits.collect();
            (store.create_tube("work", relaxed().driver(FIFO)).unwrap(), waits)
        },
        |_, tube| {
            tube.put_many(["x"; 20]).unwrap();
            tube.put("x").unwrap();
        },
    );
}

#[test]
fn end_of_a_session_looks_at_no_wait_of_another_one() {
    assert_same_visits(
        |store, count| {
            let tube = store.create_tube("work", relaxed().driver(FIFO)).unwrap();
            let full = store.create_tube("full", relaxed().driver(FIFO)).unwrap();
            full.put("x").unwrap();
            let others = (0..count).map(|_| {
                let session = store.session("").unwrap();
                let (empty, full) = (session.tube(&tube).unwrap(), session.tube(&full).unwrap());
                let take = begin(empty.to_async().take_timeout(Duration::MAX));
                let drained = begin(full.to_async().wait_drained(Duration::MAX));
                let done = begin(full.to_async().wait_done(0, Duration::MAX));
                (session, take, drained, done)
            });
            let others: Vec<_> = others.collect();
            (tube, others)
        },
        |store, _| {
            let session = store.session("").unwrap();
            let tube = session.tube(&store.find_tube("full").unwrap()).unwrap();
            let waits = begin(tube.to_async().wait_done(0, Duration::from_secs(60)));
            session.end().unwrap();
            drop(waits);
        },
    );
}

#[test]
fn answer_to_a_wait_for_a_task_looks_at_no_other_wait() {
    assert_same_visits(
        |store, count| {
            let other = store.create_tube("other", relaxed().driver(FIFO)).unwrap();
            let id = other.put("x").unwrap().id;
            let waits = (0..count).map(|_| {
                (
                    begin(other.to_async().wait_done(id, Duration::MAX)),
                    begin(other.to_async().wait_drained(Duration::MAX)),
                )
            });
            let waits: Vec<_> = waits.collect();
            (store.create_tube("work", relaxed().driver(FIFO)).unwrap(), waits)
        },
        |_, tube| {
            let mut ready = begin(tube.to_async().wait_ready(Duration::MAX));
            tube.put("x").unwrap();
            let mut context = Context::from_waker(Waker::noop());
            assert!(Pin::new(&mut ready).poll(&mut context).is_ready());
            tube.try_take().unwrap().unwrap().ack().unwrap();
        },
    );
}

/// The waits of `count` callers for a task, for a drained and for a ready tube.
fn waits_in(tube: &Tube, count: usize) -> impl Sized + use<> {
    let id = tube.put(Put::new("x").delay(Duration::from_secs(60))).unwrap().id;
    let waits = (0..count).map(|_| {
        let done = begin(tube.to_async().wait_done(id, Duration::MAX));
        let drained = begin(tube.to_async().wait_drained(Duration::MAX));
        (done, drained, begin(tube.to_async().wait_ready(Duration::MAX)))
    });
    waits.collect::<Vec<_>>()
}

#[test]
fn truncate_and_drop_look_at_no_caller_that_waits_in_another_tube() {
    let visits = assert_same_visits(
        |store, count| {
            let other = store.create_tube("other", relaxed().driver(FIFOTTL)).unwrap();
            ((), waits_in(&other, count))
        },
        |store, ()| {
            let tube = store.create_tube("work", relaxed().driver(FIFOTTL)).unwrap();
            let waits = waits_in(&tube, 3);
            tube.admin().truncate().unwrap();
            drop(waits);
            let waits = waits_in(&tube, 3);
            store.drop_tube("work").unwrap();
            drop(waits);
        },
    );
    assert!(visits >= 12, "nothing counts the waits of the tube itself: {visits}");
}
