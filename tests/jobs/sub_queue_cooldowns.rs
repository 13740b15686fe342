//! Tubes that leave a sub-queue alone for a time after the end of each claim.

use std::time::Duration;

use tubewell::{
    Claim, Error, Failure, Filter, Keep, OnKey, Outcome, Put, Rate, TaskState, Tube, TubeOptions,
};

use super::files::create_with;
use super::rng::Rng;
use super::support::*;
use crate::options::only;
use crate::stores;

fn cooldown(time: Duration) -> TubeOptions {
    TubeOptions::new().sub_queue_cooldown(time)
}

fn in_sub(name: &str) -> Put {
    Put::new("x".into()).sub_queue(name)
}

fn put_into(case: &Case, sub_queues: &[&str]) {
    case.tube.put_many(sub_queues.iter().map(|name| in_sub(name))).unwrap();
}

fn ack(tube: &Tube, id: u64) {
    tube.claimed(id).and_then(Claim::ack).unwrap();
}

/// Asserts that a task of the sub-queue x is taken after a second, and none before. It is put now, so that
/// it also stands behind a truncate.
fn assert_cooldown_of_a_second(case: &Case, what: &str) {
    let id = case.add(in_sub("x"));
    let chosen = |tube: &Tube| match tube.claim(id) {
        Ok(claim) => keep(claim),
        Err(Error::NotReady { .. }) => u64::MAX,
        Err(error) => panic!("{what}: {error:?}"),
    };
    assert_eq!((case.take(), chosen(&case.tube)), (None, u64::MAX), "{what}: it is taken at once");
    case.advance(999);
    assert_eq!((case.take(), chosen(&case.tube)), (None, u64::MAX), "{what}: it is taken early");
    assert_sound(&case.store);
    case.advance(1);
    assert_eq!(chosen(&case.tube), id, "{what}: it is not taken in time");
}

#[test]
fn next_page_of_a_host_is_taken_a_second_after_the_last_one_was_fetched() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
        put_into(case, &["a", "a", "b", "a", "b"]);
        assert_eq!(case.take_all(), [0, 2]);
        case.advance(60_000);
        assert_eq!(case.take(), None, "both hosts have a taken task");
        ack(&case.tube, 0);
        case.advance(500);
        ack(&case.tube, 2);
        case.advance(499);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!((case.take(), case.take()), (Some(1), None));
        case.advance(499);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!((case.take(), case.take()), (Some(4), None));
    });
}

/// What ends the claim of the caller on a task.
type End = fn(&Case, Claim);

/// All ends by calls.
const ENDS: [(&str, End); 18] = [
    ("ack", |_, claim| _ = claim.ack().unwrap()),
    ("ack with a result", |_, claim| _ = claim.end(Outcome::result("r")).unwrap()),
    ("release", |_, claim| _ = claim.release().unwrap()),
    ("snooze", |_, claim| _ = claim.end(Outcome::snooze(ZERO)).unwrap()),
    ("failure", |_, claim| _ = claim.fail(Failure::new("g", "m")).unwrap()),
    ("bury", |_, claim| _ = claim.bury(None).unwrap()),
    ("dropped handle", |case, claim| {
        drop(claim);
        stores::settle(&case.store);
    }),
    ("advance", |case, claim| {
        let next = case.store.open_tube("next", TubeOptions::new().driver(case.driver)).unwrap();
        claim.end(Outcome::advance(&next, "y")).unwrap();
    }),
    ("puts with the end", |case, claim| {
        let end = Outcome::done().and_put(&case.tube, in_sub("y"));
        claim.end(end).unwrap();
        assert!(case.take().is_some(), "the task of another sub-queue");
    }),
    ("bury by id", |case, claim| _ = case.tube.admin().bury(keep(claim), None).unwrap()),
    ("delete by id", |case, claim| _ = case.tube.delete(keep(claim)).unwrap()),
    ("delete by a filter", |case, claim| {
        case.tube.admin().delete(Filter::new().ids([keep(claim)])).unwrap();
    }),
    ("revoke", |case, claim| _ = case.tube.admin().revoke(keep(claim)).unwrap()),
    ("release of all", |case, claim| {
        keep(claim);
        case.tube.admin().release(Filter::new()).unwrap();
    }),
    ("move to another tube", |case, claim| {
        let other = case.store.open_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.tube.admin().move_to(&other, keep(claim)).unwrap();
    }),
    ("replacement in another sub-queue", |case, claim| {
        keep(claim);
        case.add(Put::new("z").key("k").on_key(OnKey::Replace).sub_queue("z"));
        assert!(case.take().is_some(), "the task of another sub-queue");
    }),
    ("truncate", |case, claim| {
        keep(claim);
        case.tube.admin().truncate().unwrap();
    }),
    ("release of a parked claim", |case, claim| {
        let token = claim.park(secs(100)).unwrap();
        case.store.resume_claim(&token).unwrap().release().unwrap();
    }),
];

