//! Tasks with a moment of the wall clock before which they are not ready.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{
    Claim, Error, EventKind, FIFO, FIFOTTL, Failure, Filter, Keep, OnKey, Outcome, Put, TaskState,
    TubeOptions, UTUBETTL, Update,
};

use super::files::{create, draft};
use super::support::*;

/// What the wall clock shows when a test begins.
pub const START: Duration = secs(1_767_225_600);
pub const MICRO: Duration = Duration::from_micros(1);
pub const HOUR: Duration = secs(3600);

/// The moment at which the wall clock shows this much more than at the beginning.
pub fn at(since: Duration) -> SystemTime {
    UNIX_EPOCH + START + since
}

impl Case {
    /// Sets the wall clock to this much after its beginning. The store notices at once.
    pub fn set_wall(&self, since: Duration) {
        self.clock.set_wall(START + since);
        self.advance(0);
    }

    pub fn put_at(&self, since: Duration) -> u64 {
        self.add(self.draft("x").not_before(at(since)))
    }

    pub fn waits(&self, id: u64) -> bool {
        self.state(id) == Some(TaskState::Delayed)
    }
}

/// B011 B014
#[test]
fn task_is_given_to_waiting_taker_at_its_moment() {
    for_each_driver(TIMED, |case| {
        let log = case.event_log();
        let receipt = case.tube.put(case.draft("x").not_before(at(secs(5)))).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Delayed));
        let info = case.info(0);
        assert_eq!((info.not_before, info.due_in), (Some(at(secs(5))), Some(secs(5))));
        assert_eq!(case.tasks(), counts([("delayed", 1), ("total", 1)]));
        let refused = case.tube.claim(0).unwrap_err();
        assert!(matches!(&refused, Error::NotReady { state: TaskState::Delayed, why, .. }
            if why == "its moment comes in 5s"));
        let mut waiting = case.begin_take();
        case.clock.advance(secs(5) - MICRO);
        assert!(waiting.is_pending() && case.waits(0));
        case.clock.advance(MICRO);
        assert_eq!(waiting.id(), Some(0));
        let kinds: Vec<EventKind> = log.read().iter().map(|event| event.1).collect();
        assert_eq!(kinds, [EventKind::Put, EventKind::Delay, EventKind::Take]);
        assert_eq!(case.info(0).not_before, Some(at(secs(5))));
    });
}

/// Regression: a task that had a delay, too, got the time until its moment in addition when it was kicked.
#[test]
fn kicked_task_has_the_ttl_of_its_put_at_its_moment() {
    for_each_driver(TIMED, |case| {
        let delays = [None, Some(secs(3)), Some(secs(5)), Some(secs(8))];
        for (moment, delay) in [5, 10, 15, 20].into_iter().zip(delays) {
            let put = case.draft("x").ttl(secs(20)).not_before(at(secs(moment)));
            let put = delay.into_iter().fold(put, Put::delay);
            let id = case.add(put);
            case.tube.admin().bury(id, None).unwrap();
            case.clock.advance(secs(1));
            case.tube.kick(id).unwrap();
            assert_eq!(case.info(id).due_in, Some(secs(4)));
            case.clock.advance(secs(4));
            assert_eq!(case.state(id), Some(TaskState::Ready));
            assert_eq!(case.info(id).ttl_left, Some(secs(20)), "{delay:?}");
            case.tube.delete(id).unwrap();
        }
    });
}

/// B012 B013
/// Difference: a task whose moment is now is ready at once.
#[test]
fn moment_that_has_come_delays_nothing() {
    for_each_driver(TIMED, |case| {
        case.advance(1000);
        let moments = [at(secs(1)), at(secs(0)), UNIX_EPOCH, UNIX_EPOCH - HUNDRED_YEARS];
        for (id, moment) in (0..).zip(moments) {
            let receipt = case.tube.put(case.draft("x").not_before(moment)).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, TaskState::Ready));
            let stored = moment.max(UNIX_EPOCH);
            assert_eq!(case.info(id).not_before, Some(stored));
        }
        assert_eq!(case.take_all(), [0, 1, 2, 3]);
    });
}

