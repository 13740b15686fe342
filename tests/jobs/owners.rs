//! The sessions that have tasks.

use tubewell::{Error, Failure, OnKey, OwnerInfo, Session, Store, Tube, TubeOptions};

use super::support::*;

/// Label, running and overdue of each owner.
fn listed(store: &Store) -> Vec<(String, u64, u64)> {
    let owners = store.owners().unwrap().into_iter();
    owners.map(|it| (it.label.unwrap_or_default().to_string(), it.running, it.overdue)).collect()
}

fn entry(label: &str, running: u64, overdue: u64) -> (String, u64, u64) {
    (label.to_owned(), running, overdue)
}

fn take_with(session: &Session, tube: &Tube) -> u64 {
    keep(session.tube(tube).unwrap().try_take().unwrap().unwrap())
}

fn owner(store: &Store, label: &str) -> OwnerInfo {
    let mut owners = store.owners().unwrap().into_iter();
    owners.find(|owner| owner.label.as_deref() == Some(label)).unwrap()
}

/// Q290
#[test]
fn session_that_has_a_task_is_listed() {
    for_each_driver(ALL, |case| {
        assert_eq!(listed(&case.store), []);
        case.put_all([0, 1, 2]);
        let worker = case.store.session("w").unwrap();
        assert_eq!(listed(&case.store), []);
        take_with(&worker, &case.tube);
        assert_eq!(listed(&case.store), [entry("w", 1, 0)]);
        take_with(&worker, &case.tube);
        case.take();
        assert_eq!(listed(&case.store), [entry("", 1, 0), entry("w", 2, 0)]);
    });
}

/// Q291
/// Difference: a task is overdue within its reclaim delay, and is its owner's no more after it.
#[test]
fn task_whose_ttr_has_elapsed_is_overdue() {
    for_each_driver_with(TIMED, TubeOptions::new().reclaim_delay(secs(5)), |case| {
        case.add(case.draft("x").ttr(secs(1)));
        let worker = case.store.session("w").unwrap();
        take_with(&worker, &case.tube);
        case.advance(999);
        assert_eq!(listed(&case.store), [entry("w", 1, 0)]);
        case.advance(1);
        assert_eq!(listed(&case.store), [entry("w", 0, 1)]);
        case.advance(5000);
        assert_eq!(listed(&case.store), []);
    });
}

/// Q292
#[test]
fn task_is_listed_with_its_last_taker_only() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(1)));
        let [first, second] = ["w", "w2"].map(|label| case.store.session(label).unwrap());
        first.describe("worker", "").unwrap();
        take_with(&first, &case.tube);
        case.advance(1000);
        take_with(&second, &case.tube);
        assert_eq!(listed(&case.store), [entry("w", 0, 0), entry("w2", 1, 0)]);
    });
}

/// An end of a claim on a task, through the tube of its session.
type EndOf<'a> = &'a dyn Fn(&Tube, u64) -> bool;

/// Q293
/// Difference: a session that has not described itself is listed as long as it has a task.
#[test]
fn task_leaves_the_list_with_every_end_of_its_claim() {
    for_each_driver(ALL, |case| {
        let described = case.store.session("described").unwrap();
        described.describe("worker", "{}").unwrap();
        let plain = case.store.session("plain").unwrap();
        let ends: [EndOf<'_>; 5] = [
            &|_, id| case.tube.delete(id).is_ok(),
            &|tube, id| {
                tube.claimed(id)
                    .and_then(|claim| claim.fail(Failure::new("timeout", "no answer")))
                    .is_ok()
            },
            &|tube, id| tube.claimed(id).and_then(tubewell::Claim::ack).is_ok(),
            &|_, id| case.add(case.draft("new").key("k").on_key(OnKey::Replace)) == id,
            &|tube, id| tube.claimed(id).and_then(tubewell::Claim::release).is_ok(),
        ];
        for end in ends {
            for session in [&described, &plain] {
                case.tube.admin().truncate().unwrap();
                case.add(case.draft("x").key("k"));
                let id = take_with(session, &case.tube);
                assert_eq!(
                    case.store.owners().unwrap().iter().map(|it| it.running).sum::<u64>(),
                    1
                );
                assert!(end(&session.tube(&case.tube).unwrap(), id));
                assert_eq!(listed(&case.store), [entry("described", 0, 0)]);
            }
        }
    });
}

