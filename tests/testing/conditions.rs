//! Which tasks meet the conditions of an expectation.

use std::time::{Duration, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::testing::expect;
use tubewell::{Bytes, Failure, Filter, Keep, Put, TaskState, TubeOptions};

use super::assert_met;
use super::support::*;

#[test]
fn filter_selects_tasks_of_its_tube() {
    for_each_driver(ALL, |case| {
        let [a, b, c] = [
            case.add(case.draft("a").key("key a").tag("t")),
            case.add(case.draft("b").key("key b").tag("t")),
            case.add(case.draft("c")),
        ];
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        other.put(Put::new("a").key("key d").tag("t")).unwrap();
        let met = |filter: Filter, ids: &[u64]| assert_met(expect(&case.tube, filter), ids);
        let filter = Filter::new;

        met(filter(), &[a, b, c]);
        met(filter().tag("t"), &[a, b]);
        met(filter().tag("t").newest_first(), &[b, a]);
        met(filter().ids([a, c, 99]), &[a, c]);
        met(filter().ids([0; 0]), &[]);
        met(filter().key("key b"), &[b]);
        met(filter().key("key a").key("key b").key("key d"), &[a, b]);
        met(filter().tag("t").key("key b").ids([a]), &[]);
        met(filter().tag("none"), &[]);

        case.tube.admin().bury(c, Failure::new("g", "no route")).unwrap();
        let session = case.store.session("w").unwrap();
        let claim = session.tube(&case.tube).unwrap().claim(a).unwrap();
        met(filter().owner("w"), &[a]);
        met(TaskState::Ready.into(), &[b]);
        met(TaskState::Buried.into(), &[c]);
        met(filter().group("g"), &[c]);
        met(filter().group("h"), &[]);
        claim.release().unwrap();
    });
}

#[test]
fn filter_selects_tasks_of_a_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        let a = case.add(Put::new("x").sub_queue("a"));
        let b = case.add(Put::new("x").sub_queue("b"));
        assert_met(expect(&case.tube, Filter::new().sub_queue("a")), &[a]);
        assert_met(expect(&case.tube, Filter::new().sub_queue("b").key("none")), &[]);
        assert_met(expect(&case.tube, Filter::new()), &[a, b]);
    });
}

#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Mail {
    to: String,
}

#[test]
fn value_is_compared_with_the_decoded_body() {
    let store = store_in_memory();
    let bytes = store.tube("bytes").unwrap();
    bytes.put_many(["a", "b"]).unwrap();
    let all = || expect(&bytes, Filter::new());
    assert_met(all().value("a"), &[0]);
    assert_met(all().value(b"b"), &[1]);
    assert_met(all().value(&Bytes::from("a")), &[0]);
    assert_met(all().value("c"), &[]);

    let mails = store.tube("mails").unwrap().typed::<Mail>();
    let ann = Mail { to: "ann".into() };
    let id = mails.put(&ann).unwrap().id;
    mails.put(Mail { to: "bob".into() }).unwrap();
    mails.to_bytes().put("no mail").unwrap();
    assert_met(expect(&mails, Filter::new()).value(&ann), &[id]);
    assert_eq!(expect(&mails, Filter::new()).value(&ann).one().value(), Ok(ann));

    let texts = store.tube("texts").unwrap().typed::<String>();
    let id = texts.put("a").unwrap().id;
    assert_met(expect(&texts, TaskState::Ready).value("a"), &[id]);
    let numbers = store.tube("numbers").unwrap().typed::<u64>();
    let id = numbers.put(7).unwrap().id;
    assert_met(expect(&numbers, TaskState::Ready).value(&7), &[id]);
}

#[test]
fn priority_is_that_of_the_task() {
    for_each_driver(TIMED, |case| {
        let ids = [2, 1].map(|priority| case.add(case.draft("x").priority(priority)));
        assert_met(expect(&case.tube, Filter::new()).priority(2), &ids[..1]);
        assert_met(expect(&case.tube, Filter::new()).priority(1), &ids[1..]);
        assert_met(expect(&case.tube, Filter::new()).priority(0), &[]);
    });
}

