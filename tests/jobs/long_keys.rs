//! Keys as long as a URL: the index has their hash, and everything else has them as they are.

use tubewell::driver::FIFO;
use tubewell::{Error, Filter, MAX_KEY, OnKey, Outcome, Put, Store, TaskState, TubeOptions};

use super::files::{after_a_kill, create};
use super::support::*;

/// A key of so many bytes. All keys of more than 300 bytes differ behind them only.
fn url(length: usize, end: &str) -> String {
    let begin = "https://example.org/ä?q=";
    let middle = "x".repeat(length - begin.len() - end.len());
    format!("{begin}{middle}{end}")
}

fn id_of(store: &Store, key: &str) -> Option<u64> {
    let task = store.by_key(key).unwrap()?;
    assert_eq!(task.key.as_deref(), Some(key));
    Some(task.id)
}

#[test]
fn long_key_is_shown_and_found_as_it_is() {
    for_each_driver(ALL, |case| {
        let keys = [255, 256, 257, 2000, MAX_KEY].map(|length| url(length, "."));
        let others = keys.clone().map(|key| key[..key.len() - 1].to_owned() + "!");
        for key in keys.iter().chain(&others) {
            assert_eq!(id_of(&case.store, key), None);
            let id = case.add(case.draft("x").key(key));
            assert_eq!(id_of(&case.store, key), Some(id));
            let again = case.tube.put(case.draft("x").key(key));
            let in_use = Error::KeyInUse { key: key.clone(), id, state: TaskState::Ready };
            assert_eq!(again.err(), Some(in_use));
            let kept = case.tube.put(case.draft("x").key(key).on_key(OnKey::Keep)).unwrap();
            assert_eq!(kept.id, id);
            assert_eq!(case.tube.requeue(key, case.draft("y")).unwrap().id, id);
            assert_sound(&case.store);
            let claim = case.tube.claim(id).unwrap();
            assert_eq!((claim.key(), claim.body()), (Some(&**key), &b"y"[..]));
            claim.ack().unwrap();
            assert_eq!(id_of(&case.store, key), None);
        }
    });
}

#[test]
fn finish_puts_tasks_with_long_keys() {
    for_each_driver(ALL, |case| {
        let keys = [url(300, "/a"), url(300, "/b"), url(MAX_KEY, "/")];
        let id = case.put("page");
        let finish = Outcome::done();
        let finish = keys.iter().fold(finish, |finish, key| {
            finish.and_put(&case.tube, case.draft("link").key(key).on_key(OnKey::Keep))
        });
        case.tube.claim(id).unwrap().end(finish).unwrap();
        for (key, id) in keys.iter().zip(id + 1..) {
            assert_eq!(id_of(&case.store, key), Some(id));
        }
        let id = case.put("page");
        let finish =
            Outcome::done().and_put(&case.tube, case.draft("x").key(url(MAX_KEY + 1, "/")));
        let refused = case.tube.claim(id).unwrap().end(finish).unwrap_err();
        assert!(refused.to_string().contains("4096"), "{refused}");
    });
}

#[test]
fn task_waits_for_the_task_with_a_long_key() {
    for_each_driver(ALL, |case| {
        let (key, other) = (url(500, "/a"), url(500, "/b"));
        let parent = case.add(case.draft("x").key(&key));
        let child = case.add(case.draft("x").after_key(&key));
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        let unknown = case.tube.put(case.draft("x").after_key(&other));
        assert_eq!(unknown.err(), Some(Error::KeyNotFound { key: other }));
        case.tube.claim(parent).unwrap().ack().unwrap();
        assert_eq!(case.state(child), Some(TaskState::Ready));
    });
}

#[test]
fn events_of_a_long_key_pass_its_filter_only() {
    for_each_driver(ALL, |case| {
        let (key, other) = (url(MAX_KEY, "/a"), url(MAX_KEY, "/b"));
        let events = Events::of(&case.store, Filter::new().key(&*key), 100);
        for key in [&key, &other] {
            case.add(case.draft("x").key(key));
        }
        let keys: Vec<_> = events.read().into_iter().map(|event| event.key).collect();
        assert_eq!(keys, [Some(key.into())]);
    });
}

#[test]
fn long_key_is_there_after_a_kill_and_free_after_a_truncate() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let key = url(MAX_KEY, "/");
    let put = || Put::new("x").key(&key);
    let id = tube.put(put()).unwrap().id;
    let (_killed, again) = after_a_kill(&file);
    assert_eq!(id_of(&again, &key), Some(id));
    assert_sound(&again);
    let scratch = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", scratch.driver(FIFO)).unwrap();
    assert!(matches!(temporary.put(put()), Err(Error::KeyInUse { .. })));
    tube.admin().truncate().unwrap();
    assert_eq!(id_of(&store, &key), None);
    let id = temporary.put(put()).unwrap().id;
    assert_eq!(id_of(&store, &key), Some(id));
    assert_sound(&store);
}
