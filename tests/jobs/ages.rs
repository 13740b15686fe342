//! When tasks were put, whatever has happened to them since.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::time::Duration;
use std::time::SystemTime;

use tubewell::expert::{Restore, Salvaged};
use tubewell::{
    Error, FIFOTTL, Failure, Filter, Keep, LIMFIFOTTL, OnKey, Outcome, Schedule, StoreOptions,
    TaskState, TubeOptions, Update,
};

use super::files::{after_a_kill, create, create_with, draft};
use super::not_before::{HOUR, MICRO, START, at};
use super::support::*;
use crate::stores;

impl Case {
    #[track_caller]
    fn assert_put_at(&self, id: u64, moment: SystemTime) {
        let found = self.store.find(id).unwrap().unwrap();
        assert_eq!(found.put_at, moment);
        self.advance(1000);
    }
}

/// B001, B015
#[test]
fn task_keeps_the_time_of_its_put() {
    for_each_driver(ALL, |case| {
        let put_at = at(secs(5));
        case.advance(5000);
        let id = case.add(case.draft("x").tag("tag"));
        case.assert_put_at(id, put_at);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.assert_put_at(id, put_at);
        claim.release().unwrap();
        case.assert_put_at(id, put_at);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.bury(Failure::new("timeout", "no answer")).unwrap();
        case.assert_put_at(id, put_at);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        case.assert_put_at(id, put_at);
        case.tube.update(id, Update::new().body("y")).unwrap();
        case.assert_put_at(id, put_at);
        let mut claim = case.tube.try_take().unwrap().unwrap();
        claim.checkpoint("z").unwrap();
        claim.fail(Failure::new("timeout", "no answer")).unwrap();
        case.assert_put_at(id, put_at);
        let task = case.tube.try_take().unwrap().unwrap().detach();
        assert_eq!(task.info.put_at, put_at);
    });
}

#[test]
fn put_time_goes_along_to_other_tubes() {
    for_each_driver(ALL, |case| {
        let keep = TubeOptions::new().keep_done(Keep::new());
        let next = case.store.create_tube("next", keep.driver(case.driver)).unwrap();
        let [moved, advanced] = [case.put("moved"), case.put("advanced")];
        case.advance(1000);
        assert_eq!(case.tube.admin().move_to(&next, moved), Ok(1));
        case.assert_put_at(moved, at(ZERO));
        assert_eq!(next.admin().move_to(&case.tube, Filter::new()).unwrap(), 1);
        case.assert_put_at(moved, at(ZERO));
        case.tube
            .claim(advanced)
            .unwrap()
            .end(Outcome::advance(&next, case.draft("next")))
            .unwrap();
        case.assert_put_at(advanced, at(ZERO));
        next.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(next.query().task(advanced).unwrap().info.state, TaskState::Done);
        case.assert_put_at(advanced, at(ZERO));
    });
}

/// Difference: a task that is put anew by its key is as old as the one before.
#[test]
fn replaced_task_is_as_old_as_before() {
    for_each_driver(ALL, |case| {
        let next = case.store.create_tube("next", TubeOptions::new().driver(case.driver)).unwrap();
        let put = || case.draft("x").key("job");
        let id = case.add(put());
        case.assert_put_at(id, at(ZERO));
        case.add(put().on_key(OnKey::Replace));
        case.assert_put_at(id, at(ZERO));
        case.tube.requeue("job", case.draft("y")).unwrap();
        case.assert_put_at(id, at(ZERO));
        next.put(put().on_key(OnKey::Replace)).unwrap();
        case.assert_put_at(id, at(ZERO));
        next.delete(id).unwrap();
        let new = next.put(put()).unwrap().id;
        case.assert_put_at(new, at(secs(4)));
    });
}

#[test]
fn every_list_has_the_time_of_the_put() {
    for_each_driver(ALL, |case| {
        case.advance(2000);
        let id = case.add(case.draft("x").key("job").tag("tag"));
        case.advance(1000);
        let tube = &case.tube;
        let mut found = tube.query().list(TaskState::Ready, None, 9).unwrap().items;
        found.extend(tube.query().list(Filter::new(), None, 9).unwrap().items);
        found.extend(tube.query().next(9).unwrap());
        let tagged = case.store.list(Filter::new().tag("tag"), None, 9).unwrap().items;
        found.extend(tagged.into_iter().chain(case.store.by_key("job").unwrap()));
        assert_eq!(found.len(), 5);
        assert!(found.iter().all(|info| info.id == id && info.put_at == at(secs(2))));
        assert!(found.iter().all(|info| *info == case.info(id)));
    });
}

#[test]
fn delay_is_a_part_of_the_age() {
    for_each_driver(TIMED, |case| {
        let delayed = case.add(case.draft("x").delay(secs(9)));
        let later = case.add(case.draft("x").not_before(at(HOUR)));
        case.clock.advance(HOUR);
        assert_eq!([delayed, later].map(|id| case.info(id).put_at), [at(ZERO); 2]);
        assert_eq!(case.tasks(), counts([("ready", 2), ("total", 2)]));
    });
}

#[test]
fn waiting_put_puts_its_task_when_there_is_space() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
        case.put("first");
        let waiting = case.tube.to_async().put_timeout("second", Duration::MAX);
        let mut waiting = std::pin::pin!(waiting);
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(waiting.as_mut().poll(&mut context).is_pending());
        stores::settle(&case.store);
        case.advance(5000);
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.info(1).put_at, at(secs(5)));
    });
}

