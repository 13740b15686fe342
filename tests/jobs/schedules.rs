//! Schedules: their runs, and what these have.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::time::Duration;

use tubewell::expert::SpawnedBy;
use tubewell::{
    Bytes, Error, EventKind, FIFO, FIFOTTL, Filter, IntoPut, LIMFIFOTTL, MAX_KEY, Missed, OnKey,
    Overlap, Put, Receipt, Schedule, ScheduleInfo, TaskState, Tube, TubeOptions, UTUBETTL,
};

use super::not_before::{HOUR, MICRO, at};
use super::support::*;

pub const MINUTE: Duration = secs(60);

/// A schedule with the key `R`.
pub fn every(interval: Duration) -> Schedule {
    Schedule::every("R", interval)
}

impl Case {
    pub fn schedule(&self, schedule: Schedule, task: impl IntoPut<Bytes>) -> u64 {
        let Receipt { id, state, .. } = self.tube.schedule(schedule, task).unwrap();
        assert_eq!(state, TaskState::Recurring);
        id
    }

    /// Takes and acks all ready tasks. Returns their keys.
    pub fn work(&self) -> Vec<String> {
        work(&self.tube)
    }

    pub fn only_schedule(&self) -> ScheduleInfo {
        only_schedule(&self.tube)
    }
}

pub fn work(tube: &Tube) -> Vec<String> {
    let claims = std::iter::from_fn(|| tube.try_take().unwrap());
    let keys = claims.map(|claim| {
        let key = claim.key().map(str::to_owned).unwrap_or_default();
        claim.ack().unwrap();
        key
    });
    keys.collect()
}

pub fn only_schedule(tube: &Tube) -> ScheduleInfo {
    let page = tube.schedules().list(None, 10).unwrap();
    assert_eq!((page.items.len(), &page.next, page.damaged), (1, &None, 0));
    page.items.into_iter().next().unwrap()
}

/// Q260
#[test]
fn schedule_puts_its_first_run_at_once_and_the_next_after_the_interval() {
    for_each_driver(ALL, |case| {
        let id = case.schedule(every(MINUTE), "run");
        case.advance(0);
        let first = case.tube.try_take().unwrap().unwrap();
        assert_eq!((first.key(), first.body()), (Some("R-1"), &b"run"[..]));
        let spawned_by = case.info(first.id()).spawned_by.unwrap();
        assert_eq!((spawned_by.schedule, spawned_by.run, spawned_by.moment), (id, 1, at(ZERO)));
        first.ack().unwrap();
        case.clock.advance(secs(59));
        assert_eq!(case.work(), [""; 0]);
        case.clock.advance(secs(2));
        assert_eq!(case.work(), ["R-2"]);
    });
}

/// Q261
#[test]
fn schedule_begins_at_its_moment() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE).starting(at(secs(10))), "run");
        assert_eq!(case.only_schedule().due_in, secs(10));
        case.clock.advance(secs(10) - MICRO);
        assert_eq!(case.work(), [""; 0]);
        case.clock.advance(MICRO);
        assert_eq!(case.work(), ["R-1"]);
        case.clock.advance(secs(59));
        assert_eq!(case.work(), [""; 0]);
        case.clock.advance(secs(1));
        assert_eq!(case.work(), ["R-2"]);
    });
}

#[test]
fn moment_that_has_passed_only_aligns_the_runs() {
    for_each_driver(&[FIFO], |case| {
        case.clock.advance(HOUR);
        case.schedule(every(HOUR).starting(at(secs(600))).missed(Missed::All), "run");
        assert_eq!(case.only_schedule().next, at(HOUR + secs(600)));
        case.advance(0);
        assert_eq!(case.work(), [""; 0]);
        case.clock.advance(secs(600));
        assert_eq!(case.work(), ["R-1"]);
    });
}

/// Q262 Q270
#[test]
fn runs_have_the_options_and_the_body_of_their_schedule() {
    for_each_driver(&[UTUBETTL], |case| {
        case.tube.put(Put::new("waits").priority(5)).unwrap();
        let put = Put::new("[]").priority(1).ttl(HOUR).ttr(MINUTE).sub_queue("s").max_attempts(2);
        case.schedule(every(HOUR), put.delay(secs(1)));
        case.advance(0);
        let run = case.store.by_key("R-1").unwrap().unwrap();
        assert_eq!((run.state, run.priority, run.ttr), (TaskState::Delayed, 1, Some(MINUTE)));
        assert_eq!(run.ttl_left, Some(HOUR + secs(1)));
        assert_eq!((run.sub_queue.as_deref(), run.attempts_left), (Some("s"), Some(2)));
        case.clock.advance(secs(1));
        assert_eq!(case.tube.try_take().unwrap().unwrap().body(), b"[]", "a lower number is first");
    });
}

