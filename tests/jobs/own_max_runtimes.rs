//! Tasks with a limit of a claim of their own: `Put::max_runtime`.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::{Restore, Salvaged};
use tubewell::{
    Error, Filter, OnKey, Outcome, Put, Schedule, StoreOptions, TaskState, Tube, TubeOptions,
    Update,
};

use super::files::create_with;
use super::support::*;
use crate::stores;

/// A task with a limit of 25 s, in no sub-queue.
fn limited() -> Put<&'static str> {
    Put::new("x").max_runtime(secs(25))
}

/// How long the next claim lasts if it is renewed for as long as it may be. The task is ready again then.
fn longest(tube: &Tube) -> Option<Duration> {
    let claim = tube.try_take().unwrap().unwrap();
    claim.renew(Duration::MAX).unwrap();
    let longest = claim.expires_in().unwrap();
    claim.release().unwrap();
    longest
}

fn shown(tube: &Tube, id: u64) -> Option<Duration> {
    tube.query().task(id).unwrap().info.max_runtime
}

#[test]
fn limit_of_a_task_overrides_that_of_its_tube() {
    for of_tube in [None, Some(secs(5)), Some(secs(100))] {
        let options = of_tube.into_iter().fold(TubeOptions::new(), TubeOptions::max_runtime);
        for_each_driver_with(TIMED, options, |case| {
            for own in [secs(25), secs(7), Duration::MAX] {
                let id = case.add(case.draft("x").max_runtime(own));
                assert_eq!(longest(&case.tube), Some(own).filter(|own| *own != Duration::MAX));
                assert_eq!(shown(&case.tube, id), Some(own));
                case.tube.delete(id).unwrap();
            }
            let id = case.put("x");
            assert_eq!((longest(&case.tube), shown(&case.tube, id)), (of_tube, None));
        });
    }
}

/// With a ttr, and without one: nothing extends the claim, the attempt counts, and each attempt has the
/// whole time.
#[test]
fn claim_of_a_task_with_a_limit_ends_with_it() {
    for ttr in [secs(10), Duration::MAX] {
        for_each_driver_with(TIMED, TubeOptions::new().ttr(ttr), |case| {
            let id = case.add(limited());
            for attempt in 1..=2 {
                let mut claim = case.tube.try_take().unwrap().unwrap();
                // The touch of the first attempt has lengthened the ttr.
                let first = if attempt == 1 { ttr.min(secs(25)) } else { secs(25) };
                assert_eq!(claim.expires_in().unwrap(), Some(first));
                case.advance(9_000);
                claim.renew(Duration::MAX).unwrap();
                claim.touch(secs(100)).unwrap();
                claim.checkpoint("more").unwrap();
                assert_eq!(claim.expires_in().unwrap(), Some(secs(16)));
                case.advance(16_000);
                assert_not_taken(claim.ack(), id);
                let info = case.tube.query().task(id).unwrap().info;
                assert_eq!((info.state, info.attempts), (TaskState::Ready, attempt));
            }
        });
    }
}

#[test]
fn limit_of_zero_and_a_driver_without_times_are_refused() {
    for_each_driver(ALL, |case| {
        let refused = |put: Put<&str>| {
            let errors = [
                case.tube.put(put.clone()).unwrap_err(),
                case.tube.put_many([Put::new("y"), put.clone()]).unwrap_err(),
                case.tube.put_timeout(put.clone(), ZERO).unwrap_err(),
                case.tube.put_and_wait(put.clone(), ZERO).unwrap_err(),
                case.tube.schedule(Schedule::every("s", secs(1)), put.clone()).unwrap_err(),
                case.tube.admin().restore_many([Restore::new(put)]).unwrap_err(),
            ];
            assert!(!case.tasks().contains_key("total"));
            errors
        };
        for error in refused(Put::new("x").max_runtime(ZERO)) {
            let what =
                "the max_runtime of a task must be above zero; leave it out for that of its tube";
            assert_eq!(error, Error::Invalid { what: what.into() });
        }
        if !case.timed() {
            for error in refused(Put::new("x").max_runtime(secs(1))) {
                assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
            }
        }
    });
}

#[test]
fn limit_stays_with_a_task_that_is_buried_moved_updated_and_replaced() {
    for_each_driver_with(TIMED, TubeOptions::new().max_runtime(secs(3)), |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let id = case.add(limited().key("k"));
        case.tube.try_take().unwrap().unwrap().bury(None).unwrap();
        case.tube.kick(id).unwrap();
        assert_eq!(longest(&case.tube), Some(secs(25)));
        case.tube.update(id, Update::new().body("y")).unwrap();
        assert_eq!(longest(&case.tube), Some(secs(25)));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(1));
        assert_eq!((longest(&other), shown(&other, id)), (Some(secs(25)), Some(secs(25))));
        // A put that says nothing of it leaves it, and one that does sets it.
        other.put(Put::new("z").key("k").on_key(OnKey::Replace)).unwrap();
        assert_eq!(longest(&other), Some(secs(25)));
        other.requeue("k", Put::new("z").max_runtime(secs(7))).unwrap();
        assert_eq!(longest(&other), Some(secs(7)));
        // It is the task that goes on, with what its new put says.
        let claim = other.try_take().unwrap().unwrap();
        claim.end(Outcome::advance(&case.tube, case.draft("a"))).unwrap();
        assert_eq!(longest(&case.tube), Some(secs(3)));
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.end(Outcome::advance(&other, Put::new("b").max_runtime(secs(8)))).unwrap();
        assert_eq!(longest(&other), Some(secs(8)));
    });
}

