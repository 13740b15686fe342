//! What a failed expectation says.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::driver::FIFOTTL;
use tubewell::testing::expect;
use tubewell::{
    Bytes, Error, EventKind, Failure, Filter, Keep, Outcome, Put, Store, TaskState, Tube,
    TubeOptions,
};

use super::message_of;
use super::support::*;

fn mails(store: &Store) -> Tube<String> {
    store.create_tube("mails", TubeOptions::new().driver(FIFOTTL)).unwrap().typed()
}

/// A task that is ready, one that is delayed and one that has failed for good.
fn put_three(mails: &Tube<String>) {
    mails.put(Put::new("to: bob").key("mail 7")).unwrap();
    mails.put(Put::new("to: ann").delay(secs(60))).unwrap();
    let id = mails.put("to: cem").unwrap().id;
    mails.claim(id).unwrap().bury(Failure::new("smtp", "no\nroute")).unwrap();
}

#[test]
fn message_has_the_expectation_and_each_task_with_what_differs() {
    let store = store_in_memory();
    let mails = mails(&store);
    put_three(&mails);
    let expected = r#"tube "mails": expected one task that is ready and has the value "to: ann", found none
the tube has 3 tasks:
  task 0 is ready, key "mail 7", body "to: bob"
    differs: value "to: bob"
  task 1 is delayed for 1m, body "to: ann"
    differs: not ready
  task 2 is buried, body "to: cem", failed in attempt 1 with smtp: no\nroute
    differs: not ready, value "to: cem""#;
    assert_eq!(message_of(|| expect(&mails, TaskState::Ready).value("to: ann").one()), expected);
    let expected = r#"tube "mails": expected no task, found 3
the tube has 3 tasks:
  task 0 is ready, key "mail 7", body "to: bob"
  task 1 is delayed for 1m, body "to: ann"
  task 2 is buried, body "to: cem", failed in attempt 1 with smtp: no\nroute"#;
    assert_eq!(message_of(|| expect(&mails, Filter::new()).none()), expected);
}

#[test]
fn tasks_that_differ_least_come_first() {
    let store = store_in_memory();
    let mails = mails(&store);
    put_three(&mails);
    let expected = r#"tube "mails": expected no task that is buried, found 1
the tube has 3 tasks:
  task 2 is buried, body "to: cem", failed in attempt 1 with smtp: no\nroute
  task 0 is ready, key "mail 7", body "to: bob"
    differs: not buried
  task 1 is delayed for 1m, body "to: ann"
    differs: not buried"#;
    assert_eq!(message_of(|| expect(&mails, TaskState::Buried).none()), expected);
}

#[test]
fn message_names_each_condition_and_what_a_task_has_instead() {
    let store = store_in_memory();
    let options = TubeOptions::new().driver(FIFOTTL).keep_done(Keep::new());
    let tube = store.create_tube("case", options).unwrap();
    tube.put(Put::new("x").priority(3).delay(ms(1_500))).unwrap();
    let differs = |message: String| {
        let first = message.lines().next().unwrap();
        let words = first.strip_prefix("tube \"case\": expected one task that ").unwrap();
        let words = words.strip_suffix(", found none").unwrap().to_owned();
        (words, message.lines().last().unwrap().trim().replace("differs: ", ""))
    };
    let of = |words: &str, instead: &str| (words.to_owned(), instead.to_owned());
    let all = || expect(&tube, Filter::new());
    assert_eq!(
        differs(message_of(|| all().value("y").priority(1).delay(secs(1)).one())),
        of(
            "has the value \"y\" and has the priority 1 and is delayed for 1s",
            "value b\"x\", priority 3, ready in 1500ms"
        )
    );
    let moment = UNIX_EPOCH + Duration::from_millis(1_795_424_400_500);
    assert_eq!(
        differs(message_of(|| all().not_before(moment).failure("g").one())),
        of(
            "has the moment 2026-11-23T09:00:00.5Z and has failed in the group \"g\"",
            "no moment, no failure"
        )
    );
    assert_eq!(
        differs(message_of(|| all().that("is to ann", |_| false).result(&[1]).one())),
        of("is done and is to ann and has the result [1]", "not done, not: is to ann, no result")
    );
    let filter = Filter::new().state(TaskState::Taken).tag("t").sub_queue("s").owner("w");
    assert_eq!(
        differs(message_of(|| expect(&tube, filter.key("a").key("b").ids([7])).one())),
        of(
            "is taken and has the tag \"t\" and is in the sub-queue \"s\" and is taken by \"w\" and has \
             the id 7 and has one of the keys [\"a\", \"b\"]",
            "not taken, not the tag \"t\", not in the sub-queue \"s\", not taken by \"w\", not the id 7, \
             not one of the keys [\"a\", \"b\"]"
        )
    );
    tube.claim(tube.put("y").unwrap().id).unwrap().end(Outcome::result("2 pages")).unwrap();
    tube.delete(0).unwrap();
    assert_eq!(
        differs(message_of(|| all().result(&2).failure("g").one())),
        of(
            "is done and has the result 2 and has failed in the group \"g\"",
            "result 2 pages, no failure"
        )
    );
}

