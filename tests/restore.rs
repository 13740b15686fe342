//! `restore_many`: tasks of another store come back with their ids, takes, states and failures, and no
//! id is ever used twice.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::path::Path;
use std::time::Duration;

use tubewell::{
    Durability, Error, EventKind, FIFO, FIFOTTL, Failure, Keep, LIMFIFOTTL, LastFailure,
    ManualClock, Put, Restore, Salvaged, State, Store, StoreOptions, Task, TaskInfo, Tube,
    TubeOptions, UTUBE, UTUBETTL, WhenFull,
};

const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, UTUBE, UTUBETTL, LIMFIFOTTL];

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn named(body: &str, id: u64) -> Restore {
    Restore::new(body).id(id)
}

fn assert_sound(store: &Store) {
    assert_eq!(store.verify().unwrap(), Vec::<String>::new());
}

fn ids_in_take_order(tube: &Tube) -> Vec<u64> {
    let mut claims = Vec::new();
    while let Some(claim) = tube.try_take().unwrap() {
        claims.push(claim);
    }
    claims.iter().map(tubewell::Claim::id).collect()
}

/// All tasks of a closed store, as they can be read of its file.
fn salvaged(path: &Path, clock: &ManualClock) -> Vec<(String, Task)> {
    let mut tasks = Vec::new();
    let each = |what| {
        if let Salvaged::Task { tube, task } = what {
            tasks.push((tube, task));
        }
        Ok(())
    };
    StoreOptions::default().clock(clock).salvage(path, each).unwrap();
    tasks
}

#[test]
fn restore_keeps_ids_takes_and_states() {
    for driver in DRIVERS {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", driver, TubeOptions::new()).unwrap();
        let events = store.subscribe(100);
        let receipts = tube
            .restore_many([
                named("ready", 40).takes(3),
                named("buried", 7).takes(u32::MAX).buried(true),
                named("first", 2),
            ])
            .unwrap();
        let answers: Vec<_> = receipts.iter().map(|receipt| (receipt.id, receipt.state)).collect();
        assert_eq!(answers, [(40, State::Ready), (7, State::Buried), (2, State::Ready)]);
        let seen: Vec<_> = std::iter::from_fn(|| events.try_recv())
            .map(|event| (event.id, event.kind, event.state))
            .collect();
        let expected = [(40, State::Ready), (7, State::Buried), (2, State::Ready)];
        assert_eq!(seen, expected.map(|(id, state)| (id, EventKind::Put, state)), "{driver}");
        let counts = tube.statistics().unwrap();
        assert_eq!((counts.tasks.ready, counts.tasks.buried, counts.calls.put), (2, 1, 3));
        assert_sound(&store);

        assert_eq!(tube.peek(7).unwrap().info.takes, u32::MAX);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes(), claim.data()), (2, 1, &b"first"[..]));
        claim.ack().unwrap();
        assert_eq!(tube.kick(1).unwrap(), 1);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes()), (7, u32::MAX));
        assert_eq!(tube.put("new").unwrap().id, 41);
        assert_sound(&store);
    }
}

#[test]
fn restored_delay_and_ttl_elapse() {
    for driver in [FIFOTTL, UTUBETTL, LIMFIFOTTL] {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", driver, TubeOptions::new()).unwrap();
        let soon = Restore::new(Put::new("soon").delay(secs(5)).ttl(secs(60)).pri(9)).id(3);
        let never = Restore::new(Put::new("never").delay(Duration::MAX)).id(1);
        let brief = Restore::new(Put::new("brief").ttl(secs(7))).id(2).buried(true);
        tube.restore_many([soon, never, brief]).unwrap();
        assert_eq!(tube.peek(3).unwrap().info.due_in, Some(secs(5)));
        assert_eq!(tube.peek(3).unwrap().info.ttl_left, Some(secs(65)));
        clock.advance(secs(6));
        assert_eq!(tube.try_take().unwrap().map(|claim| claim.id()), Some(3));
        clock.advance(secs(2));
        assert_eq!(tube.peek(2), Err(Error::NotFound { id: 2 }));
        assert_eq!(tube.peek(1).unwrap().info.state, State::Delayed);
        assert_sound(&store);
        clock.advance(secs(58));
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
        assert_sound(&store);
    }
}

#[test]
fn restored_tasks_reach_waiting_takers() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", FIFO, TubeOptions::new()).unwrap();
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| tube.take(None).unwrap().unwrap().ack().unwrap().id);
        while store.tubes()[0].waiting == 0 {
            std::thread::yield_now();
        }
        tube.restore_many([named("buried", 1).buried(true), named("ready", 9)]).unwrap();
        assert_eq!(taker.join().unwrap(), 9);
    });
}