/// Q294, Q295
/// Difference: no age removes a session from the list, but its end, or the end of its last claim if
/// it has not described itself.
#[test]
fn last_seen_is_the_time_since_the_last_call_of_the_session() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(100)));
        let worker = case.store.session("w").unwrap();
        case.advance(5_000);
        worker.describe("worker", "version 7").unwrap();
        case.advance(1_000);
        let seen = |since, last_seen| {
            let owner = owner(&case.store, "w");
            assert_eq!(
                (owner.kind.as_deref(), owner.metadata.as_deref()),
                (Some("worker"), Some("version 7"))
            );
            assert_eq!((owner.since, owner.last_seen), (Some(secs(since)), Some(secs(last_seen))));
        };
        seen(6, 1);
        let claim = worker.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        seen(6, 0);
        case.advance(9_000);
        seen(15, 9);
        claim.renew(secs(100)).unwrap();
        seen(15, 0);
        case.advance(1_000);
        claim.progress(1, 2).unwrap();
        case.advance(1_000);
        seen(17, 1);
        drop((claim, worker));
        assert_eq!(listed(&case.store), []);
    });
}

/// Q296, B017
#[test]
fn described_sessions_leave_the_list_one_by_one() {
    for_each_driver(ALL, |case| {
        let mut sessions: Vec<Session> = (0..10)
            .map(|number| {
                let session = case.store.session(format!("w{number}")).unwrap();
                session.describe("listener", "").unwrap();
                session.describe("listener", "").unwrap();
                session
            })
            .collect();
        for left in (1..=10).rev() {
            assert_eq!(case.store.owners().unwrap().len(), left);
            let last = sessions.pop().unwrap();
            let again = case.store.session("none").unwrap();
            last.end().unwrap();
            again.end().unwrap();
        }
        assert_eq!(case.store.owners().unwrap(), []);
        let ended = case.store.session("").unwrap();
        let copy = ended.clone();
        ended.end().unwrap();
        assert_eq!(copy.describe("listener", ""), Err(Error::SessionEnded));
    });
}

/// B017
#[test]
fn session_that_withdraws_its_description_is_listed_while_it_has_a_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let worker = case.store.session("w").unwrap();
        worker.undescribe().unwrap();
        worker.describe("listener", "version 7").unwrap();
        take_with(&worker, &case.tube);
        worker.undescribe().unwrap();
        let of_worker = owner(&case.store, "w");
        assert_eq!((of_worker.kind, of_worker.metadata, of_worker.running), (None, None, 1));
        worker.tube(&case.tube).unwrap().claimed(0).unwrap().ack().unwrap();
        assert_eq!(case.store.owners().unwrap(), []);
        // It goes on, and may describe itself again.
        assert_eq!(take_with(&worker, &case.tube), 1);
        worker.describe("worker", "").unwrap();
        assert_eq!(owner(&case.store, "w").kind.as_deref(), Some("worker"));
        let copy = worker.clone();
        worker.end().unwrap();
        assert_eq!(copy.undescribe(), Err(Error::SessionEnded));
    });
}

/// Q297
#[test]
fn session_with_a_task_is_listed_however_long_it_is_silent() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let worker = case.store.session("w").unwrap();
        take_with(&worker, &case.tube);
        case.clock.advance(HUNDRED_YEARS);
        assert_eq!(listed(&case.store), [entry("w", 1, 0)]);
        assert_eq!(owner(&case.store, "w").last_seen, Some(HUNDRED_YEARS));
    });
}

/// T029
/// Difference: any kind is accepted.
#[test]
fn description_is_replaced_and_limited() {
    let store = store_in_memory();
    let conductor = store.session("c").unwrap();
    conductor.describe("conductor", "first").unwrap();
    conductor.describe("", "").unwrap();
    conductor.describe(&"k".repeat(255), &"m".repeat(4096)).unwrap();
    for (kind, metadata) in [("k".repeat(256), String::new()), (String::new(), "m".repeat(4097))] {
        let refused = conductor.describe(&kind, &metadata);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    }
    let owner = owner(&store, "c");
    assert_eq!((owner.kind.unwrap().len(), owner.metadata.unwrap().len()), (255, 4096));
}

#[test]
fn owner_of_a_parked_claim_is_listed_also_after_an_open() {
    let file = StoreFile::new();
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::new().driver(tubewell::FIFO)).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    let worker = store.session("w").unwrap();
    let claims = worker.tube(&tube).unwrap().take_many(2, ZERO).unwrap();
    let tokens: Vec<_> = claims.into_iter().map(|claim| claim.park(secs(60)).unwrap()).collect();
    let parked = |store: &Store| {
        let owner = owner(store, "w");
        assert_eq!((owner.running, owner.overdue), (0, 0));
        (owner.parked, owner.since.is_some())
    };
    assert_eq!(parked(&store), (2, true));
    drop(worker);
    assert_eq!(parked(&store), (2, false));
    drop(tube);
    let store = file.reopen(store);
    assert_eq!(parked(&store), (2, false));
    let resumer = store.session("r").unwrap();
    let claim = resumer.resume_claim(&tokens[0]).unwrap();
    assert_eq!((parked(&store), owner(&store, "r").running), ((1, false), 1));
    drop(claim);
    assert_eq!(listed(&store), [entry("w", 0, 0)]);
    file.clock.advance(secs(60));
    assert_eq!(store.owners().unwrap(), []);
}
