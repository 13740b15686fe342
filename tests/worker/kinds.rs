//! Several kinds of jobs in one tube, each with its handler.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::worker::{AsyncJob, Ended, Job, Worker};
use tubewell::{Backoff, Error, Outcome, TaskState, Tube};

use super::executor::{block_on, with_timeout};
use super::support::*;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

fn mails(tube: &Tube) -> Tube<Mail> {
    tube.typed_as("mail")
}

fn films(tube: &Tube) -> Tube<u32> {
    tube.typed_as("film")
}

fn ann() -> Mail {
    Mail { to: "ann".into() }
}

/// The id, the end, the state of the task, and the failure of a job.
type End = (u64, Ended, TaskState, Option<(String, String)>);

/// Runs this many jobs, and returns how they have ended, in their order.
fn run(form: Form, case: &Case, jobs: u64, add: impl FnOnce(Worker) -> Worker) -> Vec<End> {
    let (reports, watch) = reports();
    let worker = Worker::new(&case.store).backoff(Backoff::none()).limit(jobs).watch(watch);
    form.start(add(worker)).wait().unwrap();
    reports.lock().unwrap().iter().map(ended).collect()
}

#[test]
fn each_kind_has_its_handler_and_its_type() {
    in_every_form(|form| {
        let case = Case::new();
        mails(&case.tube).put(ann()).unwrap();
        films(&case.tube).put(90).unwrap();
        mails(&case.tube).put(ann()).unwrap();
        let (send, seen) = shared_channel();
        let sent = send.clone();
        let mail = move |job: &Job<Mail>| {
            assert_eq!(*job.value(), ann());
            sent.lock().unwrap().send("mail").unwrap();
        };
        let film = move |job: &Job<u32>| {
            assert_eq!(*job.value(), 90);
            send.lock().unwrap().send("film").unwrap();
        };
        let ends = run(form, &case, 3, |worker| {
            form.on(form.on(worker, &mails(&case.tube), mail), &films(&case.tube), film)
        });
        assert!(ends.iter().all(|end| end.1 == Ended::Done));
        assert_eq!(seen.try_iter().collect::<Vec<_>>(), ["mail", "film", "mail"]);
    });
}