/// Q015
/// Difference: a delay is not negative; a moment that has passed is the same.
#[test]
fn task_that_is_put_after_its_moment_is_given_to_waiting_taker_at_once() {
    for_each_driver(TIMED, |case| {
        case.advance(100_000);
        let log = case.event_log();
        let waiting = case.begin_take();
        let receipt = case.tube.put(case.draft("x").not_before(at(secs(50)))).unwrap();
        assert_eq!(waiting.id(), Some(receipt.id));
        let info = case.info(receipt.id);
        assert_eq!((info.not_before, info.state), (Some(at(secs(50))), TaskState::Taken));
        let no_delay = case.draft("x").delay(ZERO).not_before(at(secs(50)));
        assert_eq!(case.tube.put(no_delay).unwrap().state, TaskState::Ready);
        assert_eq!(case.tasks(), counts([("taken", 1), ("ready", 1), ("total", 2)]));
        let kinds: Vec<EventKind> = log.read().iter().map(|event| event.1).collect();
        assert_eq!(kinds, [EventKind::Put, EventKind::Take, EventKind::Put]);
    });
}

/// B015
#[test]
fn tasks_become_ready_in_the_order_of_their_moments() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let puts = [30, 10, 60, 20].map(|n| draft(driver, &n.to_string()).not_before(at(secs(n))));
        tube.put_many(puts).unwrap();
        tube.put(draft(driver, "15").delay(secs(15))).unwrap();
        drop(tube);
        let store = file.reopen_after(store, secs(40));
        let events = Events::of(&store, Filter::new(), 100);
        store.admin().catch_up().unwrap();
        let ids: Vec<u64> = events.read().iter().map(|it| it.id).collect();
        assert_eq!(ids, [1, 4, 3, 0]);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("ready", 4), ("delayed", 1), ("total", 5)]));
        file.clock.advance(secs(20));
        assert_eq!(tasks(&tube), counts([("ready", 5), ("total", 5)]));
        assert_sound(&store);
    }
}

#[test]
fn moment_is_refused_by_drivers_without_times() {
    for_each_driver(UNTIMED, |case| {
        let id = case.put("x");
        let put = case.draft("x").not_before(at(secs(5)));
        assert_unsupported(case.tube.put(put.clone()), case.driver);
        assert_unsupported(case.tube.put_many([case.draft("x"), put]), case.driver);
        let update = Update::new().body("y");
        assert_unsupported(case.tube.update(id, update.clone().not_before(at(HOUR))), case.driver);
        assert_unsupported(case.tube.update(id, update.not_before(None)), case.driver);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"x");
        assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1)]));
    });
}

#[test]
fn moment_that_never_comes_delays_without_an_end() {
    for_each_driver(TIMED, |case| {
        let Some(end) = UNIX_EPOCH.checked_add(Duration::from_micros(u64::MAX)) else { return };
        let id = case.add(case.draft("x").ttl(secs(1)).not_before(end));
        case.clock.advance(HUNDRED_YEARS);
        let info = case.info(id);
        assert_eq!((info.state, info.due_in), (TaskState::Delayed, Some(Duration::MAX)));
        assert_eq!((info.ttl_left, info.not_before), (None, Some(end)));
        let refused = case.tube.claim(id).unwrap_err().to_string();
        assert!(refused.contains("its moment never comes"), "{refused}");
        assert_sound(&case.store);
        case.tube.delete(id).unwrap();
    });
}

#[test]
fn task_waits_for_its_delay_and_for_its_moment() {
    for_each_driver(TIMED, |case| {
        let draft = |delay, since| case.draft("x").delay(delay).not_before(at(since)).ttl(HOUR);
        let [delay_first, moment_first] =
            [case.add(draft(secs(5), secs(9))), case.add(draft(secs(9), secs(5)))];
        assert_eq!(case.info(delay_first).ttl_left, Some(HOUR + secs(9)));
        assert_eq!(case.info(moment_first).ttl_left, Some(HOUR + secs(9)));
        assert_sound(&case.store);
        case.advance(6000);
        assert_sound(&case.store);
        assert_eq!(case.info(delay_first).due_in, Some(secs(3)));
        case.clock.advance(secs(3) - MICRO);
        assert!(case.waits(delay_first) && case.waits(moment_first));
        case.clock.advance(MICRO);
        assert_eq!(case.take_all(), [delay_first, moment_first]);
        assert_eq!(case.info(delay_first).ttl_left, Some(HOUR));
        assert_eq!(case.info(moment_first).ttl_left, Some(HOUR));

        // The clock is set forward while the delay goes on, and back before it is over.
        let [forward, back] =
            [case.add(draft(secs(5), secs(20))), case.add(draft(secs(5), secs(10)))];
        case.set_wall(secs(30));
        assert!(case.waits(forward));
        case.set_wall(secs(0));
        case.advance(5000);
        assert!(case.waits(forward) && case.waits(back));
        case.advance(5000);
        assert_eq!(case.take(), Some(back));
        assert_eq!(case.info(back).ttl_left, Some(HOUR));
        case.set_wall(secs(20));
        assert_eq!(case.take(), Some(forward));
        assert_eq!(case.info(forward).ttl_left, Some(HOUR));
    });
}

