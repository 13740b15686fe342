//! Zero and unlimited durations, sums that overflow, the end of the timeline, and deadlines that
//! many tasks share.

use std::time::Duration;

use tubewell::{
    Durability, EventKind, FIFO, FIFOTTL, Filter, ManualClock, Put, Store, TubeOptions,
};

use crate::support::{HOUR, MICRO, StoreFile};

const MAX: Duration = Duration::MAX;
/// The longest duration that is not unlimited.
const LONGEST: Duration = Duration::from_micros(u64::MAX - 1);

/// Runs the check on stores in memory whose timelines begin in 1970, in 2026, and near their end.
fn for_each_start_time(check: impl Fn(&ManualClock, &Store)) {
    let end = Duration::from_micros(u64::MAX);
    let in_2026 = Duration::from_secs(1_767_225_600);
    for start in [Duration::ZERO, in_2026, end - HOUR, end - MICRO * 10, end - MICRO, end, MAX] {
        println!("the timeline begins at {start:?}");
        let clock = ManualClock::at(start);
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        check(&clock, &store);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}

#[test]
fn tasks_without_limit_outlive_end_of_timeline() {
    for_each_start_time(|clock, store| {
        let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let timed = store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        plain.put("plain").unwrap();
        let puts = [
            Put::new("no options"),
            Put::new("no limit").ttl(MAX).ttr(MAX),
            Put::new("both").ttl(MAX).delay(HOUR),
            Put::new("nearly").ttl(LONGEST).delay(LONGEST),
        ];
        timed.put_many(puts).unwrap();
        let claim = timed.try_take().unwrap().unwrap();
        claim.renew(MAX).unwrap();
        for step in [MICRO, HOUR, MAX, MAX] {
            clock.advance(step);
            clock.suspend(step);
        }
        claim.renew(LONGEST).unwrap();
        claim.touch(MAX).unwrap();
        clock.advance(MAX);
        claim.ack().unwrap();
        assert_eq!(plain.try_take().unwrap().unwrap().body(), b"plain");
        assert_eq!(timed.try_take().unwrap().unwrap().body(), b"no limit");
        // The ttls of "both" and "nearly" overflow when the delay is added, so they never elapse.
        let tasks = timed.statistics().unwrap().tasks;
        assert_eq!(tasks.total, 3, "{tasks:?}");
    });
}

#[test]
fn zero_durations_elapse_immediately_anywhere_on_timeline() {
    for_each_start_time(|clock, store| {
        let tube = store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        tube.put(Put::new("zero ttl").ttl(Duration::ZERO)).unwrap();
        tube.put(Put::new("zero ttr").ttr(Duration::ZERO)).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.body(), b"zero ttr");
        assert!(claim.ack().is_err());
        clock.advance(Duration::ZERO);
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
        // A zero delay is no delay.
        tube.delete(1).unwrap();
        tube.put(Put::new("now").delay(Duration::ZERO).ttl(MAX)).unwrap();
        assert_eq!(tube.try_take().unwrap().unwrap().body(), b"now");
    });
}

#[test]
fn overflowing_deadlines_never_elapse() {
    for_each_start_time(|clock, store| {
        let tube = store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let id = tube.put(Put::new("x").ttl(LONGEST).ttr(LONGEST).delay(LONGEST)).unwrap().id;
        let info = tube.query().task(id).unwrap().info;
        assert_eq!(info.ttl_left, None);
        clock.advance(HOUR);
        let id = tube.put(Put::new("y").ttl(LONGEST).ttr(LONGEST)).unwrap().id;
        let claim = loop {
            let claim = tube.try_take().unwrap().unwrap();
            if claim.id() == id {
                break claim;
            }
        };
        claim.touch(LONGEST).unwrap();
        claim.touch(MAX).unwrap();
        assert_eq!(tube.query().task(id).unwrap().info.ttl_left, None);
        clock.advance(MAX);
        claim.release_in(LONGEST).unwrap();
        clock.advance(MAX);
        assert_eq!(tube.statistics().unwrap().tasks.total, 2);
    });
}

