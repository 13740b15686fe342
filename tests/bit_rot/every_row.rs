//! A tube whose tasks have rows of every kind: keys, tags, tokens, edges, moments, failure groups,
//! results, histories, steps, counted and parked claims, a schedule, and numbers by day. What its calls
//! return is compared with what they return on the undamaged file.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::{Duration, UNIX_EPOCH};

use tubewell::{
    Cursor, Ending, Error, FIFOTTL, Failure, Filter, Keep, Outcome, Put, Result, Schedule, Store,
    TaskState, Tube, TubeOptions,
};

use crate::rng::Rng;
use crate::sample::{CLOCK_START, Original, Tasks};

pub const TUBE: &str = "yew";
/// Its tasks have the ids below this.
const TASKS: u64 = 18;
const TAGS: [&str; 3] = ["red", "blue", "all"];
const HOUR: Duration = Duration::from_secs(3600);
const LONG: Duration = Duration::from_secs(30 * 86_400);

/// What the calls of the tube return: by call, each as texts.
pub type Found = BTreeMap<String, Result<Vec<String>>>;

/// Puts the tasks into a new tube. Calls `record` with the number of each commit, the tasks of the tube
/// after it, and a task that was put.
pub fn fill(
    store: &Store,
    rng: &mut Rng,
    mut record: impl FnMut(u64, &Tasks, Option<(u64, Original)>),
) {
    let options = TubeOptions::new().history(5).metrics(3).max_attempts(9).keep_done(Keep::new());
    let tube = store.create_tube(TUBE, options.driver(FIFOTTL)).unwrap();
    store.admin().set_limit("shared", 3).unwrap();
    let mut tasks = Tasks::new();
    for nth in 0..TASKS {
        let body: Vec<u8> = (0..rng.below(300)).map(|_| rng.next().to_le_bytes()[0]).collect();
        let receipt = tube.put(draft(&tube, nth, &body)).unwrap();
        let id = receipt.id;
        assert_eq!(id, nth);
        tasks.insert(id, (TUBE, receipt.state));
        let original = Original { tube: TUBE, body };
        record(receipt.commit, &tasks, Some((id, original)));
        let failure = Failure::new(format!("group-{}", nth % 4), format!("message of {nth}"));
        let changed = match nth % 6 {
            1 => {
                tasks.insert(id, (TUBE, TaskState::Buried));
                tube.claim(id).unwrap().bury(failure).unwrap()
            }
            2 => {
                tasks.insert(id, (TUBE, TaskState::Done));
                tube.claim(id).unwrap().end(Outcome::result(result(nth))).unwrap()
            }
            5 => {
                let claim = tube.claim(id).unwrap();
                claim.step("one", || Ok::<_, Error>(result(nth))).unwrap();
                claim.step("two", || Ok::<_, Error>(result(nth))).unwrap();
                if nth == 5 {
                    claim.park(Duration::MAX).unwrap();
                    // No list of waiting tasks has it.
                    tasks.remove(&id);
                    record(store.admin().counters().unwrap().commits, &tasks, None);
                    continue;
                }
                claim.fail(failure).unwrap()
            }
            _ => tube.admin().log(id, &format!("entry of {nth}")).unwrap(),
        };
        record(changed.commit, &tasks, None);
    }
    let first = UNIX_EPOCH + CLOCK_START + LONG;
    tube.schedule(Schedule::every("monthly", LONG).starting(first), "run").unwrap();
}

fn draft<'a>(tube: &Tube, nth: u64, body: &'a [u8]) -> Put<&'a [u8]> {
    let put = Put::new(body).key(key(nth)).tag("all").idempotency_key(format!("token-{nth}"));
    let put = put.tag(if nth.is_multiple_of(2) { "red" } else { "blue" });
    match nth % 6 {
        3 if nth == 3 => put.not_before(UNIX_EPOCH + CLOCK_START + HOUR),
        3 => put.delay(HOUR),
        4 => put.after(tube, [nth - 4, nth - 1]),
        _ => put,
    }
}

fn key(nth: u64) -> String {
    format!("key-{nth}")
}

fn result(nth: u64) -> Vec<u8> {
    format!("result of {nth}").into_bytes()
}

