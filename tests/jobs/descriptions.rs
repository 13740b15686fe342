//! What the description of a task says of its limit, its end and an overdue claim.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::{FailureKind, LastFailure, Restore};
use tubewell::{Failure, Keep, OnParent, Put, TaskState, TubeOptions};

use super::files::{after_a_kill, create_with};
use super::parents_ends::settle;
use super::support::*;

#[test]
fn limit_of_attempts_is_that_of_the_task_or_else_of_the_tube() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(5), |case| {
        let (own, of_tube) = (case.add(case.draft("a").max_attempts(2)), case.put("b"));
        let limits = |id| {
            let info = case.info(id);
            (info.max_attempts, info.attempts_left)
        };
        assert_eq!((limits(own), limits(of_tube)), ((Some(2), Some(2)), (Some(5), Some(5))));
        let claim = case.tube.claim(of_tube).unwrap();
        case.tube.admin().alter(TubeOptions::new().max_attempts(3)).unwrap();
        assert_eq!(limits(of_tube), (Some(3), Some(2)));
        assert_eq!((claim.detach().info.max_attempts, limits(own).0), (Some(3), Some(2)));
    });
    for_each_driver(ALL, |case| assert_eq!(case.info(case.put("x")).max_attempts, None));
}

#[test]
fn buried_task_says_how_it_was_buried() {
    let options = TubeOptions::new().max_attempts(1).ttr(secs(60));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        let buried_by = || case.info(id).buried_by();
        let claim = || case.tube.claim(id).unwrap();
        let kick = || assert_eq!(case.tube.admin().kick(id), Ok(1));
        assert_eq!(buried_by(), None);
        claim().fail(Failure::new("lost", "by its name only")).unwrap();
        assert_eq!(buried_by(), Some(FailureKind::Reported));
        kick();
        assert_eq!(
            (buried_by(), case.info(id).failure.unwrap().kind),
            (None, FailureKind::Reported)
        );
        case.tube.admin().bury(id, None).unwrap();
        assert_eq!(buried_by(), Some(FailureKind::Call), "the failure is an earlier one");
        kick();
        claim().bury(Failure::new("g", "m")).unwrap();
        assert_eq!(buried_by(), Some(FailureKind::Call));
        kick();
        claim().release().unwrap();
        assert_eq!(buried_by(), Some(FailureKind::Released));
        kick();
        keep(claim());
        case.advance(60_000);
        assert_eq!(buried_by(), Some(FailureKind::Expired));
        kick();
        let session = case.store.session("").unwrap();
        keep(session.tube(&case.tube).unwrap().claim(id).unwrap());
        session.end().unwrap();
        assert_eq!(buried_by(), Some(FailureKind::Lost));
        let listed = case.tube.query().list(TaskState::Buried, None, 9).unwrap().items;
        assert_eq!(listed[0].buried_by(), Some(FailureKind::Lost));
    });
}

#[test]
fn child_that_is_buried_with_its_parent_says_so() {
    for_each_driver(ALL, |case| {
        let parent = case.put("parent");
        let waits =
            |rule| case.add(case.draft("child").after(&case.tube, [parent]).on_parent(rule));
        let (buried, waiting) = (waits(OnParent::Bury), waits(OnParent::Wait));
        case.tube.admin().bury(parent, None).unwrap();
        settle(case);
        assert_eq!(case.info(buried).buried_by(), Some(FailureKind::Parent));
        assert_eq!(case.info(waiting).buried_by(), None);
    });
}

