//! How many tasks meet an expectation.

use std::collections::HashMap;
use std::panic;
use std::sync::{Mutex, Once};
use std::thread::{self, ThreadId};

use tubewell::testing::expect;
use tubewell::{Filter, Put, TaskState};

use super::support::*;
use super::{assert_met, message_of};

#[test]
fn one_returns_the_task() {
    for_each_driver(ALL, |case| {
        let id = case.add(case.draft("to: ann").key("mail 7"));
        let task = expect(&case.tube, TaskState::Ready).one();
        assert_eq!(task, case.tube.query().task(id).unwrap());
    });
}

#[test]
fn times_returns_ready_tasks_in_the_order_of_takes() {
    for_each_driver(TIMED, |case| {
        let put = |priority| case.add(Put::new("x").priority(priority));
        let [c, a, b] = [put(3), put(1), put(2)];
        assert_met(expect(&case.tube, TaskState::Ready), &[a, b, c]);
    });
}

#[test]
fn another_number_of_tasks_fails() {
    for_each_driver(ALL, |case| {
        let all = || expect(&case.tube, Filter::new());
        let expected = |message: String, text: &str| {
            let first = message.lines().next().unwrap();
            assert_eq!(first, format!("tube \"case\": expected {text}"));
        };
        all().none();
        all().times(0);
        expected(message_of(|| all().one()), "one task, found none");
        case.put("a");
        case.put("b");
        all().times(2);
        expected(message_of(|| all().one()), "one task, found 2");
        expected(message_of(|| all().none()), "no task, found 2");
        expected(message_of(|| all().times(0)), "no task, found 2");
        expected(message_of(|| all().times(3)), "3 tasks, found 2");
        expected(
            message_of(|| all().value("a").times(2)),
            "2 tasks, each of which has the value \"a\", found 1",
        );
    });
}

/// A page has 1,000 tasks, and ends with the task with which it has 4 MiB of bodies.
#[test]
fn expectation_looks_at_all_pages() {
    let store = store_in_memory();
    let many = store.tube("many").unwrap();
    many.put_many((0..2_100).map(|n| format!("task {n}"))).unwrap();
    let last = many.put(Put::new("last").key("last")).unwrap().id;
    expect(&many, TaskState::Ready).times(2_101);
    assert_eq!(expect(&many, Filter::new()).value("last").one().info.id, last);
    assert_eq!(expect(&many, Filter::new().key("last")).one().info.id, last);
    assert!(
        message_of(|| expect(&many, Filter::new()).none()).contains("\nthe tube has 2101 tasks;")
    );

    let large = store.tube("large").unwrap();
    let body = vec![b'x'; 1 << 20];
    for _ in 0..6 {
        large.put(&body).unwrap();
    }
    expect(&large, Filter::new()).value(&body).times(6);
}

/// Where the last panic of a thread was.
static PANICS: Mutex<Option<HashMap<ThreadId, (String, u32)>>> = Mutex::new(None);

fn note_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let previous = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            let place = panic.location().map(|at| (at.file().to_owned(), at.line()));
            if let (Some(place), Ok(mut panics)) = (place, PANICS.lock()) {
                panics.get_or_insert_default().insert(thread::current().id(), place);
            }
            previous(panic);
        }));
    });
}

#[test]
fn failed_assertion_panics_at_the_line_of_the_test() {
    note_panics();
    let store = store_in_memory();
    let tube = store.tube("case").unwrap();
    let place = || PANICS.lock().unwrap().as_mut().unwrap().remove(&thread::current().id());

    let line = line!() + 1;
    message_of(|| expect(&tube, Filter::new()).one());
    assert_eq!(place(), Some((file!().to_owned(), line)));
    let line = line!() + 1;
    message_of(|| expect(&tube, Filter::new()).times(2));
    assert_eq!(place(), Some((file!().to_owned(), line)));
    tube.put("x").unwrap();
    let line = line!() + 1;
    message_of(|| expect(&tube, Filter::new()).none());
    assert_eq!(place(), Some((file!().to_owned(), line)));
}