#[test]
fn run_is_as_old_as_its_put_and_a_schedule_as_its_first() {
    for_each_driver(TIMED, |case| {
        let hourly = Schedule::every("hourly", HOUR);
        case.advance(1000);
        let id = case.tube.schedule(hourly.clone().starting(at(HOUR)), case.draft("x")).unwrap().id;
        case.clock.advance(HOUR);
        case.tube.schedule(hourly, case.draft("y")).unwrap();
        let run = case.info(id + 1);
        assert_eq!(run.put_at, at(HOUR));
        assert_eq!(run.spawned_by.unwrap().moment, at(HOUR));
        assert_eq!(case.info(id).put_at, at(secs(1)));
    });
}

#[test]
fn task_is_the_same_after_a_reopen() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        file.clock.advance(secs(3));
        let id = tube.put(draft(driver, "x")).unwrap().id;
        file.clock.advance(secs(60));
        let before = tube.query().task(id).unwrap();
        assert_eq!(before.info.put_at, at(secs(3)));
        let (_file, killed) = after_a_kill(&file);
        assert_eq!(killed.find_tube("case").unwrap().query().task(id), Ok(before.clone()));
        drop(tube);
        let store = file.reopen_after(store, HOUR);
        assert_eq!(store.find_tube("case").unwrap().query().task(id), Ok(before));
        assert_sound(&store);
    }
}

#[test]
fn put_time_follows_a_wall_clock_that_is_set() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new().history(5));
        let id = tube.put(draft(driver, "x")).unwrap().id;
        file.clock.advance(HOUR);
        let put_at = |tube: &tubewell::Tube| {
            let put_at = tube.query().task(id).unwrap().info.put_at;
            assert_eq!(tube.query().history(id).unwrap()[0].at, put_at);
            put_at
        };
        // What a network corrects is no setting: the task is equal.
        file.clock.set_wall(START + HOUR + secs(1) - MICRO);
        assert_eq!(put_at(&tube), at(ZERO));
        file.clock.set_wall(START + 3 * HOUR);
        assert_eq!(put_at(&tube), at(2 * HOUR));
        file.clock.advance(HOUR);
        assert_eq!(put_at(&tube), at(2 * HOUR));
        // Back, and behind the time of the store when it is opened again.
        file.clock.set_wall(START);
        assert_eq!(put_at(&tube), at(ZERO) - 2 * HOUR);
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(put_at(&tube), at(ZERO) - 2 * HOUR);
        // A clock that is ahead counts as time that has passed while the store was closed.
        drop(tube);
        stores::close(&store);
        drop(store);
        file.clock.set_wall(START + 9 * HOUR);
        let store = file.open();
        assert_eq!(put_at(&store.find_tube("case").unwrap()), at(ZERO));
        assert_sound(&store);
    }
}

#[test]
fn restored_task_has_the_time_of_its_put() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()).metrics(7), |case| {
        case.advance(5000);
        let restore = |since| Restore::new(case.draft("x")).put_at(at(since));
        let tasks = [
            restore(secs(2)),
            restore(secs(3)).buried(true),
            restore(secs(4)).done(None),
            // Of a store whose clock is ahead, of one without a clock, and of an earlier release.
            restore(secs(6)),
            Restore::new(case.draft("x")).put_at(SystemTime::UNIX_EPOCH),
            Restore::new(case.draft("x")),
        ];
        case.tube.admin().restore_many(tasks).unwrap();
        let now = at(secs(5));
        let expected = [at(secs(2)), at(secs(3)), at(secs(4)), now, SystemTime::UNIX_EPOCH, now];
        let put_at: Vec<SystemTime> = (0..6).map(|id| case.info(id).put_at).collect();
        assert_eq!(put_at, expected);
        // It has waited in this store since then only.
        case.advance(1000);
        assert_eq!(case.take_all(), [0, 3, 4, 5]);
        let today = case.store.today().unwrap();
        assert_eq!(case.tube.query().days(today..=today).unwrap()[0].wait.max, secs(1));
    });
}

#[test]
fn restored_task_with_a_time_replaces_none() {
    for_each_driver(ALL, |case| {
        let put = || case.draft("x").key("job");
        let id = case.add(put());
        case.advance(1000);
        let restore = |on_key| Restore::new(put().on_key(on_key)).put_at(at(ZERO) - HOUR);
        let refused = case.tube.admin().restore_many([restore(OnKey::Replace)]);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        let kept = case.tube.admin().restore_many([restore(OnKey::Keep)]).unwrap();
        assert_eq!((kept[0].id, case.info(id).put_at), (id, at(ZERO)));
    });
}

#[test]
fn salvaged_task_has_the_time_of_its_put() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    file.clock.advance(secs(3));
    tube.put("x").unwrap();
    let expected = tube.query().task(0).unwrap();
    drop(tube);
    stores::close(&store);
    drop(store);
    file.clock.advance(HOUR);
    let mut found = Vec::new();
    let each = |item| {
        if let Salvaged::Task { task, .. } = item {
            found.push(task);
        }
        Ok(())
    };
    StoreOptions::default().clock(&file.clock).salvage(file.path(), each).unwrap();
    assert_eq!(found, [expected]);
}
