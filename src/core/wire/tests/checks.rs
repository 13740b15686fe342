//! A call of another process is refused as a handle refuses it.

use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::{Body, RecurRule};

use crate::base::tube_no::TubeNo;
use crate::core::TaskEdit;
use crate::core::list::{
    Ack, AddTags, ByKey, ChangeSchedule, Checkpoint, DeleteTasks, EditTasks, EndTask, FindSchedule,
    PutAndWait, PutMany, PutOrWait, PutTask, RemoveSchedule, RemoveTags, ReportText, Requeue,
    Resolve, Revoke, SetSchedule, Spawn, UpdateTask, WriteStep,
};
use crate::core::state::{
    EndRequest, History, PutInto, PutRequest, ScheduleRequest, TaskEnd, UpdateRequest,
    distinct_tags,
};
use crate::core::verb::{Limits, Verb as _};
use crate::core::verbs::{ByteBudget, Grants};
use crate::values::ending::LastFailure;
use crate::values::history::HistoryEntry;
use crate::values::put::After;
use crate::values::restore::Restore;
use crate::values::schedule::Restored;
use crate::values::step::{Step, StepKind};
use crate::{
    Claim, Error, FIFOTTL, Failure, Filter, Missed, OnKey, Outcome, Put, Schedule, SessionId,
    Store, TaskState, Tube, TubeOptions, Update,
};

const MAX_BODY: usize = 100;
const LIMITS: Limits = Limits { max_body: MAX_BODY };

fn store_and_tube() -> (Store, Tube) {
    let store = Store::options().max_body(MAX_BODY).open_in_memory().unwrap();
    let options = TubeOptions::new().keep_done(crate::Keep::new());
    let tube = store.create_tube("jobs", options.driver(FIFOTTL)).unwrap();
    (store, tube)
}

/// The error of a handle, which a call of a peer gets too.
#[track_caller]
fn refused<T: std::fmt::Debug, V: crate::core::verb::Verb>(by_handle: crate::Result<T>, verb: &V) {
    let error = by_handle.expect_err("the handle accepts it");
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    assert_eq!(verb.check(LIMITS), Err(error), "{}", V::NAME);
}

#[track_caller]
fn accepted(verb: &impl crate::core::verb::Verb) {
    assert_eq!(verb.check(LIMITS), Ok(()));
}

fn request(edit: impl FnOnce(&mut PutRequest)) -> PutRequest {
    let mut request = PutRequest::of_body(Body::new(b"work".to_vec()));
    edit(&mut request);
    request
}

const TRACEPARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

fn long(length: usize) -> String {
    "x".repeat(length)
}

fn tags(count: usize) -> Arc<[Arc<str>]> {
    (0..count).map(|at| Arc::from(at.to_string())).collect()
}

type Hostile = (Put<Vec<u8>>, fn(&mut PutRequest));

/// Puts that no handle makes, and the same as requests.
fn hostile_puts(tube: &Tube) -> Vec<Hostile> {
    vec![
        (Put::new(vec![7; MAX_BODY + 1]), |it| it.body = Body::new(vec![7; MAX_BODY + 1])),
        (Put::new(b"work".to_vec()).sub_queue(long(256)), |it| it.sub = Some(long(256))),
        (Put::new(b"work".to_vec()).max_attempts(0), |it| it.max_attempts = Some(0)),
        (Put::new(b"work".to_vec()).max_runtime(Duration::ZERO), |it| it.max_runtime = Some(0)),
        (Put::new(b"work".to_vec()).unique_for(Duration::from_secs(1)), |it| {
            it.unique_for = Some(1_000_000);
        }),
        (Put::new(b"work".to_vec()).traceparent("00-1-2-3"), |it| {
            it.traceparent = Some("00-1-2-3".into());
        }),
        (Put::new(b"work".to_vec()).key(""), |it| it.key = Some("".into())),
        (Put::new(b"work".to_vec()).key(long(4097)), |it| it.key = Some(long(4097).into())),
        (Put::new(b"work".to_vec()).tag(""), |it| it.tags = ["".into()].into()),
        (Put::new(b"work".to_vec()).tag(long(256)), |it| it.tags = [long(256).into()].into()),
        ((0..33).fold(Put::new("work".into()), |put, at| put.tag(at.to_string())), |it| {
            it.tags = tags(33);
        }),
        (Put::new(b"work".to_vec()).after_key(""), |it| {
            it.after = Some(Box::new(After { keys: vec![String::new()], ..After::default() }));
        }),
        (Put::new(b"work".to_vec()).after(tube, 0..10_001), |it| {
            let parents = vec![("jobs".into(), (0..10_001).collect())];
            it.after = Some(Box::new(After { parents, ..After::default() }));
        }),
    ]
}

