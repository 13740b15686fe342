//! Durable steps: a job goes on after what an earlier attempt has finished.

use std::cell::RefCell;
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::{Restore, Step, StepKind};
use tubewell::{
    Claim, Durability, Error, EventKind, Failure, Filter, Outcome, Put, Result, Store, TaskState,
    Tube, TubeOptions, Update,
};

use super::executor::block_on;
use super::files::{after_a_kill, create_with};
use super::support::*;
use crate::stores;

pub fn claim(tube: &Tube) -> Claim {
    tube.try_take().unwrap().unwrap()
}

/// The names of the steps of a task that are stored.
pub fn names(tube: &Tube, id: u64) -> Vec<String> {
    assert_eq!(
        tube.query().task(id).unwrap().info.has_steps,
        !tube.query().steps(id).unwrap().is_empty()
    );
    tube.query().steps(id).unwrap().into_iter().map(|step| step.name).collect()
}

/// Which steps were run, in order.
#[derive(Default)]
pub struct Ran(RefCell<Vec<String>>);

impl Ran {
    /// Runs a step that returns its name.
    pub fn step(&self, claim: &Claim, name: &str) -> Result<String> {
        claim.step(name, || {
            self.0.borrow_mut().push(name.to_owned());
            Ok(name.to_owned())
        })
    }

    /// The steps since the last call.
    pub fn read(&self) -> Vec<String> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

pub fn assert_invalid<T: std::fmt::Debug>(answer: Result<T>, why: &str) {
    match answer {
        Err(Error::Invalid { what }) => assert!(what.contains(why), "{what}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn finished_step_returns_its_value_in_later_attempts_and_is_not_run_again() {
    for_each_driver(ALL, |case| {
        let ran = Ran::default();
        case.put_all([0]);
        for attempt in 1..=3 {
            let job = claim(&case.tube);
            for n in 1..=attempt {
                let name = format!("part {n}");
                assert_eq!(ran.step(&job, &name), Ok(name.clone()));
            }
            assert_eq!(ran.read(), [format!("part {attempt}")]);
            assert_eq!(names(&case.tube, 0).len(), attempt);
        }
        let parts = ["part 1", "part 2", "part 3"];
        assert_eq!(names(&case.tube, 0), parts);
        assert_eq!(case.tube.statistics().unwrap().calls.step, 3);
        let job = claim(&case.tube);
        assert!(job.steps().unwrap().iter().map(|step| step.name.as_str()).eq(parts));
        job.ack().unwrap();
        assert_not_found(case.tube.query().steps(0), 0);
    });
}

#[test]
fn values_of_any_type_are_returned_as_they_were() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        for is_new in [true, false] {
            let job = claim(&case.tube);
            let run = |what: &'static str| {
                assert!(is_new, "{what} runs again");
                Ok::<&'static str, Error>(what)
            };
            job.step("unit", || run("unit").map(drop)).unwrap();
            assert_eq!(job.step("text", || run("a").map(str::to_owned)).unwrap(), "a");
            assert_eq!(job.step("none", || run("none").map(|_| None::<u64>)).unwrap(), None);
            let pairs = vec![(1_u8, "x".to_owned()), (2, String::new())];
            assert_eq!(job.step("pairs", || run("pairs").map(|_| pairs.clone())), Ok(pairs));
            let large = vec![7_u8; 5000];
            assert_eq!(job.step("large", || run("large").map(|_| large.clone())), Ok(large));
        }
        let sizes = case.tube.query().steps(0).unwrap().into_iter().map(|step| step.value.len());
        assert_eq!(sizes.collect::<Vec<_>>(), [10_001, 4, 16, 3, 4]);
    });
}

