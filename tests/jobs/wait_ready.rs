//! Waits until a tube has a task that can be taken.

use tubewell::driver::{FIFO, FIFOTTL, UTUBE};
use tubewell::{Error, Filter, Put, Rate, Tube, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::support::*;
use super::wait::*;
use crate::options::only;
use crate::stores;

fn wait_ready(tube: &Tube) -> Wait<bool> {
    Wait::begin(tube.to_async().wait_ready(NO_TIMEOUT))
}

/// Asserts that the wait ends after this time, and not a millisecond earlier.
fn assert_ready_after(case: &Case, wait: Wait<bool>, millis: u64) {
    case.advance(millis - 1);
    wait.assert_waits();
    case.advance(1);
    assert_eq!(wait.answer(), Ok(true));
}

/// T004
#[test]
fn wait_ready_of_an_empty_tube_ends_with_its_timeout() {
    for_each_driver(ALL, |case| {
        assert_eq!(case.tube.wait_ready(ZERO), Ok(false));
        assert_eq!(block_on(case.tube.to_async().wait_ready(ZERO)), Ok(false));
        let wait = Wait::begin(case.tube.to_async().wait_ready(ms(100)));
        case.advance(99);
        wait.assert_waits();
        case.advance(1);
        assert_eq!(wait.answer(), Ok(false));
    });
}

/// T005
#[test]
fn wait_ready_ends_with_a_put_and_takes_nothing() {
    for options in [TubeOptions::new(), TubeOptions::new().temporary(true)] {
        for_each_driver_with(ALL, options, |case| {
            let waits = [wait_ready(&case.tube), wait_ready(&case.tube_in_new_session())];
            case.put_all([0]);
            for wait in waits {
                assert_eq!(wait.answer(), Ok(true));
            }
            assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
            assert_eq!(
                (case.tube.wait_ready(ZERO), case.tube.wait_ready(secs(1))),
                (Ok(true), Ok(true))
            );
            assert_eq!(case.take(), Some(0));
        });
    }
}

/// T034
#[test]
fn wait_ready_does_not_end_while_all_tasks_are_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        let wait = wait_ready(&case.tube);
        assert_eq!(case.tube.wait_ready(ZERO), Ok(false));
        case.tube.admin().bury(claim.id(), None).unwrap();
        drop(claim);
        wait.assert_waits();
        assert_sound(&case.store);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        assert_eq!(wait.answer(), Ok(true));
    });
}

#[test]
fn wait_ready_ends_when_a_delay_elapses_or_a_claim_expires() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").delay(secs(1)).ttr(secs(2)));
        let wait = wait_ready(&case.tube);
        assert_ready_after(case, wait, 1000);
        case.take();
        let wait = wait_ready(&case.tube);
        assert_ready_after(case, wait, 2000);
    });
}

/// It is owed no task.
#[test]
fn takes_that_wait_come_before_wait_ready() {
    for_each_driver(ALL, |case| {
        let ready = wait_ready(&case.tube);
        let mut takes = [case.begin_take(), case.begin_take()];
        let late = wait_ready(&case.tube);
        case.put_all([0]);
        takes[0].wait();
        assert!(takes[1].is_pending());
        case.put("x");
        ready.assert_waits();
        let [first, second] = takes.map(WaitingTake::id);
        assert_eq!((first, second), (Some(0), Some(1)));
        assert_sound(&case.store);
        case.put("x");
        assert_eq!((ready.answer(), late.answer()), (Ok(true), Ok(true)));
        assert_eq!(case.take(), Some(2));
    });
}

/// A take that is dropped gives its task back, which is then ready.
#[test]
fn dropped_take_that_was_served_ends_wait_ready() {
    for_each_driver(ALL, |case| {
        let take = case.begin_take();
        let ready = wait_ready(&case.tube);
        case.put_all([0]);
        ready.assert_waits();
        drop(take);
        assert_eq!(ready.answer(), Ok(true));
    });
}

#[test]
fn wait_ready_ends_when_a_pause_is_over() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.tube.admin().pause_for(secs(1)).unwrap();
        let wait = wait_ready(&case.tube);
        assert_sound(&case.store);
        assert_ready_after(case, wait, 1000);
        case.tube.admin().pause().unwrap();
        let wait = wait_ready(&case.tube);
        case.tube.admin().unpause().unwrap();
        assert_eq!(wait.answer(), Ok(true));
        assert_sound(&case.store);
    });
}

#[test]
fn wait_ready_ends_when_a_limit_or_a_rate_allows_a_take() {
    for_each_driver(ALL, |case| {
        case.tube.admin().alter(only(TubeOptions::new().max_taken(1))).unwrap();
        case.put_all([0, 1]);
        case.take();
        let wait = wait_ready(&case.tube);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(wait.answer(), Ok(true));

        case.tube.admin().alter(only(TubeOptions::new().rate(Rate::per(1, secs(1))))).unwrap();
        case.put("x");
        case.take();
        let wait = wait_ready(&case.tube);
        assert_sound(&case.store);
        assert_ready_after(case, wait, 1000);
        assert_sound(&case.store);
    });
}