#[test]
fn every_end_of_a_claim_begins_the_cooldown() {
    for (what, end) in ENDS {
        println!("{what}");
        for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
            case.add(in_sub("x").key("k"));
            let claim = case.tube.try_take().unwrap().unwrap();
            case.advance(5000);
            end(case, claim);
            assert_cooldown_of_a_second(case, what);
        });
    }
}

#[test]
fn end_of_a_session_begins_the_cooldown() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
        case.add(in_sub("x"));
        let session = case.store.session("worker").unwrap();
        assert!(take(&session.tube(&case.tube).unwrap()).is_some());
        session.end().unwrap();
        assert_cooldown_of_a_second(case, "end of the session");
    });
}

#[test]
fn times_that_end_a_claim_begin_the_cooldown() {
    let timed = [tubewell::UTUBETTL];
    let times: [(&str, TubeOptions, Put, u64); 4] = [
        ("ttr", cooldown(secs(1)), in_sub("x").ttr(secs(9)), 9_000),
        ("ttl", cooldown(secs(1)), in_sub("x").ttl(secs(9)), 9_000),
        (
            "reclaim delay",
            cooldown(secs(1)).reclaim_delay(secs(9)),
            in_sub("x").ttr(secs(1)),
            10_000,
        ),
        ("max_runtime", cooldown(secs(1)).max_runtime(secs(9)), in_sub("x"), 9_000),
    ];
    for (what, options, put, millis) in times {
        for_each_driver_with(&timed, options, |case| {
            case.add(put.clone());
            assert!(case.take().is_some());
            case.advance(millis - 1);
            assert_eq!(case.tasks().get("taken"), Some(&1), "{what}");
            case.advance(1);
            assert_eq!(case.tasks().get("taken"), None, "{what}");
            assert_cooldown_of_a_second(case, what);
        });
    }
    // The time of a parked claim, in a tube without other times, too.
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
        case.add(in_sub("x"));
        case.tube.try_take().unwrap().unwrap().park(secs(9)).unwrap();
        case.advance(9_000);
        assert_cooldown_of_a_second(case, "time of a parked claim");
    });
}

/// The claim has not ended: its task still occupies the sub-queue.
#[test]
fn park_and_resume_do_not_begin_the_cooldown() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)).sub_queue_limit(2), |case| {
        put_into(case, &["x", "x", "x"]);
        let token = case.tube.try_take().unwrap().unwrap().park(secs(100)).unwrap();
        assert_eq!(case.take(), Some(1));
        let claim = case.store.resume_claim(&token).unwrap();
        case.tube.claimed(1).unwrap().touch(secs(1)).ok();
        case.tube.admin().set_priority(2, 0).ok();
        claim.ack().unwrap();
        assert_eq!(case.take(), None);
        case.advance(1000);
        assert_eq!((case.take(), case.take()), (Some(2), None));
    });
}

/// A task that was assigned to a take whose future is dropped goes back. Its claim has ended.
#[test]
fn claim_that_was_not_handed_out_begins_the_cooldown() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
        let waiting = case.begin_take();
        case.add(in_sub("x"));
        drop(waiting);
        stores::settle(&case.store);
        assert_cooldown_of_a_second(case, "dropped future");
    });
}

#[test]
fn expired_ready_task_and_changes_of_ready_tasks_begin_no_cooldown() {
    for_each_driver_with(&[tubewell::UTUBETTL], cooldown(secs(1)), |case| {
        case.add(in_sub("x").ttl(secs(1)));
        let buried = case.add(in_sub("x"));
        let deleted = case.add(in_sub("x"));
        put_into(case, &["x"]);
        case.tube.admin().bury(buried, None).unwrap();
        case.tube.delete(deleted).unwrap();
        case.tube.kick(buried).unwrap();
        case.advance(1000);
        assert_eq!(case.take(), Some(buried));
    });
}

/// With several taken tasks of a sub-queue each end begins the cooldown again.
#[test]
fn end_of_one_claim_keeps_the_other_tasks_of_the_sub_queue() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)).sub_queue_limit(3), |case| {
        put_into(case, &["x", "x", "x", "x", "y"]);
        assert_eq!((case.take(), case.take()), (Some(0), Some(1)));
        ack(&case.tube, 0);
        assert_eq!((case.take(), case.take()), (Some(4), None));
        case.advance(600);
        ack(&case.tube, 1);
        case.advance(400);
        assert_eq!(case.take(), None);
        case.advance(599);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!(case.take_all(), [2, 3]);
    });
}

