//! Group I: statistics.

use tubewell::driver::{FIFO, LIMFIFOTTL};
use tubewell::{Error, Filter, Put, TaskState, TubeOptions};

use super::support::*;

/// I01: calls most verbs. All tasks are without a sub-queue.
fn call_verbs(case: &Case) {
    for _ in 0..5 {
        case.add(Put::new("x"));
    }
    case.tube.delete(4).unwrap();
    assert_eq!(case.take(), Some(0));
    case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
    assert_eq!(case.take(), Some(0));
    case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    case.tube.admin().bury(1, None).unwrap();
    case.tube.admin().bury(2, None).unwrap();
    assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
    assert_eq!(case.take(), Some(1));
}

/// The calls of `call_verbs`, puts left out.
const CALLS: [(&str, u64); 6] =
    [("delete", 1), ("ack", 1), ("take", 3), ("kick", 1), ("bury", 2), ("release", 1)];

/// I01
#[test]
fn statistics_count_every_call() {
    for_each_driver(ALL, |case| {
        call_verbs(case);
        let tasks = [("taken", 1), ("buried", 1), ("ready", 1), ("done", 2), ("total", 3)];
        assert_eq!(case.tasks(), counts(tasks));
        let mut calls = counts(CALLS);
        calls.insert("put", 5);
        assert_eq!(case.calls(), calls);
    });
}

/// I02
#[test]
fn statistics_count_delayed_tasks() {
    for_each_driver(TIMED, |case| {
        call_verbs(case);
        case.add(case.draft("late").delay(secs(1000)));
        let tasks =
            [("taken", 1), ("buried", 1), ("ready", 1), ("done", 2), ("delayed", 1), ("total", 4)];
        assert_eq!(case.tasks(), counts(tasks));
        let mut calls = counts(CALLS);
        calls.insert("put", 6);
        assert_eq!(case.calls(), calls);
    });
}

/// I03
#[test]
fn new_tube_has_zero_statistics() {
    for_each_driver(ALL, |case| {
        assert_eq!(case.tube.statistics().unwrap(), tubewell::Statistics::default());
    });
}

/// I04, Q02
#[test]
fn calls_without_effect_are_not_counted() {
    for_each_driver(ALL, |case| {
        assert_eq!(case.take(), None);
        assert_not_taken(case.tube.claimed(99).and_then(tubewell::Claim::ack), 99);
        assert_not_taken(case.tube.claimed(99).and_then(tubewell::Claim::release), 99);
        assert_not_taken(case.tube.claimed(99).and_then(|claim| claim.touch(secs(1))), 99);
        assert_not_found(case.tube.delete(99), 99);
        assert_not_found(case.tube.admin().bury(99, None), 99);
        assert_not_found(case.tube.query().task(99), 99);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(5)).unwrap(), 0);
        assert_eq!(case.tube.admin().release(Filter::new()).unwrap(), 0);
        assert_eq!(case.tube.statistics().unwrap(), tubewell::Statistics::default());
    });
}

/// I05
#[test]
fn ack_is_not_counted_as_delete() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("ack", 1)]));
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// I06
#[test]
fn elapsed_ttl_is_counted_as_ttl_and_delete() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        case.add(case.draft("x").ttl(ms(100)));
        case.tube.admin().bury(1, None).unwrap();
        case.advance(100);
        assert_eq!(case.calls(), counts([("put", 2), ("bury", 1), ("ttl", 2), ("delete", 2)]));
        assert_eq!(case.tasks(), counts([("done", 2)]));
    });
}

/// I07, Q03
#[test]
fn expired_claims_and_elapsed_delays_are_counted() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        case.add(case.draft("x").delay(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(100);
        assert_eq!(case.calls(), counts([("put", 2), ("take", 1), ("ttr", 1), ("delay", 1)]));
        assert_eq!(case.tasks(), counts([("ready", 2), ("total", 2)]));
    });
}

/// I08
#[test]
fn elapsed_ttl_of_taken_task_is_counted_as_ttr_ttl_and_delete() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        assert_eq!(case.take(), Some(0));
        case.advance(100);
        let calls = [("put", 1), ("take", 1), ("ttr", 1), ("ttl", 1), ("delete", 1)];
        assert_eq!(case.calls(), counts(calls));
        assert_eq!(case.tasks(), counts([("done", 1)]));
    });
}