/// Calls everything that reads the rows of the tube.
pub fn read(store: &Store) -> Found {
    let mut found = Found::new();
    let mut add = |call: String, texts: Result<Vec<String>>| drop(found.insert(call, texts));
    for tag in TAGS {
        let tasks = store.list(Filter::new().tag(tag), None, 1000).map(|page| page.items);
        // Other tubes have tasks with these tags, too.
        let of_tube = tasks.map(|all| all.into_iter().filter(|task| task.tube == TUBE).collect());
        add(format!("tagged {tag}"), of_tube.map(|all: Vec<_>| each(all, |it| it.id)));
    }
    let Ok(tube) = store.find_tube(TUBE) else { return found };
    for nth in 0..TASKS {
        let id_of = |task: Option<tubewell::TaskInfo>| each(task, |it| (it.tube, it.id));
        add(format!("key {nth}"), store.by_key(&key(nth)).map(id_of));
        let stated = |task: Option<tubewell::TaskInfo>| each(task, |it| it);
        add(format!("find {nth}"), store.find(nth).map(stated));
        add(format!("history {nth}"), tube.query().history(nth).map(|all| each(all, |it| it)));
        if nth % 6 == 5 {
            add(format!("steps {nth}"), tube.query().steps(nth).map(|all| each(all, |it| it)));
        }
        let content = |ending: Option<Ending>| match ending {
            Some(Ending::Done { result: Some(result) }) => vec![format!("result {result:?}")],
            Some(Ending::Buried { failure: Some(it) }) => vec![format!("failure {it:?}")],
            _ => Vec::new(),
        };
        add(format!("outcome {nth}"), tube.ending(nth).map(content));
        if nth % 6 == 4 {
            add(format!("parents {nth}"), tube.query().parents(nth).map(|all| each(all, |it| it)));
            add(
                format!("children {}", nth - 1),
                tube.query().children(nth - 1).map(|all| each(all, |it| it)),
            );
        }
    }
    for state in [TaskState::Taken, TaskState::Blocked, TaskState::Done] {
        let page = tube.query().list(state, None, 1000);
        add(format!("list {state}"), page.map(|page| each(page.items, |it| it.id)));
    }
    let page = |after: Option<Cursor>| tube.query().list(Filter::new().tag("all"), after, 1000);
    add("list_where".into(), page(None).map(|page| each(page.items, |it| it.id)));
    add("groups".into(), tube.query().groups().map(|all| each(all, |it| it)));
    for group in 0..4 {
        let page = tube.query().list(
            Filter::new().group(format!("group-{group}")).newest_first(),
            None,
            1000,
        );
        add(format!("group {group}"), page.map(|page| each(page.items, |it| it.id)));
    }
    let schedules = tube.schedules().list(None, 10);
    add("schedules".into(), schedules.map(|page| each(page.items, |it| it)));
    let today = store.today().unwrap();
    add(
        "days".into(),
        tube.query().days(today.plus_days(-2)..=today).map(|all| each(all, |it| it)),
    );
    add("limits".into(), Ok(each(store.admin().limits().unwrap(), |it| (it.name, it.most))));
    found
}

fn each<T, U: Debug>(all: impl IntoIterator<Item = T>, of: impl Fn(T) -> U) -> Vec<String> {
    all.into_iter().map(|it| format!("{:?}", of(it))).collect()
}

/// What differs between what calls return on a damaged file and on the undamaged one.
#[derive(Default)]
pub struct Differences {
    pub errors: Vec<String>,
    pub lost: Vec<String>,
    /// What no damage may bring about: contents that no call has stored, tasks without the tag or the
    /// key that was asked for.
    pub wrong: Vec<String>,
}

impl Differences {
    pub fn of(found: &Found, expected: &Found) -> Differences {
        let mut all = Differences::default();
        for (call, expected) in expected {
            let expected = expected.as_ref().unwrap();
            match found.get(call) {
                Some(Ok(texts)) if texts == expected => {}
                Some(Ok(texts)) => {
                    let further = texts.iter().find(|text| !expected.contains(text));
                    let is_checked = ["history", "steps", "outcome", "tagged", "key"];
                    let is_checked = is_checked.iter().any(|checked| call.starts_with(checked));
                    if let Some(text) = further.filter(|_| is_checked) {
                        all.wrong.push(format!("{call} returned {text}, not of {expected:?}"));
                    }
                    all.lost.push(format!("{call} returned {texts:?}, not {expected:?}"));
                }
                Some(Err(
                    error @ (Error::Corrupt { .. } | Error::Io { .. } | Error::Stopped { .. }),
                )) => {
                    all.errors.push(format!("{call}: {error}"));
                }
                other => all.lost.push(format!("{call} returned {other:?}")),
            }
        }
        all
    }
}

/// Puts some of the tasks again, with their tokens: each put returns the stored task.
pub fn put_again(store: &Store) -> Vec<(u64, Result<u64>)> {
    let Ok(tube) = store.find_tube(TUBE) else { return Vec::new() };
    let puts = (0..TASKS).step_by(5).map(|nth| {
        let put = tube.put(Put::new("again").idempotency_key(format!("token-{nth}")));
        (nth, put.map(|receipt| receipt.id))
    });
    puts.collect()
}
