//! Tubes that limit how many tasks of a sub-queue are taken in a time.

use std::time::Duration;

use tubewell::{Error, Put, Rate, TaskState, TubeOptions};

use super::files::create_with;
use super::rng::Rng;
use super::support::*;
use crate::options::only;

fn rate(count: u32, period: Duration) -> TubeOptions {
    TubeOptions::new().sub_queue_rate(Rate::per(count, period))
}

fn in_sub(name: &str) -> Put {
    Put::new("x".into()).sub_queue(name)
}

fn put_into(case: &Case, sub_queues: &[&str]) {
    case.tube.put_many(sub_queues.iter().map(|name| in_sub(name))).unwrap();
}

/// Takes and acks until no task is available. Returns the ids.
fn work(case: &Case) -> Vec<u64> {
    let next = || {
        let claim = case.tube.try_take().unwrap()?;
        let id = claim.id();
        claim.ack().unwrap();
        Some(id)
    };
    std::iter::from_fn(next).collect()
}

#[test]
fn one_page_of_a_host_is_taken_at_a_time_and_one_a_second() {
    for_each_driver_with(SUB_QUEUED, rate(1, secs(1)), |case| {
        put_into(case, &["a", "a", "b", "a", "b"]);
        assert_eq!(case.take_all(), [0, 2]);
        case.advance(1000);
        assert_eq!(case.take(), None, "both hosts have a taken task");
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(1));
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), None, "the host had a take in this second");
        case.advance(999);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!((case.take(), case.take()), (Some(3), None));
        case.tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!((case.take(), case.take()), (Some(4), None));
    });
}

#[test]
fn burst_uses_all_tokens_and_each_comes_back_after_the_period() {
    for_each_driver_with(SUB_QUEUED, rate(3, secs(10)).sub_queue_limit(100), |case| {
        put_into(case, &["x"; 9]);
        assert_eq!(work(case), [0, 1].into_iter().chain([2]).collect::<Vec<u64>>());
        case.advance(9_999);
        assert_eq!(work(case), [] as [u64; 0]);
        case.advance(1);
        assert_eq!(case.take(), Some(3));
        case.advance(4_000);
        assert_eq!(case.take_all(), [4, 5]);
        case.advance(6_000);
        assert_eq!(case.take_all(), [6]);
        case.advance(4_000);
        assert_eq!(case.take_all(), [7, 8]);
    });
}

#[test]
fn waiting_takers_get_tasks_when_tokens_come_back_first_come_first_served() {
    for_each_driver_with(SUB_QUEUED, rate(1, secs(1)).sub_queue_limit(9), |case| {
        put_into(case, &["x"; 5]);
        assert_eq!((case.take(), case.take()), (Some(0), None));
        let mut first = case.begin_take();
        let mut second = case.begin_take();
        case.advance(999);
        assert!(first.is_pending() && second.is_pending());
        case.advance(1);
        assert!(second.is_pending());
        assert_eq!(first.id(), Some(1));
        assert_eq!(case.take(), None);
        case.advance(1000);
        assert_eq!(second.id(), Some(2));
        // No take waits any more, and nothing happens until the next take.
        case.advance(5000);
        assert_eq!(case.tasks().get("taken"), Some(&3));
        assert_eq!((case.take(), case.take()), (Some(3), None));
    });
}

#[test]
fn sub_queue_without_a_token_does_not_hold_up_others() {
    for_each_driver_with(SUB_QUEUED, rate(1, secs(60)).sub_queue_limit(9), |case| {
        put_into(case, &["full"; 50]);
        assert_eq!(case.take(), Some(0));
        put_into(case, &["a", "b", "full", "a"]);
        assert_eq!(case.take_all(), [50, 51]);
    });
}

/// The take counts, however its claim ends.
#[test]
fn released_task_waits_for_the_next_token() {
    for_each_driver_with(SUB_QUEUED, rate(2, secs(10)), |case| {
        put_into(case, &["x", "x"]);
        for _ in 0..2 {
            assert_eq!(case.take(), Some(0));
            case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        }
        assert_eq!(case.take(), None);
        match case.tube.claim(1).map(drop) {
            Err(Error::NotReady { id: 1, state: TaskState::Ready, why }) => {
                assert_eq!(why, "the rate of its sub-queue \"x\" allows the next take in 10s");
            }
            other => panic!("{other:?}"),
        }
        case.advance(10_000);
        // A chosen task uses a token as well.
        drop(case.tube.claim(1).unwrap().detach());
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), None);
    });
}

