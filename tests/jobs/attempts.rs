//! Attempts: budgets, counted takes, backoff, failures. More of each is in the modules of that name.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{
    Backoff, Counting, Durability, Error, Failure, Filter, Store, TaskState, Tube, TubeOptions,
};

use super::files::{after_a_kill, attempts};
use super::support::*;
use crate::stores;

fn with_options(file: &StoreFile, driver: &str, options: TubeOptions) -> (Store, Tube) {
    let store = stores::open_with(file.path(), Store::options().clock(&file.clock));
    let tube = store.create_tube("case", options.driver(driver)).unwrap();
    (store, tube)
}

#[test]
fn killed_worker_has_used_an_attempt_if_takes_are_written_or_flushed() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        for (counting, counted) in
            [(Counting::Lazily, 0), (Counting::Written, 1), (Counting::Flushed, 1)]
        {
            let file = StoreFile::new();
            let options = TubeOptions::new().max_attempts(2).count_takes(counting);
            let (store, tube) = with_options(&file, FIFO, options.durability(durability));
            tube.put("work").unwrap();
            store.flush().unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            assert_eq!((claim.attempt(), claim.attempts_left()), (1, Some(1)));
            assert_sound(&store);
            let (_file, killed) = after_a_kill(&file);
            let tube = killed.find_tube("case").unwrap();
            assert_eq!(state(&tube, 0), Some(TaskState::Ready));
            assert_eq!(attempts(&tube, 0), (counted, Some(2 - counted)), "{counting:?}");
            assert_sound(&killed);
        }
    }
}

#[test]
fn task_that_kills_every_worker_is_buried_at_its_limit() {
    let file = StoreFile::new();
    let (mut store, mut tube) = with_options(&file, FIFO, TubeOptions::new().max_attempts(3));
    tube.put("poison").unwrap();
    let mut files = vec![file];
    for attempt in 1..=3 {
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.attempt(), attempt);
        let (file, killed) = after_a_kill(files.last().unwrap());
        drop((claim, tube, store));
        (tube, store) = (killed.find_tube("case").unwrap(), killed);
        files.push(file);
    }
    assert_eq!(state(&tube, 0), Some(TaskState::Buried));
    let failure = tube.query().task(0).unwrap().info.failure.unwrap();
    assert_eq!((failure.group.as_str(), failure.attempt), ("lost", 3));
    assert!(tube.try_take().unwrap().is_none());
    tube.admin().kick(Filter::new().limit(1)).unwrap();
    assert_eq!(attempts(&tube, 0), (0, Some(3)));
    assert!(tube.try_take().unwrap().is_some());
    assert_sound(&store);
}

#[test]
fn failure_is_kept_over_a_reopen_and_backoff_delays_the_next_attempt() {
    let file = StoreFile::new();
    let backoff = Backoff::exponential(secs(10));
    let options = TubeOptions::new().max_attempts(3).backoff(backoff);
    let (store, tube) = with_options(&file, FIFOTTL, options);
    let session = store.session("worker-1").unwrap();
    tube.put("work").unwrap();
    let tube = session.tube(&tube).unwrap();
    for delay in [10, 20] {
        let claim = tube.try_take().unwrap().unwrap();
        let receipt = claim.fail(Failure::new("timeout", "no answer")).unwrap();
        assert_eq!(receipt.state, TaskState::Delayed);
        assert_eq!(tube.query().task(0).unwrap().info.due_in, Some(secs(delay)));
        file.clock.advance(secs(delay));
    }
    let claim = tube.try_take().unwrap().unwrap();
    assert_eq!(claim.attempts_left(), Some(0));
    assert_eq!(claim.fail(Failure::new("crash", "signal 9")).unwrap().state, TaskState::Buried);
    file.clock.advance(secs(5));
    assert_sound(&store);
    drop((tube, session));
    stores::close(&store);
    let store = stores::open_with(file.path(), Store::options().clock(&file.clock));
    let tube = store.find_tube("case").unwrap();
    let failure = tube.query().task(0).unwrap().info.failure.unwrap();
    assert_eq!((failure.group.as_str(), failure.message.as_str()), ("crash", "signal 9"));
    assert_eq!((failure.attempt, failure.ago), (3, secs(5)));
    assert_eq!(failure.owner.as_deref(), Some("worker-1"));
    assert_sound(&store);
}