#[test]
fn steps_stay_while_the_task_is_not_over() {
    for_each_driver_with(ALL, TubeOptions::new().history(50), |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.put_all([0]);
        let ran = Ran::default();
        let check = |tube: &Tube, what: &str| {
            let job = tube.claim(0).unwrap();
            ran.step(&job, "first").unwrap();
            ran.step(&job, what).unwrap();
            assert_sound(&case.store);
            job
        };
        drop(check(&case.tube, "dropped"));
        check(&case.tube, "released").release().unwrap();
        check(&case.tube, "failed").fail(Failure::new("g", "m")).unwrap();
        check(&case.tube, "snoozed").end(Outcome::snooze(ZERO)).unwrap();
        check(&case.tube, "buried").bury(Failure::new("g", "m")).unwrap();
        assert_eq!(names(&case.tube, 0).len(), 6);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        let revoked = check(&case.tube, "revoked");
        assert_eq!(case.tube.admin().revoke(0), Ok(1));
        drop(revoked);
        let mut job = check(&case.tube, "changed");
        job.checkpoint("a longer body than before".repeat(100)).unwrap();
        case.tube.admin().add_tags(0, ["tag"]).unwrap();
        ran.step(&job, "after the change").unwrap();
        drop(job);
        case.tube.update(0, Update::new().body("other")).unwrap();
        if case.timed() {
            let job = check(&case.tube, "delayed");
            job.touch(secs(1)).unwrap();
            case.tube.admin().set_priority(0, 7).unwrap();
            job.release_in(secs(1)).unwrap();
            case.advance(1000);
            let expired = check(&case.tube, "expired");
            expired.renew(secs(1)).unwrap();
            case.advance(1000);
            drop(expired);
        }
        assert_eq!(case.tube.admin().move_to(&other, 0), Ok(1));
        let held = check(&other, "moved");
        assert_eq!(other.admin().move_to(&case.tube, Filter::new()).unwrap(), 1);
        assert_not_taken(held.step("late", || Ok::<u8, Error>(1)), 0);
        let parent = case.put("parent");
        case.tube.admin().add_parents(0, &case.tube, &[parent]).unwrap();
        case.tube.claim(parent).unwrap().ack().unwrap();
        let session = case.store.session("worker").unwrap();
        let job = check(&session.tube(&case.tube).unwrap(), "held by a session");
        session.end().unwrap();
        drop(job);
        let read = ran.read();
        assert_eq!(read.iter().filter(|name| *name == "first").count(), 1);
        let mut stored = names(&case.tube, 0);
        stored.sort();
        let mut read = read;
        read.sort();
        assert_eq!(stored, read);
        check(&case.tube, "last").ack().unwrap();
    });
}

#[test]
fn error_of_a_step_is_returned_and_not_stored() {
    #[derive(Debug, PartialEq)]
    enum Own {
        Mine(u8),
        Store(Error),
    }
    impl From<Error> for Own {
        fn from(error: Error) -> Own {
            Own::Store(error)
        }
    }
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let job = claim(&case.tube);
        assert_eq!(job.step("first", || Err::<u8, Own>(Own::Mine(7))), Err(Own::Mine(7)));
        assert!(!case.info(0).has_steps);
        // The same claim may try again, also after a panic.
        let panics = std::panic::AssertUnwindSafe(|| {
            job.step("first", || -> Result<u8> { panic!("expected") })
        });
        assert!(std::panic::catch_unwind(panics).is_err());
        assert_eq!(job.step("first", || Ok::<u8, Own>(1)), Ok(1));
        let twice = job.step("first", || Ok::<u8, Own>(2)).unwrap_err();
        let Own::Store(Error::Invalid { what }) = twice else { panic!("{twice:?}") };
        assert!(what.contains("named twice"), "{what}");
        assert_eq!(names(&case.tube, 0), ["first"]);
    });
}

