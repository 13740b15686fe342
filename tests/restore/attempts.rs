//! Attempts and failures of restored tasks.

use tubewell::expert::Restore;
use tubewell::{
    Error, FIFO, FIFOTTL, Failure, Keep, ManualClock, Put, Store, TaskInfo, TaskState, Tube,
    TubeOptions, UTUBETTL,
};

use crate::{DRIVERS, assert_sound, attempts, failure, named, salvaged, secs};

#[test]
fn restore_keeps_attempts_and_failures() {
    for driver in DRIVERS {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let options = TubeOptions::new().max_attempts(5);
        let tube = store.create_tube("case", options.driver(driver)).unwrap();
        let timeout = failure("timeout", "no answer", 3);
        tube.admin()
            .restore_many([
                named("tried", 1).takes(4).forgiven(1).failure(timeout.clone()),
                named("given up", 2)
                    .takes(5)
                    .buried(true)
                    .group("timeout")
                    .failure(timeout.clone()),
                named("set aside", 3).takes(3).buried(true).failure(timeout.clone()),
                Restore::new(Put::new("own limit").max_attempts(1)).id(4).takes(7).forgiven(7),
                named("no note", 5).buried(true).group("lost"),
                named("spent", 6).takes(5),
            ])
            .unwrap();
        assert_sound(&store);
        let info = |id| tube.query().task(id).unwrap().info;
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
        assert_eq!(tube.kick(2).unwrap().state, TaskState::Ready);
        assert_eq!(attempts(&info(2)), (5, 0, Some(5)));
        assert_eq!(tube.claim(4).unwrap().attempts_left(), Some(0));
        assert_eq!(info(4).state, TaskState::Buried);
        tube.delete(3).unwrap();
        assert_sound(&store);
        // A spent task is not handed out.
        let mut taken = Vec::new();
        while let Some(claim) = tube.try_take().unwrap() {
            taken.push(claim.ack().unwrap().id);
        }
        assert_eq!((taken, info(6).state), (vec![1, 2], TaskState::Buried));
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
    let tube = store.create_tube("case", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let task = |id| named("x", id).takes(9).forgiven(2).failure(failure("timeout", "why", 7));
    tube.admin().restore_many([task(3), task(4).buried(true).group("timeout")]).unwrap();
    let infos = |tube: &Tube| [3, 4].map(|id| tube.query().task(id).unwrap().info);
    let before = infos(&tube);
    drop(tube);
    store.close().unwrap();
    drop(store);
    let salvaged: Vec<TaskInfo> =
        salvaged(&path, &clock).into_iter().map(|(_, task)| task.info).collect();
    assert_eq!(salvaged, before);
    let store = open();
    assert_eq!(infos(&store.find_tube("case").unwrap()), before);
    assert_sound(&store);

    // What is salvaged can be restored, and is the same again.
    let other = Store::options().clock(&clock).open_in_memory().unwrap();
    let tube = other.create_tube("case", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let again = salvaged.into_iter().map(|info| {
        let task = named("x", info.id).takes(info.takes).buried(info.state == TaskState::Buried);
        let task = task.forgiven(info.takes - info.attempts).failure(info.failure.unwrap());
        info.group.into_iter().fold(task, Restore::group)
    });
    tube.admin().restore_many(again).unwrap();
    assert_eq!(infos(&tube), before);
    assert_sound(&other);
}

#[test]
fn retention_of_a_restored_task_counts_from_its_failure() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().keep_buried(Keep::new().age(secs(100)));
    let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
    let old = failure("timeout", "", 1);
    tube.admin()
        .restore_many([
            named("failed", 1).buried(true).group("timeout").failure(old.clone()),
            named("set aside", 2).buried(true).failure(old),
            named("plain", 3).buried(true),
        ])
        .unwrap();
    assert_sound(&store);
    let left = || {
        tube.query().list(TaskState::Buried, None, 9).unwrap().items.iter().map(|t| t.id).collect()
    };
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
    let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
    let buried = |id: u64| {
        let mut failure = failure("timeout", "", 1);
        failure.ago = secs(100 * (id + 1));
        named("x", id).buried(true).group("timeout").failure(failure)
    };
    let receipts = tube.admin().restore_many((0..10).rev().map(buried)).unwrap();
    assert_eq!(receipts.len(), 10);
    let page = tube.query().list(TaskState::Buried, None, 99).unwrap().items;
    assert_eq!(page.iter().map(|task| task.id).collect::<Vec<_>>(), [2, 1, 0]);
    assert_eq!(tube.query().groups().unwrap()[0].count, 3);
    assert_sound(&store);
}

#[test]
fn wrong_attempts_and_failures_refuse_the_whole_call() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
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
        let refused = tube.admin().restore_many([named("y", 0), task]);
        let text = refused.clone().map_err(|error| error.to_string());
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert!(text.unwrap_err().contains(why), "{why}");
    }
    assert_eq!((store.admin().next_id().unwrap(), tube.statistics().unwrap().tasks.total), (0, 0));
    let wordy = named("x", 1).failure(failure("x", &"é".repeat(10_000), 1));
    tube.admin().restore_many([wordy]).unwrap();
    assert_eq!(tube.query().task(1).unwrap().info.failure.unwrap().message.len(), 10_000);
    assert_sound(&store);
}