#[test]
fn moment_of_the_end_is_that_of_the_burial_or_of_the_ack() {
    let options = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, options, |case| {
        let ended = |id: u64| {
            let info = case.info(id);
            info.ended_at.map(|at| at.duration_since(info.put_at).unwrap())
        };
        let [failed, plain, done] = [case.put("a"), case.put("b"), case.put("c")];
        assert_eq!([failed, plain, done].map(ended), [None; 3]);
        case.advance(7000);
        case.tube.admin().bury(failed, Some(Failure::new("g", "m"))).unwrap();
        case.tube.admin().bury(plain, None).unwrap();
        case.advance(1000);
        case.tube.claim(done).unwrap().ack().unwrap();
        case.advance(1000);
        assert_eq!([failed, plain, done].map(ended), [Some(secs(7)), None, Some(secs(8))]);
        case.tube.admin().kick(failed).unwrap();
        assert_eq!(ended(failed), None);
        case.tube.admin().alter(TubeOptions::new().keep_buried(Keep::new().count(9))).unwrap();
        case.tube.admin().bury(failed, None).unwrap();
        assert_eq!(ended(failed), Some(secs(9)));
    });
}

#[test]
fn restored_task_has_ended_when_it_had_ended_in_the_other_store() {
    let options = TubeOptions::new().keep_done(Keep::new()).keep_buried(Keep::new().count(9));
    for_each_driver_with(ALL, options, |case| {
        let begun = case.info(case.put("x")).put_at;
        case.advance(60_000);
        let restore = |data| Restore::new(case.draft(data)).put_at(begun).ended_at(begun + secs(7));
        let never = begun + secs(3600);
        let restored = [
            restore("buried").buried(true),
            restore("failed")
                .buried(true)
                .failure(LastFailure::new("g", "m", 1))
                .group("g")
                .takes(1),
            restore("done").done(None),
            restore("later").done(None).ended_at(never),
            restore("ready"),
        ];
        let ended = case.tube.admin().restore_many(restored).unwrap().into_iter().map(|receipt| {
            let at = case.info(receipt.id).ended_at;
            at.map(|at| at.duration_since(begun).unwrap())
        });
        let (then, now) = (Some(secs(7)), Some(secs(60)));
        assert_eq!(ended.collect::<Vec<_>>(), [then, then, then, now, None]);
    });
}

#[test]
fn overdue_claim_says_when_its_task_is_taken_back() {
    let options = TubeOptions::new().ttr(secs(60)).reclaim_delay(secs(10));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        let times = || (case.info(id).due_in, case.info(id).reclaimed_in);
        assert_eq!(times(), (Some(secs(60)), None));
        case.advance(64_000);
        assert_eq!(times(), (Some(ZERO), Some(secs(6))));
        claim.renew(secs(60)).unwrap();
        assert_eq!(times(), (Some(secs(60)), None));
        case.advance(70_000);
        assert_eq!((case.state(id), times()), (Some(TaskState::Ready), (None, None)));
    });
    let options = TubeOptions::new().ttr(secs(60)).reclaim_delay(Duration::MAX);
    for_each_driver_with(&[FIFOTTL], options, |case| {
        let id = case.put("x");
        assert_eq!(case.take(), Some(id));
        case.advance(86_400_000);
        assert_eq!(case.info(id).reclaimed_in, Some(Duration::MAX));
    });
}

#[test]
fn kind_of_a_burial_and_its_moment_survive_a_kill_and_a_copy() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new().max_attempts(1));
    let id = tube.put("x").unwrap().id;
    let session = store.session("worker").unwrap();
    session.tube(&tube).unwrap().claim(id).unwrap().release().unwrap();
    let info = tube.query().task(id).unwrap().info;
    assert_eq!(info.buried_by(), Some(FailureKind::Released));
    let (_copy, killed) = after_a_kill(&file);
    let tube = killed.find_tube(tube.name()).unwrap();
    let found = tube.query().task(id).unwrap().info;
    assert_eq!(found.failure.as_ref().unwrap().owner.as_deref(), Some("worker"));
    assert_eq!((found.buried_by(), found.ended_at), (info.buried_by(), info.ended_at));

    let failure: LastFailure = found.failure.unwrap();
    let restore = Restore::new(Put::new("y")).buried(true).group(&failure.group).failure(failure);
    let copied = tube.admin().restore_many([restore]).unwrap();
    let copied = tube.query().task(copied[0].id).unwrap().info;
    assert_eq!((copied.buried_by(), copied.ended_at), (info.buried_by(), info.ended_at));
    assert_sound(&killed);
}
