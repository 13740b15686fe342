//! Limits that the sub-queues of several tubes share.

use tubewell::driver::UTUBETTL;
use tubewell::{Claim, Error, Put, Store, TaskState, Tube, TubeOptions};

use super::rng::Rng;
use super::support::*;
use crate::options::only;
use crate::size::amount;
use crate::stores::{self, ManualClock};

fn in_sub(name: &str) -> Put {
    Put::new("x".into()).sub_queue(name)
}

fn shared() -> TubeOptions {
    TubeOptions::new().shared_limits(true)
}

/// Two tubes that share limits.
fn two(store: &Store, driver: &str) -> (Tube, Tube) {
    let tube = |name| store.create_tube(name, shared().driver(driver)).unwrap();
    (tube("imports"), tube("reports"))
}

/// Puts tasks into this sub-queue. Returns the ids.
fn put(tube: &Tube, sub_queue: &str, count: usize) -> Vec<u64> {
    let puts = std::iter::repeat_with(|| in_sub(sub_queue)).take(count);
    tube.put_many(puts).unwrap().iter().map(|receipt| receipt.id).collect()
}

fn for_each_sub_queued(case: impl Fn(&Store, &ManualClock, Tube, Tube)) {
    for driver in SUB_QUEUED {
        println!("driver {driver}");
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let (one, other) = two(&store, driver);
        case(&store, &clock, one, other);
        assert_sound(&store);
    }
}

fn limits(store: &Store) -> Vec<(String, u32, u64)> {
    store
        .admin()
        .limits()
        .unwrap()
        .into_iter()
        .map(|limit| (limit.name, limit.most, limit.taken))
        .collect()
}

/// Q340
/// Difference: a name without a limit has that of the tube, one by default; a limit has no lifetime.
#[test]
fn limit_can_be_set_and_removed() {
    for_each_sub_queued(|store, _, imports, _| {
        assert_eq!(limits(store), []);
        store.admin().remove_limit("db").unwrap();
        store.admin().set_limit("db", 5).unwrap();
        put(&imports, "db", 9);
        put(&imports, "other", 2);
        assert_eq!(imports.take_many(20, ZERO).unwrap().len(), 6);
        assert_eq!(limits(store), [("db".into(), 5, 0)], "the claims were dropped");
        let claims = imports.take_many(20, ZERO).unwrap();
        assert_eq!(limits(store), [("db".into(), 5, 5)]);
        store.admin().remove_limit("db").unwrap();
        assert_eq!(limits(store), []);
        let (of_db, _other): (Vec<Claim>, Vec<Claim>) =
            claims.into_iter().partition(|claim| claim.sub_queue() == Some("db"));
        for claim in of_db {
            assert_eq!(take(&imports), None);
            claim.ack().unwrap();
        }
        assert!(take(&imports).is_some());
        assert_eq!(take(&imports), None);
    });
}

