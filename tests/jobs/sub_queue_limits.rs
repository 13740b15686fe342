//! Tubes of whose sub-queues several tasks may be taken at a time.

use std::collections::BTreeMap;

use tubewell::driver::UTUBETTL;
use tubewell::expert::Restore;
use tubewell::{Claim, Durability, Error, Failure, Put, TaskState, TubeOptions};

use super::files::{claim_of, create_with};
use super::rng::Rng;
use super::support::*;
use crate::options::only;
use crate::size::amount;

fn limit(n: u32) -> TubeOptions {
    TubeOptions::new().sub_queue_limit(n)
}

fn in_sub(name: &str) -> Put {
    Put::new("x".into()).sub_queue(name)
}

/// Puts tasks with the ids from 0 on into these sub-queues.
fn put_into(case: &Case, sub_queues: &[&str]) {
    let receipts = case.tube.put_many(sub_queues.iter().map(|name| in_sub(name))).unwrap();
    assert_eq!(receipts[0].id, 0);
}

fn ids(claims: &[Claim]) -> Vec<u64> {
    claims.iter().map(Claim::id).collect()
}

/// Q047, Q341
#[test]
fn as_many_tasks_of_a_sub_queue_are_taken_as_its_limit() {
    for_each_driver_with(SUB_QUEUED, limit(2), |case| {
        put_into(case, &["x", "x", "x", "y", "x", "y", "", "", ""]);
        let mut claims = case.tube.take_many(10, ZERO).unwrap();
        assert_eq!(ids(&claims), [0, 1, 3, 5, 6, 7]);
        assert_eq!(case.take(), None);
        claims.remove(1).ack().unwrap();
        assert_eq!((case.take(), case.take()), (Some(2), None));
        claims.remove(0).ack().unwrap();
        assert_eq!((case.take(), case.take()), (Some(4), None));
    });
}

/// Q342, Q343
#[test]
fn each_end_of_a_claim_frees_one_place() {
    let ends: [fn(&Case, Claim); 8] = [
        |_, claim| assert!(claim.ack().is_ok()),
        |_, claim| assert!(claim.bury(None).is_ok()),
        |_, claim| assert!(claim.bury(Failure::new("group", "message")).is_ok()),
        |case, claim| assert!(case.tube.delete(claim.id()).is_ok()),
        |case, claim| assert!(case.tube.admin().bury(claim.id(), None).is_ok()),
        |_, claim| drop(claim),
        |case, claim| assert_eq!(case.tube.admin().revoke(claim.id()), Ok(1)),
        |_, claim| assert!(claim.release().is_ok()),
    ];
    for (n, end) in ends.into_iter().enumerate() {
        for_each_driver_with(SUB_QUEUED, limit(3), |case| {
            put_into(case, &["x"; 6]);
            let mut claims = case.tube.take_many(10, ZERO).unwrap();
            assert_eq!(ids(&claims), [0, 1, 2]);
            // A waiting task leaves without a place being freed.
            case.tube.delete(3).unwrap();
            assert_eq!(case.take(), None);
            end(case, claims.remove(1));
            // A released task is back in its old place, before the other one.
            let next = if n < 5 { 4 } else { 1 };
            assert_eq!((case.take(), case.take()), (Some(next), None), "end {n}");
        });
    }
}

/// Q048, Q344
#[test]
fn altered_limit_ends_no_claim_and_gives_tasks_to_waiting_takers() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into(case, &["x"; 9]);
        assert_eq!((case.take(), case.take()), (Some(0), None));
        let waiting = case.begin_take();
        case.tube.admin().alter(only(limit(3))).unwrap();
        assert_eq!(waiting.id(), Some(1));
        assert_eq!((case.take(), case.take()), (Some(2), None));
        assert_sound(&case.store);
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_sound(&case.store);
        for id in 0..3 {
            assert_eq!((case.take(), case.state(id)), (None, Some(TaskState::Taken)));
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        assert_eq!((case.take(), case.take()), (Some(3), None));
    });
}

