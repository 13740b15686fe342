//! The JSON of every type that implements serde. Applications store it: it may gain fields, and
//! what was once written must stay readable.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fmt::Debug;
use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{from_str, to_string};
use tubewell::expert::{
    Backlog, ClockReport, Counters, Day, Delivered, FailureGroup, HistoryEntry, ParentCounts,
    PausedSubQueue, SpawnedBy, Step, TagCount,
};
use tubewell::worker::{Job, Left, Tally, Worker};
use tubewell::{
    Backoff, ClaimToken, Counting, Cursor, Durability, Ending, Event, EventKind, FIFOTTL, Filter,
    Keep, LIMFIFOTTL, Limit, ManualClock, Owner, OwnerInfo, Page, Progress, Put, Rate, Receipt,
    Schedule, ScheduleInfo, SessionId, Statistics, Store, Task, TaskInfo, TaskState, TubeInfo,
    TubeOptions, UTUBETTL,
};

/// Asserts that the value is written as this text, and is read back from it, from bytes that are
/// not self-describing, and from a text with a field that a later release added.
fn assert_json<T: Serialize + DeserializeOwned + PartialEq + Debug>(value: &T, text: &str) {
    assert_eq!(to_string(value).unwrap(), text);
    assert_eq!(&from_str::<T>(text).unwrap(), value);
    if let Some(fields) = text.strip_prefix('{') {
        let newer = format!("{{\"new_field\":[1],{fields}");
        assert_eq!(&from_str::<T>(&newer).unwrap(), value);
    }
    let config = bincode::config::standard();
    let bytes = bincode::serde::encode_to_vec(value, config).unwrap();
    let (read, used) = bincode::serde::decode_from_slice::<T, _>(&bytes, config).unwrap();
    assert_eq!((&read, used), (value, bytes.len()));
}

fn store() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    (Store::options().clock(&clock).open_in_memory().unwrap(), clock)
}

