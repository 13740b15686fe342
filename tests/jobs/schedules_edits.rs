//! Changes of schedules.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use tubewell::{
    Error, FIFO, FIFOTTL, LIMFIFOTTL, Missed, Outcome, Overlap, Put, Schedule, TaskState,
    TubeOptions,
};

use super::executor::block_on;
use super::files::{create, create_with};
use super::not_before::{HOUR, at};
use super::schedules::{MINUTE, every, only_schedule, work};
use super::schedules_catch_up::full;
use super::support::*;
use crate::stores;

/// Q266
#[test]
fn changes_concern_later_runs_only() {
    for_each_driver(TIMED, |case| {
        case.schedule(every(MINUTE), case.draft("old").priority(4));
        case.advance(0);
        let task = case.draft("new").priority(2).max_attempts(3);
        let id = case.tube.schedules().change_task("R", task).unwrap().id;
        case.clock.advance(MINUTE);
        let run = |key: &str| {
            let info = case.store.by_key(key).unwrap().unwrap();
            (
                case.tube.query().task(info.id).unwrap().body.to_vec(),
                info.priority,
                info.attempts_left,
            )
        };
        assert_eq!(run("R-1"), (b"old".to_vec(), 4, None));
        assert_eq!(run("R-2"), (b"new".to_vec(), 2, Some(3)));
        let stored = case.only_schedule();
        assert_eq!((stored.id, stored.runs, stored.priority), (id, 2, Some(2)));
        // Its options are those of the tube again.
        case.tube.schedules().change_task("R", case.draft("third")).unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(run("R-3"), (b"third".to_vec(), tubewell::DEFAULT_PRIORITY, None));
    });
}

/// Q267
#[test]
fn new_interval_counts_from_the_last_moment() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE).missed(Missed::All), "run");
        case.advance(0);
        assert_eq!(case.work(), ["R-1"]);
        case.tube.schedules().change(Schedule::every("R", secs(10))).unwrap();
        assert_eq!(case.only_schedule().next, at(secs(10)));
        case.clock.advance(MINUTE);
        assert_eq!(case.work().len(), 6);
    });
}

#[test]
fn change_keeps_what_it_does_not_name() {
    for_each_driver(TIMED, |case| {
        let put =
            case.draft("run").priority(3).ttl(HOUR).ttr(MINUTE).delay(secs(2)).max_attempts(4);
        let schedule = every(MINUTE).times(9).within(HOUR).overlap(Overlap::Skip);
        case.schedule(schedule.missed(Missed::All).starting(at(secs(5))), put);
        let before = case.only_schedule();
        case.tube.schedules().change(Schedule::of("R")).unwrap();
        assert_eq!(case.only_schedule(), before);
        let change = Schedule::of("R").times(None).within(None).overlap(Overlap::Allow);
        case.tube.schedules().change(change.missed(Missed::Skip)).unwrap();
        let mut expected = before;
        (expected.times, expected.within) = (None, None);
        (expected.missed, expected.overlap) = (Missed::Skip, Overlap::Allow);
        assert_eq!(case.only_schedule(), expected);
        case.tube.schedules().change(Schedule::every("R", HOUR)).unwrap();
        assert_eq!(case.only_schedule().next, at(secs(5)), "its first run stays");
        case.tube.schedules().change(Schedule::of("R").starting(at(MINUTE))).unwrap();
        assert_eq!(case.only_schedule().next, at(MINUTE));
    });
}

#[test]
fn waiting_run_keeps_its_moment_when_the_interval_is_changed() {
    for_each_driver_with(&[LIMFIFOTTL], full(), |case| {
        case.schedule(every(MINUTE), "run");
        case.advance(0);
        case.clock.advance(MINUTE);
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, secs(1)), "the first run fills the tube");
        case.advance(300);
        case.tube.schedules().change(Schedule::every("R", HOUR)).unwrap();
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, ms(700)));
        case.tube.schedule(every(HOUR * 2), "run").unwrap();
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, ms(700)));
        case.tube.schedules().change_task("R", "longer").unwrap();
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, ms(700)));
        assert_eq!(case.work(), ["R-1"]);
        case.advance(700);
        assert_eq!(case.work(), ["R-2"]);
        assert_eq!(case.waiting_run().1, MINUTE + HOUR * 2);
    });
}

/// The first call of an application that starts again changes the interval.
#[test]
fn missed_run_is_not_lost_when_the_interval_is_changed() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new());
    tube.schedule(every(MINUTE), "run").unwrap();
    file.clock.advance(ZERO);
    assert_eq!(work(&tube), ["R-1"]);
    drop(tube);
    let store = file.reopen_after(store, HOUR);
    let tube = store.find_tube("case").unwrap();
    tube.schedule(every(HOUR * 9), "run").unwrap();
    file.clock.advance(ZERO);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

