//! Expectations of tasks that are done, and of the work of one job.

use std::collections::BTreeMap;

use tubewell::driver::FIFOTTL;
use tubewell::testing::expect;
use tubewell::{Filter, Job, Keep, Outcome, TaskState, TubeOptions, Worker};

use super::support::*;
use super::{assert_met, message_of};

fn keep_all() -> TubeOptions {
    TubeOptions::new().keep_done(Keep::new())
}

#[test]
fn result_is_compared_as_json() {
    for_each_driver_with(ALL, keep_all(), |case| {
        let end = |outcome: Outcome| {
            let id = case.put("x");
            case.tube.claim(id).unwrap().end(outcome).unwrap();
            id
        };
        let text = end(Outcome::value("2 pages"));
        let number = end(Outcome::value(&0.1_f32));
        let object = end(Outcome::result(r#"{ "b": 1, "a": [true] }"#));
        let none = end(Outcome::done());
        let other = end(Outcome::result("2 pages"));
        let ready = case.put("x");
        let all = || expect(&case.tube, Filter::new());

        assert_met(all().result("2 pages"), &[text]);
        assert_met(all().result(&0.1_f32), &[number]);
        assert_met(all().result(&serde_json::json!({ "a": [true], "b": 1 })), &[object]);
        assert_met(all().result(&()), &[none]);
        assert_met(all().result("3 pages"), &[]);
        assert_met(expect(&case.tube, TaskState::Ready), &[ready]);
        assert_met(expect(&case.tube, TaskState::Done), &[text, number, object, none, other]);
    });
}

/// `none` would be true whatever the tube has.
#[test]
fn conditions_that_no_task_meets_are_refused() {
    let store = store_in_memory();
    let tube = store.open_tube("case", keep_all()).unwrap();
    let ready = || expect(&tube, TaskState::Ready);
    let message = message_of(|| ready().result(&7).none());
    assert_eq!(message, "a task that is ready has not a result, only one that is done has");
    let message = message_of(|| ready().delay(std::time::Duration::from_secs(1)).none());
    assert_eq!(message, "a task that is ready has not a delay, only one that is delayed has");
    expect(&tube, TaskState::Done).result(&7).none();
    expect(&tube, TaskState::Delayed).delay(std::time::Duration::from_secs(1)).none();
}

#[test]
fn tube_that_keeps_the_last_zero_tasks_keeps_none() {
    let store = store_in_memory();
    let options = TubeOptions::new().keep_done(Keep::new().count(0));
    let tube = store.open_tube("case", options).unwrap();
    let message = message_of(|| expect(&tube, TaskState::Done).none());
    assert!(message.contains("keeps no task that is done"), "{message}");
}

#[test]
fn value_that_is_no_json_is_no_result() {
    let store = store_in_memory();
    let tube = store.open_tube("case", keep_all()).unwrap();
    let pairs = BTreeMap::from([((1, 2), 3)]);
    let message = message_of(|| expect(&tube, Filter::new()).result(&pairs));
    assert!(message.starts_with("the result that is expected cannot be JSON: "), "{message}");
}

#[test]
fn done_tasks_are_expected_only_where_they_are_kept() {
    for_each_driver(ALL, |case| {
        case.put("x");
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        let refused = |what: &str| {
            format!(
                "tube \"case\": expected {what}, but the tube keeps no task that is done; \
                 give it `TubeOptions::keep_done` in this test"
            )
        };
        let done = || expect(&case.tube, TaskState::Done);
        assert_eq!(message_of(|| done().one()), refused("one task that is done"));
        assert_eq!(message_of(|| done().none()), refused("no task that is done"));
        assert_eq!(
            message_of(|| expect(&case.tube, Filter::new()).result(&7).one()),
            refused("one task that is done and has the result 7")
        );
        assert_eq!(
            message_of(|| expect(&case.tube, Filter::new()).one()),
            "tube \"case\": expected one task, found none\nthe tube has no task\ntasks that have left the \
             tube: 1; it keeps none that is done (`TubeOptions::keep_done`)"
        );
        expect(&case.tube, TaskState::Ready).none();
    });
}

#[test]
fn worker_with_a_limit_of_one_does_one_job() {
    let store = store_in_memory();
    let options = keep_all().driver(FIFOTTL);
    let numbers = store.create_tube("numbers", options).unwrap().typed::<u64>();
    numbers.put_many([1, 2, 3]).unwrap();
    let twice = |job: &Job<u64>| Outcome::value(&(job.value() * 2));
    let worker = || Worker::new(&store).on(&numbers, twice);

    assert_eq!(worker().limit(1).run_until_idle().unwrap().done, 1);
    expect(&numbers, TaskState::Done).value(&1).result(&2).one();
    assert_met(expect(&numbers, TaskState::Ready), &[1, 2]);
    assert_eq!(worker().run_until_idle().unwrap().done, 2);
    assert_eq!(worker().limit(1).run_until_idle().unwrap().done, 0);
    expect(&numbers, TaskState::Done).times(3);
}