#[test]
fn delay_may_have_gone_on_for_less_than_a_second() {
    for_each_driver(TIMED, |case| {
        let odd = Duration::from_nanos(60_000_000_001);
        let id = case.add(case.draft("x").delay(odd));
        case.add(case.draft("ready"));
        let after = |delay| expect(&case.tube, Filter::new()).delay(delay);
        assert_met(after(odd), &[id]);
        assert_met(after(ms(60_999)), &[id]);
        assert_met(after(ms(61_001)), &[]);
        assert_met(after(secs(60)), &[]);
        case.advance(999);
        assert_met(after(odd), &[id]);
        case.advance(1);
        assert_met(after(odd), &[]);
        case.advance(60_000);
        assert_met(after(ZERO), &[]);
        assert_met(expect(&case.tube, TaskState::Ready).value("x"), &[id]);
    });
}

#[test]
fn delay_is_not_the_time_of_a_claim() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(60)));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_met(expect(&case.tube, Filter::new()).delay(secs(60)), &[]);
        claim.ack().unwrap();
    });
}

#[test]
fn moment_is_that_of_the_put() {
    for_each_driver(TIMED, |case| {
        let odd = UNIX_EPOCH + Duration::from_nanos(4_000_000_000_000_000_001);
        let past = UNIX_EPOCH + secs(1);
        let late = case.add(case.draft("x").not_before(odd));
        let early = case.add(case.draft("x").not_before(past));
        case.add(case.draft("x"));
        let at = |moment| expect(&case.tube, Filter::new()).not_before(moment);
        assert_met(at(odd), &[late]);
        assert_met(at(odd + secs(1)), &[]);
        assert_met(at(past), &[early]);
    });
}

#[test]
fn failure_is_the_last_one_whatever_became_of_the_task() {
    let options = TubeOptions::new().driver(FIFOTTL).max_attempts(2).keep_done(Keep::new());
    let store = store_in_memory();
    let tube = store.create_tube("case", options).unwrap();
    let [retried, dead, done, new] = ["a", "b", "c", "d"].map(|body| tube.put(body).unwrap().id);
    let fail = |id, group| tube.claim(id).unwrap().fail(Failure::new(group, "no route")).unwrap();
    for id in [retried, dead, done] {
        fail(id, "timeout");
    }
    fail(dead, "refused");
    tube.claim(done).unwrap().ack().unwrap();
    let failed = |group| expect(&tube, Filter::new()).failure(group);
    assert_met(failed("timeout"), &[retried, done]);
    assert_met(failed("refused"), &[dead]);
    assert_met(failed("none"), &[]);
    assert_met(expect(&tube, TaskState::Ready).failure("timeout"), &[retried]);
    assert_met(expect(&tube, TaskState::Ready), &[retried, new]);
}

#[test]
fn task_must_meet_all_conditions() {
    for_each_driver(TIMED, |case| {
        let put =
            |body: &str, priority: u32| case.add(case.draft(body).priority(priority).tag("t"));
        let [a, _, _] = [put("a", 1), put("a", 2), put("b", 1)];
        let tagged = || expect(&case.tube, Filter::new().tag("t")).value("a").priority(1);
        assert_met(tagged(), &[a]);
        assert_met(tagged().that("is the first one", |task| task.info.id == a), &[a]);
        assert_met(tagged().that("is another one", |task| task.info.id != a), &[]);
        assert_met(tagged().priority(2), &[]);
    });
}

#[test]
fn expectation_takes_a_handle_that_blocks_no_thread() {
    let store = store_in_memory();
    let numbers = store.tube("numbers").unwrap().typed::<u64>().to_async();
    numbers.put(7).wait().unwrap();
    assert_eq!(expect(&numbers, TaskState::Ready).value(&7).one().value(), Ok(7));
}
