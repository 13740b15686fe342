//! Options of tubes that are changed.

use std::time::Duration;

use tubewell::driver::{FIFOTTL, LIMFIFOTTL};
use tubewell::expert::OptionValue;
use tubewell::{
    Backoff, Counting, Durability, Error, Failure, Filter, Keep, Put, Rate, Store, TaskState, Tube,
    TubeInfo, TubeOptions,
};

use super::files::{after_a_kill, create_with, draft, put_numbered};
use super::support::*;
use crate::options::only;

fn info(store: &Store) -> TubeInfo {
    store.find_tube("case").unwrap().info().unwrap()
}

/// Options that every timed driver without a capacity has, none with its default.
fn all_options() -> TubeOptions {
    TubeOptions::new()
        .ttl(secs(1000))
        .ttr(secs(10))
        .priority(7)
        .max_runtime(secs(20))
        .max_attempts(3)
        .count_takes(Counting::Flushed)
        .backoff(Backoff::exponential(secs(1)).cap(secs(9)))
        .reclaim_delay(secs(2))
        .keep_done(Keep::new().count(5))
        .keep_buried(Keep::new().age(secs(500)))
        .max_taken(4)
        .rate(Rate::per(100, secs(1)))
        .durability(Durability::write())
}

/// Q215 Q216
/// Difference: the options are those of a tube. A name that is no option does not compile.
#[test]
fn options_are_read_set_and_set_back() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::default());
        let plain = info(&store);
        tube.admin().alter(only(all_options())).unwrap();
        let altered = info(&store);
        assert_eq!(altered, made_with(driver, all_options()));
        assert_eq!(info(&after_a_kill(&file).1), altered);
        drop(tube);
        let store = file.reopen(store);
        assert_eq!(info(&store), altered);
        store.find_tube("case").unwrap().admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!(info(&store), plain);
        assert_eq!(info(&after_a_kill(&file).1), plain);
    }
}

/// The description of a tube that was created with these options.
fn made_with(driver: &str, options: TubeOptions) -> TubeInfo {
    store_in_memory().create_tube("case", options.driver(driver)).unwrap().info().unwrap()
}

#[test]
fn options_of_a_description_are_those_of_the_tube() {
    let variants = [
        TubeOptions::new(),
        all_options(),
        TubeOptions::new().ttl(secs(5)),
        TubeOptions::new().ttl(secs(5)).ttr(std::time::Duration::MAX),
        TubeOptions::new().ttr(secs(5)).temporary(true),
    ];
    for options in variants {
        let first = made_with(FIFOTTL, options);
        assert_eq!(made_with(FIFOTTL, first.options()), first);
    }
    let first = made_with(LIMFIFOTTL, TubeOptions::new().capacity(3));
    assert_eq!(made_with(LIMFIFOTTL, first.options()), first);
    for driver in UNTIMED {
        let first = made_with(driver, TubeOptions::new().max_attempts(2));
        assert_eq!(made_with(driver, first.options()), first);
    }
}

#[test]
fn options_that_the_driver_does_not_have_are_refused() {
    for_each_driver_with(ALL, TubeOptions::new().max_taken(9), |case| {
        let before = case.tube.info().unwrap();
        let mut refused = Vec::new();
        if !case.timed() {
            refused.extend([
                TubeOptions::new().ttl(secs(1)),
                TubeOptions::new().backoff(Backoff::constant(secs(1))),
                TubeOptions::new().max_runtime(secs(1)),
            ]);
        }
        if case.driver != LIMFIFOTTL {
            refused.push(TubeOptions::new().capacity(1));
        }
        for options in refused {
            assert_unsupported(case.tube.admin().alter(only(options)), case.driver);
        }
        let temporary = case.tube.admin().alter(only(TubeOptions::new().temporary(true)));
        assert!(matches!(temporary, Err(Error::TubeDiffers { .. })), "{temporary:?}");
        for options in
            [TubeOptions::new().max_attempts(0), TubeOptions::new().rate(Rate::per(0, secs(1)))]
        {
            assert!(matches!(case.tube.admin().alter(only(options)), Err(Error::Invalid { .. })));
        }
        assert_eq!(case.tube.info().unwrap(), before);
    });
}

#[test]
fn defaults_of_tasks_hold_for_later_puts() {
    for_each_driver(TIMED, |case| {
        let before = case.put("before");
        case.tube
            .admin()
            .alter(only(TubeOptions::new().ttl(secs(60)).ttr(secs(5)).priority(3)))
            .unwrap();
        let after = case.put("after");
        let times = |id| {
            let info = case.info(id);
            (info.priority, info.ttr, info.ttl_left)
        };
        assert_eq!(times(before), (tubewell::DEFAULT_PRIORITY, None, None));
        assert_eq!(times(after), (3, Some(secs(5)), Some(secs(60))));
    });
}