/// Q051
#[test]
fn overdue_claim_holds_its_sub_queue_until_the_reclaim_delay_has_elapsed() {
    let options = limit(1).ttr(secs(60)).reclaim_delay(secs(10));
    for_each_driver_with(&[UTUBETTL], options, |case| {
        put_into(case, &["x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.advance(61_000);
        assert_eq!(case.take(), None);
        case.advance(9_000);
        assert_eq!((case.take(), case.take()), (Some(0), None));
    });
}

/// Q345
/// Difference: a released task stands in its old place again, before those that waited.
#[test]
fn released_task_is_taken_before_later_ones() {
    for_each_driver_with(SUB_QUEUED, limit(1), |case| {
        put_into(case, &["x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), Some(0));
    });
}

#[test]
fn priority_decides_within_a_sub_queue_with_taken_tasks() {
    for_each_driver_with(&[UTUBETTL], limit(5), |case| {
        for priority in [5, 5, 5, 1, 9] {
            case.add(in_sub("x").priority(priority));
        }
        assert_eq!((case.take(), case.take(), case.take()), (Some(3), Some(0), Some(1)));
        // Before those that the takes have passed over.
        assert_eq!(case.add(in_sub("x").priority(0)), 5);
        assert_eq!((case.take(), case.take()), (Some(5), Some(2)));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        case.tube.claimed(5).and_then(tubewell::Claim::release).unwrap();
        assert_eq!((case.take(), case.take(), case.take()), (Some(5), Some(0), None));
    });
}

#[test]
fn chosen_task_is_refused_if_its_sub_queue_is_full() {
    for_each_driver_with(SUB_QUEUED, limit(2), |case| {
        put_into(case, &["x", "x", "x", "x"]);
        let chosen = case.tube.claim(2).unwrap();
        assert_eq!(case.take(), Some(0));
        match case.tube.claim(1).map(drop) {
            Err(Error::NotReady { id: 1, state: TaskState::Ready, why }) => {
                assert_eq!(why, "2 tasks of its sub-queue \"x\" are taken, and 2 may be");
            }
            other => panic!("{other:?}"),
        }
        chosen.ack().unwrap();
        assert_eq!((case.take(), case.take()), (Some(1), None));
    });
}

#[test]
fn taken_and_parked_tasks_hold_their_places_after_an_open() {
    for driver in SUB_QUEUED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, limit(2));
        tube.put_many(["x"; 4].map(in_sub)).unwrap();
        let mut claims = tube.take_many(10, ZERO).unwrap();
        let _token = claims.remove(1).park(secs(60)).unwrap();
        drop(claims);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.info().unwrap().sub_queue_limit, Some(2));
        assert_eq!((take(&tube), take(&tube)), (Some(0), None));
        let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        file.clock.advance(secs(60));
        assert_eq!(waiting.id(), Some(1));
        assert_sound(&store);
    }
}

#[test]
fn place_is_free_once_the_end_of_the_claim_is_flushed() {
    for driver in SUB_QUEUED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, limit(2));
        tube.put_many(["x"; 4].map(in_sub)).unwrap();
        let claims = tube.take_many(10, ZERO).unwrap();
        let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        let mut tickets = Vec::new();
        for claim in claims {
            tickets.push(claim.into_async().ack());
        }
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!((waiting.id(), take(&tube), take(&tube)), (Some(2), Some(3), None));
        assert_sound(&store);
    }
}

#[test]
fn limit_needs_a_driver_with_sub_queues_and_a_number_above_zero() {
    let store = store_in_memory();
    for driver in ALL {
        for n in [1, 2] {
            let made = store.create_tube(&format!("{driver}{n}"), limit(n).driver(driver));
            assert_eq!(made.is_ok(), SUB_QUEUED.contains(driver));
            if !SUB_QUEUED.contains(driver) {
                assert_unsupported(made, driver);
            }
        }
        let zero = store.create_tube("zero", limit(0).driver(driver)).map(drop);
        assert!(matches!(zero, Err(Error::Invalid { .. })), "{zero:?}");
    }
    // One is the default.
    assert_eq!(store.find_tube("utube1").unwrap().info().unwrap().sub_queue_limit, None);
    let exists = store.open_tube("utube1", TubeOptions::new().driver("utube"));
    exists.unwrap();
    let altered = store.open_tube("utube2", limit(3).driver("utube")).unwrap();
    assert_eq!(altered.info().unwrap().sub_queue_limit, Some(3));
}

#[test]
fn truncate_and_drop_free_all_places() {
    for_each_driver_with(SUB_QUEUED, limit(2), |case| {
        put_into(case, &["x"; 4]);
        assert_eq!(case.tube.take_many(10, ZERO).map(|claims| claims.len()), Ok(2));
        let _claims = case.tube.take_many(10, ZERO).unwrap();
        case.tube.admin().truncate().unwrap();
        assert_sound(&case.store);
        let ids = case.tube.put_many(["x"; 4].map(in_sub)).unwrap();
        assert_eq!(case.take_all(), [ids[0].id, ids[1].id]);
    });
}

