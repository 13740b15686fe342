//! Moves of all tasks of a tube, in steps.

use std::task::Waker;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::{Error, Filter, Keep, Put, TaskState, Tube, TubeOptions};

use super::executor::{block_on, poll};
use super::moves::{listed, other};
use super::support::*;
use super::wait::{Wait, wait_drained};

/// Q346
/// Difference: outcomes stay in the tube that keeps them.
#[test]
fn move_all_moves_tasks_in_every_state() {
    for into_empty in [true, false] {
        for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
            let to = other(&case.store, case.driver);
            let own = if into_empty { vec![] } else { vec![to.put("own").unwrap().id] };
            let [ready, taken, buried, ended] = ["a", "b", "c", "d"].map(|body| case.put(body));
            case.tube.claim(ended).unwrap().ack().unwrap();
            case.tube.admin().bury(buried, None).unwrap();
            let claim = case.tube.claim(taken).unwrap();
            let mut expected = vec![ready, taken];
            let mut delayed = vec![];
            if case.timed() {
                delayed.push(case.add(case.draft("delayed").delay(secs(5))));
            }
            let count = 3 + delayed.len() as u64;
            assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(count));
            assert_eq!(case.tasks(), counts([("done", count + 1)]));
            assert_eq!(listed(&case.tube, TaskState::Done), [ended]);
            assert_not_taken(claim.ack(), taken);
            expected.extend(&own);
            expected.sort_unstable();
            let mut in_ready = listed(&to, TaskState::Ready);
            in_ready.sort_unstable();
            assert_eq!(in_ready, expected);
            assert_eq!(listed(&to, TaskState::Buried), [buried]);
            assert_eq!(listed(&to, TaskState::Delayed), delayed);
            assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(0));
            case.store.drop_tube("case").unwrap();
            case.store.create_tube("case", TubeOptions::new().driver(case.driver)).unwrap();
        });
    }
}

/// More tasks and more bytes than one commit moves, some of which are large.
#[test]
fn move_all_goes_on_in_steps() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let body =
            |n: usize| if n.is_multiple_of(50) { "x".repeat(200_000) } else { n.to_string() };
        let puts: Vec<Put> = (0..700).map(|n| case.draft(&body(n))).collect();
        let ids: Vec<u64> =
            case.tube.put_many(puts).unwrap().iter().map(|receipt| receipt.id).collect();
        for id in ids.iter().skip(600) {
            case.tube.admin().bury(*id, None).unwrap();
        }
        let before = case.store.admin().counters().unwrap().commits;
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(700));
        let commits = case.store.admin().counters().unwrap().commits - before;
        assert!((3..=5).contains(&commits), "{commits} commits");
        assert_eq!(tasks(&to), counts([("ready", 600), ("buried", 100), ("total", 700)]));
        for (n, id) in ids.iter().enumerate().step_by(25) {
            assert_eq!(to.query().task(*id).unwrap().body, body(n).into_bytes());
        }
        assert_eq!(block_on(to.to_async().admin().move_to(&case.tube, Filter::new())), Ok(700));
        assert_eq!(case.tasks().get("total"), Some(&700));
        assert_eq!(tasks(&to), counts([("done", 700)]));
    });
}

#[test]
fn move_all_into_a_limited_tube_moves_as_many_as_fit() {
    let store = store_in_memory();
    let from = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let to =
        store.create_tube("other", TubeOptions::new().capacity(300).driver(LIMFIFOTTL)).unwrap();
    from.put_many((0..400).map(|n| n.to_string())).unwrap();
    let full = Error::Full { tube: "other".into(), capacity: 300 };
    assert_eq!(from.admin().move_to(&to, Filter::new()), Err(full));
    assert_eq!((tasks(&from)["ready"], tasks(&to)["ready"]), (100, 300));
    assert_eq!(take(&from), Some(300));
    assert_sound(&store);
}

/// The producers of the tube must not keep the call busy.
#[test]
fn move_all_leaves_tasks_that_are_put_meanwhile() {
    // The first poll makes all steps if their commits end during it.
    while !late_task_is_left() {}
}

/// Puts a task after the first steps of a `move_all`, and asserts that it is left. Returns false if
/// all steps were made before.
fn late_task_is_left() -> bool {
    let store = store_in_memory();
    let from = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let to = other(&store, FIFO);
    from.put_many(["x"; 600]).unwrap();
    let mut moving = from.to_async().admin().move_to(&to, Filter::new());
    if poll(&mut moving, Waker::noop()).is_ready() {
        return false;
    }
    let late = from.put("late").unwrap().id;
    assert_eq!(block_on(moving), Ok(600));
    assert_eq!(listed(&from, TaskState::Ready), [late]);
    assert_sound(&store);
    true
}

#[test]
fn move_of_the_last_task_drains_its_tube() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let ids = [case.put("a"), case.put("b")];
        let (drained, drained_to) = (
            wait_drained(&case.tube),
            wait_drained_after(&to, || {
                assert_eq!(case.tube.admin().move_to(&to, ids[0]), Ok(1));
            }),
        );
        drained.assert_waits();
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(1));
        assert_eq!(drained.answer(), Ok(true));
        drained_to.assert_waits();
        assert_eq!(to.admin().move_to(&case.tube, Filter::new()), Ok(2));
        assert_eq!(drained_to.answer(), Ok(true));
    });
}

/// A wait that begins after this call, since the tube is drained before it.
fn wait_drained_after(tube: &Tube, call: impl FnOnce()) -> Wait<bool> {
    call();
    wait_drained(tube)
}

/// A task was once counted as buried for ever if it was forgotten before it had arrived.
#[test]
fn move_of_more_buried_tasks_than_a_tube_keeps_forgets_the_rest() {
    for kept in [0, 1, 2] {
        for_each_driver(ALL, |case| {
            let options = TubeOptions::new().keep_buried(Keep::new().count(kept));
            let to = case.store.create_tube("to", options.driver(case.driver)).unwrap();
            let ids: Vec<u64> = (0..5).map(|_| case.put("x")).collect();
            for id in &ids {
                case.tube.admin().bury(*id, None).unwrap();
            }
            assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(5));
            let left = &ids[5 - usize::try_from(kept).unwrap()..];
            assert_eq!(listed(&to, TaskState::Buried), left);
            let counted = to.statistics().unwrap().tasks;
            assert_eq!((counted.buried, counted.total, counted.done), (kept, kept, 5 - kept));
        });
    }
}