#[test]
fn claim_that_has_ended_stores_no_step_and_begins_none() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let stale = claim(&case.tube);
        stale.step("done", || Ok::<u8, Error>(1)).unwrap();
        assert_eq!(case.tube.admin().revoke(0), Ok(1));
        let begun = stale.step("begun", || -> Result<u8> { panic!("a stale worker goes on") });
        assert_not_taken(begun, 0);
        assert_not_taken(stale.steps(), 0);
        assert_not_taken(stale.spawn("child", &case.tube, "x"), 0);
        // The task is taken again, by the same session.
        let current = claim(&case.tube);
        assert_not_taken(stale.step("late", || Ok::<u8, Error>(1)), 0);
        let lost_midway = current.step("midway", || {
            case.tube.admin().revoke(0)?;
            Ok::<u8, Error>(1)
        });
        assert_not_taken(lost_midway, 0);
        assert_eq!(names(&case.tube, 0), ["done"]);
        assert_eq!(case.tasks()["total"], 1);
    });
}

#[test]
fn names_and_values_beyond_their_limits_are_refused() {
    let store = stores::in_memory_with(Store::options().max_body(100));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let job = claim(&tube);
    let never = || -> Result<u8> { panic!("the name is refused") };
    assert_invalid(job.step("", never), "1 to 255 bytes");
    assert_invalid(job.step(&"n".repeat(256), never), "256");
    let longest = "ä".repeat(127) + "n";
    job.step(&longest, || Ok::<u8, Error>(1)).unwrap();
    assert_invalid(job.step("large", || Ok::<_, Error>("x".repeat(99))), "the limit is 100");
    job.step("large", || Ok::<_, Error>("x".repeat(98))).unwrap();
    for n in 2..700 {
        job.step(&format!("{n}"), || Ok::<u64, Error>(n)).unwrap();
    }
    drop(job);
    let job = claim(&tube);
    for n in 698..1000 {
        let step = job.step(&format!("{n}"), || if n < 700 { Ok(0) } else { Ok::<u64, Error>(n) });
        assert_eq!(step, Ok(n));
    }
    assert_invalid(job.step("one more", || Ok::<u8, Error>(1)), "at most 1000 steps");
    assert_invalid(job.spawn("one more", &tube, "x"), "at most 1000 steps");
    drop(job);
    let job = claim(&tube);
    assert_invalid(job.step("one more", || Ok::<u8, Error>(1)), "at most 1000 steps");
    assert_invalid(job.spawn("one more", &tube, "x"), "at most 1000 steps");
    assert_eq!(job.step("999", || Ok::<u64, Error>(0)), Ok(999));
    let stored = tube.query().steps(0).unwrap();
    assert_eq!((stored.len(), stored[999].name.as_str()), (1000, longest.as_str()));
    assert_eq!(tube.statistics().unwrap().tasks.total, 1);
    assert_sound(&store);
    job.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn value_that_cannot_be_decoded_is_an_error_and_stays() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        claim(&case.tube).step("text", || Ok::<_, Error>("no number".to_owned())).unwrap();
        let job = claim(&case.tube);
        let error = job.step("text", || Ok::<u8, Error>(1)).unwrap_err();
        let Error::Codec { what } = error else { panic!("{error}") };
        assert!(what.starts_with("task 0: the value of its step \"text\""), "{what}");
        let read = job.step("text", || -> Result<String> { panic!("it is stored") });
        assert_eq!(read.unwrap(), "no number");
        assert_eq!(
            job.steps().unwrap(),
            [Step::new("text", StepKind::Value, b"\"no number\"".to_vec())]
        );
    });
}

#[test]
fn futures_of_steps_store_what_blocking_ones_do() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        for is_new in [true, false] {
            let job = claim(&case.tube).into_async();
            let ran = RefCell::new(0);
            let (value, child) = block_on(async {
                let value = job.step("sum", async || {
                    *ran.borrow_mut() += 1;
                    Ok::<u8, Error>(3)
                });
                let value = value.await.unwrap();
                (value, job.spawn("child", &case.tube, case.draft("child")).await)
            });
            assert_eq!((value, child, *ran.borrow()), (3, Ok(1), i32::from(is_new)));
            let twice = block_on(job.step("sum", async || Ok::<u8, Error>(1)));
            assert_invalid(twice, "named twice");
            // A future that is dropped in the middle stores nothing, and its name is free.
            let mut endless = Box::pin(job.step("endless", std::future::pending));
            let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
            let polled: std::task::Poll<Result<u8>> = endless.as_mut().poll(context);
            assert!(polled.is_pending());
            drop(endless);
            assert_eq!(names(&case.tube, 0), ["child", "sum"]);
            assert_eq!(block_on(case.tube.to_async().query().steps(0)), case.tube.query().steps(0));
        }
        assert_eq!(case.tasks()["total"], 2);
    });
}

