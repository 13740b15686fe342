//! Arguments at the limits of their ranges: the call succeeds or returns an error.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::driver::{Driver, Traits};
use tubewell::{
    Durability, Error, FIFO, Filter, LIMFIFOTTL, MAX_BODY, Outcome, Put, Store, StoreOptions,
    TaskState, Tube, TubeOptions, UTUBETTL,
};

/// Opens a store in a file twice with these options, and asserts that it works.
fn assert_store_works(options: impl Fn() -> StoreOptions) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    for round in 0..2 {
        let store = options().open(&path).unwrap();
        let tube = open_work_tube(&store);
        tube.put_many((0..100).map(|n| Put::new(vec![b'x'; n * 100]))).unwrap();
        let deferred = tube.to_async().put("deferred");
        assert_eq!(deferred.wait().unwrap().state, TaskState::Ready);
        let claims = tube.take_many(usize::MAX, Duration::MAX).unwrap();
        assert_eq!(claims.len(), 101, "in round {round}");
        for answer in tubewell::Claim::end_many(claims, |_| Outcome::done()).unwrap() {
            answer.unwrap();
        }
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}

fn open_work_tube(store: &Store) -> Tube {
    store.open_tube("work", TubeOptions::new().driver(FIFO)).unwrap()
}

#[test]
fn store_works_with_any_cache_size() {
    for bytes in [0, 1, usize::MAX / 2, usize::MAX] {
        assert_store_works(|| Store::options().cache_size(bytes));
    }
}

#[test]
fn store_works_with_any_max_pending() {
    for (rows, bytes) in [(0, 0), (usize::MAX, usize::MAX), (0, usize::MAX), (usize::MAX, 0)] {
        assert_store_works(|| Store::options().max_pending(rows, bytes));
    }
}

#[test]
fn store_works_with_any_duration_in_options() {
    for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        assert_store_works(|| Store::options().session_grace(time).wall_clock_limit(time));
        assert_store_works(|| Store::options().durability(Durability::Relaxed { max_delay: time }));
        assert_store_works(|| {
            Store::options().durability(Durability::Write { flush_within: time })
        });
    }
}

#[test]
fn tube_works_with_any_duration_in_its_durability() {
    let times = [Duration::ZERO, Duration::from_nanos(1), Duration::from_secs(u64::MAX / 4)];
    for time in times.into_iter().chain([Duration::MAX]) {
        for durability in
            [Durability::Relaxed { max_delay: time }, Durability::Write { flush_within: time }]
        {
            let options = TubeOptions::new().durability(durability);
            assert_durability_works(&options, &Store::in_memory().unwrap(), 0);
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            for round in 0..3 {
                let store = Store::open(&path).unwrap();
                assert_durability_works(&options, &store, round);
                store.close().unwrap();
            }
        }
    }
}

/// Asserts that a tube with these options has one task of each round before this one, and works.
fn assert_durability_works(options: &TubeOptions, store: &Store, round: u64) {
    let tube = store.open_tube("work", options.clone().driver(FIFO)).unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.ready, round, "{options:?}");
    tube.put_many(["a", "b"]).unwrap();
    let deferred = tube.to_async().put("c");
    assert_eq!(deferred.wait().unwrap().state, TaskState::Ready);
    for _ in 0..2 {
        assert_eq!(tube.try_take().unwrap().unwrap().ack().unwrap().state, TaskState::Done);
    }
    store.flush().unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn max_body_option_cannot_exceed_body_limit() {
    let refused = Store::options().max_body(usize::MAX).open_in_memory().map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let store = Store::options().max_body(MAX_BODY).open_in_memory().unwrap();
    let refused = open_work_tube(&store).put(vec![0; MAX_BODY + 1]).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let store = Store::options().max_body(0).open_in_memory().unwrap();
    open_work_tube(&store).put("").unwrap();
    assert!(matches!(open_work_tube(&store).put("x"), Err(Error::Invalid { .. })));
}

