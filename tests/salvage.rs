//! Salvage reads all tasks of a damaged file except the damaged ones, and names these.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use tubewell::expert::{HistoryEntry, Restore, Salvaged, SalvagedTube, Step};
use tubewell::{
    Ending, FIFO, FIFOTTL, Failure, Keep, ManualClock, Outcome, Put, Rate, Store, StoreOptions,
    Task, TaskState, TubeOptions, UTUBETTL,
};

const TASKS: u64 = 3000;

#[derive(Default)]
struct Found {
    tubes: Vec<String>,
    tasks: BTreeMap<u64, (String, Task)>,
    results: BTreeMap<u64, Vec<u8>>,
    histories: BTreeMap<u64, Vec<HistoryEntry>>,
    steps: BTreeMap<u64, Vec<Step>>,
    lost: Vec<String>,
}

fn salvage(path: &Path, clock: &ManualClock) -> tubewell::Result<Found> {
    let mut found = Found::default();
    StoreOptions::default().clock(clock).salvage(path, |what| {
        match what {
            Salvaged::Tube(tube) => found.tubes.push(tube.info.name),
            Salvaged::Task { tube, task, history, steps, .. } => {
                found.results.extend(task.result.clone().map(|result| (task.info.id, result)));
                found.histories.insert(task.info.id, history);
                found.steps.insert(task.info.id, steps);
                let earlier = found.tasks.insert(task.info.id, (tube, task));
                assert!(earlier.is_none(), "a task was returned twice");
            }
            Salvaged::Lost { what } => found.lost.push(what),
            _ => unreachable!(),
        }
        Ok(())
    })?;
    Ok(found)
}

fn body(n: u64) -> Vec<u8> {
    let length = if n.is_multiple_of(50) { 3000 } else { 60 };
    format!("<task {n}>").into_bytes().into_iter().cycle().take(length).collect()
}

/// Makes a store with three tubes and closes it. The ids of its tasks are 0 to `TASKS` - 1.
fn make_store(path: &Path, clock: &ManualClock) -> BTreeMap<u64, (String, Task)> {
    let store = Store::options().clock(clock).open(path).unwrap();
    let tubes = [("a", FIFO), ("b", FIFOTTL), ("c", UTUBETTL)]
        .map(|(name, driver)| store.create_tube(name, TubeOptions::new().driver(driver)).unwrap());
    for n in 0..TASKS {
        let tube = &tubes[usize::try_from(n * 3 / TASKS).unwrap()];
        let mut put = Put::new(body(n));
        if tube.name() != "a" {
            put = put.priority(u32::try_from(n % 5).unwrap());
        }
        if tube.name() == "c" {
            put = put.sub_queue(format!("s{}", n % 7));
        }
        let ticket = tube.to_async().put(put);
        if n == TASKS - 1 {
            ticket.wait().unwrap();
        }
    }
    for id in (1500..1510).chain(2500..2510) {
        tubes[usize::try_from(id * 3 / TASKS).unwrap()].admin().bury(id, None).unwrap();
    }
    let mut all = BTreeMap::new();
    for id in 0..TASKS {
        let tube = &tubes[usize::try_from(id * 3 / TASKS).unwrap()];
        all.insert(id, (tube.name().to_owned(), tube.query().task(id).unwrap()));
    }
    store.close().unwrap();
    all
}

/// The ids of the missing tasks. Asserts that all other tasks are unchanged.
fn missing_ids(found: &Found, all: &BTreeMap<u64, (String, Task)>) -> BTreeSet<u64> {
    for (id, task) in &found.tasks {
        assert_eq!(Some(task), all.get(id));
    }
    all.keys().copied().filter(|id| !found.tasks.contains_key(id)).collect()
}

/// The offsets of a text in a file.
fn offsets_of(file: &[u8], text: &[u8]) -> Vec<usize> {
    file.windows(text.len()).enumerate().filter(|(_, at)| *at == text).map(|(at, _)| at).collect()
}

/// Changes a byte of these texts wherever a file has them.
fn damage<T: AsRef<str>>(path: &Path, texts: impl IntoIterator<Item = T>) {
    let mut file = std::fs::read(path).unwrap();
    for text in texts {
        for at in offsets_of(&file, text.as_ref().as_bytes()) {
            file[at + 2] ^= 0x40;
        }
    }
    std::fs::write(path, &file).unwrap();
}