/// Q045
#[test]
fn runs_that_are_due_together_are_taken_by_priority() {
    for_each_driver(TIMED, |case| {
        case.schedule(Schedule::every("low", MINUTE), case.draft("low").priority(10));
        case.schedule(Schedule::every("high", MINUTE), case.draft("high").priority(0));
        case.advance(0);
        assert_eq!(case.work(), ["high-1", "low-1"]);
    });
}

/// Q265 Q279
#[test]
fn schedule_is_described() {
    for_each_driver(TIMED, |case| {
        let body = case.draft("run").priority(3).max_attempts(4).ttr(MINUTE).delay(secs(2));
        let id = case.schedule(
            every(HOUR).times(9).within(MINUTE).missed(Missed::Latest(2)).overlap(Overlap::Skip),
            body,
        );
        let fresh = case.only_schedule();
        assert_eq!((fresh.id, fresh.key.as_str(), fresh.size), (id, "R", 3));
        assert_eq!((fresh.runs, fresh.skipped, fresh.last), (0, 0, None));
        assert_eq!((fresh.next, fresh.due_in), (at(ZERO), ZERO));
        assert_eq!((fresh.times, fresh.within), (Some(9), Some(MINUTE)));
        assert_eq!((fresh.missed, fresh.overlap), (Missed::Latest(2), Overlap::Skip));
        assert_eq!((fresh.priority, fresh.ttl, fresh.ttr), (Some(3), None, Some(MINUTE)));
        assert_eq!((fresh.delay, fresh.max_attempts), (secs(2), Some(4)));
        assert_eq!((fresh.recurrence.to_string().as_str(), fresh.stopped), ("every 1h", None));
        case.clock.advance(secs(1));
        let after = case.only_schedule();
        assert_eq!((after.runs, after.last, after.next), (1, Some(id + 1), at(HOUR)));
        let task = case.tube.query().task(id).unwrap();
        assert_eq!((task.info.state, &*task.body), (TaskState::Recurring, &b"run"[..]));
        assert_eq!((task.info.key.as_deref(), task.info.due_in), (Some("R"), Some(HOUR - secs(1))));
        let listed = case.tube.query().list(TaskState::Recurring, None, 9).unwrap().items;
        assert_eq!(listed, [task.info]);
    });
}

/// Q274
#[test]
fn runs_are_put_without_takers() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE), "run");
        for runs in 1..=10 {
            case.advance(0);
            assert_eq!(case.only_schedule().runs, runs);
            assert_eq!(case.tasks(), counts([("ready", runs), ("total", runs)]));
            case.clock.advance(MINUTE - MICRO);
            assert_eq!(case.only_schedule().runs, runs);
            case.clock.advance(MICRO);
        }
        let tasks = case.tube.statistics().unwrap().tasks;
        assert_eq!((tasks.recurring, tasks.total), (1, 11));
    });
}

/// Q275
#[test]
fn runs_are_put_into_a_paused_tube() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE), "run");
        case.tube.admin().pause().unwrap();
        for _ in 0..11 {
            case.clock.advance(MINUTE);
        }
        assert!(case.tube.try_take().unwrap().is_none());
        assert_eq!(case.only_schedule().runs, 12);
        case.tube.admin().unpause().unwrap();
        assert_eq!(case.work().len(), 12);
    });
}

/// Q277
#[test]
fn moments_of_runs_are_exact() {
    for_each_driver(&[FIFO], |case| {
        let interval = ms(1500) + MICRO;
        case.schedule(every(interval).starting(at(ms(700))).missed(Missed::All), "run");
        case.clock.advance(secs(7));
        let claims = case.tube.take_many(10, ZERO).unwrap();
        let moments: Vec<_> = claims.iter().map(|claim| moment_of(case, claim.id())).collect();
        let expected: Vec<_> = (0..5).map(|n| at(ms(700) + interval * n)).collect();
        assert_eq!(moments, expected);
    });
}

fn moment_of(case: &Case, id: u64) -> std::time::SystemTime {
    let SpawnedBy { moment, .. } = case.info(id).spawned_by.unwrap();
    moment
}

