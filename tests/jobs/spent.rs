//! Tasks that are ready although they have no attempt left, as restored ones may be: a take buries
//! them instead of handing them out.

use tubewell::expert::Restore;
use tubewell::{Bytes, Error, Filter, IntoPut, Put, TaskState, TubeOptions};

use super::executor::block_on;
use super::files::{attempts, claim_of, group_of_buried};
use super::support::*;

fn options() -> TubeOptions {
    TubeOptions::new().max_attempts(3)
}

/// Restores a task that was taken as often as it may be.
fn restore_spent(case: &Case, put: impl IntoPut<Bytes>) -> u64 {
    case.tube.admin().restore_many([Restore::new(put).takes(3)]).unwrap()[0].id
}

#[test]
fn take_buries_spent_tasks_and_returns_the_next_one() {
    for_each_driver_with(ALL, options(), |case| {
        let spent: Vec<u64> = (0..3).map(|_| restore_spent(case, case.draft("spent"))).collect();
        let fresh = case.put("fresh");
        assert_eq!(attempts(&case.tube, spent[0]), (3, Some(0)));
        let log = case.event_log();
        assert_eq!(case.take(), Some(fresh));
        for id in &spent {
            assert_eq!(group_of_buried(&case.tube, *id).as_deref(), Some("lost"));
        }
        assert_eq!(case.take(), None);
        assert_eq!(log.read().len(), 4);
    });
}

#[test]
fn take_many_skips_spent_tasks() {
    for_each_driver_with(ALL, options(), |case| {
        let mut fresh = Vec::new();
        for n in 0..200 {
            if n % 3 == 0 {
                fresh.push(case.put("fresh"));
            } else {
                restore_spent(case, case.draft("spent"));
            }
        }
        let mut claims = case.tube.take_many(50, ZERO).unwrap();
        let more = block_on(case.tube.to_async().take_many(50, ZERO)).unwrap();
        claims.extend(more.into_iter().map(tubewell::AsyncClaim::into_blocking));
        let ids: Vec<u64> = claims.iter().map(tubewell::Claim::id).collect();
        assert_eq!(ids, fresh);
        assert_eq!(case.tasks().get("buried"), Some(&133));
    });
}

#[test]
fn chosen_take_of_a_spent_task_buries_it() {
    for_each_driver_with(ALL, options(), |case| {
        let id = restore_spent(case, case.draft("spent"));
        let refused = case.tube.claim(id).unwrap_err();
        assert!(matches!(refused, Error::NotReady { state: TaskState::Buried, .. }), "{refused:?}");
        assert_eq!(case.tube.admin().kick(Filter::new().limit(10)).unwrap(), 1);
        let claim = block_on(case.tube.to_async().claim(id)).unwrap();
        assert_eq!((claim.attempt(), claim.takes()), (1, 4));
        claim.ack().wait().unwrap();
    });
}

#[test]
fn waiting_takers_are_not_given_spent_tasks() {
    for_each_driver_with(ALL, options(), |case| {
        let (mut first, mut second) = (case.begin_take(), case.begin_take());
        let spent = restore_spent(case, case.draft("spent"));
        assert_eq!(group_of_buried(&case.tube, spent).as_deref(), Some("lost"));
        assert!(first.is_pending() && second.is_pending());
        assert_sound(&case.store);
        let fresh = case.put("fresh");
        assert_eq!(claim_of(first).detach().info.id, fresh);
        // A kick forgives the attempts.
        case.tube.kick(spent).unwrap();
        assert_eq!(claim_of(second).id(), spent);
    });
}

#[test]
fn spent_head_frees_its_sub_queue() {
    for_each_driver_with(SUB_QUEUED, options(), |case| {
        let of_sub = |data: &'static str| Put::new(data).sub_queue("s");
        let spent = [restore_spent(case, of_sub("1")), restore_spent(case, of_sub("2"))];
        let (third, other) = (case.add(of_sub("3")), case.put("other"));
        let (mut first, mut second) = (None, None);
        if let Some(claim) = case.tube.try_take().unwrap() {
            first = Some(claim.id());
            second = case.take();
            assert_eq!(case.take(), None);
            assert_sound(&case.store);
            drop(claim);
        }
        assert_eq!((first, second), (Some(third), Some(other)));
        assert_eq!(spent.map(|id| case.state(id)), [Some(TaskState::Buried); 2]);
        assert_eq!(case.take(), Some(third));
        case.tube.claimed(third).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(10)).unwrap(), 2);
        assert_eq!((case.take(), case.take()), (Some(spent[0]), None));
    });
}

#[test]
fn spent_delayed_task_is_buried_by_a_take_after_its_delay() {
    for_each_driver_with(TIMED, options(), |case| {
        let id = restore_spent(case, case.draft("spent").delay(secs(1)));
        case.advance(999);
        assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Delayed)));
        case.advance(1);
        assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Buried)));
    });
}

#[test]
fn spent_tasks_are_buried_once_after_a_reopen() {
    for driver in all_or_few() {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", options().driver(driver)).unwrap();
        let spent = |n: u32| Restore::new(super::files::draft(driver, &n.to_string())).takes(3);
        tube.admin().restore_many((0..1000).map(spent)).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        tube.put(super::files::draft(driver, "fresh")).unwrap();
        assert_eq!(take(&tube), Some(1000));
        assert_eq!(tube.statistics().unwrap().tasks.buried, 1000);
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.buried, 1000);
        assert_eq!(attempts(&tube, 1000), (1, Some(2)));
        assert_sound(&store);
    }
}