#[test]
fn limit_rate_and_cooldown_must_all_allow_a_take() {
    let options = cooldown(secs(1)).sub_queue_rate(Rate::per(1, secs(3))).sub_queue_limit(2);
    for_each_driver_with(SUB_QUEUED, options, |case| {
        put_into(case, &["x"; 6]);
        assert_eq!(case.take_all(), [0]);
        case.advance(500);
        ack(&case.tube, 0);
        case.advance(1000);
        assert_eq!(case.take(), None, "the rate allows the next take after 3 s");
        let why = |id| match case.tube.claim(id).map(drop) {
            Err(Error::NotReady { state: TaskState::Ready, why, .. }) => why,
            other => panic!("{other:?}"),
        };
        assert_eq!(why(1), "the rate of its sub-queue \"x\" allows the next take in 1.5s");
        case.advance(1500);
        assert_eq!(case.take_all(), [1]);
        case.advance(2800);
        ack(&case.tube, 1);
        case.advance(200);
        assert_eq!(case.take(), None, "the cooldown has not ended");
        assert_eq!(why(3), "the cooldown of its sub-queue \"x\" ends in 800ms");
        case.tube.admin().pause_sub_queue("x", secs(2)).unwrap();
        case.advance(1000);
        assert_eq!(case.take(), None, "the sub-queue is paused");
        case.advance(1000);
        assert_eq!(case.take_all(), [2]);
        case.advance(3000);
        assert_eq!(case.take_all(), [3]);
        case.advance(3000);
        assert_eq!(case.take(), None, "two tasks are taken");
    });
}

#[test]
fn waiting_takers_get_tasks_when_the_cooldown_ends_first_come_first_served() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)), |case| {
        put_into(case, &["x"; 4]);
        assert_eq!(case.take(), Some(0));
        let mut first = case.begin_take();
        let mut second = case.begin_take();
        ack(&case.tube, 0);
        assert_sound(&case.store);
        case.advance(999);
        assert!(first.is_pending() && second.is_pending());
        case.advance(1);
        assert!(second.is_pending());
        assert_eq!(first.id(), Some(1));
        assert_eq!(case.take(), None);
        case.advance(5000);
        assert!(second.is_pending());
        ack(&case.tube, 1);
        case.advance(1000);
        assert_eq!(second.id(), Some(2));
    });
}

#[test]
fn sub_queue_in_its_cooldown_does_not_hold_up_others() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(60)), |case| {
        put_into(case, &["cold"; 50]);
        assert_eq!(case.take(), Some(0));
        ack(&case.tube, 0);
        put_into(case, &["a", "b", "cold"]);
        case.add(Put::new("without a sub-queue"));
        assert_eq!(case.take_all(), [50, 51, 53]);
        ack(&case.tube, 53);
        case.add(Put::new("without a sub-queue"));
        assert_eq!(case.take(), None, "the tasks without a sub-queue are one, too");
    });
}

#[test]
fn cooldown_is_that_of_the_sub_queue_in_one_tube() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)).shared_limits(true), |case| {
        let options = TubeOptions::new().shared_limits(true).driver(case.driver);
        let other = case.store.create_tube("other", options).unwrap();
        put_into(case, &["x", "x"]);
        other.put_many([in_sub("x"), in_sub("x")]).unwrap();
        assert_eq!(case.take(), Some(0));
        let waiting = WaitingTake::begin(other.to_async().take_timeout(NO_TIMEOUT));
        ack(&case.tube, 0);
        assert_eq!(waiting.id(), Some(2));
        ack(&other, 2);
        assert_eq!(case.take(), None);
        assert_eq!(take(&other), Some(3));
        case.advance(1000);
        assert_eq!(case.take(), None, "the shared limit is reached");
        ack(&other, 3);
        assert_eq!(case.take(), Some(1));
    });
}

#[test]
fn all_sub_queues_are_in_their_cooldown_after_an_open_and_none_in_a_new_tube() {
    for driver in SUB_QUEUED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, cooldown(secs(20)).sub_queue_limit(2));
        tube.put_many(["parked", "x", "y"].map(in_sub)).unwrap();
        let token = tube.try_take().unwrap().unwrap().park(secs(9000)).unwrap();
        assert!(take(&tube).is_some());
        let store = file.reopen_after(store, secs(100));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.info().unwrap().sub_queue_cooldown, Some(secs(20)));
        tube.put(in_sub("new")).unwrap();
        assert_eq!(take(&tube), None);
        let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        assert_sound(&store);
        file.clock.advance(ms(19_999));
        assert_sound(&store);
        assert_eq!(take(&tube), None);
        file.clock.advance(ms(1));
        assert!(waiting.id().is_some());
        assert!(take(&tube).is_some() && take(&tube).is_some() && take(&tube).is_none());
        // The parked claim has survived, and its end begins the cooldown.
        tube.put(in_sub("parked")).unwrap();
        store.resume_claim(&token).unwrap().ack().unwrap();
        assert_eq!(take(&tube), None);
        file.clock.advance(secs(20));
        assert!(take(&tube).is_some());
    }
}