#[test]
fn larger_capacity_admits_waiting_puts_and_a_smaller_one_removes_nothing() {
    let capacity = |tasks| TubeOptions::new().capacity(tasks);
    for_each_driver_with(&[LIMFIFOTTL], capacity(1), |case| {
        case.put("a");
        let mut puts =
            ["b", "c", "d"].map(|body| case.tube.to_async().put_timeout(body, Duration::MAX));
        for put in &mut puts {
            super::executor::poll_pending(put, std::task::Waker::noop());
        }
        case.tube.admin().alter(only(capacity(3))).unwrap();
        let [b, c, d] = puts;
        assert_eq!(super::executor::block_on(b).unwrap().id, 1);
        assert_eq!(super::executor::block_on(c).unwrap().id, 2);
        assert_eq!(case.tube.info().unwrap().waiting_puts, 1);
        case.tube.admin().alter(only(capacity(2))).unwrap();
        assert_eq!(case.tasks(), counts([("ready", 3), ("total", 3)]));
        case.tube.delete(0).unwrap();
        assert!(matches!(case.tube.put("e"), Err(Error::Full { capacity: 2, .. })));
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!(super::executor::block_on(d).unwrap().id, 3);
    });
}

#[test]
fn limits_of_claims_hold_for_later_takes() {
    for_each_driver(TIMED, |case| {
        case.put_all([0, 1]);
        let before = case.tube.try_take().unwrap().unwrap();
        case.tube
            .admin()
            .alter(only(TubeOptions::new().max_runtime(secs(5)).reclaim_delay(secs(2))))
            .unwrap();
        let after = case.tube.try_take().unwrap().unwrap();
        assert_eq!(
            (before.expires_in().unwrap(), after.expires_in().unwrap()),
            (None, Some(secs(5)))
        );
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        case.advance(6_999);
        assert!(after.is_current().unwrap());
        case.advance(1);
        assert!(before.is_current().unwrap() && !after.is_current().unwrap());
    });
}

#[test]
fn limit_of_attempts_holds_for_earlier_tasks_and_takes() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        for _ in 0..2 {
            drop(case.tube.claim(0).unwrap());
        }
        case.tube.admin().alter(only(TubeOptions::new().max_attempts(2))).unwrap();
        assert_eq!(case.take(), Some(1));
        assert_eq!(case.state(0), Some(TaskState::Buried));
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(9)).unwrap(), 1);
        for _ in 0..3 {
            drop(case.tube.claim(0).unwrap());
        }
    });
}

#[test]
fn backoff_holds_for_later_ends_of_claims() {
    for_each_driver(TIMED, |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube
            .admin()
            .alter(only(TubeOptions::new().backoff(Backoff::constant(secs(5)))))
            .unwrap();
        assert_eq!(claim.fail(Failure::new("g", "m")).unwrap().state, TaskState::Delayed);
        case.advance(5_000);
        assert_eq!(case.take(), Some(id));
    });
}

/// The ranks of buried tasks follow from how they were kept when they were buried.
#[test]
fn retention_holds_for_later_ends() {
    let keep = |count| {
        TubeOptions::new().keep_done(Keep::new().count(count)).keep_buried(Keep::new().count(count))
    };
    for_each_driver(ALL, |case| {
        put_numbered(case, 40);
        let bury = |ids: std::ops::Range<u64>| {
            ids.for_each(|id| {
                case.advance(1);
                case.tube.admin().bury(id, None).unwrap();
            });
            assert_sound(&case.store);
            case.tasks().get("buried").copied().unwrap_or_default()
        };
        assert_eq!(bury(0..8), 8);
        case.tube.admin().alter(only(keep(3))).unwrap();
        assert_eq!((bury(8..9), bury(9..14)), (3, 3));
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!(bury(14..18), 7);
        case.tube.admin().alter(only(keep(2))).unwrap();
        assert_eq!((bury(18..19), bury(19..24)), (2, 2));
        let done = |ids: std::ops::Range<u64>| {
            ids.for_each(|id| {
                case.advance(1);
                case.tube.admin().resolve(id, ()).unwrap();
            });
            assert_sound(&case.store);
            case.tube.statistics().unwrap().tasks.kept
        };
        assert_eq!(done(24..30), 2);
        case.tube.admin().alter(only(TubeOptions::new())).unwrap();
        assert_eq!(done(30..35), 2);
        case.tube.admin().alter(only(keep(1))).unwrap();
        assert_eq!(done(35..40), 1);
    });
}

/// Buries the tasks of even ids and ends the others, each at a time of its own.
fn end_all(tube: &Tube, clock: &crate::stores::ManualClock, tasks: u64) {
    for id in 0..tasks {
        clock.advance(ms(1));
        let ended =
            if id % 2 == 0 { tube.admin().bury(id, None) } else { tube.admin().resolve(id, ()) };
        ended.unwrap();
    }
}

fn kept_and_buried(tube: &Tube) -> (u64, u64) {
    let tasks = tube.statistics().unwrap().tasks;
    (tasks.kept, tasks.buried)
}

fn keep_both(done: u64, buried: u64) -> TubeOptions {
    TubeOptions::new().keep_done(Keep::new().count(done)).keep_buried(Keep::new().count(buried))
}