#[test]
fn ttl_counts_from_the_moment() {
    for_each_driver(TIMED, |case| {
        let put = |since| case.add(case.draft("x").ttl(secs(10)).not_before(at(since)));
        let id = put(HOUR);
        assert_eq!(case.info(id).ttl_left, Some(HOUR + secs(10)));
        // By the store's time the ttl would be over before the moment comes.
        case.clock.set_wall(START - HOUR);
        case.clock.advance(HOUR + secs(11));
        assert!(case.waits(id));
        assert_eq!(case.info(id).due_in, Some(HOUR - secs(11)));
        assert!(case.tube.claim(id).is_err() && case.waits(id), "it is not expired");
        case.clock.advance(HOUR - secs(11));
        assert_eq!(case.info(id).ttl_left, Some(secs(10)));
        case.clock.advance(secs(10) - MICRO);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        case.clock.advance(MICRO);
        assert_eq!(case.state(id), None);

        // Set forward to the moment.
        let id = put(5 * HOUR);
        case.set_wall(5 * HOUR);
        assert_eq!(case.info(id).ttl_left, Some(secs(10)));
        case.clock.advance(secs(10));
        assert_eq!(case.state(id), None);
    });
}

#[test]
fn buried_task_that_is_kicked_waits_for_its_moment() {
    for_each_driver(TIMED, |case| {
        let ids = [(); 4].map(|()| case.add(case.draft("x").ttl(HOUR).not_before(at(secs(9)))));
        for id in ids {
            assert_eq!(case.tube.admin().bury(id, None).unwrap().state, TaskState::Buried);
            assert_eq!(case.info(id).not_before, Some(at(secs(9))));
        }
        assert_sound(&case.store);
        case.advance(4000);
        assert_eq!(case.tube.kick(ids[0]).unwrap().state, TaskState::Delayed);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(2)), Ok(2));
        assert_eq!(case.tasks(), counts([("delayed", 3), ("buried", 1), ("total", 4)]));
        assert_eq!(case.info(ids[0]).ttl_left, Some(HOUR + secs(5)));
        case.advance(5000);
        assert_eq!(case.take_all(), ids[..3]);
        assert_eq!(case.tube.kick(ids[3]).unwrap().state, TaskState::Ready);
        assert_eq!(case.info(ids[3]).ttl_left, Some(HOUR));
    });
}

