//! Keys: names of tasks, each unique in the store, and what a put does if one is in use.

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::expert::Restore;
use tubewell::{
    Durability, Ending, Error, Failure, Filter, Keep, MAX_KEY, OnKey, Outcome, Put, Store,
    StoreOptions, TaskState, TubeOptions,
};

use super::executor::{block_on, with_timeout};
use super::files::{after_a_kill, create, create_with};
use super::support::*;
use super::wait::{DONE, Wait, end_of, on_disk};
use crate::stores;

fn in_use<T>(answer: tubewell::Result<T>) -> (u64, TaskState) {
    match answer.err() {
        Some(Error::KeyInUse { id, state, .. }) => (id, state),
        other => panic!("not refused because of its key: {other:?}"),
    }
}

fn keep(put: Put) -> Put {
    put.on_key(OnKey::Keep)
}

/// The id of the task that has a key.
fn id_of(store: &Store, key: &str) -> Option<u64> {
    let found = store.by_key(key).unwrap();
    assert_eq!(block_on(store.to_async().by_key(key)).unwrap(), found);
    found.map(|task| task.id)
}

#[test]
fn put_with_key_in_use_is_rejected_by_default_in_every_state() {
    let keep = TubeOptions::default().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        let put = || case.draft("x").key("k");
        let id = case.add(put());
        let refused = |state| {
            assert_eq!(in_use(case.tube.put(put())), (id, state));
            assert_eq!(in_use(other.put(Put::new("y").key("k"))), (id, state));
            assert_eq!(in_use(case.tube.put_timeout(put(), NO_TIMEOUT)), (id, state));
            assert_eq!(
                in_use(block_on(case.tube.to_async().put_timeout(put(), NO_TIMEOUT))),
                (id, state)
            );
            assert_eq!(in_use(case.tube.put_many([case.draft("z"), put()])), (id, state));
            assert_eq!(in_use(case.tube.put_and_wait(put(), ZERO)), (id, state));
            assert_eq!(
                in_use(block_on(case.tube.to_async().put_and_wait(put(), ZERO))),
                (id, state)
            );
            assert_eq!(
                in_use(case.tube.to_async().refuse_when_full().put(put()).wait()),
                (id, state)
            );
            let task = case.store.by_key("k").unwrap().unwrap();
            assert_eq!((task.tube.as_str(), task.id, task.state), ("case", id, state));
            assert_eq!(task.key.as_deref(), Some("k"));
        };
        refused(TaskState::Ready);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.key(), Some("k"));
        refused(TaskState::Taken);
        claim.bury(None).unwrap();
        refused(TaskState::Buried);
        case.tube.kick(id).unwrap();
        if case.timed() {
            case.tube.try_take().unwrap().unwrap().release_in(secs(1)).unwrap();
            refused(TaskState::Delayed);
            case.advance(1_000);
        }
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        refused(TaskState::Done);
        assert_eq!(case.calls()["put"], 1);
        assert!(!case.tasks().contains_key("total") && other.statistics().unwrap().calls.put == 0);
        case.tube.admin().forget(id).unwrap();
        assert_eq!(id_of(&case.store, "k"), None);
        assert_eq!(other.put(Put::new("y").key("k")).unwrap().id, id + 1);
    });
}

/// Any removal of a task frees its key.
#[test]
fn key_is_free_once_its_task_is_removed() {
    for_each_driver(TIMED, |case| {
        let put = || case.draft("x").key("k");
        let mut last = None;
        let mut put_again = |put: Put| {
            let id = case.add(put);
            assert!(last.replace(id) < Some(id), "a new task");
            assert_eq!(id_of(&case.store, "k"), Some(id));
            id
        };
        put_again(put());
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        let id = put_again(put());
        case.tube.delete(id).unwrap();
        let id = put_again(put());
        case.tube.admin().resolve(id, ()).unwrap();
        put_again(put());
        case.tube.admin().truncate().unwrap();
        assert_eq!(id_of(&case.store, "k"), None);
        put_again(put().ttl(secs(1)));
        case.advance(1_000);
        assert_eq!(id_of(&case.store, "k"), None);
        case.add(put().ttl(ZERO));
        let id = put_again(put());
        assert_eq!(case.take_all(), [id]);
    });
}