#[test]
fn message_has_at_most_twenty_tasks() {
    let store = store_in_memory();
    let mails = mails(&store);
    mails.put_many((0..44).map(|n| format!("to: {n}"))).unwrap();
    mails.put(Put::new("to: ann").priority(7)).unwrap();
    let message =
        message_of(|| expect(&mails, TaskState::Ready).value("to: ann").priority(1).one());
    let lines: Vec<&str> = message.lines().collect();
    assert_eq!(lines[1], "the tube has 45 tasks; these 20 differ least:");
    assert_eq!(lines[2], "  task 44 is ready, body \"to: ann\"");
    assert_eq!(lines[3], "    differs: priority 7");
    assert_eq!(lines.iter().filter(|line| line.starts_with("  task ")).count(), 20);
    let twenty = message_of(|| expect(&mails, Filter::new().ids(0..20)).none());
    assert!(twenty.contains(", found 20\n"), "{twenty}");
}

#[test]
fn bodies_are_text_on_one_line_or_bytes() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let long = "é".repeat(1_500);
    for body in [Bytes::from(""), "a\tb\nc".into(), (&[0xff, b'x', 0]).into(), Bytes::from(&*long)]
    {
        tube.put(body).unwrap();
    }
    let message = message_of(|| expect(&tube, Filter::new()).none());
    let lines: Vec<&str> = message.lines().skip(2).collect();
    let cut = format!("  task 3 is ready, body {}...", "é".repeat(1_000));
    assert_eq!(
        lines,
        [
            "  task 0 is ready, no body",
            r"  task 1 is ready, body a\tb\nc",
            r#"  task 2 is ready, body b"\xffx\x00""#,
            &cut,
        ]
    );
}

#[test]
fn body_that_cannot_be_decoded_is_no_value() {
    let store = store_in_memory();
    let tube = store.tube("case").unwrap();
    tube.put("seven").unwrap();
    let numbers = tube.typed::<u64>();
    let message = message_of(|| expect(&numbers, Filter::new()).value(&7).one());
    assert!(message.contains("\n    differs: no value: the body does not match"), "{message}");
    expect(&numbers, Filter::new()).value(&7).none();
}

#[test]
fn error_of_the_store_is_the_message() {
    let store = store_in_memory();
    let tube = store.tube("case").unwrap();
    let kinds = Filter::new().kinds([EventKind::Put]);
    assert_eq!(
        message_of(|| expect(&tube, kinds).none()),
        "tube \"case\": a listing of a tube cannot use the condition `kinds` of a filter; leave it out"
    );
    store.drop_tube("case").unwrap();
    let error = tube.statistics().unwrap_err();
    assert!(matches!(error, Error::TubeDropped { .. }), "{error:?}");
    let message = message_of(|| expect(&tube, Filter::new()).none());
    assert_eq!(message, format!("tube \"case\": {error}"));
}

#[test]
fn expectation_is_shown_with_its_conditions() {
    let store = store_in_memory();
    let tube = store.tube("case").unwrap();
    let shown = format!("{:?}", expect(&tube, Filter::new().key("a")).value("x"));
    assert!(shown.starts_with("Expect { tube: \"case\", filter: Filter {"), "{shown}");
    assert!(shown.contains(r#"["has the key \"a\"", "has the value \"x\""]"#), "{shown}");
}