#[test]
fn puts_are_refused_as_by_a_handle() {
    let (store, tube) = store_and_tube();
    let session = store.session("").unwrap().id();
    for (put, edit) in hostile_puts(&tube) {
        let hostile = request(edit);
        let typed = PutTask { request: hostile.clone() };
        refused(tube.put(put.clone()), &typed);
        let or_wait = PutOrWait { session, request: hostile.clone(), timeout: None };
        refused(tube.put_timeout(put.clone(), Duration::MAX), &or_wait);
        let and_wait = PutAndWait { session, request: hostile.clone(), timeout: None };
        refused(tube.put_and_wait(put.clone(), Duration::ZERO), &and_wait);
        let many = PutMany { requests: vec![request(|_| {}), hostile.clone()] };
        refused(tube.put_many([Put::new(b"work".to_vec()), put.clone()]), &many);
        let restore = Restore::new(put).takes(1);
        let many = PutMany { requests: vec![PutRequest { takes: 1, ..hostile }] };
        refused(tube.admin().restore_many([restore]), &many);
    }
    let most = PutTask { request: request(|it| it.tags = tags(32)) };
    assert_eq!(most.check(LIMITS), Ok(()));
}

#[test]
fn put_cannot_bring_what_only_a_restore_brings() {
    let plain = request(|_| {});
    for hostile in [
        PutRequest { id: Some(7), ..plain.clone() },
        PutRequest { takes: 1, ..plain.clone() },
        PutRequest { restored_as: Some(TaskState::Done), ..plain.clone() },
        PutRequest { history: Some(Box::new(history())), ..plain.clone() },
    ] {
        let result = PutTask { request: hostile }.check(LIMITS);
        assert!(matches!(result, Err(Error::Invalid { .. })), "{result:?}");
    }
    let twice = request(|it| it.tags = ["a".into(), "a".into()].into());
    assert!(PutTask { request: twice }.check(LIMITS).is_err());
    for hostile in
        [request(|it| it.key = Some("a".into())), request(|it| it.on_key = OnKey::Replace)]
    {
        assert!(Requeue { request: hostile }.check(LIMITS).is_err());
    }
    accepted(&Requeue { request: PutRequest::requeue("a", Put::new(b"work".to_vec())).unwrap() });
}

#[test]
fn too_many_puts_are_refused_as_by_a_handle() {
    let (_store, tube) = store_and_tube();
    let many = PutMany { requests: vec![request(|_| {}); 100_001] };
    refused(tube.put_many(vec!["work"; 100_001]), &many);
    let restored = vec![PutRequest { takes: 1, ..request(|_| {}) }; 100_001];
    let tasks = (0..100_001).map(|_| Restore::new("work").takes(1));
    refused(tube.admin().restore_many(tasks), &PutMany { requests: restored });
    let after = |it: &mut PutRequest| {
        let parents = vec![("jobs".into(), (0..10_000).collect())];
        it.after = Some(Box::new(After { parents, ..After::default() }));
    };
    let many = PutMany { requests: vec![request(after); 11] };
    let puts = vec![Put::new("work").after(&tube, 0..10_000); 11];
    refused(tube.put_many(puts), &many);
}

fn history() -> History {
    History {
        forgiven: 0,
        buried_with: None,
        failure: None,
        spawned_by: None,
        result: None,
        entries: Vec::new(),
        steps: Vec::new(),
        put_at: None,
        ended_at: None,
    }
}