/// Other programs write it, and read it, as that of an enum.
#[test]
fn body_of_a_kind_is_that_of_an_enum() {
    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    enum Work {
        Mail(Mail),
        Film(u32),
    }
    let case = Case::new();
    let works = case.tube.typed::<Work>();
    let id = mails(&case.tube).put(ann()).unwrap().id;
    assert_eq!(case.tube.query().task(id).unwrap().body, br#"{"mail":{"to":"ann"}}"#);
    assert_eq!(*works.try_take().unwrap().unwrap().value(), Work::Mail(ann()));
    let id = works.put(Work::Film(7)).unwrap().id;
    assert_eq!(films(&case.tube).query().task(id).unwrap().value().unwrap(), 7);
}

#[test]
fn task_of_an_unknown_kind_is_buried_in_a_group_of_its_own() {
    in_every_form(|form| {
        let case = Case::new();
        let film = films(&case.tube).put(90).unwrap().id;
        let ends =
            run(form, &case, 1, |worker| form.on(worker, &mails(&case.tube), |_: &Job<Mail>| ()));
        let (id, end, state, failure) = ends[0].clone();
        assert_eq!((id, end, state), (film, Ended::Undecodable, TaskState::Buried));
        let (group, message) = failure.unwrap();
        assert_eq!(group, "unknown kind");
        assert!(message.contains("\"film\""), "{message}");
    });
}

#[test]
fn body_without_a_kind_is_buried_if_all_handlers_have_one() {
    for body in [
        "",
        "7",
        "[]",
        "{}",
        "{",
        "\"mail\"",
        "{\"mail",
        "{7:1}",
        "\u{feff}{\"mail\":7}",
        r#"{"a":1,"b":2}"#,
    ] {
        let case = Case::new();
        case.put(body);
        let ends = run(Form::Threads, &case, 1, |worker| {
            worker
                .on(&mails(&case.tube), |_: &Job<Mail>| ())
                .on(&films(&case.tube), |_: &Job<u32>| ())
        });
        assert_eq!(ends[0].1, Ended::Undecodable, "{body}");
        assert_eq!(ends[0].3.as_ref().unwrap().0, "undecodable", "{body}");
    }
}

#[test]
fn value_of_another_type_or_a_second_member_is_undecodable() {
    for body in [r#"{"film":"long"}"#, r#"{"film":7,"mail":{"to":"ann"}}"#, r#"{"film":7} 8"#] {
        let case = Case::new();
        case.put(body);
        let ends =
            run(Form::Threads, &case, 1, |worker| worker.on(&films(&case.tube), |_: &Job<u32>| ()));
        assert_eq!(ends[0].1, Ended::Undecodable, "{body}");
        assert_eq!(ends[0].3.as_ref().unwrap().0, "undecodable", "{body}");
    }
}

#[test]
fn handler_without_a_kind_gets_what_no_other_handler_gets() {
    in_every_form(|form| {
        let case = Case::new();
        let mail = mails(&case.tube).put(ann()).unwrap().id;
        let film = films(&case.tube).put(90).unwrap().id;
        let text = case.put("no object");
        let wait = |_: &Job| Outcome::snooze(Duration::from_secs(60));
        // In either order.
        let ends = run(form, &case, 3, |worker| {
            form.on(form.on(worker, &case.tube, wait), &mails(&case.tube), |_: &Job<Mail>| ())
        });
        let of = |wanted: u64| ends.iter().find(|end| end.0 == wanted).unwrap().1;
        assert_eq!((of(mail), of(film), of(text)), (Ended::Done, Ended::Snoozed, Ended::Snoozed));
        let info = case.tube.query().task(film).unwrap().info;
        assert_eq!((info.state, info.attempts), (TaskState::Delayed, 0));
    });
}

#[test]
fn names_of_kinds_with_quotes_and_other_characters_are_told_apart() {
    let case = Case::new();
    let names = ["", "mail", "Mail", "ma\"il", "mail\\", "grüße", "\u{0}"];
    let mut worker = Worker::new(&case.store);
    for (number, name) in (0..).zip(names) {
        let tube = case.tube.typed_as::<u32>(name);
        tube.put(number).unwrap();
        worker = worker.on(&tube, move |job: &Job<u32>| assert_eq!(*job.value(), number));
    }
    assert_eq!(worker.run_until_idle().unwrap().done, names.len() as u64);
}

#[test]
fn two_handlers_for_one_kind_are_refused() {
    with_timeout(|| {
        let case = Case::new();
        let worker = Worker::new(&case.store)
            .on_async(&mails(&case.tube), |_: AsyncJob<Mail>| async {})
            .on(&films(&case.tube), |_: &Job<u32>| ())
            .on(&case.tube.typed_as::<String>("mail"), |_: &Job<String>| ());
        let refused = worker.start().err();
        assert!(
            matches!(&refused, Some(Error::Invalid { what })
            if what.contains("two handlers for the kind \"mail\"")),
            "{refused:?}"
        );
    });
}

/// The body that the next attempt gets has the kind, too.
#[test]
fn checkpoint_of_a_kind_keeps_the_kind() {
    let case = Case::new();
    let id = films(&case.tube).put(90).unwrap().id;
    let store_half = |job: &Job<u32>| {
        job.checkpoint(45_u32)?;
        Err::<(), _>(Error::Closed)
    };
    let ends = run(Form::Threads, &case, 1, |worker| worker.on(&films(&case.tube), store_half));
    assert_eq!(ends.len(), 1);
    assert_eq!(case.tube.query().task(id).unwrap().body, br#"{"film":45}"#);
}

/// An object with several members is a body of its own, whatever they are called.
#[test]
fn object_with_several_members_has_no_kind() {
    let case = Case::new();
    case.put(r#"{"film":7,"total":8}"#);
    case.put(r#" {"film":7}"#);
    let ends = run(Form::Threads, &case, 2, |worker| {
        let other = |job: &Job| assert!(job.body().ends_with(b"8}"));
        worker
            .on(&films(&case.tube), |job: &Job<u32>| assert_eq!(*job.value(), 7))
            .on(&case.tube, other)
    });
    assert_eq!((ends[0].1, ends[1].1), (Ended::Done, Ended::Done));
}

#[test]
fn task_of_an_unknown_kind_meets_no_function() {
    let case = Case::new();
    films(&case.tube).put(90).unwrap();
    let ends = run(Form::Threads, &case, 1, |worker| {
        worker
            .on(&mails(&case.tube), |_: &Job<Mail>| ())
            .around(|_, _| panic!("there is a handler"))
    });
    assert_eq!(ends[0].1, Ended::Undecodable);
}

#[test]
fn future_refuses_a_kind_whose_handler_blocks() {
    let case = Case::new();
    let worker = Worker::new(&case.store)
        .on_async(&mails(&case.tube), |_: AsyncJob<Mail>| async {})
        .on(&films(&case.tube), |_: &Job<u32>| ());
    let refused = block_on(worker.run_async());
    assert!(matches!(&refused, Err(Error::Invalid { what }) if what.contains("on_async")));
}