#[test]
fn ids_are_restored_in_any_order_and_into_several_tubes() {
    let store = Store::in_memory().unwrap();
    let one = store.create_tube("one", FIFO, TubeOptions::new()).unwrap();
    let other = store.create_tube("other", FIFO, TubeOptions::new()).unwrap();
    one.restore_many([named("x", 100), named("x", 5), named("x", 50)]).unwrap();
    other.restore_many([named("x", 7)]).unwrap();
    one.restore_many([named("x", 6), named("x", 0)]).unwrap();
    for tube in [&one, &other] {
        for id in [0, 5, 6, 7, 50, 100] {
            assert_eq!(tube.restore_many([named("y", id)]), Err(Error::IdUsed { id }));
        }
    }
    assert_eq!(store.next_id(), 101);
    assert_eq!(ids_in_take_order(&one), [0, 5, 6, 50, 100]);
    assert_eq!(ids_in_take_order(&other), [7]);
    // A put of any tube closes the range below it.
    assert_eq!(other.put("z").unwrap().id, 101);
    assert_eq!(one.restore_many([named("y", 99)]), Err(Error::IdUsed { id: 99 }));
    one.restore_many([named("y", 200), named("y", 150)]).unwrap();
    assert_sound(&store);
}

#[test]
fn used_id_refuses_the_whole_call_and_changes_nothing() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", FIFOTTL, TubeOptions::new()).unwrap();
    tube.restore_many([named("x", 3)]).unwrap();
    let twice = [named("a", 8), named("b", 9), named("c", 8)];
    assert_eq!(tube.restore_many(twice), Err(Error::IdUsed { id: 8 }));
    assert_eq!(tube.restore_many([named("a", 8), named("b", 3)]), Err(Error::IdUsed { id: 3 }));
    // One without an id gets the next one, which no later task of the call may name.
    let mixed = [named("a", 8), Restore::new("b"), named("c", 9)];
    assert_eq!(tube.restore_many(mixed), Err(Error::IdUsed { id: 9 }));
    assert_eq!((store.next_id(), tube.statistics().unwrap().tasks.total), (4, 1));

    let delayed = Restore::new(Put::new("x").delay(secs(1))).buried(true);
    assert!(matches!(tube.restore_many([delayed]), Err(Error::Invalid { .. })));
    let far = tube.restore_many([named("x", (1 << 60) + 1)]);
    assert!(matches!(far, Err(Error::Invalid { .. })), "{far:?}");
    let many = tube.restore_many((0..=100_000).map(|id| named("", id)));
    assert!(matches!(many, Err(Error::Invalid { .. })));
    let plain = store.create_tube("plain", FIFO, TubeOptions::new()).unwrap();
    let unsupported = plain.restore_many([Restore::new(Put::new("x").pri(1)).id(8)]);
    assert!(matches!(unsupported, Err(Error::Unsupported { .. })));
    let small = TubeOptions::new().capacity(1);
    let small = store.create_tube("small", LIMFIFOTTL, small).unwrap();
    let full = small.restore_many([named("a", 8), named("b", 9).buried(true)]);
    assert!(matches!(full, Err(Error::Full { .. })));
    assert_eq!(tube.restore_many([]).unwrap(), []);

    // All the ids that were refused with their calls are free.
    tube.restore_many([named("a", 8), Restore::new("b"), named("c", 1 << 60)]).unwrap();
    assert_eq!(tube.put("last").unwrap().id, (1 << 60) + 1);
    assert_sound(&store);
}

#[test]
fn restored_tasks_and_the_next_id_survive_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let clock = ManualClock::new();
    let open = || Store::options().clock(&clock).open(&path).unwrap();
    let store = open();
    let large = "large ".repeat(1000);
    let names = ["a", "b", "c", "d", "e"];
    for (name, driver) in names.into_iter().zip(DRIVERS) {
        store.create_tube(name, driver, TubeOptions::new()).unwrap();
    }
    for (number, name) in (0_u64..).zip(names) {
        // Ids of all tubes interleave, as those of a store that is in use.
        let tasks = (0..50).map(|n| {
            let id = n * 10 + (number * 3) % 10;
            let body = if n % 7 == 0 { large.clone() } else { format!("{name}{n}") };
            named(&body, id).takes(u32::try_from(n).unwrap()).buried(n % 5 == 0)
        });
        let ticket = store.tube(name).unwrap().deferred(WhenFull::Block).restore_many(tasks);
        assert_eq!(ticket.unwrap().wait().unwrap().len(), 50);
    }
    assert_sound(&store);
    let next = store.next_id();
    store.close().unwrap();
    drop(store);

    let tasks = salvaged(&path, &clock);
    assert_eq!(tasks.len(), 250);
    for (tube, task) in &tasks {
        let n = task.info.id / 10;
        assert_eq!(u64::from(task.info.takes), n, "{tube} {}", task.info.id);
        assert_eq!(task.info.state == State::Buried, n.is_multiple_of(5));
    }
    let store = open();
    assert_eq!(store.next_id(), next);
    let tube = store.tube("a").unwrap();
    assert_eq!(tube.restore_many([named("x", 1)]), Err(Error::IdUsed { id: 1 }));
    tube.restore_many([named("x", next + 5)]).unwrap();
    assert_eq!(tube.put("x").unwrap().id, next + 6);
    assert_sound(&store);
}