#[test]
fn salvage_reads_all_of_undamaged_file_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let all = make_store(&path, &clock);
    let before = std::fs::read(&path).unwrap();
    let found = salvage(&path, &clock).unwrap();
    assert_eq!((missing_ids(&found, &all), &found.lost), (BTreeSet::new(), &vec![]));
    assert_eq!(found.tubes, ["a", "b", "c"]);
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn flipped_bytes_lose_only_their_own_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let all = make_store(&path, &clock);
    // Small bodies are in the records; the body of every fiftieth task is in a row of its own.
    let hit = [17, 100, 1200, 1250, 1505, 2001, 2507];
    damage(&path, hit.map(|id| format!("<task {id}>")));
    let found = salvage(&path, &clock).unwrap();
    assert_eq!(missing_ids(&found, &all), BTreeSet::from(hit));
    assert_eq!(found.lost.len(), hit.len(), "{:?}", found.lost);
    for id in hit {
        let named = |what: &String| what.contains(&format!("task {id}:"));
        assert!(found.lost.iter().any(named), "{id}: {:?}", found.lost);
    }
}

#[test]
fn damaged_failure_is_lost_and_its_task_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let tube = store.create_tube("jobs", TubeOptions::new().max_attempts(1).driver(FIFO)).unwrap();
    for id in 0..3 {
        tube.put(body(id)).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        claim.fail(Failure::new("timeout", format!("<failure {id}>"))).unwrap();
    }
    let all: Vec<Task> = (0..3).map(|id| tube.query().task(id).unwrap()).collect();
    store.close().unwrap();
    let found = salvage(&path, &clock).unwrap();
    for (id, mut task) in (0..).zip(all.clone()) {
        // The limit of the tube is not in the task.
        (task.info.max_attempts, task.info.attempts_left) = (None, None);
        assert_eq!(found.tasks[&id].1, task);
    }
    assert!(found.lost.is_empty(), "{:?}", found.lost);

    damage(&path, ["<failure 1>"]);
    let found = salvage(&path, &clock).unwrap();
    assert_eq!(found.lost.len(), 1, "{:?}", found.lost);
    assert!(
        found.lost[0].contains("task 1: its failure note (wrong checksum)"),
        "{:?}",
        found.lost
    );
    let failed: Vec<bool> = found.tasks.values().map(|(_, t)| t.info.failure.is_some()).collect();
    assert_eq!(failed, [true, false, true]);
    assert_eq!(found.tasks[&1].1.body, body(1));
    assert_eq!(found.tasks[&1].1.info.group.as_deref(), Some("timeout"));
}

#[test]
fn damaged_result_is_lost_and_its_task_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let keep = Keep::new().age(Duration::from_secs(100));
    let tube =
        store.create_tube("sums", TubeOptions::new().keep_done(keep).driver(UTUBETTL)).unwrap();
    let result = |id: u64| format!("<result {id}>").repeat(if id == 2 { 500 } else { 1 });
    for id in 0..5 {
        tube.put(Put::new(body(id)).sub_queue("s")).unwrap();
    }
    for id in 0..3 {
        let claim = tube.try_take().unwrap().unwrap();
        claim.end(Outcome::result(result(id))).unwrap();
    }
    tube.try_take().unwrap().unwrap().ack().unwrap();
    let all: Vec<Task> = (0..5).map(|id| tube.query().task(id).unwrap()).collect();
    assert_eq!(all[3].info.state, TaskState::Done);
    store.close().unwrap();
    let found = salvage(&path, &clock).unwrap();
    assert!(found.lost.is_empty(), "{:?}", found.lost);
    let expected: Vec<Vec<u8>> = (0..3).map(|id| result(id).into_bytes()).collect();
    assert!(found.results.values().eq(&expected));
    assert!(found.tasks.values().map(|(_, task)| task).eq(&all));

    damage(&path, ["<result 1>"]);
    let found = salvage(&path, &clock).unwrap();
    let [lost] = &found.lost[..] else { panic!("{:?}", found.lost) };
    assert!(lost.starts_with("in tube \"sums\": "), "{lost}");
    assert!(lost.contains("task 1: its result note (wrong checksum)"), "{lost}");
    assert!(found.results.keys().eq(&[0, 2]));
    let mut left = all;
    left[1].result = None;
    assert!(found.tasks.values().map(|(_, task)| task).eq(&left));
}

