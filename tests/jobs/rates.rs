//! Tubes that limit how many of their tasks are taken in a time.

use tubewell::{Error, Rate, TaskState, TubeOptions};

use super::files::{create_with, draft, put_numbered};
use super::support::*;
use crate::options::only;

/// Two takes in 10 s.
fn two_in_ten() -> TubeOptions {
    TubeOptions::new().rate(Rate::per(2, secs(10)))
}

#[test]
fn no_more_tasks_are_taken_than_the_rate_allows() {
    for_each_driver_with(ALL, two_in_ten(), |case| {
        put_numbered(case, 9);
        assert_eq!(case.take(), Some(0));
        case.advance(4_000);
        assert_eq!((case.take(), case.take()), (Some(1), None));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.advance(5_999);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!((case.take(), case.take()), (Some(2), None));
        case.advance(60_000);
        assert_eq!(case.tube.take_many(9, ZERO).unwrap().len(), 2);
    });
}

#[test]
fn waiting_takes_are_served_in_order_as_the_rate_allows() {
    for_each_driver_with(ALL, two_in_ten(), |case| {
        let mut takes = [(); 5].map(|()| case.begin_take());
        put_numbered(case, 5);
        let mut served = |expected: usize| {
            let (served, waiting) = takes.split_at_mut(expected);
            served.iter_mut().for_each(WaitingTake::wait);
            assert!(waiting.iter_mut().all(WaitingTake::is_pending));
            assert_sound(&case.store);
        };
        served(2);
        case.advance(9_999);
        served(2);
        case.advance(1);
        served(4);
        case.advance(9_999);
        served(4);
        case.advance(1);
        served(5);
        assert_eq!(takes.map(WaitingTake::id), [Some(0), Some(1), Some(2), Some(3), Some(4)]);
    });
}

/// The rate is on running time.
#[test]
fn suspend_brings_no_token_back() {
    for_each_driver_with(ALL, two_in_ten(), |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take_all().len(), 2);
        case.clock.suspend(secs(3600));
        assert_eq!(case.take(), None);
        case.advance(10_000);
        assert_eq!(case.take(), Some(2));
    });
}

/// A program that is restarted again and again has the rate of one that runs on.
#[test]
fn bucket_is_empty_after_an_open_and_full_in_a_new_tube() {
    for driver in ALL {
        let file = StoreFile::new();
        let (mut store, tube) = create_with(&file, driver, two_in_ten());
        tube.put_many((0..20).map(|n| draft(driver, &n.to_string()))).unwrap();
        for claim in tube.take_many(9, ZERO).unwrap() {
            claim.ack().unwrap();
        }
        drop(tube);
        for _ in 0..3 {
            store = file.reopen(store);
            let tube = store.find_tube("case").unwrap();
            assert_eq!(tube.info().unwrap().rate, Some(Rate::per(2, secs(10))));
            assert_eq!(take(&tube), None);
        }
        let tube = store.find_tube("case").unwrap();
        let mut waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        file.clock.advance(ms(4_999));
        assert!(waiting.is_pending());
        file.tick();
        assert_eq!((waiting.id(), take(&tube)), (Some(2), None));
        file.clock.advance(secs(5));
        assert_eq!((take(&tube), take(&tube)), (Some(3), None));
        assert_sound(&store);
    }
}

/// The last run may have used all tokens of the period, which an altered rate does not give back.
#[test]
fn altered_rate_goes_on_filling_the_bucket_that_was_empty_at_open() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, two_in_ten());
        tube.put_many((0..9).map(|n| draft(driver, &n.to_string()))).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        file.clock.advance(secs(1));
        tube.admin().alter(only(TubeOptions::new().rate(Rate::per(4, secs(10))))).unwrap();
        let mut taken = Vec::new();
        for _ in 0..11 {
            loop {
                let shown: Vec<u64> =
                    tube.query().next(9).unwrap().iter().map(|info| info.id).collect();
                let before = taken.len();
                taken.extend(std::iter::from_fn(|| take(&tube)));
                assert_eq!(shown, taken[before..]);
                if before == taken.len() {
                    break;
                }
            }
            file.clock.advance(ms(500));
        }
        // One token after each 2.5 s, the first of which began at open.
        assert_eq!(taken, [0, 1]);
        assert_sound(&store);
    }
}

#[test]
fn chosen_task_beyond_the_rate_is_not_ready() {
    for_each_driver_with(ALL, TubeOptions::new().rate(Rate::per(1, secs(10))), |case| {
        case.put_all([0, 1]);
        case.tube.claim(1).unwrap().release().unwrap();
        case.advance(4_000);
        let refused = case.tube.claim(0).unwrap_err();
        let Error::NotReady { id: 0, state: TaskState::Ready, why } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(why, "the rate of its tube allows the next take in 6s");
        case.advance(6_000);
        assert_eq!(case.tube.claim(0).unwrap().id(), 0);
    });
}

#[test]
fn altered_rate_knows_the_takes_before() {
    for_each_driver_with(ALL, two_in_ten(), |case| {
        put_numbered(case, 9);
        assert_eq!(case.take_all().len(), 2);
        let [mut first, mut second] = [case.begin_take(), case.begin_take()];
        case.tube.admin().alter(only(TubeOptions::new().rate(Rate::per(3, secs(10))))).unwrap();
        first.wait();
        assert!(second.is_pending());
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!((first.id(), second.id()), (Some(2), Some(3)));
        assert_eq!(case.take_all().len(), 5);
    });
}

#[test]
fn gates_hold_together() {
    for_each_driver_with(ALL, two_in_ten().max_taken(1), |case| {
        case.put_all([0, 1, 2, 3]);
        assert_eq!(case.take(), Some(0));
        let [mut second, mut third] = [case.begin_take(), case.begin_take()];
        case.tube.admin().pause_for(secs(4)).unwrap();
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert!(second.is_pending());
        case.advance(4_000);
        assert_eq!(second.id(), Some(1));
        case.tube.claimed(1).and_then(tubewell::Claim::ack).unwrap();
        assert_sound(&case.store);
        case.advance(5_999);
        assert!(third.is_pending());
        case.tube.admin().pause_for(secs(3)).unwrap();
        case.advance(2_999);
        assert!(third.is_pending());
        assert_sound(&case.store);
        case.advance(1);
        assert_eq!((third.id(), case.take()), (Some(2), None));
    });
}

#[test]
fn expired_tasks_use_no_token() {
    for_each_driver_with(TIMED, two_in_ten(), |case| {
        for _ in 0..5 {
            case.add(case.draft("x").ttl(secs(1)));
        }
        let live = case.put("live");
        case.clock.suspend(secs(1));
        assert_eq!(case.take(), Some(live));
        case.put_all([6, 7]);
        assert_eq!((case.take(), case.take()), (Some(6), None));
    });
}