/// Q341, Q342
#[test]
fn tasks_of_all_tubes_count_for_a_shared_limit() {
    for_each_sub_queued(|store, _, imports, reports| {
        store.admin().set_limit("db", 2).unwrap();
        let (a, b) = (put(&imports, "db", 3), put(&reports, "db", 3));
        assert_eq!((take(&imports), take(&reports)), (Some(a[0]), Some(b[0])));
        assert_eq!((take(&imports), take(&reports)), (None, None));
        reports.claimed(b[0]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((take(&imports), take(&reports)), (Some(a[1]), None));
        let waiting = WaitingTake::begin(reports.to_async().take_timeout(NO_TIMEOUT));
        imports.admin().bury(a[0], None).unwrap();
        assert_eq!((waiting.id(), take(&imports)), (Some(b[1]), None));
        imports.claimed(a[1]).and_then(tubewell::Claim::release).unwrap();
        assert_eq!((take(&reports), take(&imports)), (Some(b[2]), None));
    });
}

/// Q343
#[test]
fn waiting_task_that_is_deleted_frees_no_place() {
    for_each_sub_queued(|store, _, imports, reports| {
        store.admin().set_limit("db", 1).unwrap();
        let (a, b) = (put(&imports, "db", 2), put(&reports, "db", 1));
        assert_eq!(take(&imports), Some(a[0]));
        imports.delete(a[1]).unwrap();
        assert_eq!((take(&imports), take(&reports)), (None, None));
        imports.delete(a[0]).unwrap();
        assert_eq!(take(&reports), Some(b[0]));
    });
}

/// Q344
#[test]
fn raised_limit_gives_tasks_and_a_lowered_one_ends_no_claim() {
    for_each_sub_queued(|store, _, imports, reports| {
        let (a, b) = (put(&imports, "db", 5), put(&reports, "db", 5));
        store.admin().set_limit("db", 1).unwrap();
        assert_eq!((take(&imports), take(&reports)), (Some(a[0]), None));
        let first = WaitingTake::begin(reports.to_async().take_timeout(NO_TIMEOUT));
        let second = WaitingTake::begin(imports.to_async().take_timeout(NO_TIMEOUT));
        store.admin().set_limit("db", 3).unwrap();
        assert_eq!((first.id(), second.id()), (Some(b[0]), Some(a[1])));
        assert_eq!((take(&imports), take(&reports)), (None, None));
        store.admin().set_limit("db", 1).unwrap();
        assert_eq!(limits(store), [("db".into(), 1, 3)]);
        assert_sound(store);
        imports.claimed(a[0]).and_then(tubewell::Claim::ack).unwrap();
        reports.claimed(b[0]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((take(&imports), take(&reports)), (None, None));
        imports.claimed(a[1]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((take(&imports), take(&reports)), (Some(a[2]), None));
        store.admin().set_limit("db", 0).unwrap();
        imports.claimed(a[2]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((take(&imports), take(&reports)), (None, None));
        match reports.claim(b[1]).map(drop) {
            Err(Error::NotReady { state: TaskState::Ready, why, .. }) => {
                assert_eq!(why, "0 tasks of its sub-queue \"db\" are taken, and 0 may be");
            }
            other => panic!("{other:?}"),
        }
    });
}

/// Takes of several tubes at a time, first come, first served over all of them.
#[test]
fn freed_place_goes_to_the_take_that_waits_longest_in_any_tube() {
    for_each_sub_queued(|store, _, imports, reports| {
        store.admin().set_limit("db", 1).unwrap();
        let a = put(&imports, "db", 3);
        assert_eq!(take(&imports), Some(a[0]));
        let b = put(&reports, "db", 2);
        let first = WaitingTake::begin(reports.to_async().take_timeout(NO_TIMEOUT));
        let mut second = WaitingTake::begin(imports.to_async().take_timeout(NO_TIMEOUT));
        imports.claimed(a[0]).and_then(tubewell::Claim::ack).unwrap();
        assert!(second.is_pending());
        assert_eq!(first.id(), Some(b[0]));
        reports.claimed(b[0]).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(second.id(), Some(a[1]));
    });
}

#[test]
fn other_tubes_do_not_share() {
    for_each_sub_queued(|store, _, imports, reports| {
        store.admin().set_limit("db", 1).unwrap();
        let alone =
            store.create_tube("alone", TubeOptions::new().driver(reports.driver())).unwrap();
        put(&imports, "db", 1);
        put(&alone, "db", 2);
        assert!(take(&imports).is_some() && take(&alone).is_some());
        assert_eq!(limits(store), [("db".into(), 1, 1)]);
    });
}

#[test]
fn truncated_dropped_and_altered_tubes_free_their_places() {
    for_each_sub_queued(|store, _, imports, reports| {
        store.admin().set_limit("db", 2).unwrap();
        let b = put(&reports, "db", 9);
        put(&imports, "db", 9);
        let _claims = imports.take_many(9, ZERO).unwrap();
        let first = WaitingTake::begin(reports.to_async().take_timeout(NO_TIMEOUT));
        imports.admin().truncate().unwrap();
        assert_eq!((first.id(), take(&reports)), (Some(b[0]), Some(b[1])));
        assert_sound(store);
        // It does not share any more: its limit counts its own taken tasks only, and the shared one does
        // not count them.
        reports.admin().alter(only(TubeOptions::new().sub_queue_limit(3))).unwrap();
        assert_eq!((take(&reports), take(&reports)), (Some(b[2]), None));
        assert_eq!(limits(store), [("db".into(), 2, 0)]);
        put(&imports, "db", 9);
        let claims = imports.take_many(9, ZERO).unwrap();
        assert_eq!(claims.len(), 2);
        assert_sound(store);
        reports.admin().alter(only(shared())).unwrap();
        assert_eq!(limits(store), [("db".into(), 2, 5)]);
        for id in &b[..3] {
            reports.claimed(*id).and_then(tubewell::Claim::ack).unwrap();
        }
        assert_eq!((take(&reports), take(&imports)), (None, None));
        drop(claims);
        imports.admin().truncate().unwrap();
        store.drop_tube("imports").unwrap();
        assert_eq!(
            (take(&reports), take(&reports), take(&reports)),
            (Some(b[3]), Some(b[4]), None)
        );
    });
}

#[test]
fn limits_and_shared_tubes_survive_an_open() {
    for driver in SUB_QUEUED {
        let file = StoreFile::new();
        let store = file.open();
        let (imports, reports) = two(&store, driver);
        store.admin().set_limit("db", 2).unwrap();
        store.admin().set_limit("gone", 7).unwrap();
        store.admin().remove_limit("gone").unwrap();
        put(&imports, "db", 3);
        put(&reports, "db", 3);
        let _token = imports.take_timeout(NO_TIMEOUT).unwrap().unwrap().park(secs(60)).unwrap();
        let store = file.reopen(store);
        let (imports, reports) =
            (store.find_tube("imports").unwrap(), store.find_tube("reports").unwrap());
        assert!(imports.info().unwrap().shared_limits);
        assert_eq!(limits(&store), [("db".into(), 2, 1)]);
        assert!(take(&reports).is_some());
        assert_eq!((take(&imports), take(&reports)), (None, None));
        let waiting = WaitingTake::begin(reports.to_async().take_timeout(NO_TIMEOUT));
        file.clock.advance(secs(60));
        assert!(waiting.id().is_some());
        assert_sound(&store);
    }
}

/// Q345 for several tubes, at random: never more taken tasks than the limit, and none is forgotten.
#[test]
fn random_takes_and_ends_of_three_tubes_keep_to_the_limits() {
    for seed in 0..amount(5, 20, 5000) {
        let store = store_in_memory();
        let names = ["a", "b", "c"];
        let tubes = names.map(|name| {
            store.create_tube(name, shared().sub_queue_limit(2).driver(UTUBETTL)).unwrap()
        });
        let mut rng = Rng::new(seed);
        let mut most = [2_u32; 3];
        let mut claims: Vec<Claim> = Vec::new();
        for _ in 0..400 {
            let sub = rng.index(3);
            let tube = &tubes[rng.index(3)];
            let taken = |claims: &[Claim], sub: usize| {
                claims.iter().filter(|claim| claim.sub_queue() == Some(names[sub])).count()
            };
            match rng.below(8) {
                0..3 => drop(put(tube, names[sub], 1)),
                3..6 => match tube.try_take().unwrap() {
                    Some(claim) => {
                        let sub = names.iter().position(|name| claim.sub_queue() == Some(name));
                        let sub = sub.unwrap();
                        claims.push(claim);
                        assert!(taken(&claims, sub) <= most[sub] as usize, "seed {seed}");
                    }
                    None => {
                        for task in tube.query().list(TaskState::Ready, None, 1000).unwrap().items {
                            let of = names
                                .iter()
                                .position(|name| task.sub_queue.as_deref() == Some(name));
                            let of = of.unwrap();
                            assert!(taken(&claims, of) >= most[of] as usize, "seed {seed}");
                        }
                    }
                },
                6 if !claims.is_empty() => {
                    let claim = claims.swap_remove(rng.index(claims.len()));
                    if rng.one_in(2) {
                        claim.ack().unwrap();
                    }
                }
                7 if rng.one_in(5) => {
                    most[sub] = u32::try_from(rng.below(4)).unwrap();
                    store.admin().set_limit(names[sub], most[sub]).unwrap();
                }
                _ => {}
            }
        }
        assert_sound(&store);
    }
}