/// The rows of a dropped tube are purged later: until then they have the key, too.
#[test]
fn key_of_a_dropped_tube_is_free_at_once() {
    for reopen in [false, true] {
        let file = StoreFile::new();
        let (mut store, tube) = create(&file, FIFO);
        let tasks = (0..2_000).map(|n| Put::new("old").key(format!("k{n}")));
        tube.put_many(tasks.chain([Put::new("last").key("z")])).unwrap();
        store.drop_tube("case").unwrap();
        drop(tube);
        if reopen {
            store = file.reopen(store);
        }
        let tube = store.create_tube("new", TubeOptions::default().driver(FIFO)).unwrap();
        assert_eq!(id_of(&store, "z"), None);
        let ids: Vec<u64> = ["z", "k0", "k1999"]
            .iter()
            .map(|key| tube.put(Put::new("new").key(*key)).unwrap().id)
            .collect();
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        for (key, id) in ["z", "k0", "k1999"].into_iter().zip(ids) {
            assert_eq!(id_of(&store, key), Some(id));
        }
        assert_eq!(id_of(&store, "k1"), None);
        assert_sound(&store);
    }
}

#[test]
fn put_that_keeps_a_task_returns_its_id_and_state() {
    let options = TubeOptions::default().keep_done(Keep::new().age(secs(60)));
    for_each_driver_with(ALL, options, |case| {
        let put = |data| keep(case.draft(data).key("k"));
        let id = case.add(put("first"));
        let kept = |state| {
            let receipts = [
                case.tube.put(put("second")).unwrap(),
                case.tube.put_timeout(put("third"), ZERO).unwrap(),
                case.tube.put_many([put("fourth")]).unwrap()[0],
                case.tube.to_async().refuse_when_full().put(put("fifth")).wait().unwrap(),
            ];
            assert!(receipts.iter().all(|receipt| (receipt.id, receipt.state) == (id, state)));
        };
        kept(TaskState::Ready);
        let claim = case.tube.try_take().unwrap().unwrap();
        kept(TaskState::Taken);
        assert_eq!(claim.body(), b"first");
        claim.ack().unwrap();
        kept(TaskState::Done);
        assert_eq!(case.calls()["put"], 1);
        case.advance(59_999);
        kept(TaskState::Done);
        case.advance(1);
        let next = case.tube.put(put("next")).unwrap();
        assert_eq!((next.id, next.state), (id + 1, TaskState::Ready), "the window has closed");
    });
}

#[test]
fn put_many_sees_the_keys_of_its_own_tasks() {
    for_each_driver(ALL, |case| {
        let put = |data, key: &str| case.draft(data).key(key);
        let refused = case.tube.put_many([put("a", "k"), put("b", "l"), put("c", "k")]);
        assert_eq!(in_use(refused), (0, TaskState::Ready));
        assert_eq!((id_of(&case.store, "k"), id_of(&case.store, "l")), (None, None));
        assert_eq!(case.tasks(), counts([]));

        let replace = |put: Put| put.on_key(OnKey::Replace);
        let tasks = [
            put("a", "k"),
            case.draft("b"),
            keep(put("c", "k")),
            replace(put("d", "k")),
            put("e", "l"),
            replace(put("f", "k")),
        ];
        let ids: Vec<u64> =
            case.tube.put_many(tasks).unwrap().iter().map(|receipt| receipt.id).collect();
        assert_eq!(ids, [0, 1, 0, 0, 2, 0]);
        assert_eq!(case.tasks(), counts([("ready", 3), ("total", 3)]));
        let body = |id| case.tube.query().task(id).unwrap().body;
        assert_eq!([body(0), body(1), body(2)], [b"f", b"b", b"e"]);
        assert_sound(&case.store);
        let mut taken = case.take_all();
        taken.sort_unstable();
        assert_eq!(taken, [0, 1, 2]);
    });
}

/// All or none: also if the refused task is behind one that has been replaced.
/// The claim of the first put's task ends with the call.
#[test]
fn put_many_that_replaces_a_taken_task_and_then_keeps_it_returns_its_new_state() {
    for_each_driver(ALL, |case| {
        let id = case.add(case.draft("old").key("k"));
        let claim = case.tube.claim(id).unwrap();
        let puts =
            [OnKey::Replace, OnKey::Keep].map(|rule| case.draft("new").key("k").on_key(rule));
        let receipts = case.tube.put_many(puts).unwrap();
        let states: Vec<_> = receipts.iter().map(|receipt| (receipt.id, receipt.state)).collect();
        assert_eq!(states, [(id, TaskState::Ready), (id, TaskState::Ready)]);
        assert!(!claim.is_current().unwrap());
    });
}