#[test]
fn restored_ids_are_never_given_again_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let relaxed = Durability::Relaxed { max_delay: Duration::MAX };
    let tube = store.create_tube("case", FIFO, TubeOptions::new().durability(relaxed)).unwrap();
    tube.restore_many([named("far", 5_000_000), named("near", 3)]).unwrap();
    // A backup is what a kill at this moment would leave.
    let copy = dir.path().join("copy");
    store.backup(&copy).unwrap();
    let copy = Store::open(copy).unwrap();
    assert_sound(&copy);
    let tube = copy.tube("case").unwrap();
    assert!(copy.next_id() > 5_000_000);
    assert!(tube.put("new").unwrap().id > 5_000_000);
    assert_eq!(ids_in_take_order(&tube)[..2], [3, 5_000_000]);
}

/// A failure of this attempt, a minute old.
fn failure(group: &str, message: &str, attempt: u32) -> LastFailure {
    let mut failure = LastFailure::new(group, message, attempt);
    failure.owner = Some("worker-3".into());
    failure.ago = secs(60);
    failure
}

fn attempts(info: &TaskInfo) -> (u32, u32, Option<u32>) {
    (info.takes, info.attempts, info.attempts_left)
}

#[test]
fn restore_keeps_attempts_and_failures() {
    for driver in DRIVERS {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let options = TubeOptions::new().max_attempts(5);
        let tube = store.create_tube("case", driver, options).unwrap();
        let timeout = failure("timeout", "no answer", 3);
        tube.restore_many([
            named("tried", 1).takes(4).forgiven(1).failure(timeout.clone()),
            named("given up", 2).takes(5).buried(true).group("timeout").failure(timeout.clone()),
            named("set aside", 3).takes(3).buried(true).failure(timeout.clone()),
            Restore::new(Put::new("own limit").max_attempts(1)).id(4).takes(7).forgiven(7),
            named("no note", 5).buried(true).group("lost"),
            named("spent", 6).takes(5),
        ])
        .unwrap();
        assert_sound(&store);
        let info = |id| tube.peek(id).unwrap().info;
        assert_eq!(attempts(&info(1)), (4, 3, Some(2)), "{driver}");
        for id in 1..=3 {
            assert_eq!(info(id).failure.as_ref(), Some(&timeout));
        }
        let groups = [1, 2, 3, 5].map(|id| info(id).group);
        let [none, some] = [None, Some("timeout".to_owned())];
        assert_eq!(groups, [none.clone(), some, none, Some("lost".into())]);
        assert_eq!(attempts(&info(4)), (7, 0, Some(1)));

        // The tasks go on as they would have in the other store.
        clock.advance(secs(1));
        assert_eq!(info(1).failure.unwrap().ago, secs(61));
        let claim = tube.claim(1).unwrap();
        assert_eq!((claim.attempt(), claim.attempts_left()), (4, Some(1)));
        claim.fail(Failure::new("busy", "")).unwrap();
        assert_eq!(info(1).failure.unwrap().group, "busy");
        assert_eq!(tube.kick_task(2).unwrap().state, State::Ready);
        assert_eq!(attempts(&info(2)), (5, 0, Some(5)));
        assert_eq!(tube.claim(4).unwrap().attempts_left(), Some(0));
        assert_eq!(info(4).state, State::Buried);
        tube.delete(3).unwrap();
        assert_sound(&store);
        // A spent task is not handed out.
        let mut taken = Vec::new();
        while let Some(claim) = tube.try_take().unwrap() {
            taken.push(claim.ack().unwrap().id);
        }
        assert_eq!((taken, info(6).state), (vec![1, 2], State::Buried));
        assert_eq!(info(6).group.as_deref(), Some("lost"));
        assert_sound(&store);
    }
}