#[test]
fn max_session_grace_and_flush_delay_are_accepted() {
    for longest in [Durability::Relaxed { max_delay: MAX }, Durability::Write { flush_within: MAX }]
    {
        let clock = ManualClock::new();
        let options = Store::options().clock(&clock).session_grace(MAX).durability(longest);
        let dir = tempfile::tempdir().unwrap();
        for store in
            [options.clone().open_in_memory().unwrap(), options.open(dir.path().join("s")).unwrap()]
        {
            let own = TubeOptions::new().durability(longest);
            let own = store.create_tube("own", own.driver(FIFO)).unwrap();
            own.put("x").unwrap();
            store
                .create_tube("default", TubeOptions::new().driver(FIFO))
                .unwrap()
                .put("y")
                .unwrap();
            let session = store.session("").unwrap();
            let id = session.id();
            let _ = session.tube(&own).unwrap().try_take().unwrap().unwrap().detach();
            drop(session);
            clock.advance(MAX);
            let session = store.resume_session(id).unwrap();
            session.tube(&own).unwrap().claimed(0).and_then(tubewell::Claim::ack).unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
            store.close().unwrap();
        }
    }
}

/// A store whose timeline is at its end in the file still opens and works.
#[test]
fn timeline_at_its_end_stays_there_after_reopen() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("no limit", |put| put);
    run.close();
    file.advance(MAX);
    let end = Duration::from_micros(u64::MAX - 1);
    for n in 0..3 {
        let run = file.open_with(file.options().trust_wall_clock(true));
        assert_eq!((run.timeline(), run.ready_and_delayed()), (end, (1, 0)), "run {n}");
        file.advance(HOUR);
        file.clock.set_wall(Duration::from_secs(n));
        run.close();
    }
}

#[test]
fn equal_deadlines_elapse_in_id_order() {
    let file = StoreFile::new();
    let run = file.open();
    // Priorities are in reverse order of the ids, and the same deadline has different delays.
    for n in 0..30_u32 {
        run.put("delayed", |put| put.delay(2 * HOUR).priority(30 - n));
    }
    file.advance(HOUR);
    for n in 30..60_u32 {
        run.put("delayed", |put| put.delay(HOUR).priority(60 - n));
    }
    let events = run.store.events(Filter::new(), 1000).unwrap();
    file.advance(HOUR);
    let delivered: Vec<u64> =
        std::iter::from_fn(|| events.try_recv()).map(|event| event.id).collect();
    assert_eq!(delivered, (0..60).collect::<Vec<u64>>());

    for n in 0..30_u32 {
        run.put("expiring", |put| put.ttl(2 * HOUR).priority(30 - n));
    }
    file.advance(2 * HOUR);
    let expired: Vec<u64> = std::iter::from_fn(|| events.try_recv())
        .filter(|event| event.kind == EventKind::Ttl)
        .map(|event| event.id)
        .collect();
    assert_eq!(expired, (60..90).collect::<Vec<u64>>());
    run.close();
}

#[test]
fn claims_expiring_together_are_released_in_id_order() {
    let file = StoreFile::new();
    let run = file.open();
    for n in 0..20_u32 {
        run.put("taken", |put| put.ttr(HOUR).priority(20 - n));
    }
    let claims = run.tube.take_many(20, Duration::ZERO).unwrap();
    assert_eq!(claims[0].id(), 19, "the most urgent task must be taken first");
    let events = run.store.events(Filter::new(), 1000).unwrap();
    file.advance(HOUR);
    let delivered: Vec<u64> =
        std::iter::from_fn(|| events.try_recv()).map(|event| event.id).collect();
    assert_eq!(delivered, (0..20).collect::<Vec<u64>>());
    drop(claims);
    run.close();
}
