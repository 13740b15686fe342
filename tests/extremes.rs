//! Arguments at the ends of their ranges: what a caller asks for is done, or refused in words.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::time::Duration;

use tubewell::{
    Driver, Durability, Error, FIFO, LIMFIFOTTL, MAX_BODY, Put, State, Store, StoreOptions, Traits,
    Tube, TubeOptions, UTUBETTL, WhenFull,
};

/// A store in a file, opened so twice; it works.
fn works(options: impl Fn() -> StoreOptions) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    for round in 0..2 {
        let store = options().open(&path).unwrap();
        let tube = work(&store);
        tube.put_many((0..100).map(|n| Put::new(vec![b'x'; n * 100]))).unwrap();
        let deferred = tube.deferred(WhenFull::Block).put("deferred").unwrap();
        assert_eq!(deferred.wait().unwrap().state, State::Ready);
        let claims = tube.take_many(usize::MAX, Duration::MAX).unwrap();
        assert_eq!(claims.len(), 101, "in round {round}");
        for answer in tubewell::Claim::ack_many(claims).unwrap() {
            answer.unwrap();
        }
        assert_eq!(store.verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}

fn work(store: &Store) -> Tube {
    store.create_tube("work", FIFO, TubeOptions::new().if_not_exists(true)).unwrap()
}

#[test]
fn a_cache_of_any_size() {
    for bytes in [0, 1, usize::MAX / 2, usize::MAX] {
        works(|| Store::options().cache_size(bytes));
    }
}

#[test]
fn any_number_of_pending_rows_and_bytes() {
    for (rows, bytes) in [(0, 0), (usize::MAX, usize::MAX), (0, usize::MAX), (usize::MAX, 0)] {
        works(|| Store::options().max_pending(rows, bytes));
    }
}

#[test]
fn any_time_of_the_store() {
    for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        works(|| Store::options().session_grace(time).wall_clock_limit(time));
        works(|| Store::options().durability(Durability::Relaxed { max_delay: time }));
    }
}

#[test]
fn a_body_has_a_limit_whatever_the_store_is_told() {
    let refused = Store::options().max_body(usize::MAX).open_in_memory().map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let store = Store::options().max_body(MAX_BODY).open_in_memory().unwrap();
    let refused = work(&store).put(vec![0; MAX_BODY + 1]).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let store = Store::options().max_body(0).open_in_memory().unwrap();
    work(&store).put("").unwrap();
    assert!(matches!(work(&store).put("x"), Err(Error::Invalid { .. })));
}

/// More room than any disk has is never there; what there is can be worked off.
#[test]
fn a_reserve_of_any_size() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path).unwrap();
    work(&store).put("before").unwrap();
    store.close().unwrap();
    for bytes in [u64::MAX, u64::MAX - 4095, 1 << 62] {
        let store = Store::options().disk_reserve(bytes).open(&path).unwrap();
        let tube = work(&store);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.release(Duration::ZERO).unwrap().state, State::Ready);
        let refused = tube.put(vec![b'x'; 1 << 20]).map(drop);
        assert!(matches!(refused, Err(Error::DiskFull { .. })), "{refused:?}");
        store.close().unwrap();
    }
}

#[test]
fn verbs_take_any_number() {
    let store = Store::in_memory().unwrap();
    let events = store.subscribe(usize::MAX);
    for (driver, options) in [
        (FIFO, TubeOptions::new()),
        (UTUBETTL, TubeOptions::new().ttl(Duration::MAX).ttr(Duration::MAX).pri(u32::MAX)),
        (LIMFIFOTTL, TubeOptions::new().capacity(u64::MAX)),
    ] {
        let tube = store.create_tube(driver, driver, options).unwrap();
        let id = tube.put("x").unwrap().id;
        let page = tube.list(State::Ready, None, usize::MAX).unwrap();
        assert_eq!(page.tasks.len(), 1);
        assert_eq!(tube.list(State::Ready, None, 0).unwrap().tasks.len(), 0);
        assert!(tube.take_many(0, Duration::MAX).unwrap().is_empty());
        let claim = tube.take(Duration::MAX).unwrap().unwrap();
        assert_eq!(claim.release(Duration::ZERO).unwrap().state, State::Ready);
        tube.bury(id).unwrap();
        assert_eq!((tube.kick(0), tube.kick(u64::MAX)), (Ok(0), Ok(1)));
        assert_eq!(tube.put_wait("y", Duration::MAX).unwrap().state, State::Ready);
        for id in [id + 1000, u64::MAX] {
            assert_eq!(tube.delete(id), Err(Error::NotFound { id }));
            assert_eq!(tube.ack(id), Err(Error::NotTaken { id }));
        }
        tube.truncate().unwrap();
    }
    assert!(events.try_recv().is_some());
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// One who waits for ever, in the longest time there is, is served by the next put.
#[test]
fn a_wait_of_any_length_is_served() {
    let store = Store::in_memory().unwrap();
    let tube = work(&store);
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| tube.take(Duration::MAX).unwrap().unwrap().id());
        let id = tube.put("x").unwrap().id;
        assert_eq!(waits.join().unwrap(), id);
    });
}

/// What comes from elsewhere may have no end.
#[test]
fn a_put_of_tasks_without_end_is_refused() {
    let store = Store::in_memory().unwrap();
    let tube = work(&store);
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
    let refused = tube.deferred(WhenFull::Block).put_many(std::iter::repeat("x")).map(drop);
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
}

struct Named(String);

impl Driver for Named {
    fn name(&self) -> &str {
        &self.0
    }

    fn traits(&self) -> Traits {
        Traits::default()
    }
}

/// A tube has it in its row, which could be written whatever its length, and not be read again:
/// such a store was never opened any more.
#[test]
fn the_name_of_a_driver_has_a_limit() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let longest = "é".repeat(127) + "x";
    for round in 0..2 {
        let store = Store::options().driver(Named(longest.clone())).open(&path).unwrap();
        let options = TubeOptions::new().if_not_exists(true);
        store.create_tube("work", &longest, options).unwrap().put("x").unwrap();
        assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.ready, round + 1);
        for name in [String::new(), longest.clone() + "x", "x".repeat(2 << 20), "a\nb".into()] {
            let refused = store.register_driver(Named(name.clone()));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            let refused = Store::options().driver(Named(name)).open_in_memory().map(drop);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
    }
}