#[test]
fn restored_attempts_and_failures_survive_a_restart_and_a_salvage() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let clock = ManualClock::new();
    let open = || Store::options().clock(&clock).open(&path).unwrap();
    let store = open();
    let tube = store.create_tube("case", UTUBETTL, TubeOptions::new()).unwrap();
    let task = |id| named("x", id).takes(9).forgiven(2).failure(failure("timeout", "why", 7));
    tube.restore_many([task(3), task(4).buried(true).group("timeout")]).unwrap();
    let infos = |tube: &Tube| [3, 4].map(|id| tube.peek(id).unwrap().info);
    let before = infos(&tube);
    drop(tube);
    store.close().unwrap();
    drop(store);
    let salvaged: Vec<TaskInfo> =
        salvaged(&path, &clock).into_iter().map(|(_, task)| task.info).collect();
    assert_eq!(salvaged, before);
    let store = open();
    assert_eq!(infos(&store.tube("case").unwrap()), before);
    assert_sound(&store);

    // What is salvaged can be restored, and is the same again.
    let other = Store::options().clock(&clock).open_in_memory().unwrap();
    let tube = other.create_tube("case", UTUBETTL, TubeOptions::new()).unwrap();
    let again = salvaged.into_iter().map(|info| {
        let task = named("x", info.id).takes(info.takes).buried(info.state == State::Buried);
        let task = task.forgiven(info.takes - info.attempts).failure(info.failure.unwrap());
        info.group.into_iter().fold(task, Restore::group)
    });
    tube.restore_many(again).unwrap();
    assert_eq!(infos(&tube), before);
    assert_sound(&other);
}

#[test]
fn retention_of_a_restored_task_counts_from_its_failure() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().keep_buried(Keep::new().age(secs(100)));
    let tube = store.create_tube("case", FIFOTTL, options).unwrap();
    let old = failure("timeout", "", 1);
    tube.restore_many([
        named("failed", 1).buried(true).group("timeout").failure(old.clone()),
        named("set aside", 2).buried(true).failure(old),
        named("plain", 3).buried(true),
    ])
    .unwrap();
    assert_sound(&store);
    let left = || tube.list(State::Buried, None, 9).unwrap().tasks.iter().map(|t| t.id).collect();
    let left = || -> Vec<u64> { left() };
    clock.advance(secs(39));
    assert_eq!(left(), [1, 2, 3]);
    clock.advance(secs(1));
    assert_eq!(left(), [2, 3]);
    clock.advance(secs(60));
    assert_eq!(left(), [0; 0]);
    assert_sound(&store);
}

#[test]
fn restored_tasks_are_trimmed_to_the_newest_that_their_tube_keeps() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().keep_buried(Keep::new().count(3));
    let tube = store.create_tube("case", FIFOTTL, options).unwrap();
    let buried = |id: u64| {
        let mut failure = failure("timeout", "", 1);
        failure.ago = secs(100 * (id + 1));
        named("x", id).buried(true).group("timeout").failure(failure)
    };
    let receipts = tube.restore_many((0..10).rev().map(buried)).unwrap();
    assert_eq!(receipts.len(), 10);
    let page = tube.list(State::Buried, None, 99).unwrap().tasks;
    assert_eq!(page.iter().map(|task| task.id).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(tube.groups().unwrap()[0].count, 3);
    assert_sound(&store);
}

#[test]
fn wrong_attempts_and_failures_refuse_the_whole_call() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", FIFO, TubeOptions::new()).unwrap();
    let long = "x".repeat(256);
    let mut owner = failure("x", "", 1);
    owner.owner = Some(long.clone());
    for (task, why) in [
        (named("x", 1).takes(2).forgiven(3), "cannot have 3 forgiven takes"),
        (named("x", 1).group("x"), "only a buried task"),
        (named("x", 1).buried(true).group(""), "a failure group has 1 to 255 bytes, not 0"),
        (named("x", 1).buried(true).group(&*long), "not 256"),
        (named("x", 1).failure(failure("", "", 1)), "not 0"),
        (named("x", 1).failure(owner), "the owner of a failure must have at most 255 bytes"),
    ] {
        let refused = tube.restore_many([named("y", 0), task]);
        let text = refused.clone().map_err(|error| error.to_string());
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert!(text.unwrap_err().contains(why), "{why}");
    }
    assert_eq!((store.next_id(), tube.statistics().unwrap().tasks.total), (0, 0));
    let wordy = named("x", 1).failure(failure("x", &"é".repeat(10_000), 1));
    tube.restore_many([wordy]).unwrap();
    assert_eq!(tube.peek(1).unwrap().info.failure.unwrap().message.len(), 10_000);
    assert_sound(&store);
}