#[test]
fn waiting_taker_is_given_the_run_at_its_moment() {
    for_each_driver(ALL, |case| {
        let log = case.event_log();
        let id = case.schedule(every(HOUR).starting(at(secs(5))).times(1), "run");
        let mut waiting = case.begin_take();
        case.clock.advance(secs(5) - MICRO);
        assert!(waiting.is_pending());
        case.clock.advance(MICRO);
        assert_eq!(waiting.id(), Some(id + 1));
        let mut events = log.read();
        events.sort_by_key(|event| event.0);
        let expected = [
            (id, EventKind::Schedule, TaskState::Recurring),
            (id, EventKind::Forget, TaskState::Done),
            (id + 1, EventKind::Spawn, TaskState::Ready),
            (id + 1, EventKind::Take, TaskState::Taken),
        ];
        assert_eq!(events, expected);
        let calls = case.tube.statistics().unwrap().calls;
        assert_eq!((calls.put, calls.schedule, calls.spawn, calls.forget), (0, 1, 1, 1));
    });
}

#[test]
fn schedule_ends_after_its_last_run() {
    for_each_driver(ALL, |case| {
        let id = case.schedule(every(MINUTE).times(3), "run");
        for run in 1..=3 {
            case.advance(0);
            assert_eq!(case.work(), [format!("R-{run}")]);
            case.clock.advance(MINUTE);
        }
        assert_eq!(case.work(), [""; 0]);
        assert_eq!((case.state(id), case.store.by_key("R").unwrap()), (None, None));
        assert_eq!(case.tube.statistics().unwrap().tasks.recurring, 0);
        assert_eq!(case.tube.statistics().unwrap().tasks.done, 3);
        assert!(matches!(case.tube.schedules().remove("R"), Err(Error::KeyNotFound { .. })));
    });
}

#[test]
fn schedule_has_the_only_task_with_its_key() {
    for_each_driver(ALL, |case| {
        let plain = case.add(case.draft("plain").key("R"));
        let in_use = |answer: Result<Receipt, Error>, id, state| {
            let key = "R".to_owned();
            assert_eq!(answer, Err(Error::KeyInUse { key, id, state }));
        };
        in_use(case.tube.schedule(every(MINUTE), "run"), plain, TaskState::Ready);
        case.tube.delete(plain).unwrap();
        let id = case.schedule(every(HOUR), "run");
        // Q026
        for rule in [OnKey::Reject, OnKey::Keep, OnKey::Replace] {
            let put = || case.draft("plain").key("R").on_key(rule);
            in_use(case.tube.put(put()), id, TaskState::Recurring);
            let many = case.tube.put_many([case.draft("other"), put()]);
            in_use(many.map(|receipts| receipts[0]), id, TaskState::Recurring);
        }
        in_use(case.tube.requeue("R", case.draft("plain")), id, TaskState::Recurring);
        assert_eq!(case.only_schedule().id, id);
    });
}

/// Q185
#[test]
fn schedule_cannot_be_a_parent() {
    for_each_driver(ALL, |case| {
        let id = case.schedule(every(HOUR), "run");
        let by_id = case.tube.put(case.draft("child").after(&case.tube, [id]));
        let by_key = case.tube.put(case.draft("child").after_key("R"));
        let added = case.tube.admin().add_parents(case.put("x"), &case.tube, &[id]);
        for refused in [by_id, by_key, added] {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
    });
}

/// Q278
#[test]
fn cancelled_and_deleted_schedules_are_gone() {
    for_each_driver(ALL, |case| {
        for remove in [Tube::cancel, Tube::delete] {
            let id = case.schedule(every(MINUTE), "run");
            case.advance(0);
            assert_eq!(case.work(), ["R-1"]);
            remove(&case.tube, id).unwrap();
            case.clock.advance(HOUR);
            assert_eq!((case.work(), case.state(id)), (Vec::new(), None));
        }
        let id = case.schedule(every(MINUTE).starting(at(HOUR * 9)), "run");
        let in_state = |state| case.tube.admin().delete(Filter::from(id).state(state));
        assert_eq!(in_state(TaskState::Ready), Ok(0));
        assert_eq!(in_state(TaskState::Recurring), Ok(1));
    });
}

/// Q269
#[test]
fn unscheduled_schedule_puts_no_more_runs() {
    for_each_driver(ALL, |case| {
        case.schedule(every(MINUTE), "run");
        case.advance(0);
        case.tube.schedules().remove("R").unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(case.work(), ["R-1"], "its runs stay");
        // Difference: nothing that has the key is an error.
        let key = "R".to_owned();
        assert_eq!(case.tube.schedules().remove("R"), Err(Error::KeyNotFound { key }));
        let id = case.add(case.draft("plain").key("R"));
        let wrong = |answer: Result<Receipt, Error>| {
            assert!(matches!(answer, Err(Error::WrongState { id: of, .. }) if of == id));
        };
        wrong(case.tube.schedules().remove("R"));
        wrong(case.tube.schedules().change(Schedule::of("R")));
    });
}

#[test]
fn verbs_on_tasks_refuse_schedules() {
    for_each_driver(&[FIFOTTL, LIMFIFOTTL], |case| {
        let id = case.schedule(every(HOUR).starting(at(HOUR)), "run");
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let not_ready = |answer: Result<Receipt, Error>| {
            let is_refused = |state| state == TaskState::Recurring;
            assert!(matches!(answer, Err(Error::NotReady { state, .. }) if is_refused(state)));
        };
        not_ready(case.tube.claim(id).map(|_| unreachable!()));
        not_ready(case.tube.admin().bury(id, None));
        not_ready(case.tube.admin().resolve(id, ()));
        not_ready(case.tube.admin().set_priority(id, 1));
        not_ready(case.tube.update(id, tubewell::Update::new().body("x")));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(0));
        let parent = case.put("parent");
        not_ready(case.tube.admin().add_parents(id, &case.tube, &[parent]));
        assert_eq!(case.tube.kick(id), Err(Error::NotBuried { id }));
        assert!(case.tube.admin().forget(id).is_err());
        assert_eq!(
            case.tube.admin().move_to(&other, Filter::new()).unwrap(),
            1,
            "the task, and not the schedule"
        );
        assert_eq!(case.only_schedule().id, id);
    });
}