#[test]
fn damaged_entry_of_a_history_is_lost_and_its_task_is_not() {
    for damages in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("store"), ManualClock::new());
        let store = Store::options().clock(&clock).open(&path).unwrap();
        let tube = store.create_tube("jobs", TubeOptions::new().history(5).driver(FIFO)).unwrap();
        tube.put(body(0)).unwrap();
        for n in 0..8 {
            tube.admin().log(0, &format!("<entry {n}>")).unwrap();
        }
        let mut expected = tube.query().history(0).unwrap();
        assert_eq!(expected.len(), 5);
        let task = tube.query().task(0).unwrap();
        store.close().unwrap();
        if damages {
            damage(&path, ["<entry 5>", "<entry 6>"]);
            expected.drain(2..4);
        }
        let found = salvage(&path, &clock).unwrap();
        assert!(found.tasks.values().map(|(_, task)| task).eq([&task]));
        assert_eq!(found.histories[&0], expected);
        assert_eq!(found.lost.len(), usize::from(damages));
        let named =
            |what: &String| what.contains("task 0: 2 entries of its history cannot be read");
        assert!(found.lost.iter().all(named), "{:?}", found.lost);
        // What is left can be restored.
        let other = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = other.create_tube("jobs", TubeOptions::new().history(5).driver(FIFO)).unwrap();
        tube.admin().restore_many([Restore::new("x").history(expected.clone())]).unwrap();
        let texts = |entries: Vec<HistoryEntry>| -> Vec<Option<String>> {
            entries.into_iter().map(|entry| entry.text).collect()
        };
        assert_eq!(texts(tube.query().history(0).unwrap()), texts(expected));
        assert_eq!(other.admin().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn damaged_step_is_lost_and_its_task_is_not() {
    for damages in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("store"), ManualClock::new());
        let store = Store::options().clock(&clock).open(&path).unwrap();
        let tube = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put(body(0)).unwrap();
        let job = tube.try_take().unwrap().unwrap();
        for n in 0..5 {
            let value = format!("<value {n}>");
            job.step(&format!("step {n}"), || Ok::<_, tubewell::Error>(value)).unwrap();
        }
        drop(job);
        let (task, mut expected) = (tube.query().task(0).unwrap(), tube.query().steps(0).unwrap());
        store.close().unwrap();
        if damages {
            damage(&path, ["<value 3>"]);
            expected.remove(3);
        }
        let found = salvage(&path, &clock).unwrap();
        let (_, salvaged) = &found.tasks[&0];
        assert_eq!((&salvaged.body, salvaged.info.has_steps), (&task.body, true));
        assert_eq!((&found.steps[&0], found.lost.len()), (&expected, usize::from(damages)));
        let named = |what: &String| what.contains("task 0: 1 of its steps cannot be read");
        assert!(found.lost.iter().all(named), "{:?}", found.lost);
        // What is left can be restored.
        let other = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = other.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
        tube.admin().restore_many([Restore::new("x").steps(expected.clone())]).unwrap();
        assert_eq!(tube.query().steps(0).unwrap(), expected);
        assert_eq!(other.admin().verify().unwrap(), [""; 0]);
    }
}