/// A run that waits is that of an expression, whatever the next one says.
#[cfg(feature = "cron")]
#[test]
fn waiting_run_keeps_its_moment_when_the_expression_is_changed() {
    let daily = |hour: u64| Schedule::cron("R", format!("0 {hour} * * *"), "UTC");
    for_each_driver_with(&[LIMFIFOTTL], full(), |case| {
        case.put("fills it");
        case.schedule(daily(1), "run");
        case.clock.advance(HOUR);
        assert_eq!(case.waiting_run(), ((0, 0), HOUR, secs(1)));
        case.advance(300);
        case.tube.schedule(daily(9), "run").unwrap();
        assert_eq!(case.waiting_run(), ((0, 0), HOUR, ms(700)));
        assert_eq!(case.work(), [""]);
        case.advance(700);
        assert_eq!(case.work(), ["R-1"]);
        assert_eq!(case.waiting_run().1, HOUR * 9);
        // As an import stores it: the moment of the run that waited is none of the expression.
        case.tube.schedules().remove("R").unwrap();
        case.schedule(daily(9).starting(at(HOUR)).restored(None, 3, 1), "run");
        assert_eq!((case.waiting_run().0, case.waiting_run().1), ((3, 1), HOUR));
        case.advance(0);
        let run = case.tube.try_take().unwrap().unwrap();
        assert_eq!(run.key(), Some("R-4"));
        assert_eq!(case.info(run.id()).spawned_by.unwrap().moment, at(HOUR));
    });
}

#[test]
fn schedule_is_found_by_its_key_from_any_tube() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.schedule(every(MINUTE).times(7), case.draft("run").tag("foo"));
        case.add(case.draft("plain").key("plain"));
        let found = other.schedules().get("R").unwrap();
        assert_eq!(found.as_ref().map(|found| found.tube.as_str()), Some("case"));
        assert_eq!(case.store.schedule("R").unwrap(), found);
        assert_eq!(block_on(case.store.to_async().schedule("R")).unwrap(), found);
        assert_eq!(found, Some(case.only_schedule()));
        assert_eq!(found.unwrap().times, Some(7));
        for no_schedule in ["plain", "unknown"] {
            assert_eq!(case.tube.schedules().get(no_schedule).unwrap(), None);
            assert_eq!(case.store.schedule(no_schedule).unwrap(), None);
        }
        for wrong in [String::new(), "k".repeat(tubewell::MAX_KEY + 1)] {
            assert!(matches!(case.store.schedule(&wrong), Err(Error::Invalid { .. })));
            let refused = case.tube.schedules().get(&wrong);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        case.tube.schedules().remove("R").unwrap();
        assert_eq!(other.schedules().get("R").unwrap(), None);
        assert_eq!(case.store.schedule("R").unwrap(), None);
    });
}

#[test]
fn change_of_a_task_keeps_when_its_runs_are() {
    for_each_driver(ALL, |case| {
        let schedule = every(MINUTE).times(9).within(HOUR).missed(Missed::All);
        case.schedule(schedule, Put::new("run").tag("bar"));
        case.advance(0);
        let before = case.only_schedule();
        case.tube.schedules().change_task("R", Put::new("longer").tag("foo")).unwrap();
        let mut expected = before;
        (expected.size, expected.tags) = (6, vec!["foo".to_owned()]);
        assert_eq!(case.only_schedule(), expected);
    });
}

#[test]
fn change_of_a_task_and_of_its_times_takes_place_as_a_whole_or_not_at_all() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.schedule(every(MINUTE), case.draft("run"));
        case.advance(0);
        let before = case.only_schedule();
        for refused in [every(ZERO), Schedule::of("R").times(1), every(MINUTE).restored(None, 7, 0)]
        {
            let refused = other.schedules().change_task(refused, case.draft("longer"));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            assert_eq!(case.only_schedule(), before);
        }
        other.schedules().change_task(every(HOUR).times(9), case.draft("longer")).unwrap();
        let changed = only_schedule(&other);
        assert_eq!((changed.next, changed.times, changed.size), (at(HOUR), Some(9), 6));
    });
}

#[test]
fn runs_of_a_typed_tube_get_values_of_its_type() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        let tube = case.tube.clone().typed::<(u32, String)>();
        tube.schedule(every(MINUTE), (1, "first".to_owned())).unwrap();
        case.advance(0);
        tube.schedules().change_task("R", (2, "second".to_owned())).unwrap();
        case.clock.advance(MINUTE);
        let values: Vec<_> = tube
            .take_many(9, ZERO)
            .unwrap()
            .into_iter()
            .map(|claim| claim.value().clone())
            .collect();
        assert_eq!(values, [(1, "first".to_owned()), (2, "second".to_owned())]);
    });
}