#[test]
fn options_that_a_schedule_cannot_have_are_refused() {
    for_each_driver(ALL, |case| {
        let invalid = |schedule: Schedule| {
            let refused = case.tube.schedule(schedule, "run");
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        };
        let invalid_task = |task: Put<&'static str>| {
            let refused = case.tube.schedule(every(MINUTE), task);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        };
        invalid(Schedule::of("R"));
        invalid(Schedule::every("", MINUTE));
        invalid(Schedule::every("k".repeat(MAX_KEY - 24), MINUTE));
        invalid(every(ms(1) - MICRO));
        invalid(every(MINUTE).times(0));
        invalid(every(MINUTE).missed(Missed::Latest(0)));
        invalid(every(MINUTE).missed(Missed::Latest(101)));
        invalid_task(Put::new("x").key("k"));
        invalid_task(Put::new("x").after_key("k"));
        invalid_task(Put::new("x").not_before(at(HOUR)));
        invalid_task(Put::new("x").max_attempts(0));
        invalid(every(MINUTE).starting(at(Duration::from_secs(u64::MAX / 4))));
        if !case.timed() {
            let delayed = case.draft("x").delay(secs(1));
            assert_unsupported(case.tube.schedule(every(MINUTE), delayed), case.driver);
        }
        assert_eq!(case.tube.schedules().list(None, 9).unwrap().items, []);
        case.schedule(Schedule::every("k".repeat(MAX_KEY - 25), MINUTE), "run");
        case.advance(0);
        assert_eq!(case.work(), [format!("{}-1", "k".repeat(MAX_KEY - 25))]);
    });
}

#[test]
fn run_has_no_key_if_another_task_has_it() {
    for_each_driver(ALL, |case| {
        case.add(case.draft("other").key("R-1"));
        let id = case.schedule(every(MINUTE), "run");
        case.clock.advance(MINUTE);
        let mut keys = case.work();
        keys.sort();
        assert_eq!(keys, ["", "R-1", "R-2"]);
        assert_eq!((case.only_schedule().id, case.only_schedule().runs), (id, 2));
    });
}

#[test]
fn runs_of_a_large_body_have_it() {
    for_each_driver(&[FIFO], |case| {
        let large = vec![7; 5000];
        case.schedule(every(MINUTE), large.clone());
        case.advance(0);
        let next_body = || {
            let run = case.tube.try_take().unwrap().unwrap();
            let body = run.body().to_vec();
            run.ack().unwrap();
            body
        };
        assert_eq!(next_body(), large);
        case.tube.schedules().change_task("R", "small").unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(next_body(), b"small");
        case.tube.schedules().change_task("R", large.clone()).unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(next_body(), large);
    });
}

#[test]
fn page_of_schedules_has_at_most_a_thousand() {
    for_each_driver(&[FIFOTTL], |case| {
        for n in 0..1001 {
            let schedule = Schedule::every(format!("{n}"), HOUR).starting(at(HOUR));
            case.tube.schedule(schedule, "x").unwrap();
        }
        let page = case.tube.schedules().list(None, usize::MAX).unwrap();
        assert_eq!(page.items.len(), 1000);
        let rest = case.tube.schedules().list(page.next, usize::MAX).unwrap();
        assert_eq!((rest.items.len(), rest.next), (1, None));
    });
}