/// I09, D05
#[test]
fn repeated_bury_and_excess_kicks_are_not_counted() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.tube.admin().bury(0, None).unwrap();
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(5)).unwrap(), 1);
        assert_eq!(case.calls(), counts([("put", 1), ("bury", 1), ("kick", 1)]));
    });
}

/// I10
#[test]
fn releases_by_release_all_and_session_drop_are_counted() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take_all(), [0, 1, 2]);
        assert_eq!(case.tube.admin().release(Filter::new()).unwrap(), 3);
        assert_eq!(case.calls(), counts([("put", 3), ("take", 3), ("release", 3)]));
        let other_session = case.tube_in_new_session();
        assert_eq!((take(&other_session), take(&other_session)), (Some(0), Some(1)));
        drop(other_session);
        assert_eq!(case.calls(), counts([("put", 3), ("take", 5), ("release", 5)]));
    });
}

/// I10, I17, L02
/// Difference: a restart ends all claims, so the open counts no releases.
#[test]
fn restart_resets_call_counts() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
    tube.put_many(["a", "b", "c", "d"]).unwrap();
    assert_eq!((take(&tube), take(&tube), take(&tube)), (Some(0), Some(1), Some(2)));
    tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
    tube.admin().bury(3, None).unwrap();
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(calls(&tube), counts([]));
    assert_eq!(tasks(&tube), counts([("ready", 2), ("buried", 1), ("total", 3)]));
    assert_sound(&store);
}

/// I11
#[test]
fn truncate_keeps_call_counts() {
    for_each_driver(ALL, |case| {
        call_verbs(case);
        let before = case.calls();
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.calls(), before);
        assert_eq!(case.tasks(), counts([("done", 2)]));
    });
}

/// I12
#[test]
fn recreated_tube_has_zero_statistics() {
    for_each_driver(ALL, |case| {
        call_verbs(case);
        case.tube.admin().release(Filter::new()).unwrap();
        case.store.drop_tube("case").unwrap();
        let again =
            case.store.create_tube("case", TubeOptions::default().driver(case.driver)).unwrap();
        assert_eq!(again.statistics().unwrap(), tubewell::Statistics::default());
    });
}

/// I13
#[test]
fn store_statistics_have_one_entry_per_tube() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        other.put("x").unwrap();
        let all = case.store.statistics().unwrap();
        assert_eq!(all.keys().collect::<Vec<_>>(), ["case", "other"]);
        assert_eq!(all["case"], case.tube.statistics().unwrap());
        assert_eq!(all["other"], other.statistics().unwrap());
        assert_eq!((all["case"].calls.put, all["other"].calls.put), (0, 1));
    });
}

/// I14
#[test]
fn dropped_tube_has_no_statistics() {
    for_each_driver(ALL, |case| {
        case.store.drop_tube("case").unwrap();
        let dropped = Error::TubeDropped { name: "case".to_owned() };
        assert_eq!(case.tube.statistics().err(), Some(dropped));
        assert!(case.store.statistics().unwrap().is_empty());
    });
}

/// I15
#[test]
fn rejected_put_is_not_counted() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::default().capacity(1), |case| {
        case.put_all([0]);
        assert!(case.tube.put("one too many").is_err());
        assert_eq!(case.calls(), counts([("put", 1)]));
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
    });
}

/// Q01
#[test]
fn touch_is_counted_once() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(1)));
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(|claim| claim.touch(secs(1))).unwrap().unwrap();
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("touch", 1)]));
    });
}

/// I01, D15
#[test]
fn state_counts_match_listed_tasks() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4]);
        assert_eq!((case.take(), case.take()), (Some(0), Some(1)));
        case.tube.admin().bury(3, None).unwrap();
        let listed = |state| {
            let page = case.tube.query().list(state, None, 100).unwrap();
            assert!(page.next.is_none());
            assert!(page.items.iter().all(|task| task.state == state));
            page.items.iter().map(|task| task.id).collect::<Vec<_>>()
        };
        assert_eq!(listed(TaskState::Ready), [2, 4]);
        assert_eq!(listed(TaskState::Taken), [0, 1]);
        assert_eq!(listed(TaskState::Buried), [3]);
        let tasks = [("ready", 2), ("taken", 2), ("buried", 1), ("total", 5)];
        assert_eq!(case.tasks(), counts(tasks));
    });
}