/// Q199 Q268
#[test]
fn schedule_moves_to_the_tube_that_reschedules_it() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let large = Put::new(vec![9; 3000]);
        let large = if case.sub_queued() { large.sub_queue("s") } else { large };
        let id = case.schedule(every(MINUTE), large);
        case.advance(0);
        assert_eq!(case.work(), ["R-1"]);
        assert_eq!(other.schedules().change(Schedule::of("R")).unwrap().id, id);
        case.clock.advance(MINUTE);
        assert_eq!((case.work(), work(&other)), (Vec::new(), vec!["R-2".to_owned()]));
        assert_eq!(case.tube.statistics().unwrap().tasks.recurring, 0);
        assert_eq!(other.statistics().unwrap().tasks.recurring, 1);
        other.schedules().change_task("R", "x").unwrap();
        assert_eq!(case.tube.schedules().change_task("R", "y").unwrap().id, id);
        case.clock.advance(MINUTE);
        assert_eq!(case.tube.try_take().unwrap().unwrap().body(), b"y");
        // From any tube.
        other.schedules().remove("R").unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.recurring, 0);
    });
}

/// Q272 Q280
#[test]
fn schedule_that_is_stored_again_goes_on() {
    for_each_driver(ALL, |case| {
        let id = case.schedule(every(MINUTE), "run");
        case.advance(0);
        case.clock.advance(secs(30));
        assert_eq!(case.work(), ["R-1"]);
        let again = every(MINUTE).starting(at(secs(31)));
        assert_eq!(case.schedule(again, "new body"), id);
        assert_eq!((case.only_schedule().runs, case.only_schedule().next), (1, at(MINUTE)));
        case.clock.advance(secs(30));
        let run = case.tube.try_take().unwrap().unwrap();
        assert_eq!((run.key(), run.body()), (Some("R-2"), &b"new body"[..]));
        // With another interval, and in another tube.
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        assert_eq!(other.schedule(every(HOUR), "run").unwrap().id, id);
        assert_eq!(only_schedule(&other).next, at(MINUTE + HOUR));
        case.clock.advance(HOUR);
        assert_eq!(work(&other), ["R-3"]);
    });
}

#[test]
fn schedules_survive_a_close_and_a_kill() {
    let file = StoreFile::new();
    let (mut store, tube) = create(&file, FIFOTTL);
    let put = Put::new("x").priority(7).ttl(HOUR);
    tube.schedule(every(MINUTE).times(100).missed(Missed::All), put).unwrap();
    tube.schedule(Schedule::every("S", HOUR), "").unwrap();
    file.tick();
    assert_eq!(work(&tube), ["R-1", "S-1"]);
    let before = tube.schedules().list(None, 9).unwrap();
    drop(tube);
    for _ in 0..2 {
        store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.schedules().list(None, 9).unwrap(), before);
        assert_eq!(tube.statistics().unwrap().tasks.recurring, 2);
    }
    let (_file, killed) = super::files::after_a_kill(&file);
    assert_eq!(killed.find_tube("case").unwrap().schedules().list(None, 9).unwrap(), before);
    assert_sound(&killed);
}

#[test]
fn refused_changes_change_nothing() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE), "run");
        case.clock.advance(MINUTE);
        case.clock.advance(MINUTE);
        let before = case.only_schedule();
        let refused = |refused: tubewell::Result<tubewell::Receipt>| {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            assert_eq!(case.only_schedule(), before);
        };
        let schedules = case.tube.schedules();
        refused(schedules.change(Schedule::of("R").times(2)));
        refused(schedules.change(Schedule::of("R").times(0)));
        refused(schedules.change(every(ZERO)));
        refused(schedules.change(Schedule::of("R").missed(Missed::Latest(0))));
        refused(schedules.change(Schedule::of("R").restored(None, 7, 0)));
        refused(schedules.change_task("R", Put::new("x").key("k")));
        refused(schedules.change_task("R", Put::new("x").max_attempts(0)));
        if !case.timed() {
            assert_unsupported(schedules.change_task("R", Put::new("x").priority(1)), case.driver);
            assert_eq!(case.only_schedule(), before);
        }
        let key = "unknown".to_owned();
        let unknown = case.tube.schedules().change(Schedule::of("unknown"));
        assert_eq!(unknown, Err(Error::KeyNotFound { key }));
        let temporary = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", temporary.driver(case.driver)).unwrap();
        assert!(matches!(memory.schedules().change(Schedule::of("R")), Err(Error::Invalid { .. })));
    });
}

