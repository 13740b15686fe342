//! Store files of every released format, kept in `tests/fixtures`. Every later release must open
//! each of them, find it sound, read the contents recorded beside it, and drain it.
//!
//! `cargo test --test fixtures -- --ignored write_fixtures` writes the files of the newest layout and
//! format. This is done once for each of them. Existing fixtures must never be written again. The
//! files in `format-1` are of the releases before there was a layout, those in `layout-1` and
//! `layout-2` have format 1 and 2. Layout 2 is also that of `format-3` and `format-4`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tubewell::{
    Backoff, Counting, Cursor, Durability, Ending, FIFO, FIFOTTL, Failure, Keep, LIMFIFOTTL,
    LastFailure, ManualClock, Put, Salvaged, State, Store, StoreOptions, TaskInfo, Tube,
    TubeOptions, UTUBE, UTUBETTL,
};

/// The folder of the files that this release writes: layout 2, format 4.
const NEWEST: &str = "format-4";

fn all_fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn body(text: &str, length: usize) -> Vec<u8> {
    text.bytes().cycle().take(length).collect()
}

/// Fills a store with every driver, every state and every kind of row.
fn fill(store: &Store) -> tubewell::Result<()> {
    let make = |name, driver, options| store.create_tube(name, driver, options);
    let plain = make("plain", FIFO, TubeOptions::new())?;
    plain.put_many(["", "one", "two", "three"])?;
    plain.put(vec![0, 159, 146, 150])?;
    plain.put(body("large ", 20_000))?;
    plain.bury(plain.put("set aside")?.id)?;
    let timed = TubeOptions::new().pri(7).ttl(Duration::from_secs(86_400));
    let timed = make("timed", FIFOTTL, timed.ttr(Duration::from_secs(30)))?;
    for n in 0..6_u32 {
        timed.put(Put::new(format!("timed {n}")).pri(n % 3).ttl(Duration::from_secs(7200)))?;
    }
    timed.put(Put::new("for ever").ttl(Duration::MAX).ttr(Duration::MAX))?;
    timed.put(Put::new("later").delay(Duration::from_secs(600)))?;
    timed.put(Put::new("much later").delay(Duration::MAX))?;
    timed.bury(timed.put(body("buried and large ", 5000))?.id)?;
    let sites = make("sites", UTUBE, TubeOptions::new())?;
    let both = make("both", UTUBETTL, TubeOptions::new())?;
    for n in 0..8_u32 {
        sites.put(Put::new(format!("site {n}")).sub_queue(format!("s{}", n % 3)))?;
        both.put(Put::new(format!("both {n}")).sub_queue(format!("häuser {}", n % 2)).pri(8 - n))?;
    }
    both.put(Put::new("delayed in a sub-queue").sub_queue("x").delay(Duration::from_secs(60)))?;
    let small = make("small", LIMFIFOTTL, TubeOptions::new().capacity(3))?;
    small.put_many(["a", "b", "c"])?;
    let memory = make("memory", FIFO, TubeOptions::new().temporary(true))?;
    memory.put("nowhere")?;
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    make("relaxed", FIFO, relaxed)?.put("soon in the file")?;
    let written = TubeOptions::new().durability(Durability::write());
    make("written", FIFOTTL, written)?.put(Put::new("in the file").pri(3))?;
    store.flush()?;
    // Some tasks are taken several times, and one is acked.
    for _ in 0..3 {
        let claims = timed.take_many(2, Duration::ZERO)?;
        assert_eq!(claims.len(), 2);
    }
    plain.try_take()?.expect("a task").ack()?;
    let limited = TubeOptions::new().max_runtime(Duration::from_secs(3600));
    let limited = make("limited", FIFOTTL, limited)?;
    limited.put_many(["hour-long", "next"])?;
    for (tube, hold) in [
        (&limited, Duration::from_secs(600)),
        (&sites, Duration::MAX),
        (&plain, Duration::from_secs(60)),
    ] {
        tube.take(Duration::ZERO)?.expect("a task").park(hold)?;
    }
    fill_jobs(store)?;
    // So many rows are purged in several commits.
    let gone = make("gone", UTUBETTL, TubeOptions::new())?;
    gone.put_many((0..1500).map(|n| Put::new("gone").sub_queue(format!("s{}", n % 9))))?;
    Ok(())
}