#[test]
fn altered_cooldown_holds_for_the_sub_queues_that_are_in_theirs() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(10)), |case| {
        let alter = |options: TubeOptions| case.tube.admin().alter(only(options)).unwrap();
        put_into(case, &["x", "x", "y", "y"]);
        assert_eq!(case.take_all(), [0, 2]);
        ack(&case.tube, 0);
        case.advance(9_000);
        ack(&case.tube, 2);
        case.advance(1_000);
        alter(cooldown(secs(30)));
        assert_eq!(case.take_all(), [1], "the cooldown of x has ended");
        case.advance(28_999);
        assert_sound(&case.store);
        assert_eq!(case.take(), None);
        let waiting = case.begin_take();
        alter(cooldown(secs(5)));
        assert_eq!(waiting.id(), Some(3));
        ack(&case.tube, 3);
        ack(&case.tube, 1);
        put_into(case, &["x", "y"]);
        assert_eq!(case.take(), None);
        alter(TubeOptions::new());
        assert_eq!(case.take_all(), [4, 5]);
        // The ends before are not known any more.
        ack(&case.tube, 4);
        alter(cooldown(secs(5)));
        put_into(case, &["x"]);
        assert_eq!(case.take(), Some(6));
    });
}

#[test]
fn cooldown_needs_sub_queues_and_is_at_most_a_year() {
    let store = store_in_memory();
    let year = secs(365 * 86_400);
    for time in [year + Duration::from_nanos(1), Duration::MAX] {
        let made = store.create_tube("case", cooldown(time).driver("utube")).map(drop);
        assert!(matches!(made, Err(Error::Invalid { .. })), "{made:?}");
    }
    for driver in ALL.iter().filter(|driver| !SUB_QUEUED.contains(driver)) {
        assert_unsupported(store.create_tube("case", cooldown(secs(1)).driver(driver)), driver);
    }
    for (time, in_effect) in [(ZERO, None), (ms(1), Some(ms(1))), (year, Some(year))] {
        let name = format!("{time:?}");
        let tube = store.create_tube(&name, cooldown(time).driver("utubettl")).unwrap();
        assert_eq!(tube.info().unwrap().sub_queue_cooldown, in_effect);
    }
}

/// A sub-queue for each of 300 hosts: between the end of a claim and the next take of its host there is
/// always a cooldown, and no host is forgotten.
#[test]
fn no_sub_queue_is_taken_from_in_its_cooldown_and_none_is_forgotten() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)).sub_queue_limit(2), |case| {
        const HOSTS: u64 = 300;
        case.tube.put_many((0..HOSTS * 8).map(|n| in_sub(&(n % HOSTS).to_string()))).unwrap();
        let host_of = |id: u64| usize::try_from(id % HOSTS).unwrap();
        let mut ended_at: Vec<Option<u64>> = vec![None; 300];
        let mut held: Vec<Claim> = Vec::new();
        let mut rng = Rng::new(7);
        let mut now = 0;
        while case.tasks().contains_key("total") {
            for claim in case.tube.take_many(1 + rng.index(500), ZERO).unwrap() {
                let ended_at = ended_at[host_of(claim.id())];
                assert!(ended_at.is_none_or(|at| at + 1000 <= now), "{ended_at:?} {now}");
                held.push(claim);
            }
            let (ended, kept) = held.into_iter().partition::<Vec<_>, _>(|_| rng.one_in(2));
            held = kept;
            for claim in ended {
                ended_at[host_of(claim.id())] = Some(now);
                if rng.one_in(8) {
                    claim.release().unwrap()
                } else {
                    claim.ack().unwrap()
                };
            }
            let step = rng.below(900);
            case.advance(step);
            now += step;
        }
        assert!(now < 120_000, "{now} ms");
    });
}

#[test]
fn nothing_wakes_the_store_for_a_cooldown_that_no_take_waits_for() {
    for_each_driver_with(SUB_QUEUED, cooldown(secs(1)).keep_done(Keep::new()), |case| {
        put_into(case, &["x", "x"]);
        assert_eq!(case.take(), Some(0));
        ack(&case.tube, 0);
        // `verify` checks that no timer is set.
        assert_sound(&case.store);
        let waiting = case.begin_take();
        assert_sound(&case.store);
        drop(waiting);
        assert_sound(&case.store);
        case.advance(60_000);
        assert_eq!((case.take(), case.take()), (Some(1), None));
    });
}
