//! Durable steps go when their task ends, or begins anew.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{
    Error, Failure, Filter, Keep, OnKey, Outcome, Put, Result, Store, TaskState, Tube, TubeOptions,
};

use super::steps::{Ran, claim, names};
use super::support::*;

/// How a task ends.
type End = fn(&Tube, u64);

/// A task with two steps, which is not taken.
fn with_steps(case: &Case, put: Put) -> u64 {
    let id = case.add(put);
    let job = case.tube.claim(id).unwrap();
    let ran = Ran::default();
    ran.step(&job, "first").unwrap();
    ran.step(&job, "second").unwrap();
    id
}

#[test]
fn end_of_the_task_removes_its_steps() {
    for_each_driver(ALL, |case| {
        let ends: [End; 6] = [
            |tube, id| assert!(tube.claim(id).unwrap().ack().is_ok()),
            |tube, id| {
                assert!(tube.claim(id).unwrap().end(Outcome::done().and_put(tube, "x")).is_ok());
            },
            |tube, id| assert!(tube.delete(id).is_ok()),
            |tube, id| assert!(tube.admin().resolve(id, ()).is_ok()),
            |tube, id| assert!(tube.cancel(id).is_ok()),
            |tube, _| tube.admin().truncate().unwrap(),
        ];
        for end in ends {
            let id = with_steps(case, case.draft("x"));
            end(&case.tube, id);
            assert_not_found(case.tube.query().steps(id), id);
            // `verify` finds rows that are left over.
            assert_sound(&case.store);
        }
        if case.timed() {
            let id = with_steps(case, case.draft("x").ttl(secs(1)));
            case.advance(1000);
            assert_not_found(case.tube.query().steps(id), id);
        }
        with_steps(case, case.draft("x"));
        case.tube.admin().truncate().unwrap();
        case.store.drop_tube("case").unwrap();
        case.store.flush().unwrap();
    });
}

#[test]
fn task_that_is_done_and_kept_has_no_steps() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()).history(9), |case| {
        let id = with_steps(case, case.draft("x"));
        case.tube.claim(id).unwrap().end(Outcome::result("result")).unwrap();
        assert_eq!((case.state(id), case.info(id).has_steps), (Some(TaskState::Done), false));
        assert_eq!(case.tube.query().steps(id), Ok(vec![]));
        assert_sound(&case.store);
        case.tube.admin().forget(id).unwrap();
    });
}

#[test]
fn task_that_is_put_anew_begins_its_steps_anew() {
    for_each_driver(ALL, |case| {
        let ran = Ran::default();
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let put = |data: &str| case.draft(data).key("job");
        let id = with_steps(case, put("one"));
        case.tube.put(put("two").on_key(OnKey::Replace)).unwrap();
        assert_eq!(names(&case.tube, id), [""; 0]);
        let job = case.tube.claim(id).unwrap();
        ran.step(&job, "first").unwrap();
        case.tube.requeue("job", put("three")).unwrap();
        assert_not_taken(job.step("late", || Ok::<u8, Error>(1)), id);
        assert_eq!(names(&case.tube, id), [""; 0]);
        ran.step(&case.tube.claim(id).unwrap(), "first").unwrap();
        // In another tube.
        other.put(put("four").on_key(OnKey::Replace)).unwrap();
        assert_eq!(names(&other, id), [""; 0]);
        ran.step(&other.claim(id).unwrap(), "first").unwrap();
        assert_eq!(ran.read(), ["first"; 3]);
        other.put(put("five").on_key(OnKey::Keep)).unwrap();
        assert_eq!(names(&other, id), ["first"]);
    });
}

#[test]
fn task_that_advances_begins_its_steps_anew() {
    for_each_driver(ALL, |case| {
        let ran = Ran::default();
        let next = case.store.create_tube("next", TubeOptions::new().driver(case.driver)).unwrap();
        let id = with_steps(case, case.draft("x"));
        case.tube.claim(id).unwrap().end(Outcome::advance(&next, case.draft("y"))).unwrap();
        assert_eq!(names(&next, id), [""; 0]);
        let job = claim(&next);
        ran.step(&job, "first").unwrap();
        // To its own tube.
        job.end(Outcome::advance(&next, case.draft("z"))).unwrap();
        assert_eq!(names(&next, id), [""; 0]);
        ran.step(&claim(&next), "first").unwrap();
        assert_eq!(ran.read(), ["first", "first"]);
    });
}

#[test]
fn tasks_with_large_steps_move_a_part_at_a_time() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        for n in 0..9_u8 {
            let id = case.put("x");
            let job = case.tube.claim(id).unwrap();
            job.step("large", || Ok::<_, Error>(vec![n; 300_000])).unwrap();
            job.step("small", || Ok::<_, Error>(n)).unwrap();
        }
        assert_eq!(case.tube.admin().move_to(&other, Filter::new()).unwrap(), 9);
        for n in 0..9_u8 {
            let job = claim(&other);
            let never = || -> Result<u8> { panic!("it is stored") };
            assert_eq!(job.step("small", never), Ok(n));
            let _ = job.detach();
            let large = serde_json::to_vec(&vec![n; 300_000]).unwrap();
            assert!(other.query().steps(n.into()).unwrap()[0].value == large);
        }
    });
}

#[test]
fn buried_tasks_that_are_too_many_are_removed_with_their_steps() {
    let options = TubeOptions::new().keep_buried(Keep::new().count(1)).max_attempts(1);
    for_each_driver_with(ALL, options, |case| {
        for n in 0..3 {
            let id = with_steps_of_one_attempt(case);
            assert_eq!(id, n);
            case.advance(1);
        }
        assert_eq!(case.tasks()["buried"], 1);
        assert_eq!(names(&case.tube, 2), ["first"]);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        claim(&case.tube).step("first", || -> Result<String> { panic!("it is stored") }).unwrap();
    });
}

fn with_steps_of_one_attempt(case: &Case) -> u64 {
    let id = case.put("x");
    let job = case.tube.claim(id).unwrap();
    Ran::default().step(&job, "first").unwrap();
    job.fail(Failure::new("g", "m")).unwrap();
    id
}

/// A store whose only task with steps has ended still needs a release that knows them.
#[test]
fn store_with_steps_opens_again() {
    let file = StoreFile::new();
    let store: Store = file.open();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    Ran::default().step(&claim(&tube), "first").unwrap();
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(names(&tube, 0), ["first"]);
    claim(&tube).ack().unwrap();
    let store = file.reopen(store);
    assert_sound(&store);
}