#[test]
fn run_of_a_schedule_stays_one_when_it_goes_on_or_is_replaced() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let id = case.schedule(every(HOUR), "run");
        case.advance(0);
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&other, "next")).unwrap();
        let by_key = || case.store.by_key("R-1").unwrap().unwrap().spawned_by.unwrap();
        assert_eq!((by_key().schedule, by_key().run), (id, 1));
        other.requeue("R-1", "again").unwrap();
        assert_eq!((by_key().schedule, by_key().run), (id, 1));
    });
}

#[test]
fn pages_of_schedules_are_in_the_order_of_their_ids() {
    for_each_driver(ALL, |case| {
        for n in 0..10 {
            let put = case.draft("x");
            let put = if case.timed() { put.priority(10 - n) } else { put };
            case.schedule(Schedule::every(format!("k{n}"), HOUR).starting(at(HOUR)), put);
        }
        let (mut after, mut found) = (None, Vec::new());
        loop {
            let page = case.tube.schedules().list(after.clone(), 3).unwrap();
            found.extend(page.items.into_iter().map(|schedule| schedule.key));
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(found, (0..10).map(|n| format!("k{n}")).collect::<Vec<_>>());
        let ready = case.tube.query().list(TaskState::Ready, None, 0).unwrap().next;
        assert!(case.tube.schedules().list(ready, 3).is_ok(), "the start of any list");
        let page = case.tube.query().list(TaskState::Recurring, None, 3).unwrap();
        assert_eq!(case.tube.schedules().list(page.next, 9).unwrap().items.len(), 7);
    });
}

#[test]
fn truncate_and_drop_remove_schedules() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE), "run");
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.tube.statistics().unwrap().tasks.recurring, 0);
        case.schedule(every(HOUR).starting(at(HOUR)), "run");
        case.clock.advance(MINUTE);
        assert_eq!(case.work(), [""; 0]);
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        other.schedule(Schedule::every("S", MINUTE), "").unwrap();
        drop(other);
        case.store.drop_tube("other").unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(case.store.by_key("S").unwrap(), None);
    });
}

#[test]
fn deferred_calls_change_schedules() {
    let clock = stores::ManualClock::new();
    let store = stores::in_memory_with(tubewell::Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let deferred = tube.to_async().refuse_when_full();
    let id = deferred.schedule(every(MINUTE), "run").wait().unwrap().id;
    let change = deferred.schedules().change(Schedule::of("R").times(7));
    assert_eq!(change.wait().unwrap().id, id);
    assert_eq!(only_schedule(&tube).times, Some(7));
    assert_eq!(deferred.schedules().remove("R").wait().unwrap().state, TaskState::Done);
    let again = deferred.schedules().remove("R").wait();
    assert!(matches!(again, Err(Error::KeyNotFound { .. })));
    assert_sound(&store);
}

#[test]
fn restored_schedule_goes_on_where_it_was() {
    for_each_driver(ALL, |case| {
        case.clock.advance(HOUR);
        let restored =
            |key: &str| Schedule::every(key, HOUR).starting(at(secs(600))).restored(17, 4, 2);
        assert_eq!(case.schedule(restored("R").missed(Missed::Latest(1)), "run"), 17);
        let stored = case.only_schedule();
        assert_eq!((stored.runs, stored.skipped, stored.next), (4, 2, at(secs(600))));
        case.clock.advance(MINUTE - ms(1));
        assert_eq!(case.work(), [""; 0], "its run would have an id that may be restored");
        case.clock.advance(ms(1));
        assert_eq!(case.work(), ["R-5"], "its run that was missed is made up for");
        let in_use = case.tube.schedule(restored("R"), "run");
        assert!(matches!(in_use, Err(Error::KeyInUse { id: 17, .. })), "{in_use:?}");
        let used = case.tube.schedule(restored("S"), "run");
        assert_eq!(used, Err(Error::IdUsed { id: 17 }));
        assert_eq!(case.schedule(Schedule::every("T", HOUR).restored(None, 1, 0), "run"), 19);
    });
}

#[test]
fn store_with_schedules_opens_with_all_of_them() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    for n in 0..300 {
        let schedule = Schedule::every(format!("k{n}"), HOUR).starting(at(HOUR));
        tube.schedule(schedule, "").unwrap();
    }
    drop(tube);
    let store = file.reopen_after(store, HOUR);
    file.tick();
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.ready, 300);
    assert_sound(&store);
}
