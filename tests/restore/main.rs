//! `restore_many`: tasks of another store come back with their ids, takes, states and failures, and no
//! id is ever used twice.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod attempts;
mod done;
mod parents;

use std::path::Path;
use std::time::Duration;

use tubewell::expert::{LastFailure, Restore, Salvaged};
use tubewell::{
    Durability, Error, EventKind, FIFO, FIFOTTL, Filter, LIMFIFOTTL, ManualClock, Put, Store,
    StoreOptions, Task, TaskInfo, TaskState, Tube, TubeOptions, UTUBE, UTUBETTL,
};

const DRIVERS: [&str; 5] = [FIFO, FIFOTTL, UTUBE, UTUBETTL, LIMFIFOTTL];

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn named(body: &str, id: u64) -> Restore {
    Restore::new(body).id(id)
}

fn assert_sound(store: &Store) {
    assert_eq!(store.admin().verify().unwrap(), Vec::<String>::new());
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
        if let Salvaged::Task { tube, task, .. } = what {
            tasks.push((tube, task));
        }
        Ok(())
    };
    StoreOptions::default().clock(clock).salvage(path, each).unwrap();
    tasks
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
fn restore_keeps_ids_takes_and_states() {
    for driver in DRIVERS {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
        let events = store.events(Filter::new(), 100).unwrap();
        let receipts = tube
            .admin()
            .restore_many([
                named("ready", 40).takes(3),
                named("buried", 7).takes(u32::MAX).buried(true),
                named("first", 2),
            ])
            .unwrap();
        let answers: Vec<_> = receipts.iter().map(|receipt| (receipt.id, receipt.state)).collect();
        assert_eq!(
            answers,
            [(40, TaskState::Ready), (7, TaskState::Buried), (2, TaskState::Ready)]
        );
        let seen: Vec<_> = std::iter::from_fn(|| events.try_recv())
            .map(|event| (event.id, event.kind, event.state))
            .collect();
        let expected = [(40, TaskState::Ready), (7, TaskState::Buried), (2, TaskState::Ready)];
        assert_eq!(seen, expected.map(|(id, state)| (id, EventKind::Put, state)), "{driver}");
        let counts = tube.statistics().unwrap();
        assert_eq!((counts.tasks.ready, counts.tasks.buried, counts.calls.put), (2, 1, 3));
        assert_sound(&store);

        assert_eq!(tube.query().task(7).unwrap().info.takes, u32::MAX);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.takes(), claim.body()), (2, 1, &b"first"[..]));
        claim.ack().unwrap();
        assert_eq!(tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
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
        let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
        let soon = Restore::new(Put::new("soon").delay(secs(5)).ttl(secs(60)).priority(9)).id(3);
        let never = Restore::new(Put::new("never").delay(Duration::MAX)).id(1);
        let brief = Restore::new(Put::new("brief").ttl(secs(7))).id(2).buried(true);
        tube.admin().restore_many([soon, never, brief]).unwrap();
        assert_eq!(tube.query().task(3).unwrap().info.due_in, Some(secs(5)));
        assert_eq!(tube.query().task(3).unwrap().info.ttl_left, Some(secs(65)));
        clock.advance(secs(6));
        assert_eq!(tube.try_take().unwrap().map(|claim| claim.id()), Some(3));
        clock.advance(secs(2));
        assert_eq!(tube.query().task(2), Err(Error::NotFound { id: 2 }));
        assert_eq!(tube.query().task(1).unwrap().info.state, TaskState::Delayed);
        assert_sound(&store);
        clock.advance(secs(58));
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
        assert_sound(&store);
    }
}

#[test]
fn restored_tasks_reach_waiting_takers() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    std::thread::scope(|scope| {
        let taker = scope.spawn(|| tube.take().unwrap().ack().unwrap().id);
        while store.tubes().unwrap()[0].waiting == 0 {
            std::thread::yield_now();
        }
        tube.admin().restore_many([named("buried", 1).buried(true), named("ready", 9)]).unwrap();
        assert_eq!(taker.join().unwrap(), 9);
    });
}

#[test]
fn ids_are_restored_in_any_order_and_into_several_tubes() {
    let store = Store::in_memory().unwrap();
    let one = store.create_tube("one", TubeOptions::new().driver(FIFO)).unwrap();
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    one.admin().restore_many([named("x", 100), named("x", 5), named("x", 50)]).unwrap();
    other.admin().restore_many([named("x", 7)]).unwrap();
    one.admin().restore_many([named("x", 6), named("x", 0)]).unwrap();
    for tube in [&one, &other] {
        for id in [0, 5, 6, 7, 50, 100] {
            assert_eq!(tube.admin().restore_many([named("y", id)]), Err(Error::IdUsed { id }));
        }
    }
    assert_eq!(store.admin().next_id().unwrap(), 101);
    assert_eq!(ids_in_take_order(&one), [0, 5, 6, 50, 100]);
    assert_eq!(ids_in_take_order(&other), [7]);
    // A put of any tube closes the range below it.
    assert_eq!(other.put("z").unwrap().id, 101);
    assert_eq!(one.admin().restore_many([named("y", 99)]), Err(Error::IdUsed { id: 99 }));
    one.admin().restore_many([named("y", 200), named("y", 150)]).unwrap();
    assert_sound(&store);
}