#[test]
fn restores_are_refused_as_by_a_handle() {
    let (_store, tube) = store_and_tube();
    let with = |restored_as: Option<TaskState>, edit: &dyn Fn(&mut History)| {
        let mut history = history();
        edit(&mut history);
        PutRequest { takes: 3, restored_as, history: Some(Box::new(history)), ..request(|_| {}) }
    };
    let restore = || Restore::new("work").takes(3);
    let failure = |group: &str| LastFailure::new(group, "no host", 1);
    let owned = |length: usize| LastFailure { owner: Some(long(length)), ..failure("net") };
    let entry = |number: u64| {
        let at = crate::base::moment::system_time(7);
        HistoryEntry::new(number, at, "jobs", crate::EventKind::Put, TaskState::Ready)
    };
    let step = |name: &str, kind, length| Step::new(name, kind, vec![7; length]);
    let (buried, done) = (Some(TaskState::Buried), Some(TaskState::Done));
    let cases = [
        (restore().forgiven(4), with(None, &|it| it.forgiven = 4)),
        (restore().group("net"), with(None, &|it| it.buried_with = Some(Failure::new("net", "")))),
        (
            restore().buried(true).group(long(256)),
            with(buried, &|it| it.buried_with = Some(Failure::new(long(256), ""))),
        ),
        (restore().failure(failure("")), with(None, &|it| it.failure = Some(failure("")))),
        (restore().failure(owned(256)), with(None, &|it| it.failure = Some(owned(256)))),
        (
            restore().done(Some(vec![7; MAX_BODY + 1])),
            with(done, &|it| it.result = Some(vec![7; MAX_BODY + 1])),
        ),
        (
            restore().history(vec![entry(2), entry(1)]),
            with(None, &|it| it.entries = vec![entry(2), entry(1)]),
        ),
        (
            restore().history(vec![entry(0).text(Some(long(1025)))]),
            with(None, &|it| it.entries = vec![entry(0).text(Some(long(1025)))]),
        ),
        (
            restore().steps(vec![step("", StepKind::Value, 1)]),
            with(None, &|it| it.steps = vec![step("", StepKind::Value, 1)]),
        ),
        (
            restore().steps(vec![step("a", StepKind::Sleep, 1)]),
            with(None, &|it| it.steps = vec![step("a", StepKind::Sleep, 1)]),
        ),
        (
            restore().steps(vec![step("a", StepKind::Value, MAX_BODY + 1)]),
            with(None, &|it| it.steps = vec![step("a", StepKind::Value, MAX_BODY + 1)]),
        ),
        (
            restore().done(None).steps(vec![step("a", StepKind::Value, 1)]),
            with(done, &|it| it.steps = vec![step("a", StepKind::Value, 1)]),
        ),
        (restore().id(u64::MAX), PutRequest { id: Some(u64::MAX), takes: 3, ..request(|_| {}) }),
        (
            Restore::new(Put::new("work").key("a").on_key(OnKey::Replace)).takes(3),
            PutRequest {
                takes: 3,
                key: Some("a".into()),
                on_key: OnKey::Replace,
                ..request(|_| {})
            },
        ),
        (
            Restore::new(Put::new("work").delay(Duration::from_secs(1))).takes(3).buried(true),
            PutRequest { delay: 1_000_000, ..with(buried, &|_| {}) },
        ),
    ];
    for (task, hostile) in cases {
        refused(tube.admin().restore_many([task]), &PutMany { requests: vec![hostile] });
    }
    for hostile in [
        with(None, &|it| it.result = Some(vec![7])),
        with(Some(TaskState::Taken), &|_| {}),
        with(None, &|it| it.failure = Some(LastFailure::new("net", long(10_001), 1))),
    ] {
        assert!(PutMany { requests: vec![hostile] }.check(LIMITS).is_err());
    }
}

fn edit(edit: TaskEdit, filter: &Filter) -> EditTasks {
    EditTasks { filter: filter.clone(), edit, after: None, below: None, limit: 1 }
}

fn revoke(filter: &Filter, limit: u64) -> Revoke {
    Revoke { filter: filter.clone(), forgive: false, after: None, limit }
}