/// No disk has this much space, so puts fail. Takes and releases still work.
#[test]
fn oversized_disk_reserve_rejects_puts_but_not_takes() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let store = Store::open(&path).unwrap();
    open_work_tube(&store).put("before").unwrap();
    store.close().unwrap();
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 62] {
        let store = Store::options().disk_reserve(bytes).open(&path).unwrap();
        let tube = open_work_tube(&store);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release().unwrap().state, TaskState::Ready);
        let refused = tube.put(vec![b'x'; 1 << 20]).map(drop);
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
        store.close().unwrap();
    }
}

#[test]
fn verbs_accept_any_number() {
    let store = Store::in_memory().unwrap();
    let events = store.events(Filter::new(), usize::MAX).unwrap();
    for (driver, options) in [
        (FIFO, TubeOptions::new()),
        (UTUBETTL, TubeOptions::new().ttl(Duration::MAX).ttr(Duration::MAX).priority(u32::MAX)),
        (LIMFIFOTTL, TubeOptions::new().capacity(u64::MAX)),
    ] {
        let tube = store.create_tube(driver, options.driver(driver)).unwrap();
        let id = tube.put("x").unwrap().id;
        let page = tube.query().list(TaskState::Ready, None, usize::MAX).unwrap();
        assert_eq!(page.items.len(), 1);
        assert_eq!(tube.query().list(TaskState::Ready, None, 0).unwrap().items.len(), 0);
        assert!(tube.take_many(0, Duration::MAX).unwrap().is_empty());
        let claim = tube.take_timeout(Duration::MAX).unwrap().unwrap();
        assert_eq!(claim.release().unwrap().state, TaskState::Ready);
        tube.admin().bury(id, None).unwrap();
        assert_eq!(
            (tube.admin().kick(Filter::new().limit(0)), tube.admin().kick(Filter::new())),
            (Ok(0), Ok(1))
        );
        assert_eq!(tube.put_timeout("y", Duration::MAX).unwrap().state, TaskState::Ready);
        for id in [id + 1000, u64::MAX] {
            assert_eq!(tube.delete(id), Err(Error::NotFound { id }));
            assert_eq!(
                tube.claimed(id).and_then(tubewell::Claim::ack),
                Err(Error::NotTaken { id })
            );
        }
        tube.admin().truncate().unwrap();
    }
    assert!(events.try_recv().is_some());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn take_with_max_timeout_is_served_by_put() {
    let store = Store::in_memory().unwrap();
    let tube = &open_work_tube(&store);
    std::thread::scope(|scope| {
        for timeout in
            [Duration::MAX, Duration::from_secs(u64::MAX), Duration::from_micros(u64::MAX)]
        {
            let taker = scope.spawn(move || tube.take_timeout(timeout).unwrap().unwrap().id());
            let id = tube.put("x").unwrap().id;
            assert_eq!(taker.join().unwrap(), id);
            tube.admin().truncate().unwrap();
        }
    });
}

/// The iterator of the caller may be endless.
#[test]
fn put_many_rejects_endless_iterator() {
    let store = Store::in_memory().unwrap();
    let tube = open_work_tube(&store);
    for body in [1, 4 << 20] {
        let mut asked = 0_u64;
        let tasks = std::iter::repeat_with(|| {
            asked += 1;
            vec![b'x'; body]
        });
        let refused = tube.put_many(tasks).map(drop);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert!(asked <= 100_001, "{asked} tasks of {body} bytes");
    }
    let refused = tube.to_async().put_many(std::iter::repeat("x")).wait().map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
}

struct NamedDriver(String);

impl Driver for NamedDriver {
    fn name(&self) -> &str {
        &self.0
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }
}

/// Regression: a longer name was written to the row of a tube but could not be read back, so the
/// store could not be opened again.
#[test]
fn driver_name_over_255_bytes_is_rejected() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let longest = "é".repeat(127) + "x";
    for round in 0..2 {
        let store = Store::options().driver(NamedDriver(longest.clone())).open(&path).unwrap();
        let options = TubeOptions::new().driver(&longest);
        store.open_tube("work", options).unwrap().put("x").unwrap();
        assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, round + 1);
        for name in [String::new(), longest.clone() + "x", "x".repeat(2 << 20), "a\nb".into()] {
            let refused = store.admin().register_driver(NamedDriver(name.clone()));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            let refused = Store::options().driver(NamedDriver(name)).open_in_memory().map(drop);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
    }
}