/// A tube without times keeps the times of a task that moves into it.
#[test]
fn limit_stays_with_a_task_in_a_tube_without_times() {
    for_each_driver(TIMED, |case| {
        let plain = case.store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let id = case.add(limited());
        assert_eq!(case.tube.admin().move_to(&plain, id), Ok(1));
        assert_eq!(plain.try_take().unwrap().unwrap().expires_in(), Ok(Some(secs(25))));
        assert_eq!(plain.admin().move_to(&case.tube, id), Ok(1));
        assert_eq!(longest(&case.tube), Some(secs(25)));
    });
}

#[test]
fn tasks_of_every_form_of_put_have_their_limit() {
    for_each_driver(TIMED, |case| {
        let tube = &case.tube;
        tube.put_many([limited()]).unwrap();
        tube.put_timeout(limited(), ZERO).unwrap();
        tube.put_and_wait(limited(), ZERO).unwrap();
        tube.admin().restore_many([Restore::new(limited()).takes(3)]).unwrap();
        case.put("without");
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        other.put("x").unwrap();
        let claim = other.try_take().unwrap().unwrap();
        claim.end(Outcome::done().and_put(tube, limited())).unwrap();
        let items = tube.query().list(Filter::new(), None, 10).unwrap().items;
        let limits: Vec<_> =
            items.iter().filter(|task| task.max_runtime == Some(secs(25))).collect();
        assert_eq!((items.len(), limits.len()), (6, 5));
    });
}

#[test]
fn runs_of_a_schedule_have_its_limit() {
    for_each_driver(TIMED, |case| {
        let schedules = case.tube.schedules();
        case.tube.schedule(Schedule::every("s", secs(60)), limited()).unwrap();
        case.advance(0);
        assert_eq!(schedules.get("s").unwrap().unwrap().max_runtime, Some(secs(25)));
        assert_eq!(longest(&case.tube), Some(secs(25)));
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        schedules.change(Schedule::every("s", secs(30))).unwrap();
        case.advance(30_000);
        assert_eq!(longest(&case.tube), Some(secs(25)));
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        schedules.change_task("s", case.draft("y").max_runtime(Duration::MAX)).unwrap();
        assert_eq!(schedules.get("s").unwrap().unwrap().max_runtime, Some(Duration::MAX));
        case.advance(30_000);
        assert_eq!(longest(&case.tube), None);
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        schedules.change_task("s", case.draft("y")).unwrap();
        assert_eq!(schedules.get("s").unwrap().unwrap().max_runtime, None);
    });
}

#[test]
fn limit_survives_a_restart_and_limits_a_parked_claim() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFOTTL, TubeOptions::new());
    let id = tube.put(Put::new("x").max_runtime(secs(25))).unwrap().id;
    let plain = tube.put("plain").unwrap().id;
    drop(tube);
    let store = file.reopen_after(store, secs(5));
    let tube = store.find_tube("case").unwrap();
    assert_eq!((shown(&tube, id), shown(&tube, plain)), (Some(secs(25)), None));
    let claim = tube.try_take().unwrap().unwrap();
    assert_eq!((claim.id(), claim.expires_in().unwrap()), (id, Some(secs(25))));
    file.clock.advance(secs(5));
    let token = claim.park(secs(100)).unwrap();
    let left = |tube: &Tube| tube.query().owner(id).unwrap().unwrap().expires_in;
    assert_eq!(left(&tube), Some(secs(20)));
    drop(tube);
    let store = file.reopen_after(store, secs(5));
    let claim = store.resume_claim(&token).unwrap();
    claim.renew(Duration::MAX).unwrap();
    assert_eq!(claim.expires_in().unwrap(), Some(secs(15)));
    claim.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn salvage_restores_the_limit() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFOTTL, TubeOptions::new());
    tube.put(Put::new("x").max_runtime(secs(25))).unwrap();
    drop(tube);
    stores::close(&store);
    let mut limits = Vec::new();
    StoreOptions::default()
        .clock(&file.clock)
        .salvage(file.path(), |found| {
            if let Salvaged::Task { task, .. } = found {
                limits.push(task.info.max_runtime);
            }
            Ok(())
        })
        .unwrap();
    assert_eq!(limits, [Some(secs(25))]);
}