/// The clock was set back while the task was taken.
#[test]
fn task_that_is_given_back_waits_for_its_moment() {
    let ends: [fn(Claim) -> TaskState; 5] = [
        |claim| claim.release().unwrap().state,
        |claim| claim.release_in(secs(2)).unwrap().state,
        |claim| claim.fail(Failure::new("g", "m")).unwrap().state,
        |claim| claim.end(Outcome::snooze(secs(1))).unwrap().state,
        |claim| {
            drop(claim);
            TaskState::Delayed
        },
    ];
    for_each_driver(TIMED, |case| {
        for (n, end) in (0..).zip(ends) {
            case.set_wall(secs(9));
            let id = case.put_at(secs(9));
            let claim = case.tube.claim(id).unwrap();
            case.set_wall(secs(0));
            assert_eq!(end(claim), TaskState::Delayed, "end {n}");
            assert!(case.waits(id), "end {n}");
            assert_sound(&case.store);
            case.clock.advance(secs(9) - MICRO);
            assert!(case.waits(id), "end {n}");
            case.clock.advance(MICRO);
            assert_eq!(case.take(), Some(id), "end {n}");
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        // Its ttr, and another caller.
        case.set_wall(secs(9));
        let expires = case.add(case.draft("x").ttr(secs(1)).not_before(at(secs(9))));
        let revoked = case.put_at(secs(9));
        assert_eq!(case.take_all(), [expires, revoked]);
        case.set_wall(secs(0));
        assert_eq!(case.tube.admin().revoke(revoked), Ok(1));
        assert_eq!(case.state(revoked), Some(TaskState::Delayed));
        case.advance(1000);
        assert!(case.waits(expires));
        case.set_wall(secs(9));
        assert_eq!(case.take_all(), [expires, revoked]);
    });
}

#[test]
fn task_whose_parents_end_waits_for_its_moment() {
    for_each_driver(TIMED, |case| {
        let child = |parent, since| {
            let put = case.draft("child").ttl(HOUR).not_before(at(since));
            let receipt = case.tube.put(put.after(&case.tube, [parent])).unwrap();
            assert_eq!(receipt.state, TaskState::Blocked);
            receipt.id
        };
        let parent = case.put("parent");
        let [early, late, removed] = [secs(9), secs(1), secs(9)].map(|since| child(parent, since));
        assert_eq!(case.info(early).ttl_left, Some(HOUR + secs(9)));
        case.advance(4000);
        assert_eq!(
            case.tube.admin().remove_parents(removed, None).unwrap().state,
            TaskState::Delayed
        );
        case.tube.claim(parent).unwrap().ack().unwrap();
        assert_eq!(case.state(late), Some(TaskState::Ready));
        assert_eq!(case.info(late).ttl_left, Some(HOUR - secs(3)));
        assert!(case.waits(early));
        assert_sound(&case.store);
        case.advance(5000);
        assert_eq!(case.take_all(), [early, late, removed]);
        assert_eq!(case.info(early).ttl_left, Some(HOUR));
    });
}

#[test]
fn update_sets_changes_and_removes_a_moment() {
    for_each_driver(TIMED, |case| {
        let update = |id, update| case.tube.update(id, update).unwrap().state;
        let moment = |since| Update::new().not_before(at(since));
        let id = case.add(case.draft("x").ttl(HOUR));
        assert_eq!(update(id, moment(secs(9))), TaskState::Delayed);
        assert_eq!(case.info(id).ttl_left, Some(HOUR + secs(9)));
        assert_eq!(update(id, moment(secs(5)).priority(3)), TaskState::Delayed);
        assert_eq!(case.info(id).ttl_left, Some(HOUR + secs(5)));
        assert_eq!(update(id, Update::new().delay(ZERO)), TaskState::Delayed, "the moment stays");
        assert_eq!(update(id, Update::new().delay(secs(7))), TaskState::Delayed);
        assert_eq!(case.info(id).due_in, Some(secs(7)));
        assert_eq!(update(id, Update::new().delay(ZERO).not_before(None)), TaskState::Ready);
        let info = case.info(id);
        assert_eq!((info.not_before, info.ttl_left), (None, Some(HOUR)));
        assert_eq!(update(id, moment(secs(5))), TaskState::Delayed);
        case.advance(1000);
        assert_eq!(update(id, moment(secs(1))), TaskState::Ready, "it has come");
        assert_eq!(case.info(id).ttl_left, Some(HOUR));
        assert_sound(&case.store);

        let delayed = case.add(case.draft("x").delay(secs(3)));
        assert_eq!(update(delayed, moment(secs(9))), TaskState::Delayed);
        assert_eq!(update(delayed, Update::new().not_before(None)), TaskState::Delayed);
        assert_eq!(case.info(delayed).due_in, Some(secs(3)), "the delay stays");
        let blocked = case.add(case.draft("x").after(&case.tube, [delayed]));
        assert_eq!(update(blocked, moment(secs(9))), TaskState::Blocked);
        case.tube.admin().remove_parents(blocked, None).unwrap();
        assert!(case.waits(blocked));

        let claim = case.tube.claim(id).unwrap();
        let refused = case.tube.update(id, moment(secs(20))).unwrap_err();
        assert!(matches!(refused, Error::NotReady { state: TaskState::Taken, .. }), "{refused}");
        claim.bury(None).unwrap();
        let refused = case.tube.update(id, moment(secs(20))).unwrap_err();
        assert!(matches!(refused, Error::NotReady { state: TaskState::Buried, .. }), "{refused}");
        assert_eq!(case.info(id).not_before, Some(at(secs(1))));
    });
}

#[test]
fn replaced_task_keeps_its_moment_unless_the_put_names_another() {
    for_each_driver(TIMED, |case| {
        let put = |data: &str| case.draft(data).key("mail").on_key(OnKey::Replace);
        let id = case.add(put("x").not_before(at(secs(9))));
        assert_eq!(case.tube.put(put("y")).unwrap().state, TaskState::Delayed);
        assert_eq!(case.info(id).not_before, Some(at(secs(9))));
        assert_eq!(case.tube.put(put("z").not_before(UNIX_EPOCH)).unwrap().state, TaskState::Ready);
        let requeued = case.store.find_tube("case").unwrap();
        let put = case.draft("again").not_before(at(secs(5)));
        assert_eq!(requeued.requeue("mail", put).unwrap().state, TaskState::Delayed);
        case.advance(5000);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"again");
        assert_eq!(case.take(), Some(id));
    });
}