#[test]
fn names_and_numbers_are_json_strings() {
    assert_json(&TaskState::Ready, r#""ready""#);
    assert_json(&EventKind::Put, r#""put""#);
    assert_json(&Durability::Flush, r#""flush""#);
    let relaxed = Durability::Relaxed { max_delay: Duration::from_millis(50) };
    assert_json(&relaxed, r#""relaxed(50ms)""#);
    let id = SessionId::from_bytes(*b"0123456789abcdef");
    assert_json(&id, r#""30313233343536373839616263646566""#);
    assert_json(&Counting::Written, r#""written""#);
    let backoff = Backoff::exponential(Duration::from_secs(1)).jitter(0.5);
    assert_json(&backoff, r#""1s,factor=2,jitter=0.5""#);
    assert_json(
        &Keep::new().count(1000).age(Duration::from_secs(86_400)),
        r#""count=1000,age=1d""#,
    );
    assert_json(&Rate::per(10, Duration::from_secs(1)), r#""10/1s""#);
    assert_json(&"1r0.107.a~2Fb".parse::<Cursor>().unwrap(), r#""1r0.107.a~2Fb""#);
}

#[test]
fn tasks_and_pages_are_json_objects() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let ttl = Duration::from_millis(90_500);
    let receipt =
        tube.put(Put::new("hi").priority(7).ttl(ttl).ttr(Duration::from_secs(30))).unwrap();
    assert_json(&receipt, &format!(r#"{{"id":0,"state":"ready","commit":{}}}"#, receipt.commit));

    let info = r#"{"id":0,"tube":"jobs","state":"ready","priority":7,"sub_queue":null,"key":null,"tags":[],"takes":0,"#
        .to_owned()
        + r#""attempts":0,"max_attempts":null,"attempts_left":null,"open_parents":0,"failure":null,"group":null,"size":2,"#
        + r#""ttl_left":{"secs":90,"nanos":500000000},"ttr":{"secs":30,"nanos":0},"max_runtime":null,"due_in":null,"#
        + r#""reclaimed_in":null,"not_before":null,"progress":null,"spawned_by":null,"has_steps":false,"#
        + r#""put_at":{"secs_since_epoch":1767225600,"nanos_since_epoch":0},"ended_at":null,"traceparent":null}"#;
    let task = tube.query().task(0).unwrap();
    assert_json::<TaskInfo>(&task.info, &info);
    assert_json(&task, &format!(r#"{{"info":{info},"body":[104,105],"result":null}}"#));

    tube.put(Put::new("next").priority(0)).unwrap();
    let page = tube.query().list(TaskState::Ready, None, 1).unwrap();
    let first = tube.query().task(1).unwrap().info;
    let first = to_string(&first).unwrap();
    assert_json::<Page<TaskInfo>>(
        &page,
        &format!(r#"{{"items":[{first}],"next":"1r0.1","damaged":0}}"#),
    );
    assert_json(&Page::<TaskInfo>::default(), r#"{"items":[],"next":null,"damaged":0}"#);
}

#[test]
fn tubes_and_statistics_are_json_objects() {
    let (store, _clock) = store();
    let options = TubeOptions::new().capacity(5).ttr(Duration::from_millis(1500)).priority(3);
    let options = options.durability(Durability::write());
    let tube = store.create_tube("jobs", options.driver(LIMFIFOTTL)).unwrap();
    tube.put_many(["a", "b", "c"]).unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    tube.admin().bury(1, None).unwrap();
    assert_json::<TubeInfo>(
        &store.tubes().unwrap()[0],
        concat!(
            r#"{"name":"jobs","driver":"limfifottl","usable":true,"temporary":false,"#,
            r#""durability":"write(50ms)","capacity":5,"ttl":null,"ttr":{"secs":1,"nanos":500000000},"priority":3,"max_runtime":null,"#,
            r#""max_attempts":null,"count_takes":"written","backoff":"none","reclaim_delay":null,"#,
            r#""keep_done":null,"keep_buried":null,"max_taken":null,"sub_queue_limit":null,"#,
            r#""shared_limits":false,"sub_queue_rate":null,"sub_queue_cooldown":null,"rate":null,"history":0,"#,
            r#""metrics":0,"paused":false,"resumes_in":null,"waiting":0,"waiting_puts":0}"#
        ),
    );
    assert_json::<Statistics>(
        &tube.statistics().unwrap(),
        concat!(
            r#"{"tasks":{"ready":1,"taken":0,"delayed":0,"blocked":0,"buried":1,"total":2,"#,
            r#""done":1,"kept":0,"recurring":0,"overdue":0},"#,
            r#""calls":{"put":3,"take":1,"ack":1,"release":0,"fail":0,"snooze":0,"lost":0,"bury":1,"buried":1,"#,
            r#""kick":0,"delete":0,"#,
            r#""touch":0,"checkpoint":0,"ttl":0,"ttr":0,"delay":0,"block":0,"unblock":0,"#,
            r#""resolve":0,"forget":0,"schedule":0,"spawn":0,"#,
            r#""advance":0,"moved":0,"arrive":0,"update":0,"log":0,"step":0}}"#
        ),
    );
}

#[test]
fn schedules_and_their_runs_are_json_objects() {
    let (store, clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let hourly = Schedule::every("hourly", Duration::from_secs(3600)).times(9);
    tube.schedule(hourly, Put::new("hi").priority(2)).unwrap();
    clock.advance(Duration::ZERO);
    let text = concat!(
        r#"{"items":[{"id":0,"tube":"jobs","key":"hourly","recurrence":{"Every":{"secs":3600,"nanos":0}},"#,
        r#""next":{"secs_since_epoch":1767229200,"nanos_since_epoch":0},"#,
        r#""due_in":{"secs":3600,"nanos":0},"runs":1,"skipped":0,"last":1,"times":9,"missed":"1","#,
        r#""within":null,"overlap":"allow","priority":2,"ttl":null,"ttr":null,"#,
        r#""delay":{"secs":0,"nanos":0},"sub_queue":null,"max_attempts":null,"max_runtime":null,"tags":[],"#,
        r#""size":2,"stopped":null}],"next":null,"damaged":0}"#,
    );
    assert_json::<Page<ScheduleInfo>>(&tube.schedules().list(None, 10).unwrap(), text);
    let run = tube.query().task(1).unwrap().info.spawned_by.unwrap();
    let text = concat!(
        r#"{"schedule":0,"run":1,"#,
        r#""moment":{"secs_since_epoch":1767225600,"nanos_since_epoch":0}}"#,
    );
    assert_json::<SpawnedBy>(&run, text);
}

#[test]
fn limits_and_pauses_of_sub_queues_are_json_objects() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(UTUBETTL)).unwrap();
    tube.admin().pause_sub_queue("example.org", Duration::from_millis(1500)).unwrap();
    tube.admin().pause_sub_queue("", Duration::MAX).unwrap();
    store.admin().set_limit("database", 2).unwrap();
    let limit = r#"{"name":"database","most":2,"taken":0}"#;
    assert_json::<Limit>(&store.admin().limits().unwrap()[0], limit);
    let paused = tube.query().paused_sub_queues().unwrap();
    assert_json::<PausedSubQueue>(&paused[0], r#"{"name":"","resumes_in":null}"#);
    let text = r#"{"name":"example.org","resumes_in":{"secs":1,"nanos":500000000}}"#;
    assert_json::<PausedSubQueue>(&paused[1], text);
}

#[test]
fn numbers_of_a_day_are_json_objects() {
    let (store, clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().metrics(2).driver(LIMFIFOTTL)).unwrap();
    tube.put("a").unwrap();
    clock.advance(Duration::from_micros(5));
    tube.try_take().unwrap().unwrap().ack().unwrap();
    let time = |micros: u32| format!(r#"{{"secs":0,"nanos":{}}}"#, micros * 1000);
    let (none, five) = (time(0), time(5));
    let bin = |from, to| format!(r#"{{"from":{},"to":{},"count":1}}"#, time(from), time(to));
    let summary = |time: &str, bin: String| {
        format!(r#"{{"count":1,"mean":{time},"std":{none},"max":{time},"bins":[{bin}]}}"#)
    };
    let (wait, run) = (summary(&five, bin(5, 6)), summary(&none, bin(0, 1)));
    let date = store.today().unwrap();
    assert_json::<Day>(
        &tube.query().day(date).unwrap(),
        &format!(
            concat!(
                r#"{{"date":"{}","puts":1,"takes":1,"acks":1,"failed":0,"failures":0,"#,
                r#""lost":0,"retried":0,"wait":{},"run":{}}}"#
            ),
            date, wait, run
        ),
    );
}

#[test]
fn policies_of_tubes_are_json_texts() {
    let (store, _clock) = store();
    let second = Duration::from_secs(1);
    let options = TubeOptions::new().max_attempts(5).count_takes(Counting::Flushed);
    let options = options.backoff(Backoff::exponential(second).cap(second * 3600));
    let options = options.reclaim_delay(second).keep_done(Keep::new().count(9));
    let options = options.keep_buried(Keep::new().age(second));
    let options = options.max_taken(8).rate(Rate::per(5, second)).metrics(30);
    let options = options.sub_queue_limit(3).shared_limits(true);
    let options = options.sub_queue_rate(Rate::per(1, second / 2)).sub_queue_cooldown(second * 2);
    store.create_tube("jobs", options.driver(UTUBETTL)).unwrap().admin().pause_for(second).unwrap();
    let info = &store.tubes().unwrap()[0];
    let text = to_string(info).unwrap();
    let policies = concat!(
        r#""max_attempts":5,"count_takes":"flushed","backoff":"1s,factor=2,cap=1h","#,
        r#""reclaim_delay":{"secs":1,"nanos":0},"keep_done":"count=9","keep_buried":"age=1s","#,
        r#""max_taken":8,"sub_queue_limit":3,"shared_limits":true,"sub_queue_rate":"1/500ms","#,
        r#""sub_queue_cooldown":{"secs":2,"nanos":0},"#,
        r#""rate":"5/1s","history":0,"metrics":30,"paused":true,"resumes_in":{"secs":1,"nanos":0}"#,
    );
    assert!(text.contains(policies), "{text}");
    assert_json::<TubeInfo>(info, &text);
}

/// Regression: each of these fields was added to a type that applications may have stored.
#[test]
fn texts_without_later_fields_are_read() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let info = to_string(&store.tubes().unwrap()[0]).unwrap();
    for later in [
        r#""max_runtime":null,"#,
        r#""max_attempts":null,"#,
        r#""count_takes":"written","#,
        r#""backoff":"none","#,
        r#""reclaim_delay":null,"#,
        r#""keep_done":null,"#,
        r#""keep_buried":null,"#,
        r#""max_taken":null,"#,
        r#""sub_queue_limit":null,"#,
        r#""shared_limits":false,"#,
        r#""sub_queue_rate":null,"#,
        r#""sub_queue_cooldown":null,"#,
        r#""rate":null,"#,
        r#""metrics":0,"#,
        r#""history":0,"#,
        r#""paused":false,"#,
        r#""resumes_in":null,"#,
    ] {
        let earlier = info.replace(later, "");
        assert_ne!(earlier, info);
        assert_eq!(from_str::<TubeInfo>(&earlier).unwrap(), store.tubes().unwrap()[0]);
    }
    let statistics = to_string(&tube.statistics().unwrap()).unwrap();
    for later in [r#""checkpoint":0,"#, r#""fail":0,"#, r#""snooze":0,"#, r#""lost":0,"#] {
        let earlier = statistics.replace(later, "");
        assert_ne!(earlier, statistics);
        assert_eq!(from_str::<Statistics>(&earlier).unwrap(), tube.statistics().unwrap());
    }
}

#[test]
fn owner_is_a_json_object_and_token_a_string() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put(Put::new("x").ttr(Duration::from_secs(30))).unwrap();
    let session = store.session("worker-3").unwrap();
    let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
    let owner = tube.query().owner(0).unwrap().unwrap();
    let id = session.id();
    assert_json::<Owner>(
        &owner,
        &format!(
            r#"{{"session":"{id}","label":"worker-3","held":{{"secs":0,"nanos":0}},"expires_in":{{"secs":30,"nanos":0}},"is_parked":false}}"#
        ),
    );
    let token = claim.park(Duration::from_secs(1)).unwrap();
    assert_json::<ClaimToken>(&token, &format!(r#""{token}""#));
    assert!(from_str::<ClaimToken>(r#""0""#).is_err());
}

#[test]
fn events_are_json_objects() {
    let (store, _clock) = store();
    let events = store.events(Filter::new(), 10).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put("x").unwrap();
    let text = r#"{"tube":"jobs","id":0,"kind":"put","state":"ready","key":null,"owner":null,"#
        .to_owned()
        + r#""cause":null,"progress":null,"details":null,"missed":0,"seq":1}"#;
    let event = events.recv().unwrap();
    assert_json(&event, &text);
    let earlier = r#"{"tube":"jobs","id":0,"kind":"put","state":"ready","seq":1}"#;
    assert_eq!(from_str::<Event>(earlier).unwrap(), event);

    let worker = store.session("worker-3").unwrap();
    let claim = worker.tube(&tube).unwrap().try_take().unwrap().unwrap();
    claim.progress_text("sound").unwrap();
    let text = r#"{"tube":"jobs","id":0,"kind":"progress","state":"taken","key":null,"#.to_owned()
        + r#""owner":"worker-3","cause":null,"progress":{"done":0,"total":0,"text":"sound"},"#
        + r#""details":null,"missed":0,"seq":3}"#;
    assert_json(&events.into_iter().nth(1).unwrap(), &text);

    let events = store.events(Filter::new().details(), 10).unwrap();
    tube.put(Put::new("hi").priority(7).tag("t")).unwrap();
    let text = r#"{"priority":7,"tags":["t"],"failure":null,"body":[104,105]}"#;
    assert_json(&*events.recv().unwrap().details.unwrap(), text);
    let delivered = events.delivered().unwrap();
    assert_json(&delivered, r#"{"seq":4,"missed":0}"#);
}

/// What is not here has handles, errors or callbacks in it, or is read from a damaged file (`Salvaged`).
#[test]
fn values_that_calls_return_are_written_and_read() {
    fn has_json<T: Serialize + DeserializeOwned>() {}
    has_json::<ClockReport>();
    has_json::<Counters>();
    has_json::<Day>();
    has_json::<Delivered>();
    has_json::<Ending>();
    has_json::<FailureGroup>();
    has_json::<HistoryEntry>();
    has_json::<Left>();
    has_json::<Limit>();
    has_json::<Owner>();
    has_json::<OwnerInfo>();
    has_json::<Page<ScheduleInfo>>();
    has_json::<Page<Task>>();
    has_json::<Page<TaskInfo>>();
    has_json::<ParentCounts>();
    has_json::<Backlog>();
    has_json::<PausedSubQueue>();
    has_json::<Progress>();
    has_json::<Receipt>();
    has_json::<Statistics>();
    has_json::<Step>();
    has_json::<TagCount>();
    has_json::<Tally>();
    has_json::<TubeInfo>();
}

#[test]
fn counters_and_clocks_are_json_objects() {
    let (store, clock) = store();
    store.tube("jobs").unwrap();
    let counters = store.admin().counters().unwrap();
    assert_eq!(from_str::<Counters>(&to_string(&counters).unwrap()).unwrap(), counters);
    clock.advance(Duration::from_secs(1));
    let report = store.admin().clock_report().unwrap();
    assert_eq!(from_str::<ClockReport>(&to_string(&report).unwrap()).unwrap(), report);
}

#[test]
fn tallies_are_json_objects() {
    let (store, _clock) = store();
    let tube = store.tube("jobs").unwrap();
    tube.put("x").unwrap();
    let tally = Worker::new(&store).on(&tube, |_: &Job| ()).run_until_idle().unwrap();
    let text = to_string(&tally).unwrap();
    assert!(text.starts_with(r#"{"done":1,"advanced":0,"#), "{text}");
    assert_json(&tally, &text);
}

#[test]
fn owner_infos_are_json_objects() {
    let (store, _clock) = store();
    let worker = store.session("worker-3").unwrap();
    worker.describe("encoder", "").unwrap();
    let id = worker.id();
    let text = format!(r#"{{"session":"{id}","label":"worker-3","kind":"encoder","metadata":"","#)
        + r#""since":{"secs":0,"nanos":0},"last_seen":{"secs":0,"nanos":0},"#
        + r#""running":0,"overdue":0,"parked":0}"#;
    assert_json::<OwnerInfo>(&store.owners().unwrap()[0], &text);
}

/// Regression: as above.
#[test]
fn task_without_later_fields_is_read() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mut info = tube.query().task(tube.put("x").unwrap().id).unwrap().info;
    let text = to_string(&info).unwrap();
    for later in [
        r#""attempts":0,"#,
        r#""max_attempts":null,"#,
        r#""attempts_left":null,"#,
        r#""open_parents":0,"#,
        r#""failure":null,"#,
        r#""group":null,"#,
        r#""reclaimed_in":null,"#,
        r#","not_before":null"#,
        r#","progress":null"#,
        r#","spawned_by":null"#,
        r#","has_steps":false"#,
        r#","ended_at":null"#,
        r#","traceparent":null"#,
    ] {
        let earlier = text.replace(later, "");
        assert_ne!(earlier, text);
        assert_eq!(from_str::<TaskInfo>(&earlier).unwrap(), info);
    }
    let later = r#","put_at":{"secs_since_epoch":1767225600,"nanos_since_epoch":0}"#;
    let earlier = from_str::<TaskInfo>(&text.replace(later, "")).unwrap();
    assert_eq!(earlier.put_at, UNIX_EPOCH, "not known");
    info.put_at = UNIX_EPOCH;
    assert_eq!(earlier, info);
}

/// Durations keep every nanosecond, and those without a limit.
#[test]
fn durations_lose_nothing() {
    let (store, _clock) = store();
    let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let mut info = tube.query().task(tube.put("x").unwrap().id).unwrap().info;
    info.ttr = Some(Duration::MAX);
    info.due_in = Some(Duration::from_nanos(1));
    info.not_before = Some(UNIX_EPOCH + Duration::new(1_767_225_600, 999_999_999));
    assert_eq!(from_str::<TaskInfo>(&to_string(&info).unwrap()).unwrap(), info);
}

#[test]
fn other_texts_are_rejected() {
    assert!(from_str::<TaskState>(r#""Ready""#).is_err());
    assert!(from_str::<TaskState>("0").is_err());
    assert!(from_str::<EventKind>(r#""""#).is_err());
    assert!(from_str::<Durability>(r#""relaxed(1)""#).is_err());
    assert!(from_str::<Counting>(r#""Written""#).is_err());
    assert!(from_str::<Backoff>(r#""1s,factor=0""#).is_err());
    assert!(from_str::<Keep>(r#""none""#).is_err());
    assert!(from_str::<SessionId>(r#""30""#).is_err());
    assert!(from_str::<Cursor>(r#""1r""#).is_err());
    assert!(from_str::<Statistics>("{}").is_err());
}