#[test]
fn typed_claim_has_the_steps_of_its_claim() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let numbers = tube.typed::<u64>();
    numbers.put(7).unwrap();
    for _ in 0..2 {
        let job = numbers.try_take().unwrap().unwrap();
        assert_eq!(job.step("double", || Ok::<u64, Error>(job.value() * 2)), Ok(14));
        let with = job.step("with", || Ok::<u64, Error>(15));
        assert_eq!(with, Ok(15));
        assert_eq!(job.spawn("child", &tube, "x"), Ok(1));
        assert_eq!(job.steps(), numbers.query().steps(0));
        let job = job.into_async();
        assert_eq!(block_on(job.step("async", async || Ok::<u64, Error>(16))), Ok(16));
        let with = job.step("both", async || Ok::<u64, Error>(17));
        assert_eq!(block_on(with), Ok(17));
        assert_eq!(block_on(job.spawn("second", &tube, "x")), Ok(2));
        assert_eq!(block_on(job.steps()), numbers.query().steps(0));
        assert_eq!(block_on(numbers.to_async().query().steps(0)).unwrap().len(), 6);
    }
    assert_eq!(tube.statistics().unwrap().tasks.total, 3);
    assert_sound(&store);
}

#[test]
fn stored_step_is_an_event_and_an_entry_of_the_history() {
    for_each_driver_with(ALL, TubeOptions::new().history(10), |case| {
        let log = case.event_log();
        case.put_all([0]);
        let worker = case.store.session("worker").unwrap();
        let job = claim(&worker.tube(&case.tube).unwrap());
        job.step("first", || Ok::<u8, Error>(1)).unwrap();
        job.spawn("second", &case.tube, case.draft("child")).unwrap();
        let kinds: Vec<_> = log.read().into_iter().map(|(id, kind, _)| (kind, id)).collect();
        assert_eq!(
            kinds,
            [
                (EventKind::Put, 0),
                (EventKind::Take, 0),
                (EventKind::Step, 0),
                (EventKind::Step, 0),
                (EventKind::Put, 1)
            ]
        );
        let entries = case.tube.query().history(0).unwrap();
        let said = entries.iter().map(|entry| (entry.what, entry.text.as_deref()));
        let expected = [
            (EventKind::Put, None),
            (EventKind::Take, None),
            (EventKind::Step, Some("first")),
            (EventKind::Step, Some("second")),
        ];
        assert_eq!(said.collect::<Vec<_>>(), expected);
        let step = &entries[2];
        assert_eq!((step.state, step.owner.as_deref()), (TaskState::Taken, Some("worker")));
    });
}

#[test]
fn steps_survive_what_a_put_survives() {
    for durability in [
        Durability::Flush,
        Durability::Write { flush_within: secs(3600) },
        Durability::Relaxed { max_delay: secs(3600) },
    ] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFOTTL, TubeOptions::new().durability(durability));
        let ran = Ran::default();
        tube.put(Put::new("x").ttr(Duration::MAX)).unwrap();
        let job = claim(&tube);
        ran.step(&job, "first").unwrap();
        let child = job.spawn("child", &tube, "child").unwrap();
        if matches!(durability, Durability::Relaxed { .. }) {
            store.flush().unwrap();
        }
        let (killed_file, killed) = after_a_kill(&file);
        let job = killed.find_tube("case").unwrap().claim(0).unwrap();
        assert_eq!(ran.step(&job, "first"), Ok("first".to_owned()));
        assert_eq!(job.spawn("child", &killed.find_tube("case").unwrap(), "x"), Ok(child));
        assert_eq!(ran.read(), ["first"]);
        ran.step(&job, "second").unwrap();
        drop(job);
        let killed = killed_file.reopen(killed);
        assert_eq!(names(&killed.find_tube("case").unwrap(), 0), ["child", "first", "second"]);
        assert_sound(&killed);
        assert_eq!(names(&tube, 0), ["child", "first"]);
    }
}