/// Attempts, failures and outcomes.
fn fill_jobs(store: &Store) -> tubewell::Result<()> {
    let day = Duration::from_secs(86_400);
    let options = TubeOptions::new().max_attempts(2).reclaim_delay(Duration::from_secs(5));
    let backoff = Backoff::exponential(Duration::from_secs(60)).factor(1.5).cap(day).jitter(0.5);
    let options = options.backoff(backoff).keep_done(Keep::new().count(10).age(day));
    let options = options.keep_buried(Keep::new().age(2 * day));
    let jobs = store.create_tube("jobs", FIFOTTL, options)?;
    let session = store.session_named("worker 1")?;
    let worker = session.tube("jobs")?;
    let failure = |group| Failure::new(group, "example.org does not answer");
    let next = || worker.try_take().map(|claim| claim.expect("a task"));
    jobs.put_many(["acked", "acked with a result", "acked with a large result"])?;
    next()?.ack()?;
    next()?.ack_with("a result")?;
    next()?.ack_with(body("large result ", 20_000))?;
    jobs.put_many(["to be tried again", "cannot be done"])?;
    next()?.fail(failure("timeout"))?;
    next()?.bury_with(failure("not a number"))?;
    jobs.put(Put::new("tried once").max_attempts(1))?;
    next()?.fail(failure("timeout"))?;
    jobs.put_many(["snoozed", "failed and then acked", "resolved"])?;
    next()?.snooze(Duration::from_secs(60))?;
    next()?.fail_in(Duration::ZERO, failure("timeout"))?;
    next()?.ack()?;
    jobs.resolve(next()?.release(Duration::ZERO)?.id, Some(b"by hand"))?;
    jobs.put_many(["taken once when the store ended", "taken, and parked"])?;
    let _ = store.tube("jobs")?.try_take()?.expect("a task").detach();
    next()?.park(day)?;
    let lazily = TubeOptions::new().max_attempts(3).count_takes(Counting::Lazily);
    store.create_tube("lazily", FIFO, lazily)?.put("work")?;
    let flushed = TubeOptions::new().max_attempts(3).count_takes(Counting::Flushed);
    store.create_tube("flushed", UTUBE, flushed)?.put("work")?;
    Ok(())
}

/// Run by hand, once for each layout and format.
#[test]
#[ignore = "writes the fixtures of the newest layout and format"]
fn write_fixtures() {
    let dir = tempfile::tempdir().unwrap();
    for (name, clean) in [("closed", true), ("killed", false)] {
        let (path, clock) = (dir.path().join(name), ManualClock::new());
        let store = Store::options().clock(&clock).open(&path).unwrap();
        fill(&store).unwrap();
        let kept = dir.path().join(format!("{name}.tubewell"));
        if clean {
            store.drop_tube("gone").unwrap();
            store.close().unwrap();
            StoreOptions::default().compact(&path).unwrap();
            std::fs::copy(&path, &kept).unwrap();
        } else {
            store.tube("plain").unwrap().put("the last one").unwrap();
            store.drop_tube("gone").unwrap();
            // A kill leaves the file as it is while the store is open.
            std::fs::copy(&path, &kept).unwrap();
            store.close().unwrap();
        }
        let copy = dir.path().join("copy");
        std::fs::copy(&kept, &copy).unwrap();
        let held = contents(&Store::options().clock(&clock).open(&copy).unwrap());
        let folder = all_fixtures().join(NEWEST);
        std::fs::create_dir_all(&folder).unwrap();
        let list = folder.join(format!("{name}.json"));
        std::fs::write(list, serde_json::to_string_pretty(&held).unwrap() + "\n").unwrap();
        std::fs::copy(&kept, folder.join(format!("{name}.tubewell"))).unwrap();
    }
}

/// All tubes and tasks of a store, as JSON.
fn contents(store: &Store) -> Value {
    let tubes = store.tubes().into_iter().map(|info| {
        let tube = store.tube(&info.name).unwrap();
        let tasks = [State::Ready, State::Delayed, State::Buried, State::Taken, State::Done]
            .into_iter()
            .flat_map(|state| list(&tube, state))
            .map(|task| task_json(&tube, &task));
        let tasks: Vec<Value> = tasks.collect();
        let mut shown = json!({
            "name": info.name, "driver": info.driver, "temporary": info.temporary,
            "capacity": info.capacity, "pri": info.pri, "ttl": micros(info.ttl),
            "ttr": micros(info.ttr), "tasks": tasks,
        });
        if let Some(most) = micros(info.max_runtime) {
            shown["max_runtime"] = json!(most);
        }
        let groups = tube.groups().unwrap().into_iter();
        let groups: Vec<Value> = groups.map(|group| json!([group.name, group.count])).collect();
        if !groups.is_empty() {
            shown["groups"] = json!(groups);
        }
        if info.max_attempts.is_some() {
            shown["policies"] = json!(format!(
                "{:?}, {}, {}, {:?}, {:?}, {:?}",
                info.max_attempts,
                info.count_takes,
                info.backoff,
                info.reclaim_delay,
                info.keep_done.map(|keep| keep.to_string()),
                info.keep_buried.map(|keep| keep.to_string()),
            ));
        }
        shown
    });
    Value::Array(tubes.collect())
}

fn list(tube: &Tube, state: State) -> Vec<TaskInfo> {
    let (mut all, mut place): (_, Option<Cursor>) = (Vec::new(), None);
    loop {
        let page = tube.list(state, place, 10_000).unwrap();
        all.extend(page.tasks);
        match page.next {
            Some(next) => place = Some(next),
            None => return all,
        }
    }
}