#[test]
fn moment_moves_with_the_task_and_ends_when_it_goes_on() {
    for_each_driver(TIMED, |case| {
        let next = case.store.create_tube("next", TubeOptions::new().driver(case.driver)).unwrap();
        let plain = case.store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let put = Put::new("x").not_before(at(secs(9)));
        let id = case.add(put);
        assert_unsupported(case.tube.admin().move_to(&plain, id), FIFO);
        assert_eq!(case.tube.admin().move_to(&next, id), Ok(1));
        assert_eq!(next.query().task(id).unwrap().info.state, TaskState::Delayed);
        assert_sound(&case.store);
        // Moved while it is taken, by a clock that was set back since.
        let taken = case.put_at(ZERO);
        assert_eq!(keep(case.tube.claim(taken).unwrap()), taken);
        case.clock.set_wall(START - secs(5));
        assert_eq!(case.tube.admin().move_to(&next, taken), Ok(1));
        assert_eq!(next.query().task(taken).unwrap().info.state, TaskState::Delayed);
        assert_sound(&case.store);
        case.clock.set_wall(START);
        case.advance(0);
        assert_eq!(take(&next), Some(taken));

        case.advance(9000);
        let claim = next.claim(id).unwrap();
        assert_eq!(
            claim.end(Outcome::advance(&case.tube, Put::new("y"))).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(case.info(id).not_before, None);

        // A finish puts and passes on with moments.
        let claim = case.tube.claim(id).unwrap();
        let later = |since| Put::new("later").not_before(at(since));
        let finish = Outcome::advance(&next, later(secs(15))).and_put(&case.tube, later(secs(20)));
        claim.end(finish).unwrap();
        assert_eq!(state(&next, id), Some(TaskState::Delayed));
        case.advance(6000);
        assert_eq!(take(&next), Some(id));
        assert!(case.waits(taken + 1));
    });
}

#[test]
fn kept_task_has_no_moment_any_more() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(TIMED, keep, |case| {
        let id = case.put_at(ZERO);
        case.tube.claim(id).unwrap().ack().unwrap();
        assert_eq!((case.state(id), case.info(id).not_before), (Some(TaskState::Done), None));
    });
}

#[test]
fn sub_queue_of_a_waiting_task_is_free() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, UTUBETTL);
    let put = |body: &'static str| Put::new(body).sub_queue("host");
    let later = tube.put(put("later").not_before(at(secs(9)))).unwrap().id;
    let now = tube.put(put("now")).unwrap().id;
    assert_eq!(take(&tube), Some(now));
    file.clock.advance(secs(9));
    assert_eq!(take(&tube), None, "the sub-queue has a taken task");
    tube.claimed(now).and_then(tubewell::Claim::ack).unwrap();
    assert_eq!(take(&tube), Some(later));
    assert_sound(&store);
}

#[test]
fn truncated_and_deleted_tasks_do_not_come_back_at_their_moment() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = || draft(driver, "x").not_before(at(secs(9)));
        tube.put_many([put(), put().not_before(at(secs(8)))]).unwrap();
        tube.admin().truncate().unwrap();
        let id = tube.put(put()).unwrap().id;
        tube.delete(id).unwrap();
        file.clock.advance(HOUR);
        assert_eq!(tasks(&tube), counts([("done", 1)]));
        assert_sound(&store);
        drop(tube);
        assert_sound(&file.reopen(store));
    }
}

#[test]
fn moments_in_a_temporary_tube_and_in_calls_of_all_kinds() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, stored) = create(&file, driver);
        let options = TubeOptions::new().temporary(true);
        let temporary = store.create_tube("temporary", options.driver(driver)).unwrap();
        for tube in [&stored, &temporary] {
            let put = || draft(driver, "x").not_before(at(secs(9)));
            let ticket = tube.to_async().put(put());
            assert_eq!(ticket.wait().unwrap().state, TaskState::Delayed);
            assert_eq!(tube.put_timeout(put(), ZERO).unwrap().state, TaskState::Delayed);
            let listed = tube.query().list(TaskState::Delayed, None, 9).unwrap().items;
            assert!(listed.iter().all(|info| info.not_before == Some(at(secs(9)))));
            assert_eq!(listed.len(), 2);
        }
        file.clock.advance(secs(9));
        for tube in [&stored, &temporary] {
            assert_eq!(tasks(tube), counts([("ready", 2), ("total", 2)]));
        }
        assert_sound(&store);
    }
}

#[test]
fn moments_and_delays_of_many_tasks_come_at_their_own_times() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    let puts = (1..=500).map(|n| {
        let put = Put::new(n.to_string());
        if n % 2 == 0 { put.delay(ms(n)) } else { put.not_before(at(ms(n))) }
    });
    tube.put_many(puts).unwrap();
    for n in 1..=500 {
        file.clock.advance(ms(1));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.delayed), (n, 500 - n));
    }
    assert_sound(&store);
}