#[test]
fn edits_and_selections_are_refused_as_by_a_handle() {
    let (store, tube) = store_and_tube();
    let id = tube.put("work").unwrap().id;
    let body = UpdateRequest { body: Some(Body::new(vec![7; 101])), ..UpdateRequest::default() };
    let update = UpdateTask { id, request: body };
    refused(tube.update(id, Update::new().body(vec![7; 101])), &update);
    let many = UpdateRequest { tags: Some(tags(33)), ..UpdateRequest::default() };
    let names: Vec<String> = (0..33).map(|at| at.to_string()).collect();
    let update = UpdateTask { id, request: many };
    refused(tube.update(id, Update::new().tags(names.clone())), &update);
    for hostile in [tags(33), ["".into()].into(), [long(256).into()].into()] {
        let add = AddTags { id, tags: hostile.clone() };
        refused(tube.admin().add_tags(id, hostile.iter()), &add);
        let remove = RemoveTags { id, tags: hostile.clone() };
        refused(tube.admin().remove_tags(id, hostile.iter()), &remove);
    }
    for filter in [Filter::new(), Filter::new().state(TaskState::Ready).group("net")] {
        refused(tube.admin().delete(&filter), &edit(TaskEdit::Delete, &filter));
        let none = filter.clone().limit(0);
        refused(tube.admin().delete(&none), &edit(TaskEdit::Delete, &none));
        let across = TaskEdit::DeleteAcross(vec!["case".into()]);
        refused(store.admin().delete(&filter), &edit(across, &filter));
    }
    let chosen = |ids: std::ops::Range<u64>, filter| DeleteTasks {
        tasks: [("jobs".into(), ids.collect())].into(),
        filter,
        most: None,
    };
    let limited = Filter::new().limit(1);
    refused(store.admin().delete(limited.clone().ids([id])), &chosen(0..1, limited));
    let many = Filter::new().ids(0..10_001);
    refused(store.admin().delete(many), &chosen(0..10_001, Filter::new()));
    accepted(&chosen(0..10_000, Filter::new().tag("a")));
    let ready = Filter::new().state(TaskState::Ready);
    refused(tube.admin().kick(&ready), &edit(TaskEdit::Kick, &ready));
    assert!(edit(TaskEdit::Kick, &Filter::new().tag("a")).check(LIMITS).is_err());
    accepted(&edit(TaskEdit::Kick, &Filter::new().tag("a").for_kick().unwrap()));
    let to = store.tube("other").unwrap();
    let done = Filter::new().state(TaskState::Done);
    let name = tube.other(&to).unwrap();
    refused(tube.admin().move_to(&to, &done), &edit(TaskEdit::Move(name.clone()), &done));
    accepted(&edit(TaskEdit::Move(name), &Filter::new()));
    for filter in [ready, Filter::new().group("net"), Filter::new().ids(0..10_001)] {
        refused(tube.admin().revoke(&filter), &revoke(&filter, 1));
    }
    accepted(&revoke(&Filter::new().owner("w").ids(0..10_000), 1));
    let result = vec![7; MAX_BODY + 1];
    let resolve = Resolve { id, result: Some(result.clone()) };
    refused(tube.admin().resolve(id, Outcome::result(result.clone())), &resolve);
    for key in [String::new(), long(4097)] {
        refused(store.by_key(&key), &ByKey { key: key.into() });
    }
}