/// The done tasks can be restored, although the policies of their tube are lost.
#[test]
fn tube_without_definition_keeps_what_is_done_if_it_has_done_tasks() {
    for keeps in [true, false] {
        let dir = tempfile::tempdir().unwrap();
        let (path, clock) = (dir.path().join("store"), ManualClock::new());
        let store = Store::options().clock(&clock).open(&path).unwrap();
        let mut options = TubeOptions::new().max_attempts(3).history(if keeps { 0 } else { 3 });
        if keeps {
            options = options.keep_done(Keep::new().count(5));
        }
        let tube = store.create_tube("sums", options.driver(UTUBETTL)).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        tube.try_take().unwrap().unwrap().end(Outcome::result("answer")).unwrap();
        store.close().unwrap();
        let mut file = std::fs::read(&path).unwrap();
        for at in offsets_of(&file, UTUBETTL.as_bytes()) {
            file[at] ^= 1;
        }
        std::fs::write(&path, &file).unwrap();

        let (mut tubes, mut restored) = (Vec::new(), Vec::new());
        let each = |what| {
            match what {
                Salvaged::Tube(tube) => tubes.push(tube.info),
                Salvaged::Task { task, .. } if task.info.state == TaskState::Done => {
                    restored.push(Restore::new(task.body).id(task.info.id).done(task.result));
                }
                Salvaged::Task { task, .. } => restored.push(Restore::new(task.body)),
                _ => {}
            }
            Ok(())
        };
        StoreOptions::default().clock(&clock).salvage(&path, each).unwrap();
        let [info] = &tubes[..] else { panic!("{tubes:?}") };
        assert!(info.name.starts_with("recovered-"), "{info:?}");
        assert_eq!(info.keep_done, keeps.then(Keep::new));
        assert_eq!(info.history > 0, !keeps);
        let other = Store::in_memory().unwrap();
        let options = info.keep_done.into_iter().fold(TubeOptions::new(), TubeOptions::keep_done);
        let tube = other.create_tube(&info.name, options.driver(&info.driver)).unwrap();
        tube.admin().restore_many(restored).unwrap();
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.kept), (1, u64::from(keeps)));
        let answer = Ending::Done { result: Some(b"answer".to_vec()) };
        assert_eq!(tube.ending(0) == Ok(Some(answer)), keeps);
        assert_eq!(other.admin().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn limits_and_pauses_of_sub_queues_are_salvaged() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let options = TubeOptions::new().sub_queue_limit(3).shared_limits(true);
    let options = options.sub_queue_rate(Rate::per(2, Duration::from_secs(1)));
    let options = options.sub_queue_cooldown(Duration::from_secs(3));
    let tube = store.create_tube("pages", options.driver(UTUBETTL)).unwrap();
    store.create_tube("plain", TubeOptions::new().driver(UTUBETTL)).unwrap();
    store.admin().set_limit("database", 2).unwrap();
    for (name, seconds) in [("elapsed", 1), ("example.org", 100)] {
        tube.admin().pause_sub_queue(name, Duration::from_secs(seconds)).unwrap();
    }
    tube.admin().pause_sub_queue("stopped", Duration::MAX).unwrap();
    clock.advance(Duration::from_secs(10));
    store.flush().unwrap();
    tube.put(Put::new("x").sub_queue("database")).unwrap();
    store.close().unwrap();

    let (mut tubes, mut limits) = (Vec::new(), Vec::new());
    let each = |what| {
        match what {
            Salvaged::Tube(tube) => tubes.push(tube),
            Salvaged::Limit(limit) => limits.push((limit.name, limit.most, limit.taken)),
            Salvaged::Task { .. } => {}
            _ => panic!("{what:?}"),
        }
        Ok(())
    };
    StoreOptions::default().clock(&clock).salvage(&path, each).unwrap();
    assert_eq!(limits, [("database".to_owned(), 2, 0)]);
    let paused = |tube: &SalvagedTube| -> Vec<(String, Option<Duration>)> {
        let paused = tube.paused_sub_queues.iter();
        paused.map(|paused| (paused.name.clone(), paused.resumes_in)).collect()
    };
    let ninety = Some(Duration::from_secs(90));
    assert_eq!(paused(&tubes[0]), [("example.org".to_owned(), ninety), ("stopped".into(), None)]);
    assert_eq!(paused(&tubes[1]), []);
    let info = &tubes[0].info;
    assert_eq!((info.sub_queue_limit, info.shared_limits), (Some(3), true));
    assert_eq!(info.sub_queue_rate.map(|rate| rate.to_string()).as_deref(), Some("2/1s"));
    assert_eq!(info.sub_queue_cooldown, Some(Duration::from_secs(3)));
}

#[test]
fn zeroed_page_loses_only_its_own_tasks() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let all = make_store(&path, &clock);
    let undamaged = std::fs::read(&path).unwrap();
    let mut salvaged = 0;
    // The pages with these tasks are zeroed; those of the last two tasks together.
    for hit in [&[333][..], &[1333], &[2222], &[1111, 1888]] {
        let mut file = undamaged.clone();
        let mut pages = BTreeSet::new();
        for id in hit {
            pages.extend(
                offsets_of(&file, format!("<task {id}>").as_bytes()).iter().map(|at| at / 4096),
            );
        }
        for page in pages {
            file[page * 4096..(page + 1) * 4096].fill(0);
        }
        std::fs::write(&path, &file).unwrap();
        let found = match salvage(&path, &clock) {
            Ok(found) => found,
            // A debug build of the engine reads all pages at the open.
            Err(error) if cfg!(debug_assertions) => {
                assert!(matches!(error, tubewell::Error::Corrupt { .. }), "{error}");
                continue;
            }
            Err(error) => panic!("{hit:?}: {error}"),
        };
        let missing = missing_ids(&found, &all);
        assert!(hit.iter().all(|id| missing.contains(id)), "{hit:?}: {missing:?}");
        assert!(missing.len() <= 80 * hit.len(), "{hit:?}: {} are missing", missing.len());
        assert!(!found.lost.is_empty());
        salvaged += 1;
    }
    assert!(salvaged > 0 || cfg!(debug_assertions));
}