#[test]
fn refused_put_many_replaces_nothing() {
    for_each_driver(ALL, |case| {
        let id = case.add(case.draft("old").key("k"));
        case.add(case.draft("x").key("l"));
        let claim = case.tube.try_take().unwrap().unwrap();
        let tasks = [
            case.draft("new").key("k").on_key(OnKey::Replace),
            case.draft("y"),
            case.draft("z").key("l"),
        ];
        assert_eq!(in_use(case.tube.put_many(tasks)).0, id + 1);
        assert!(claim.is_current().unwrap());
        assert_eq!(case.tube.query().task(id).unwrap().body, b"old");
        assert_eq!(case.tasks(), counts([("ready", 1), ("taken", 1), ("total", 2)]));
        assert_sound(&case.store);
        claim.ack().unwrap();
    });
}

#[test]
fn invalid_keys_are_refused() {
    for_each_driver(ALL, |case| {
        let longest = "ä".repeat(MAX_KEY / 2 - 1) + "x";
        let id = case.add(case.draft("x").key(longest.clone() + "x"));
        assert_eq!(id_of(&case.store, &(longest.clone() + "x")), Some(id));
        for key in ["", &(longest + "xx")] {
            let refused = case.tube.put(case.draft("x").key(key)).err();
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
            assert_eq!(case.store.by_key(key).err(), refused);
            assert_eq!(block_on(case.store.to_async().by_key(key)).err(), refused);
            assert_eq!(case.tube.requeue(key, "x").err(), refused);
        }
        let other = case.tube.requeue("k", case.draft("x").key("l")).err();
        assert!(matches!(other, Some(Error::Invalid { .. })), "{other:?}");
        assert_eq!(case.tasks()["total"], 1);
    });
}

/// An option that the driver does not have is refused, whether or not the key is in use.
#[test]
fn unsupported_option_is_refused_before_the_key() {
    for_each_driver(UNTIMED, |case| {
        let put = || keep(case.draft("x").key("k")).priority(1);
        assert_unsupported(case.tube.put(put()), case.driver);
        case.add(case.draft("x").key("k"));
        assert_unsupported(case.tube.put(put()), case.driver);
        assert_unsupported(case.tube.put_many([put()]), case.driver);
        assert_unsupported(case.tube.requeue("k", Put::new("x").priority(1)), case.driver);
    });
}

#[test]
fn keys_survive_a_close_and_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let keep = TubeOptions::default().keep_done(Keep::new());
        let (store, tube) = create_with(&file, driver, keep);
        let temporary = TubeOptions::default().temporary(true);
        let temporary = store.create_tube("temporary", temporary.driver(FIFO)).unwrap();
        tube.put(Put::new("done").key("done")).unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        tube.put(Put::new("ready").key("ready")).unwrap();
        temporary.put(Put::new("gone").key("gone")).unwrap();
        assert_eq!(in_use(tube.put(Put::new("x").key("gone"))), (2, TaskState::Ready));
        assert_eq!(in_use(temporary.put(Put::new("x").key("ready"))), (1, TaskState::Ready));
        assert_sound(&store);
        drop((tube, temporary));
        let check = |store: &Store| {
            assert_eq!(id_of(store, "done"), Some(0));
            assert_eq!(id_of(store, "ready"), Some(1));
            assert_eq!(id_of(store, "gone"), None);
            let tube = store.find_tube("case").unwrap();
            assert_eq!(in_use(tube.put(Put::new("x").key("done"))), (0, TaskState::Done));
            assert_sound(store);
        };
        let (_killed, store_of_killed) = after_a_kill(&file);
        check(&store_of_killed);
        check(&file.reopen(store));
    }
}

/// A put that waits for space asks for its key again when it is let in.
#[test]
fn waiting_put_asks_for_its_key_when_it_is_admitted() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::default().capacity(1), |case| {
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        let keyed = |on_key| Put::new("x").key("k").on_key(on_key);
        let id = case.put("full");
        let rejected =
            Wait::begin(case.tube.to_async().put_timeout(keyed(OnKey::Reject), NO_TIMEOUT));
        let kept = Wait::begin(case.tube.to_async().put_timeout(keyed(OnKey::Keep), NO_TIMEOUT));
        let first = other.put(Put::new("first").key("k")).unwrap();
        rejected.assert_waits();
        case.tube.delete(id).unwrap();
        assert_eq!(in_use(end_of(rejected)), (first.id, TaskState::Ready));
        assert_eq!(end_of(kept).unwrap().id, first.id);
        assert_eq!(case.tasks().get("total"), None);
    });
}

