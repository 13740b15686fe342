//! Keys of tasks that move, advance, or are put by a finish.

use tubewell::{Error, Finish, Keep, OnKey, Put, State, Store, TubeOptions};

use crate::files::{after_a_kill, create};
use crate::moves::{done, listed, other};
use crate::support::*;
use crate::wait::wait_for;

/// Where the task with the key "k" is.
fn place(store: &Store) -> Option<(String, u64, State)> {
    store.by_key("k").unwrap().map(|task| (task.tube, task.info.id, task.info.state))
}

fn assert_place(store: &Store, tube: &str, id: u64, state: State) {
    assert_eq!(place(store), Some((tube.to_owned(), id, state)));
}

fn assert_in_use<T: std::fmt::Debug>(answer: tubewell::Result<T>) {
    assert!(matches!(answer, Err(Error::KeyInUse { .. })), "{answer:?}");
}

#[test]
fn moved_and_advanced_tasks_keep_their_keys() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let id = case.add(case.draft("x").key("k"));
        case.tube.move_to(id, &next).unwrap();
        assert_place(&case.store, next.name(), id, State::Ready);
        let claim = next.try_take().unwrap().unwrap();
        claim.advance(&case.tube, case.draft("y")).unwrap();
        assert_place(&case.store, "case", id, State::Ready);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.advance(&next, case.draft("z").key("k")).unwrap();
        assert_place(&case.store, next.name(), id, State::Ready);
        assert_in_use(case.tube.put(case.draft("w").key("k")));
        next.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(place(&case.store), None);
    });
}

#[test]
fn advance_with_another_key_is_refused() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let id = case.add(case.draft("x").key("k"));
        let claim = case.tube.try_take().unwrap().unwrap();
        let refused = claim.advance(&next, case.draft("y").key("l"));
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_place(&case.store, "case", id, State::Ready);
        assert!(listed(&next, State::Ready).is_empty());
    });
}

#[test]
fn finish_puts_tasks_with_keys_as_each_of_them_says() {
    for_each_driver(ALL, |case| {
        let mail = other(&case.store, case.driver);
        let known = mail.put(case.draft("old").key("k")).unwrap().id;
        let id = case.put("x");
        let finish = |on_key| Finish::new().put(&mail, case.draft("new").key("k").on_key(on_key));
        let claim = || case.tube.try_take().unwrap().unwrap();
        assert_in_use(claim().finish(finish(OnKey::Reject).put(&mail, case.draft("more"))));
        assert!(!case.calls().contains_key("ack"));
        assert_eq!(listed(&mail, State::Ready), [known]);
        claim().finish(finish(OnKey::Keep)).unwrap();
        assert_eq!(mail.peek(known).unwrap().data, b"old");
        let again = case.put("y");
        let receipt = claim().finish(finish(OnKey::Replace)).unwrap();
        assert_eq!((receipt.id, receipt.state), (again, State::Done));
        assert_eq!(mail.peek(known).unwrap().data, b"new");
        assert_eq!(listed(&mail, State::Ready), [known]);
        assert!(known < id && id < again);
    });
}

#[test]
fn finish_sees_the_keys_of_its_own_tasks() {
    for_each_driver(ALL, |case| {
        let mail = other(&case.store, case.driver);
        case.put("x");
        let put = |on_key| case.draft("m").key("k").on_key(on_key);
        let twice = |on_key| Finish::new().put(&mail, put(OnKey::Reject)).put(&mail, put(on_key));
        let claim = || case.tube.try_take().unwrap().unwrap();
        assert_in_use(claim().finish(twice(OnKey::Reject)));
        assert!(listed(&mail, State::Ready).is_empty());
        claim().finish(twice(OnKey::Keep)).unwrap();
        assert_eq!(listed(&mail, State::Ready).len(), 1);
    });
}

/// A job that puts its next run as it ends.
#[test]
fn finished_task_leaves_its_key_to_a_task_of_its_finish() {
    for_each_driver(ALL, |case| {
        let first = case.add(case.draft("1").key("k"));
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.finish(Finish::new().put(&case.tube, case.draft("2").key("k"))).unwrap();
        assert_place(&case.store, "case", first + 1, State::Ready);
    });
}

#[test]
fn finished_task_that_is_kept_or_goes_on_keeps_its_key() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let next = other(&case.store, case.driver);
        let id = case.add(case.draft("1").key("k"));
        for on_key in [OnKey::Reject, OnKey::Replace] {
            let put = || case.draft("2").key("k").on_key(on_key);
            let claim = || case.tube.try_take().unwrap().unwrap();
            assert_in_use(claim().finish(Finish::new().result("R").put(&next, put())));
            let advance = Finish::new().advance(&next, case.draft("3"));
            assert_in_use(claim().finish(advance.put(&case.tube, put())));
            assert_place(&case.store, "case", id, State::Ready);
        }
        let claim = case.tube.try_take().unwrap().unwrap();
        let keep = case.draft("2").key("k").on_key(OnKey::Keep);
        claim.finish(Finish::new().result("R").put(&next, keep)).unwrap();
        assert_place(&case.store, "case", id, State::Done);
        assert!(listed(&next, State::Ready).is_empty());
    });
}

/// A put through another tube moves the task there.
#[test]
fn replace_through_another_tube_moves_the_task() {
    for_each_driver(ALL, |case| {
        let next = other(&case.store, case.driver);
        let put = |body: &str| case.draft(body).key("k").on_key(OnKey::Replace);
        let id = case.add(put("1"));
        let wait = wait_for(&case.tube, id);
        assert_eq!(next.put(put("2")).unwrap().id, id);
        assert_place(&case.store, next.name(), id, State::Ready);
        assert!(listed(&case.tube, State::Ready).is_empty());
        let claim = next.try_take().unwrap().unwrap();
        assert_eq!(case.tube.requeue("k", case.draft("3")).unwrap().id, id);
        assert!(!claim.is_current());
        assert_not_taken(claim.ack(), id);
        assert_place(&case.store, "case", id, State::Ready);
        let many = [case.draft("other"), put("4")];
        assert_eq!(next.put_many(many).unwrap()[1].id, id);
        assert_eq!(next.peek(id).unwrap().data, b"4");
        case.put("5");
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.finish(Finish::new().put(&case.tube, put("6"))).unwrap();
        assert_place(&case.store, "case", id, State::Ready);
        case.tube.try_take().unwrap().unwrap().ack_with("R").unwrap();
        assert_eq!(wait.answer(), Ok(Some(done("R"))));
    });
}

#[test]
fn replace_between_a_temporary_and_a_stored_tube_is_refused() {
    let store = store_in_memory();
    let stored = store.create_tube("stored", "fifo", TubeOptions::new()).unwrap();
    let options = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", "fifo", options).unwrap();
    let id = stored.put(Put::new("x").key("k")).unwrap().id;
    let refused = temporary.put(Put::new("y").key("k").on_key(OnKey::Replace));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_place(&store, "stored", id, State::Ready);
    assert_sound(&store);
}

#[test]
fn task_replaced_through_another_tube_is_in_one_of_them_after_a_kill() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let next = other(&store, driver);
        let draft = |body: &str| crate::files::draft(driver, body).key("k");
        let id = tube.put(draft("1")).unwrap().id;
        next.put(draft("2").on_key(OnKey::Replace)).unwrap();
        let (_file, store) = after_a_kill(&file);
        assert_place(&store, next.name(), id, State::Ready);
        assert_sound(&store);
    }
}