#[test]
fn bucket_is_empty_after_an_open_and_full_in_a_new_tube() {
    for driver in SUB_QUEUED {
        let file = StoreFile::new();
        let (mut store, tube) = create_with(&file, driver, rate(4, secs(20)).sub_queue_limit(99));
        tube.put_many(["x"; 20].map(in_sub)).unwrap();
        assert_eq!(tube.take_many(9, ZERO).unwrap().len(), 4);
        for _ in 0..3 {
            store = file.reopen(store);
            let tube = store.find_tube("case").unwrap();
            assert_eq!(take(&tube), None);
            let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
            assert_sound(&store);
            file.clock.advance(secs(5));
            assert_eq!((waiting.id().is_some(), take(&tube)), (true, None));
            file.clock.advance(secs(10));
            assert!(take(&tube).is_some() && take(&tube).is_some());
            assert_eq!(take(&tube), None);
            tube.put(in_sub("new")).unwrap();
            let again = take(&tube).unwrap();
            assert_eq!(tube.query().task(again).unwrap().info.sub_queue.as_deref(), Some("new"));
            tube.claimed(again).and_then(tubewell::Claim::ack).unwrap();
            assert_eq!(tube.info().unwrap().sub_queue_rate, Some(Rate::per(4, secs(20))));
        }
    }
}

#[test]
fn altered_rate_counts_the_takes_so_far() {
    for_each_driver_with(SUB_QUEUED, TubeOptions::new().sub_queue_limit(99), |case| {
        let alter = |options: TubeOptions| {
            case.tube.admin().alter(only(options.sub_queue_limit(99))).unwrap();
        };
        put_into(case, &["x"; 20]);
        assert_eq!(case.take(), Some(0));
        alter(rate(2, secs(10)));
        assert_eq!(case.take_all(), [1, 2]);
        let waiting = case.begin_take();
        alter(rate(3, secs(10)));
        assert_eq!((waiting.id(), case.take()), (Some(3), None));
        alter(rate(1, secs(10)));
        case.advance(9_999);
        assert_eq!(case.take(), None);
        assert_sound(&case.store);
        case.advance(1);
        assert_eq!(case.take_all(), [4]);
        let waiting = case.begin_take();
        alter(TubeOptions::new());
        assert_eq!(waiting.id(), Some(5));
        assert_eq!(case.take_all().len(), 14);
    });
}

#[test]
fn rate_must_have_a_count_and_a_period() {
    let store = store_in_memory();
    for options in [rate(0, secs(1)), rate(1, ZERO), rate(1, Duration::MAX)] {
        let made = store.create_tube("case", options.driver("utube")).map(drop);
        assert!(matches!(made, Err(Error::Invalid { .. })), "{made:?}");
    }
    for driver in ALL.iter().filter(|driver| !SUB_QUEUED.contains(driver)) {
        assert_unsupported(store.create_tube("case", rate(1, secs(1)).driver(driver)), driver);
    }
}

/// A sub-queue for each of 300 hosts, as many takers as they like: no host has more takes in any period
/// than its rate, and each has as many as it can have.
#[test]
fn no_sub_queue_exceeds_its_rate_and_none_is_forgotten() {
    for_each_driver_with(SUB_QUEUED, rate(2, secs(3)).sub_queue_limit(3), |case| {
        const HOSTS: u64 = 300;
        case.tube.put_many((0..HOSTS * 8).map(|n| in_sub(&(n % HOSTS).to_string()))).unwrap();
        let mut takes: Vec<Vec<u64>> = vec![Vec::new(); 300];
        let mut rng = Rng::new(7);
        let mut now = 0;
        while case.tasks().contains_key("ready") {
            for claim in case.tube.take_many(1 + rng.index(500), ZERO).unwrap() {
                let host = usize::try_from(claim.id() % HOSTS).unwrap();
                takes[host].push(now);
                if rng.one_in(2) {
                    claim.ack().unwrap();
                } else {
                    keep(claim);
                }
            }
            if rng.one_in(4) {
                for id in case.tube.query().list(TaskState::Taken, None, 1000).unwrap().items {
                    case.tube.claimed(id.id).and_then(tubewell::Claim::ack).unwrap();
                }
            }
            let step = rng.below(900);
            case.advance(step);
            now += step;
        }
        for of_host in &takes {
            assert_eq!(of_host.len(), 8);
            assert!(of_host.windows(3).all(|three| three[2] - three[0] >= 3000), "{of_host:?}");
        }
        assert!(now < 60_000, "{now} ms");
    });
}

#[test]
fn nothing_wakes_the_store_for_a_sub_queue_that_no_take_waits_for() {
    for_each_driver_with(SUB_QUEUED, rate(1, secs(1)).sub_queue_limit(9), |case| {
        put_into(case, &["x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
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
