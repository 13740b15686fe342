//! Moves that are refused, and change nothing.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;
use std::time::Duration;

use tubewell::driver::{Draft, Driver, FIFO, LIMFIFOTTL, Traits, UTUBE, UTUBETTL};
use tubewell::{Ending, Error, Filter, Keep, Outcome, Put, TaskState, TubeOptions};

use super::executor::{block_on, poll_pending};
use super::moves::{listed, movements, other};
use super::support::*;
use crate::stores;

#[test]
fn full_tube_refuses_a_move_and_nothing_changes() {
    for_each_driver(TIMED, |case| {
        let options = TubeOptions::new().capacity(1);
        let to = case.store.create_tube("other", options.driver(LIMFIFOTTL)).unwrap();
        let full = Err(Error::Full { tube: "other".into(), capacity: 1 });
        let plain = |body: &str| case.tube.put(body).unwrap().id;
        to.put("fills it").unwrap();
        let ready = plain("ready");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(case.tube.admin().move_to(&to, ready), full);
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), full.clone());
        assert_eq!(
            (case.tasks(), tasks(&to)),
            (counts([("taken", 1), ("total", 1)]), counts([("ready", 1), ("total", 1)]),)
        );
        assert!(claim.is_current().unwrap());
        claim.release().unwrap();
        // A put that waits for the place comes first.
        let mut put = to.to_async().put_timeout("waits", Duration::MAX);
        poll_pending(&mut put, Waker::noop());
        assert_eq!(case.tube.admin().move_to(&to, ready), full);
        to.try_take().unwrap().unwrap().ack().unwrap();
        block_on(put).unwrap();
        to.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.tube.admin().move_to(&to, ready), Ok(1));
        assert_eq!(tasks(&to).get("ready"), Some(&1));
        assert_eq!(to.put("full again").map(drop), full.map(drop));
    });
}

#[test]
fn move_is_refused_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        let to = other(&case.store, case.driver);
        let memory = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", memory.driver(case.driver)).unwrap();
        let elsewhere = store_in_memory();
        let elsewhere =
            elsewhere.create_tube("case", TubeOptions::new().driver(case.driver)).unwrap();
        let id = case.put("x");
        let invalid = [
            case.tube.admin().move_to(&case.tube, id),
            case.tube.admin().move_to(&memory, id),
            case.tube.admin().move_to(&elsewhere, id),
        ];
        for refused in invalid {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        for target in [&case.tube, &memory, &elsewhere] {
            let refused = case.tube.admin().move_to(target, Filter::new());
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        assert_eq!(case.tube.admin().move_to(&to, 99), Ok(0));
        case.store.drop_tube("other").unwrap();
        let dropped = Err(Error::TubeDropped { name: "other".into() });
        assert_eq!(case.tube.admin().move_to(&to, id), dropped);
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
        assert_eq!(movements(&case.tube), [0; 3]);
    });
}

#[test]
fn done_task_is_not_moved() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let to = other(&case.store, case.driver);
        case.put_all([0]);
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.tube.admin().move_to(&to, 0), Ok(0));
        let refused = case.tube.admin().move_to(&to, TaskState::Done);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(0));
        assert_eq!(case.tube.ending(0), Ok(Some(Ending::Done { result: None })));
    });
}

/// What the driver of the other tube does not have is not dropped silently.
#[test]
fn move_is_refused_if_the_driver_does_not_have_an_option() {
    let store = store_in_memory();
    let timed = store.create_tube("timed", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let (plain, queued) =
        (other(&store, FIFO), store.create_tube("q", TubeOptions::new().driver(UTUBE)));
    let queued = queued.unwrap();
    for put in [
        Put::new("x").priority(1),
        Put::new("x").ttl(secs(1)),
        Put::new("x").ttr(secs(1)),
        Put::new("x").delay(secs(1)),
    ] {
        let id = timed.put(put).unwrap().id;
        assert_unsupported(timed.admin().move_to(&plain, id), FIFO);
        assert_unsupported(timed.admin().move_to(&queued, Filter::new()), UTUBE);
        timed.delete(id).unwrap();
    }
    let id = timed.put(Put::new("x").sub_queue("host")).unwrap().id;
    assert_unsupported(timed.admin().move_to(&plain, id), FIFO);
    assert_eq!(timed.admin().move_to(&queued, id), Ok(1));
    assert_unsupported(queued.admin().move_to(&plain, id), FIFO);
    assert_eq!(queued.query().task(id).unwrap().info.sub_queue.as_deref(), Some("host"));
    let plain_task = timed.put("x").unwrap().id;
    assert_eq!(timed.admin().move_to(&plain, plain_task), Ok(1));
    assert_eq!(take(&plain), Some(plain_task));
    assert_sound(&store);
}

#[test]
fn expired_task_is_not_moved() {
    for_each_driver(TIMED, |case| {
        let to = other(&case.store, case.driver);
        let id = case.add(case.draft("x").ttl(secs(1)));
        let live = case.add(case.draft("x").ttl(secs(9)));
        case.advance(1000);
        assert_eq!(case.tube.admin().move_to(&to, id), Ok(0));
        assert_eq!(case.tube.admin().move_to(&to, Filter::new()), Ok(1));
        assert_eq!(listed(&to, TaskState::Ready), [live]);
    });
}

/// A driver whose hook panics for one body.
pub struct Panics;

impl Driver for Panics {
    fn name(&self) -> &'static str {
        "panics"
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }

    fn order(&self, task: &Draft<'_>) -> u64 {
        assert!(task.body != b"panic", "the driver panics");
        task.body.len() as u64
    }
}

#[test]
fn driver_that_panics_during_a_move_changes_nothing() {
    let store = store_in_memory();
    stores::owner(&store).admin().register_driver(Panics).unwrap();
    let from = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let to = store.create_tube("other", TubeOptions::new().driver("panics")).unwrap();
    from.put_many(["first", "panic", "z"]).unwrap();
    let calls: [&dyn Fn(); 3] = [
        &|| drop(from.admin().move_to(&to, Filter::new())),
        &|| drop(from.admin().move_to(&to, 1)),
        &|| {
            drop(from.claim(0).unwrap().end(Outcome::advance(&to, "panic")));
        },
    ];
    for call in calls {
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err());
        assert_eq!((tasks(&from), tasks(&to)), (counts([("ready", 3), ("total", 3)]), counts([])));
        assert_sound(&store);
    }
    assert_eq!(from.admin().move_to(&to, 2), Ok(1));
    assert_eq!(from.admin().move_to(&to, 0), Ok(1));
    // In the order of its driver.
    assert_eq!((take(&to), take(&to)), (Some(2), Some(0)));
    assert_sound(&store);
}