#[test]
fn salvaged_tasks_are_unchanged_after_any_bit_flip() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let all = make_store(&path, &clock);
    let undamaged = std::fs::read(&path).unwrap();
    let (mut complete, mut partial) = (0, 0);
    let mut state = 7_u64;
    for _ in 0..60 {
        let mut file = undamaged.clone();
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let at = usize::try_from(state >> 20).unwrap() % file.len();
        file[at] ^= 1 << (state & 7);
        std::fs::write(&path, &file).unwrap();
        // An error is allowed; a task that differs from the one that was put is not.
        let Ok(found) = salvage(&path, &clock) else { continue };
        for (tube, task) in found.tasks.values() {
            let original = &all[&task.info.id];
            assert_eq!(original.1, *task, "byte {at}");
            assert!(original.0 == *tube || tube.starts_with("recovered-"), "byte {at}");
        }
        if found.tasks.len() == all.len() { complete += 1 } else { partial += 1 }
    }
    println!("{complete} complete, {partial} in part, of 60");
    assert!(complete > 0);
}

/// The newest tasks of a killed store are only in the journal.
#[test]
fn salvage_reads_journal_up_to_damaged_record() {
    let dir = tempfile::tempdir().unwrap();
    let (path, clock) = (dir.path().join("store"), ManualClock::new());
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let tube = store.create_tube("a", TubeOptions::new().driver(FIFO)).unwrap();
    for n in 0..20 {
        tube.put(body(n)).unwrap();
    }
    let mut file = std::fs::read(&path).unwrap();
    let killed = dir.path().join("killed");
    std::fs::write(&killed, &file).unwrap();
    let found = salvage(&killed, &clock).unwrap();
    assert_eq!((found.tasks.len(), &found.lost), (20, &vec![]));
    let [at, ..] = offsets_of(&file, b"<task 12>")[..] else { panic!("it is not in the file") };
    file[at] ^= 1;
    std::fs::write(&killed, &file).unwrap();
    assert!(Store::options().clock(&clock).open(&killed).is_err());
    let found = salvage(&killed, &clock).unwrap();
    assert!(found.tasks.keys().copied().eq(0..12), "{:?}", found.tasks.keys());
    assert!(found.lost[0].starts_with("the newest commits ("), "{:?}", found.lost);
}

#[test]
fn salvage_of_open_store_returns_in_use() {
    let folder = tempfile::tempdir().unwrap();
    let (path, clock) = (folder.path().join("store"), ManualClock::new());
    make_store(&path, &clock);
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let in_use = tubewell::Error::InUse { path: path.display().to_string() };
    assert_eq!(salvage(&path, &clock).err(), Some(in_use));
    store.close().unwrap();
    drop(store);
    assert_eq!(salvage(&path, &clock).unwrap().tasks.len() as u64, TASKS);
}

/// An empty result would look like a store without tasks.
#[test]
fn salvage_of_non_file_returns_io_error() {
    let folder = tempfile::tempdir().unwrap();
    for path in [folder.path(), Path::new("/dev/null"), &folder.path().join("missing")] {
        let refused = salvage(path, &ManualClock::new()).err();
        assert!(matches!(refused, Some(tubewell::Error::Io { .. })), "{refused:?}");
    }
}

#[test]
fn salvage_expires_no_task_by_untrusted_clock() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let day = Duration::from_secs(86_400);
    let clock = ManualClock::at(day * 20_454);
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let tube = store.create_tube("a", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put(Put::new("x").ttl(day * 100)).unwrap();
    drop(tube);
    store.close().unwrap();
    for (ahead, trusted, days_left) in [(99, false, 1), (400, false, 100), (400, true, 0)] {
        let clock = ManualClock::at(day * (20_454 + ahead));
        let options = || StoreOptions::default().clock(&clock).trust_wall_clock(trusted);
        let (mut left, mut untrusted) = (None, None);
        let salvaged = options().salvage(&path, |what| {
            match what {
                Salvaged::Task { task, .. } => left = task.info.ttl_left,
                Salvaged::UntrustedClock { ahead } => untrusted = Some(ahead),
                _ => {}
            }
            Ok(())
        });
        salvaged.unwrap();
        assert_eq!(left, Some(day * days_left), "{ahead} {trusted}");
        let accepted = ahead < 365 || trusted;
        assert_eq!(untrusted, (!accepted).then_some(day * ahead));
    }
}