/// A put of a key in use needs no space, so it does not wait for any.
#[test]
fn put_of_a_key_in_use_is_answered_in_a_full_tube() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::default().capacity(1), |case| {
        let id = case.add(Put::new("x").key("k"));
        let waiting = Wait::begin(case.tube.to_async().put_timeout("y", NO_TIMEOUT));
        assert_eq!(in_use(case.tube.put(Put::new("x").key("k"))).0, id);
        assert_eq!(case.tube.put(keep(Put::new("x".into()).key("k"))).unwrap().id, id);
        let replace = Put::new("new").key("k").on_key(OnKey::Replace);
        assert_eq!(case.tube.put(replace).unwrap().id, id);
        let full = case.tube.put(Put::new("x").key("l")).err();
        assert!(matches!(full, Some(Error::Full { .. })), "{full:?}");
        case.tube.delete(id).unwrap();
        assert_eq!(end_of(waiting).unwrap().id, id + 1);
    });
}

/// The task that has the key is still to be flushed: a crash could take back what was said of it.
#[test]
fn answers_about_a_key_wait_for_the_flush_of_its_task() {
    with_timeout(|| {
        let (disk, _clock, store, tube) = on_disk(FIFO);
        let deferred = tube.to_async().refuse_when_full();
        let put = || Put::new("x".into()).key("k");
        let ticket = disk.block_flush_of(|| deferred.put(put()));
        let found = Wait::begin(store.to_async().by_key("k"));
        let kept = Wait::begin(tube.to_async().put_timeout(keep(put()), NO_TIMEOUT));
        let rejected = Wait::begin(tube.to_async().put_timeout(put(), NO_TIMEOUT));
        let joined = Wait::begin(tube.to_async().put_and_wait(put(), NO_TIMEOUT));
        found.assert_waits();
        stores::settle(&store);
        disk.unblock_flushes();
        let id = ticket.wait().unwrap().id;
        assert_eq!(end_of(found).unwrap().unwrap().id, id);
        assert_eq!(end_of(kept).unwrap().id, id);
        assert_eq!(in_use(end_of(rejected)).0, id);
        assert_eq!(in_use(end_of(joined)).0, id);

        let _ = tube.try_take().unwrap().unwrap().detach();
        let claim = deferred.claimed(id).wait().unwrap();
        let ack = disk.block_flush_of(|| claim.ack());
        let found = Wait::begin(store.to_async().by_key("k"));
        stores::settle(&store);
        disk.unblock_flushes();
        ack.wait().unwrap();
        assert_eq!(end_of(found), Ok(None));
        assert_sound(&store);
    });
}

/// Callers that request the same work wait for one task.
#[test]
fn put_and_wait_that_keeps_a_task_waits_for_the_end_of_that_task() {
    with_timeout(|| {
        let options = TubeOptions::default().keep_done(Keep::new());
        for_each_driver_with(ALL, options, |case| {
            let other =
                case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
            let put = || keep(Put::new("x".into()).key("k"));
            let waits = [
                Wait::begin(case.tube.to_async().put_and_wait(put(), NO_TIMEOUT)),
                Wait::begin(case.tube.to_async().put_and_wait(put(), NO_TIMEOUT)),
                Wait::begin(other.to_async().put_and_wait(put(), NO_TIMEOUT)),
            ];
            case.store.flush().unwrap();
            let claim = case.tube.try_take().unwrap().unwrap();
            let result = Ending::Done { result: Some(b"result".to_vec()) };
            claim.end(Outcome::result("result")).unwrap();
            for wait in waits {
                let (receipt, ending) = end_of(wait).unwrap();
                assert_eq!((receipt.id, ending), (0, Some(result.clone())));
            }
            // It is kept: a later caller gets its result.
            let (receipt, ending) = other.put_and_wait(put(), ZERO).unwrap();
            assert_eq!((receipt.state, ending), (TaskState::Done, Some(result)));
            case.tube.admin().forget(0).unwrap();
            let buried = case.add(put());
            let claim = case.tube.try_take().unwrap().unwrap();
            claim.bury(Failure::new("group", "why")).unwrap();
            let (receipt, ending) = other.put_and_wait(put(), NO_TIMEOUT).unwrap();
            assert_eq!((receipt.id, receipt.state), (buried, TaskState::Buried));
            assert!(matches!(ending, Some(Ending::Buried { failure: Some(_) })), "{ending:?}");
            case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            let wait = Wait::begin(other.to_async().put_and_wait(put(), NO_TIMEOUT));
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            assert_eq!(end_of(wait).unwrap().1, Some(DONE));
        });
    });
}