fn task_json(tube: &Tube, task: &TaskInfo) -> Value {
    let body = tube.peek(task.id).unwrap().data;
    let shown = start_of(&body);
    let mut task_json = json!({
        "id": task.id, "state": task.state.as_char().to_string(), "pri": task.pri,
        "sub_queue": task.sub_queue, "takes": task.takes, "size": task.size,
        "ttl_left": micros(task.ttl_left), "ttr": micros(task.ttr), "due_in": micros(task.due_in),
        "body": String::from_utf8_lossy(shown), "sum": sum(&body),
    });
    if task.attempts != task.takes || task.attempts_left.is_some() {
        task_json["attempts"] = json!([task.attempts, task.attempts_left]);
    }
    if let Some(failure) = &task.failure {
        let LastFailure { group, message, attempt, owner, .. } = failure;
        task_json["failure"] = json!([group, message, attempt, owner]);
    }
    if let Some(Ending::Done { result }) = tube.outcome(task.id).unwrap() {
        let result = result
            .map(|result| (String::from_utf8_lossy(start_of(&result)).into_owned(), sum(&result)));
        task_json["result"] = json!(result);
    }
    task_json
}

fn start_of(bytes: &[u8]) -> &[u8] {
    if bytes.len() > 100 { &bytes[..20] } else { bytes }
}

fn sum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |sum: u32, byte| sum.rotate_left(5) ^ u32::from(*byte))
}

fn micros(time: Option<Duration>) -> Option<u64> {
    time.map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX))
}

/// The fixture files, each with its recorded contents.
fn fixtures() -> Vec<(PathBuf, Value)> {
    let mut fixtures = Vec::new();
    for folder in std::fs::read_dir(all_fixtures()).unwrap() {
        let names = std::fs::read_dir(folder.unwrap().path()).unwrap();
        for path in names.map(|entry| entry.unwrap().path()) {
            if path.extension().is_some_and(|extension| extension == "tubewell") {
                let list = std::fs::read(path.with_extension("json")).unwrap();
                fixtures.push((path, serde_json::from_slice(&list).unwrap()));
            }
        }
    }
    fixtures.sort_by(|one, other| one.0.cmp(&other.0));
    fixtures
}

/// A copy of the file to write to, and a clock at the time when the fixture was made.
fn working_copy(path: &Path, dir: &Path) -> (PathBuf, ManualClock) {
    let copy = dir.join("store");
    std::fs::copy(path, &copy).unwrap();
    (copy, ManualClock::new())
}

#[test]
fn every_fixture_opens_with_its_recorded_contents() {
    let fixtures = fixtures();
    assert!(fixtures.len() >= 10);
    for (path, expected) in fixtures {
        let dir = tempfile::tempdir().unwrap();
        let (copy, clock) = working_copy(&path, dir.path());
        let store = Store::options().clock(&clock).open(&copy).unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0], "{path:?}");
        assert_eq!(contents(&store), expected, "{path:?}");
        store.close().unwrap();
        let store = Store::options().clock(&clock).open(&copy).unwrap();
        assert_eq!(contents(&store), expected, "{path:?}, closed and reopened");
    }
}

#[test]
fn every_fixture_can_be_drained_and_accepts_new_tasks() {
    for (path, expected) in fixtures() {
        let dir = tempfile::tempdir().unwrap();
        let (copy, clock) = working_copy(&path, dir.path());
        let store = Store::options().clock(&clock).open(&copy).unwrap();
        let before = expected.as_array().unwrap().iter();
        let tasks = before.flat_map(|tube| tube["tasks"].as_array().unwrap());
        let largest = tasks.filter_map(|task| task["id"].as_u64()).max().unwrap();
        for info in store.tubes() {
            let tube = store.tube(&info.name).unwrap();
            tube.kick(u64::MAX).unwrap();
            tube.release_all().unwrap();
            while let Some(claim) = tube.try_take().unwrap() {
                claim.ack().unwrap();
            }
            let left = tube.statistics().unwrap().tasks;
            assert_eq!((left.ready, left.buried), (0, 0), "{path:?} {}", info.name);
            assert!(tube.put("one more").unwrap().id > largest);
        }
        // Delayed tasks become ready, except the one with a delay without a limit.
        clock.advance(Duration::from_secs(600));
        assert_eq!(store.tube("timed").unwrap().statistics().unwrap().tasks.delayed, 1);
        assert_eq!(store.tube("both").unwrap().statistics().unwrap().tasks.delayed, 0);
        assert_eq!(store.verify().unwrap(), [""; 0], "{path:?}");
    }
}

#[test]
fn every_fixture_is_salvaged_completely() {
    for (path, expected) in fixtures() {
        let mut tasks = 0;
        let clock = ManualClock::new();
        StoreOptions::default()
            .clock(&clock)
            .salvage(&path, |found| {
                match found {
                    Salvaged::Task { .. } => tasks += 1,
                    Salvaged::Lost { what } => panic!("{what}"),
                    _ => {}
                }
                Ok(())
            })
            .unwrap();
        let tubes = expected.as_array().unwrap().iter();
        let all: usize = tubes.map(|tube| tube["tasks"].as_array().unwrap().len()).sum();
        assert_eq!(tasks, all, "{path:?}");
    }
}