#[test]
fn lowered_retention_removes_the_surplus_of_an_idle_tube() {
    for temporary in [false, true] {
        for_each_driver_with(all_or_few(), keep_both(999, 999).temporary(temporary), |case| {
            put_numbered(case, 560);
            end_all(&case.tube, &case.clock, 560);
            assert_eq!(kept_and_buried(&case.tube), (280, 280));
            case.tube.admin().alter(only(keep_both(2, 3).temporary(temporary))).unwrap();
            case.advance(0);
            assert_eq!(kept_and_buried(&case.tube), (2, 3));
            let listed = |state| {
                let page = case.tube.query().list(state, None, 9).unwrap();
                page.items.iter().map(|task| task.id).collect::<Vec<_>>()
            };
            assert_eq!(listed(TaskState::Done), [557, 559]);
            assert_eq!(listed(TaskState::Buried), [554, 556, 558]);
            assert_eq!(case.tube.statistics().unwrap().calls.forget, 555);
        });
    }
}

#[test]
fn surplus_of_a_tube_is_removed_after_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, keep_both(999, 999));
        tube.put_many((0..40).map(|n| draft(driver, &n.to_string()))).unwrap();
        end_all(&tube, &file.clock, 40);
        tube.admin().alter(only(keep_both(1, 0))).unwrap();
        let (_killed, after) = after_a_kill(&file);
        file.clock.advance(ZERO);
        for store in [&store, &after] {
            assert_eq!(kept_and_buried(&store.find_tube("case").unwrap()), (1, 0));
            assert_sound(store);
        }
    }
}

#[test]
fn durability_holds_for_later_changes() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::default());
        let put = |tube: &Tube, body: &str| tube.put(draft(driver, body)).unwrap().id;
        put(&tube, "flushed");
        tube.admin().alter(only(TubeOptions::new().durability(Durability::relaxed()))).unwrap();
        put(&tube, "relaxed");
        assert_eq!(
            after_a_kill(&file).1.find_tube("case").unwrap().statistics().unwrap().tasks.ready,
            1
        );
        tube.admin().alter(only(TubeOptions::new().durability(Durability::write()))).unwrap();
        put(&tube, "written");
        assert_eq!(
            after_a_kill(&file).1.find_tube("case").unwrap().statistics().unwrap().tasks.ready,
            3
        );
        tube.admin().alter(only(TubeOptions::new())).unwrap();
        put(&tube, "flushed");
        assert_eq!(
            after_a_kill(&file).1.find_tube("case").unwrap().statistics().unwrap().tasks.ready,
            4
        );
        assert_sound(&store);
    }
}

#[test]
fn open_alters_an_existing_tube() {
    for_each_driver_with(ALL, TubeOptions::new().max_taken(1), |case| {
        let open = |options: TubeOptions| case.store.open_tube("case", options).map(drop);
        let limit = || case.tube.info().unwrap().max_taken;
        let wanted = || TubeOptions::new().max_taken(2);
        let exists = case.store.create_tube("case", wanted());
        assert!(matches!(exists, Err(Error::TubeExists { .. })));
        case.put_all([0, 1]);
        let claims = case.tube.take_many(9, ZERO).unwrap();
        open(wanted()).unwrap();
        assert_eq!((limit(), case.take(), claims.len()), (Some(2), Some(1), 1));
        open(TubeOptions::new()).unwrap();
        assert_eq!(limit(), Some(2));
        case.tube.admin().pause().unwrap();
        open(TubeOptions::new().set("max_taken", OptionValue::Without("none")).unwrap()).unwrap();
        assert_eq!((limit(), case.tube.info().unwrap().paused), (None, true));
        if case.timed() {
            let times = || case.tube.info().map(|info| (info.ttl, info.ttr)).unwrap();
            open(TubeOptions::new().ttl(secs(5))).unwrap();
            assert_eq!(times(), (Some(secs(5)), Some(secs(5))));
            open(TubeOptions::new().ttr(secs(3))).unwrap();
            open(TubeOptions::new().ttl(secs(9))).unwrap();
            assert_eq!(times(), (Some(secs(9)), Some(secs(3))));
            open(TubeOptions::new().set("ttr", OptionValue::Without("none")).unwrap()).unwrap();
            assert_eq!(times(), (Some(secs(9)), Some(secs(9))));
        }
        let created = case.store.open_tube("new", wanted().driver(case.driver)).unwrap();
        assert_eq!(created.info().unwrap().max_taken, Some(2));
    });
}

#[test]
fn alter_to_the_same_options_writes_nothing() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFOTTL, all_options());
    let flushes = || store.admin().counters().unwrap().flushes;
    let before = flushes();
    tube.admin().alter(only(all_options())).unwrap();
    tube.admin().unpause().unwrap();
    store.open_tube("case", all_options().driver(FIFOTTL)).unwrap();
    assert_eq!(flushes(), before);
    tube.put(Put::new("x")).unwrap();
    tube.admin().pause().unwrap();
    let paused = flushes();
    tube.admin().pause().unwrap();
    assert_eq!(flushes(), paused);
}