#[test]
fn restored_tasks_have_their_keys_and_are_refused_if_one_is_in_use() {
    let keep_all = TubeOptions::default().keep_done(Keep::new());
    for_each_driver_with(ALL, keep_all, |case| {
        let put = |key: &str| case.draft("x").key(key);
        let tasks = [
            Restore::new(put("ready")).id(7),
            Restore::new(put("buried")).id(5).takes(2).buried(true),
            Restore::new(put("done")).id(3).done(Some(b"result".to_vec())),
        ];
        case.tube.admin().restore_many(tasks).unwrap();
        for (key, id, state) in [
            ("ready", 7, TaskState::Ready),
            ("buried", 5, TaskState::Buried),
            ("done", 3, TaskState::Done),
        ] {
            let task = case.store.by_key(key).unwrap().unwrap();
            assert_eq!((task.id, task.state), (id, state));
        }
        let again = [Restore::new(put("new")).id(9), Restore::new(put("done")).id(8)];
        assert_eq!(in_use(case.tube.admin().restore_many(again)), (3, TaskState::Done));
        assert_eq!(id_of(&case.store, "new"), None);
        let kept = [Restore::new(put("new")).id(9), Restore::new(keep(put("done"))).id(8)];
        let receipts = case.tube.admin().restore_many(kept).unwrap();
        assert_eq!([receipts[0].id, receipts[1].id], [9, 3]);
        let replace = || Restore::new(put("done").on_key(OnKey::Replace));
        for restored in [replace().id(11), replace().takes(1), replace().buried(true)] {
            let refused = case.tube.admin().restore_many([restored]).err();
            assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        }
        assert_eq!(case.tube.admin().restore_many([replace()]).unwrap()[0].id, 3);
        assert_eq!(case.state(3), Some(TaskState::Ready));
        let used = case.tube.admin().restore_many([Restore::new(put("late")).id(9)]).err();
        assert_eq!(used, Some(Error::IdUsed { id: 9 }));
        assert_eq!(case.tube.put(put("late")).unwrap().id, 10);
    });
}

#[test]
fn salvaged_and_copied_tasks_have_their_keys() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    tube.put(Put::new("x").key("k").delay(secs(60))).unwrap();
    let copy = StoreFile::new();
    store.admin().backup(copy.path()).unwrap();
    let backup = stores::open_with(copy.path(), Store::options().clock(&file.clock));
    assert_eq!(id_of(&backup, "k"), Some(0));
    assert_sound(&backup);
    drop(tube);
    stores::close(&store);
    let mut keys = Vec::new();
    let salvage = |found: tubewell::expert::Salvaged| {
        if let tubewell::expert::Salvaged::Task { task, .. } = found {
            keys.push(task.info.key);
        }
        Ok(())
    };
    StoreOptions::default().clock(&file.clock).salvage(file.path(), salvage).unwrap();
    assert_eq!(keys, [Some("k".to_owned())]);
}

/// In a relaxed or written tube, too, a task that was put and acked before its flush leaves no row.
#[test]
fn keys_that_come_and_go_leave_nothing() {
    for durability in [Durability::relaxed(), Durability::write()] {
        let file = StoreFile::new();
        let options = TubeOptions::default().durability(durability);
        let (store, tube) = create_with(&file, FIFO, options);
        for round in 0..3 {
            for n in 0..50 {
                let id = tube.put(Put::new("x").key(format!("k{n}"))).unwrap().id;
                assert_eq!(
                    tube.put(keep(Put::new("y".into()).key(format!("k{n}")))).unwrap().id,
                    id
                );
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
            if round == 1 {
                store.flush().unwrap();
            }
        }
        assert_eq!(id_of(&store, "k7"), None);
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        assert_eq!(id_of(&store, "k7"), None);
        assert_sound(&store);
    }
}