#[test]
fn wait_ready_ends_when_a_sub_queue_opens() {
    for_each_driver(SUB_QUEUED, |case| {
        let put = || case.add(Put::new("x").sub_queue("a"));
        let ids = [(); 4].map(|()| put());
        case.take();
        let wait = wait_ready(&case.tube);
        put();
        wait.assert_waits();
        case.tube.claimed(ids[0]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(wait.answer(), Ok(true));

        case.tube.admin().pause_sub_queue("a", secs(1)).unwrap();
        let wait = wait_ready(&case.tube);
        assert_sound(&case.store);
        assert_ready_after(case, wait, 1000);

        let rate = TubeOptions::new().sub_queue_rate(Rate::per(1, secs(1))).sub_queue_limit(9);
        case.tube.admin().alter(only(rate)).unwrap();
        case.take();
        let wait = wait_ready(&case.tube);
        assert_sound(&case.store);
        case.advance(1000);
        assert_eq!(wait.answer(), Ok(true));

        let cooldown = TubeOptions::new().sub_queue_cooldown(secs(1)).sub_queue_limit(9);
        case.tube.admin().alter(only(cooldown)).unwrap();
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        put();
        let wait = wait_ready(&case.tube);
        assert_sound(&case.store);
        assert_ready_after(case, wait, 1000);
    });
}

/// Tubes that share limits: the end of a claim in one of them frees a task of another.
#[test]
fn wait_ready_ends_when_a_shared_limit_is_free() {
    let shared = TubeOptions::new().shared_limits(true);
    for_each_driver_with(SUB_QUEUED, shared.clone(), |case| {
        let other = case.store.create_tube("other", shared.clone().driver(case.driver)).unwrap();
        other.put(Put::new("x").sub_queue("gpu")).unwrap();
        case.add(Put::new("x").sub_queue("gpu"));
        let claim = other.try_take().unwrap().unwrap();
        let wait = wait_ready(&case.tube);
        claim.ack().unwrap();
        assert_eq!(wait.answer(), Ok(true));
    });
}

#[test]
fn wait_ready_ends_with_its_session_its_tube_and_its_store() {
    for_each_driver(ALL, |case| {
        let session = case.store.session("").unwrap();
        let of_session = wait_ready(&session.tube(&case.tube).unwrap());
        session.end().unwrap();
        assert_eq!(of_session.answer(), Err(Error::SessionEnded));

        let truncated = wait_ready(&case.tube);
        case.put_all([0]);
        assert_eq!(truncated.answer(), Ok(true));
        case.take();
        let truncated = wait_ready(&case.tube);
        case.tube.admin().truncate().unwrap();
        truncated.assert_waits();
        case.put("x");
        assert_eq!(truncated.answer(), Ok(true));

        case.tube.admin().truncate().unwrap();
        case.tube.admin().pause_for(secs(1)).unwrap();
        let dropped = wait_ready(&case.tube);
        case.store.drop_tube("case").unwrap();
        let error = Error::TubeDropped { name: "case".into() };
        assert_eq!(
            (dropped.answer(), case.tube.wait_ready(ZERO)),
            (Err(error.clone()), Err(error))
        );
        assert_sound(&case.store);

        let store = store_in_memory();
        let last = store.create_tube("last", TubeOptions::new().driver(case.driver)).unwrap();
        let closed = wait_ready(&last);
        drop(wait_ready(&last));
        assert_eq!(last.info().unwrap().waiting, 0);
        assert_sound(&store);
        stores::close(&store);
        assert!(stores::is_closed(&closed.answer().unwrap_err()));
    });
}

/// The window is empty after an open, and the first task on the disk is expired.
#[test]
fn wait_ready_finds_a_stored_task_behind_expired_ones() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put_many((0..1000).map(|_| Put::new("expires").ttl(secs(1)))).unwrap();
    let id = tube.put("stays").unwrap().id;
    drop(tube);
    let store = file.reopen_after(store, secs(2));
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.wait_ready(NO_TIMEOUT), Ok(true));
    assert_eq!(block_on(tube.to_async().wait_ready(ZERO)), Ok(true));
    assert_eq!(tube.try_take().unwrap().unwrap().id(), id);
    assert_sound(&store);
}

/// A task whose put waits for its flush is not ready.
#[test]
fn wait_ready_ends_after_the_flush_of_a_put() {
    with_timeout(|| {
        for driver in [FIFO, UTUBE] {
            let (disk, _, store, tube) = on_disk(driver);
            let wait = wait_ready(&tube);
            let deferred = tube.to_async().refuse_when_full();
            let put = disk.block_flush_of(|| deferred.put("x"));
            wait.assert_waits();
            assert_eq!(tube.wait_ready(ZERO), Ok(false));
            stores::settle(&store);
            disk.unblock_flushes();
            put.wait().unwrap();
            assert_eq!(end_of(wait), Ok(true));
            assert_sound(&store);
        }
    });
}