#[test]
fn verbs_of_a_holder_are_refused_as_by_a_handle() {
    let (_store, tube) = store_and_tube();
    let take = || -> Claim {
        tube.put("work").unwrap();
        tube.try_take().unwrap().unwrap()
    };
    let large = vec![7; MAX_BODY + 1];
    let ack = Ack { result: Some(large.clone()) };
    refused(take().end(Outcome::result(large.clone())), &ack);
    let id = take().detach().info.id;
    refused(tube.claimed(id).and_then(|claim| claim.end(Outcome::result(large.clone()))), &ack);
    let checkpoint = Checkpoint { body: Body::new(large.clone()) };
    refused(take().checkpoint(large.clone()), &checkpoint);
    let failure = || Failure::new("", "no group");
    let fail = EndTask::alone(TaskEnd::Fail { delay: None, failure: failure() });
    refused(take().fail(failure()), &fail);
    refused(tube.claimed(take().id()).and_then(|claim| claim.fail(failure())), &fail);
    refused(take().bury(failure()), &EndTask::alone(TaskEnd::Bury(Some(failure()))));
    let report = ReportText { text: long(1025).into() };
    refused(take().progress_text(&long(1025)), &report);

    let into = |request: PutRequest| PutInto { tube: TubeNo(300), name: "jobs".into(), request };
    let hostile = EndTask::alone(TaskEnd::Ack { result: Some(large.clone()) });
    let outcome = Outcome::result(large.clone()).and_put(&tube, "work");
    refused(take().end(outcome), &hostile);
    for (put, edit) in hostile_puts(&tube) {
        let puts = vec![into(request(edit))];
        let hostile = EndTask { request: EndRequest { end: TaskEnd::Ack { result: None }, puts } };
        let by_handle = take().end(Outcome::done().and_put(&tube, put.clone()));
        refused(by_handle, &hostile);
        let hostile = EndTask::alone(TaskEnd::Advance(Box::new(into(request(edit)))));
        refused(take().end(Outcome::advance(&tube, put.clone())), &hostile);
        let spawn = Spawn { name: "a".into(), into: into(request(edit)) };
        refused(take().spawn("a", &tube, put), &spawn);
    }
    let value = vec![7_u8; MAX_BODY];
    let encoded = serde_json::to_vec(&value).unwrap();
    let write = WriteStep { name: "a".into(), value: encoded };
    let by_handle = take().step("a", || Ok::<_, Error>(value.clone()));
    refused(by_handle, &write);
}

#[test]
fn schedules_are_refused_as_by_a_handle() {
    let (_store, tube) = store_and_tube();
    let second = Duration::from_secs(1);
    let work = || Put::new(b"work".to_vec());
    let schedule = || Schedule::every("a", second);
    let whole = || ScheduleRequest::new(schedule(), work()).unwrap().1;
    let put = |edit: fn(&mut PutRequest)| Some(request(edit));
    let restored = Restored { id: Some(u64::MAX), runs: 1, skipped: 1 };
    let cases = [
        (
            Schedule::every("a", Duration::ZERO),
            work(),
            ScheduleRequest { rule: Some(RecurRule::Every(0)), ..whole() },
        ),
        (Schedule::of("a"), work(), ScheduleRequest { rule: None, ..whole() }),
        (schedule().times(0), work(), ScheduleRequest { times: Some(Some(0)), ..whole() }),
        (
            schedule().missed(Missed::Latest(101)),
            work(),
            ScheduleRequest { missed: Some(101), ..whole() },
        ),
        (
            schedule(),
            Put::new(vec![7; 101]),
            ScheduleRequest { put: put(|it| it.body = Body::new(vec![7; 101])), ..whole() },
        ),
        (
            schedule(),
            work().key("b"),
            ScheduleRequest { put: put(|it| it.key = Some("b".into())), ..whole() },
        ),
        (
            schedule(),
            work().on_key(OnKey::Keep),
            ScheduleRequest { put: put(|it| it.on_key = OnKey::Keep), ..whole() },
        ),
        (
            schedule(),
            work().after(&tube, [1]),
            ScheduleRequest { put: put(|it| it.after = Some(Box::default())), ..whole() },
        ),
        (
            schedule(),
            work().traceparent(TRACEPARENT),
            ScheduleRequest { put: put(|it| it.traceparent = Some(TRACEPARENT.into())), ..whole() },
        ),
        (
            schedule(),
            work().not_before(crate::base::moment::system_time(7)),
            ScheduleRequest { put: put(|it| it.not_before = Some(7)), ..whole() },
        ),
        (
            schedule().restored(u64::MAX, 1, 1),
            work(),
            ScheduleRequest { restored: Some(restored), ..whole() },
        ),
    ];
    let key: Arc<str> = "a".into();
    for (schedule, task, request) in cases {
        let set = SetSchedule { key: key.clone(), request };
        refused(tube.schedule(schedule, task), &set);
    }
    let set = SetSchedule { key: long(4072).into(), request: whole() };
    refused(tube.schedule(Schedule::every(long(4072), second), work()), &set);

    let change = |key: &str, request| ChangeSchedule { key: key.into(), request };
    let of_task =
        |edit: fn(&mut PutRequest)| ScheduleRequest { put: put(edit), ..Default::default() };
    let large = change("a", of_task(|it| it.body = Body::new(vec![7; 101])));
    refused(tube.schedules().change_task("a", vec![7; 101]), &large);
    let tagged = change("a", of_task(|it| it.tags = tags(33)));
    let task = (0..33).fold(work(), |task, at| task.tag(at.to_string()));
    refused(tube.schedules().change_task("a", task), &tagged);
    let never = change("a", of_task(|it| it.max_attempts = Some(0)));
    refused(tube.schedules().change_task("a", work().max_attempts(0)), &never);
    let restored = Some(Restored { id: None, runs: 1, skipped: 1 });
    let counted = change("a", ScheduleRequest { restored, ..Default::default() });
    refused(tube.schedules().change(Schedule::of("a").restored(None, 1, 1)), &counted);
    refused(tube.schedules().change(Schedule::of("")), &change("", ScheduleRequest::default()));
    refused(tube.schedules().get(""), &FindSchedule { key: "".into() });
    refused(tube.schedules().remove(""), &RemoveSchedule { key: "".into() });
    // What is as far below a millisecond is a millisecond in the request.
    let short = Duration::from_nanos(999_001);
    assert!(matches!(tube.schedule(Schedule::every("a", short), ""), Err(Error::Invalid { .. })));
    let none = schedule().missed(Missed::Latest(0));
    assert!(matches!(tube.schedule(none, work()), Err(Error::Invalid { .. })));
}