#[test]
fn used_id_refuses_the_whole_call_and_changes_nothing() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.admin().restore_many([named("x", 3)]).unwrap();
    let twice = [named("a", 8), named("b", 9), named("c", 8)];
    assert_eq!(tube.admin().restore_many(twice), Err(Error::IdUsed { id: 8 }));
    assert_eq!(
        tube.admin().restore_many([named("a", 8), named("b", 3)]),
        Err(Error::IdUsed { id: 3 })
    );
    // One without an id gets the next one, which no later task of the call may name.
    let mixed = [named("a", 8), Restore::new("b"), named("c", 9)];
    assert_eq!(tube.admin().restore_many(mixed), Err(Error::IdUsed { id: 9 }));
    assert_eq!((store.admin().next_id().unwrap(), tube.statistics().unwrap().tasks.total), (4, 1));

    let delayed = Restore::new(Put::new("x").delay(secs(1))).buried(true);
    assert!(matches!(tube.admin().restore_many([delayed]), Err(Error::Invalid { .. })));
    let far = tube.admin().restore_many([named("x", (1 << 60) + 1)]);
    assert!(matches!(far, Err(Error::Invalid { .. })), "{far:?}");
    let many = tube.admin().restore_many((0..=100_000).map(|id| named("", id)));
    assert!(matches!(many, Err(Error::Invalid { .. })));
    let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
    let unsupported = plain.admin().restore_many([Restore::new(Put::new("x").priority(1)).id(8)]);
    assert!(matches!(unsupported, Err(Error::Unsupported { .. })));
    let small = TubeOptions::new().capacity(1);
    let small = store.create_tube("small", small.driver(LIMFIFOTTL)).unwrap();
    let full = small.admin().restore_many([named("a", 8), named("b", 9).buried(true)]);
    assert!(matches!(full, Err(Error::Full { .. })));
    assert_eq!(tube.admin().restore_many([]).unwrap(), []);

    // All the ids that were refused with their calls are free.
    tube.admin().restore_many([named("a", 8), Restore::new("b"), named("c", 1 << 60)]).unwrap();
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
        store.create_tube(name, TubeOptions::new().driver(driver)).unwrap();
    }
    for (number, name) in (0_u64..).zip(names) {
        // Ids of all tubes interleave, as those of a store that is in use.
        let tasks = (0..50).map(|n| {
            let id = n * 10 + (number * 3) % 10;
            let body = if n % 7 == 0 { large.clone() } else { format!("{name}{n}") };
            named(&body, id).takes(u32::try_from(n).unwrap()).buried(n % 5 == 0)
        });
        let ticket = store.find_tube(name).unwrap().to_async().admin().restore_many(tasks);
        assert_eq!(ticket.wait().unwrap().len(), 50);
    }
    assert_sound(&store);
    let next = store.admin().next_id().unwrap();
    store.close().unwrap();
    drop(store);

    let tasks = salvaged(&path, &clock);
    assert_eq!(tasks.len(), 250);
    for (tube, task) in &tasks {
        let n = task.info.id / 10;
        assert_eq!(u64::from(task.info.takes), n, "{tube} {}", task.info.id);
        assert_eq!(task.info.state == TaskState::Buried, n.is_multiple_of(5));
    }
    let store = open();
    assert_eq!(store.admin().next_id().unwrap(), next);
    let tube = store.find_tube("a").unwrap();
    assert_eq!(tube.admin().restore_many([named("x", 1)]), Err(Error::IdUsed { id: 1 }));
    tube.admin().restore_many([named("x", next + 5)]).unwrap();
    assert_eq!(tube.put("x").unwrap().id, next + 6);
    assert_sound(&store);
}

#[test]
fn restored_ids_are_never_given_again_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("store")).unwrap();
    let relaxed = Durability::Relaxed { max_delay: Duration::MAX };
    let tube =
        store.create_tube("case", TubeOptions::new().durability(relaxed).driver(FIFO)).unwrap();
    tube.admin().restore_many([named("far", 5_000_000), named("near", 3)]).unwrap();
    // A backup is what a kill at this moment would leave.
    let copy = dir.path().join("copy");
    store.admin().backup(&copy).unwrap();
    let copy = Store::open(copy).unwrap();
    assert_sound(&copy);
    let tube = copy.find_tube("case").unwrap();
    assert!(copy.admin().next_id().unwrap() > 5_000_000);
    assert!(tube.put("new").unwrap().id > 5_000_000);
    assert_eq!(ids_in_take_order(&tube)[..2], [3, 5_000_000]);
}