/// A window has 2048 places. The slot of a sub-queue with taken tasks may be evicted, and the row by
/// which it would be found again is that of a taken task.
#[test]
fn evicted_sub_queue_with_taken_tasks_is_found_again() {
    let drivers = amount(&SUB_QUEUED[1..], SUB_QUEUED, SUB_QUEUED);
    for_each_driver_with(drivers, limit(2), |case| {
        const SUB_QUEUES: u64 = 5000;
        let name = |n: u64| format!("sub-queue {n}");
        let puts = (0..2 * SUB_QUEUES).map(|n| Put::new("x").sub_queue(name(n % SUB_QUEUES)));
        case.tube.put_many(puts).unwrap();
        let count = usize::try_from(SUB_QUEUES).unwrap();
        let mut taken = case.tube.take_many(count, ZERO).unwrap();
        assert_eq!(ids(&taken), (0..SUB_QUEUES).collect::<Vec<u64>>());
        taken.extend(case.tube.take_many(2 * count, ZERO).unwrap());
        assert_eq!(ids(&taken), (0..2 * SUB_QUEUES).collect::<Vec<u64>>());
        assert_sound(&case.store);
    });
}

/// Any order of verbs: what is taken is what a list of the tasks says.
#[test]
fn takes_agree_with_a_list_of_tasks_for_any_order_of_verbs() {
    for seed in 0..amount(4, 20, 5000) {
        let most = 1 + u32::try_from(seed % 4).unwrap();
        for_each_driver_with(SUB_QUEUED, limit(most), |case| random_verbs(case, most, seed));
    }
}

fn random_verbs(case: &Case, most: u32, seed: u64) {
    let mut rng = Rng::new(seed);
    // The ready tasks by rank, and the taken ones, each with its sub-queue.
    let mut ready: BTreeMap<(u64, u64), String> = BTreeMap::new();
    let mut taken: BTreeMap<u64, ((u64, u64), String)> = BTreeMap::new();
    for _ in 0..300 {
        match rng.below(6) {
            0 | 1 => {
                let (sub, priority) = (rng.below(4).to_string(), rng.below(3));
                let priority = if case.timed() { priority } else { 0 };
                let mut put = Put::new("x").sub_queue(sub.clone());
                if case.timed() {
                    put = put.priority(u32::try_from(priority).unwrap());
                }
                ready.insert((priority, case.add(put)), sub);
            }
            2 | 3 => {
                let count = |sub: &String| taken.values().filter(|(_, of)| of == sub).count();
                let free = |sub: &String| count(sub) < most as usize;
                let best = ready.iter().find(|(_, sub)| free(sub)).map(|(rank, _)| *rank);
                assert_eq!(case.take(), best.map(|(_, id)| id), "seed {seed}");
                if let Some(rank) = best {
                    taken.insert(rank.1, (rank, ready.remove(&rank).unwrap()));
                }
            }
            _ => {
                let pick = rng.below(1 + taken.len() as u64);
                let Some(id) = taken.keys().nth(usize::try_from(pick).unwrap()).copied() else {
                    continue;
                };
                let (rank, sub) = taken.remove(&id).unwrap();
                if rng.below(2) == 0 {
                    case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
                } else {
                    case.tube.claimed(id).and_then(tubewell::Claim::release).unwrap();
                    ready.insert(rank, sub);
                }
            }
        }
    }
    assert_sound(&case.store);
}

/// A tube with a limit that is restored from another store, and one in a temporary or relaxed tube.
#[test]
fn limit_holds_whatever_the_durability() {
    let kinds = [
        limit(2).temporary(true),
        limit(2).durability(Durability::relaxed()),
        limit(2).durability(Durability::write()),
    ];
    for options in kinds {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, UTUBETTL, options);
        tube.put_many(["x"; 3].map(in_sub)).unwrap();
        let waiting = tube.take_many(10, ZERO).unwrap();
        assert_eq!(ids(&waiting), [0, 1]);
        let third = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        drop(waiting);
        assert_eq!(claim_of(third).id(), 0);
        assert_sound(&store);
    }
    let store = store_in_memory();
    let tube = store.create_tube("case", limit(2).driver(UTUBETTL)).unwrap();
    let restored = (10..13).map(|id| Restore::new(in_sub("x")).id(id));
    tube.admin().restore_many(restored.collect::<Vec<_>>()).unwrap();
    assert_eq!((take(&tube), take(&tube), take(&tube)), (Some(10), Some(11), None));
}