/// What a handle makes passes the checks of a call.
#[test]
fn tags_of_a_handle_are_distinct() {
    let tags = distinct_tags(["a", "b", "a"]);
    accepted(&AddTags { id: 7, tags });
}

/// An iterator without an end is refused, and not read for ever.
#[test]
fn tags_and_tasks_of_a_handle_are_read_up_to_their_limits() {
    let (_store, tube) = store_and_tube();
    let id = tube.put("work").unwrap().id;
    let refused = tube.admin().add_tags(id, (0..).map(|at: u64| at.to_string())).unwrap_err();
    assert!(refused.to_string().contains("at most 32 tags"), "{refused}");
    let refused = tube.put_many(std::iter::repeat("work")).unwrap_err();
    assert!(refused.to_string().contains("put_many accepts at most"), "{refused}");
    let restores = std::iter::repeat_with(|| Restore::new("work"));
    let refused = tube.admin().restore_many(restores).unwrap_err();
    assert!(refused.to_string().contains("restore_many accepts at most"), "{refused}");
}

/// Takes tasks as the owner of a store does, and leaves them to the session.
pub(super) fn take_many(
    store: &Store,
    tube: &Tube,
    session: SessionId,
    count: usize,
) -> crate::Result<Grants> {
    let budget = &mut ByteBudget::unlimited();
    store.inner().run(|core| core.carry_out_take_many(tube.head(), session, count, budget))
}

/// Steps of a call under the lock are bounded, whatever number the caller names.
#[test]
fn take_many_and_the_release_of_all_stop_after_a_step() {
    let (store, tube) = store_and_tube();
    tube.put_many(vec!["work"; 600]).unwrap();
    let claims = tube.take_many(600, Duration::ZERO).unwrap();
    assert_eq!(claims.len(), 600);
    let released = tube.make(revoke(&Filter::new(), u64::MAX)).unwrap();
    assert_eq!((released.changed, released.next.is_some()), (512, true));
    assert_eq!(tube.admin().release(Filter::new()), Ok(88));
    let session = tube.session();
    let grants = take_many(&store, &tube, session, usize::MAX).unwrap();
    assert_eq!(grants.tasks.len(), 256);
}