#[test]
fn claim_within_its_reclaim_delay_can_still_be_acked() {
    let file = StoreFile::new();
    let options = TubeOptions::new().ttr(secs(10)).reclaim_delay(secs(5)).max_attempts(1);
    let (store, tube) = with_options(&file, FIFOTTL, options);
    tube.put_many(["late", "too late"]).unwrap();
    let (late, too_late) = (tube.try_take().unwrap().unwrap(), tube.try_take().unwrap().unwrap());
    file.clock.advance(secs(14));
    assert_eq!(
        (late.expires_in().unwrap(), late.is_current().unwrap()),
        (Some(Duration::ZERO), true)
    );
    assert_eq!(tube.statistics().unwrap().calls.lost, 2);
    late.ack().unwrap();
    file.clock.advance(secs(1));
    assert!(matches!(too_late.ack(), Err(Error::NotTaken { .. })));
    assert_eq!(tube.query().task(1).unwrap().info.failure.unwrap().group, "expired");
    assert_sound(&store);
}

#[test]
fn failure_of_task_lost_with_its_session_names_the_owner() {
    let file = StoreFile::new();
    let (store, tube) = with_options(&file, FIFO, TubeOptions::new().max_attempts(1));
    tube.put("work").unwrap();
    let session = store.session("worker-1").unwrap();
    let _ = session.tube(&tube).unwrap().try_take().unwrap().unwrap().detach();
    session.end().unwrap();
    let failure = tube.query().task(0).unwrap().info.failure.unwrap();
    assert_eq!((failure.group.as_str(), failure.owner.as_deref()), ("lost", Some("worker-1")));
    assert_sound(&store);
}

#[test]
fn backoff_gives_no_time_to_task_whose_ttl_elapsed_after_its_process_was_killed() {
    let file = StoreFile::new();
    let backoff = Backoff::constant(secs(60));
    let options = TubeOptions::new().max_attempts(3).backoff(backoff).ttl(secs(10));
    let (store, tube) = with_options(&file, FIFOTTL, options);
    tube.put("work").unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    let killed = StoreFile::new();
    std::fs::copy(file.path(), killed.path()).unwrap();
    drop((claim, tube));
    stores::close(&store);
    file.clock.advance(secs(20));
    let store = stores::open_with(killed.path(), Store::options().clock(&file.clock));
    file.clock.advance(Duration::ZERO);
    assert_eq!(state(&store.find_tube("case").unwrap(), 0), None);
    assert_sound(&store);
}

/// Its parked claim and its ttl have ended while the store was closed.
#[test]
fn backoff_gives_no_time_to_parked_task_whose_ttl_elapsed_while_the_store_was_closed() {
    let file = StoreFile::new();
    let options = TubeOptions::new().backoff(Backoff::constant(secs(60))).ttl(secs(10));
    let (store, tube) = with_options(&file, FIFOTTL, options);
    tube.put("work").unwrap();
    let token = tube.try_take().unwrap().unwrap().park(secs(20)).unwrap();
    drop(tube);
    let store = file.reopen_after(store, secs(30));
    file.clock.advance(Duration::ZERO);
    assert_eq!(state(&store.find_tube("case").unwrap(), 0), None);
    assert!(store.resume_claim(&token).is_err());
    assert_sound(&store);
}

/// The ttl stands still while the task is delayed, also if the backoff is longer than what is left.
#[test]
fn backoff_is_added_to_the_ttl() {
    let options = TubeOptions::new().backoff(Backoff::constant(secs(60)));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.add(case.draft("x").ttl(secs(10)).ttr(secs(4)));
        let left = || (case.state(id), case.info(id).ttl_left);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(1_000);
        assert_eq!(claim.fail(Failure::new("g", "m")).unwrap().state, TaskState::Delayed);
        assert_eq!(left(), (Some(TaskState::Delayed), Some(secs(69))));
        case.advance(59_999);
        assert_eq!(case.state(id), Some(TaskState::Delayed));
        case.advance(1);
        assert_eq!(left(), (Some(TaskState::Ready), Some(secs(9))));
        // The same after a ttr that elapses.
        assert_eq!(case.take(), Some(id));
        case.advance(4_000);
        assert_eq!(left(), (Some(TaskState::Delayed), Some(secs(65))));
        case.advance(60_000);
        assert_eq!(left(), (Some(TaskState::Ready), Some(secs(5))));
        // And after the end of a session.
        let session = case.store.session("").unwrap();
        keep(session.tube(&case.tube).unwrap().try_take().unwrap().unwrap());
        case.advance(3_999);
        session.end().unwrap();
        assert_eq!(left(), (Some(TaskState::Delayed), Some(ms(61_001))));
        case.advance(61_000);
        assert_eq!(left(), (Some(TaskState::Ready), Some(ms(1))));
        case.advance(1);
        assert_eq!(case.state(id), None);
    });
}