#[test]
fn steps_of_a_temporary_tube_are_in_memory() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new().temporary(true));
    tube.put("x").unwrap();
    claim(&tube).step("first", || Ok::<u8, Error>(1)).unwrap();
    claim(&tube).step("first", || -> Result<u8> { panic!("it is stored") }).unwrap();
    assert_sound(&store);
    claim(&tube).ack().unwrap();
    assert_sound(&store);
}

#[test]
fn claim_that_was_parked_goes_on_with_its_steps() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new());
    let ran = Ran::default();
    tube.put("x").unwrap();
    let job = claim(&tube);
    ran.step(&job, "first").unwrap();
    let token = job.park(secs(100)).unwrap();
    let store = file.reopen(store);
    let job = store.resume_claim(&token).unwrap();
    ran.step(&job, "first").unwrap();
    ran.step(&job, "second").unwrap();
    let (_killed_file, killed) = after_a_kill(&file);
    let again = killed.resume_claim(&token).unwrap();
    ran.step(&again, "second").unwrap();
    assert_eq!(ran.read(), ["first", "second"]);
    again.ack().unwrap();
    assert_sound(&killed);
    job.ack().unwrap();
    assert_sound(&store);
}

#[test]
fn restored_task_has_its_steps() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let job = claim(&case.tube);
        job.step("first", || Ok::<u64, Error>(7)).unwrap();
        let child = job.spawn("child", &case.tube, case.draft("x")).unwrap();
        let steps = case.tube.query().steps(0).unwrap();
        assert_eq!(steps[0].spawned(), Some(child));
        assert_eq!(steps[1].spawned(), None);
        let other = store_in_memory();
        let tube = other.create_tube("case", TubeOptions::new().driver(case.driver)).unwrap();
        let until = 1_767_225_600_000_000_u64 + 5_000_000;
        let sleep = Step::new("sleep", StepKind::Sleep, until.to_be_bytes());
        let with_sleep = [steps.clone(), vec![sleep, Step::new("wait", StepKind::Join, [])]];
        let with_sleep = with_sleep.concat();
        tube.admin()
            .restore_many([Restore::new("x").buried(true).steps(with_sleep.clone())])
            .unwrap();
        assert_eq!(tube.query().steps(0).unwrap(), with_sleep);
        tube.admin().kick(Filter::new().limit(1)).unwrap();
        let job = claim(&tube);
        assert_eq!(job.step("first", || Ok::<u64, Error>(1)), Ok(7));
        assert_eq!(job.spawn("child", &tube, "x"), Ok(child));
        assert_sound(&other);

        let restore =
            |steps: Vec<Step>| tube.admin().restore_many([Restore::new("x").steps(steps)]);
        let first = || Step::new("first", StepKind::Value, "");
        assert_invalid(restore(vec![first(), first()]), "named twice");
        assert_invalid(restore(vec![Step::new("", StepKind::Value, "")]), "1 to 255");
        assert_invalid(restore(vec![Step::new("s", StepKind::Sleep, "1234567")]), "7 bytes");
        assert_invalid(restore(vec![Step::new("s", StepKind::Spawned, "")]), "spawned");
        assert_invalid(restore(vec![Step::new("s", StepKind::Join, "x")]), "join");
        let many = (0..1001).map(|n| Step::new(n.to_string(), StepKind::Value, ""));
        assert_invalid(restore(many.collect()), "1000");
        let done = Restore::new("x").done(None).steps(vec![first()]);
        assert_invalid(tube.admin().restore_many([done]), "done task has no steps");
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
    });
}
