//! Filters with many combinations of what they ask for.

use tubewell::{Error, EventKind, FIFO, Filter, Put, TubeOptions};

use super::executor::HANGS_AFTER;
use super::support::*;

/// A filter that asks for this many tubes, keys, owners and tags.
fn filter(tubes: usize, keys: usize, owners: usize, tags: usize) -> Filter {
    let names = |count| (0..count).map(|n| n.to_string());
    let filter = names(tubes).fold(Filter::new(), Filter::tube);
    let filter = names(keys).fold(filter, Filter::key);
    let filter = names(owners).fold(filter, Filter::owner);
    names(tags).fold(filter, Filter::tag)
}

#[test]
fn filter_of_more_than_4096_combinations_is_refused() {
    let store = store_in_memory();
    for of_fields in [(17, 241, 0, 0), (0, 0, 1, 4097), (16, 16, 4, 5), (500, 500, 500, 500)] {
        let (tubes, keys, owners, tags) = of_fields;
        match store.events(filter(tubes, keys, owners, tags), 10) {
            Err(Error::Invalid { what }) => {
                assert!(what.contains("at most 4096 combinations"), "{what}");
                assert!(what.contains("several subscriptions"), "{what}");
            }
            other => panic!("{of_fields:?}: {other:?}"),
        }
    }
    match store.events(filter(17, 241, 0, 0), 10) {
        Err(Error::Invalid { what }) => {
            assert!(what.contains("has 4097 (17 tubes with 241 keys)"), "{what}");
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn filter_of_4096_combinations_lets_each_of_its_events_pass() {
    let store = store_in_memory();
    let tube = store.create_tube("0", TubeOptions::new().driver(FIFO)).unwrap();
    let put_and_ack = |task: Put| {
        let id = tube.put(task).unwrap().id;
        tube.try_take().unwrap().unwrap().ack().unwrap();
        id
    };
    for (tubes, keys, tags) in [(16, 16, 16), (4096, 0, 0), (0, 64, 64), (1, 4096, 1)] {
        let events = store.events(filter(tubes, keys, 0, tags), 10).unwrap();
        let id = put_and_ack(Put::new("".into()).key("0").tag("0").tag("15"));
        let other = put_and_ack(Put::new("".into()));
        let ids = if keys > 0 { vec![id; 3] } else { [[id; 3], [other; 3]].concat() };
        for id in ids {
            assert_eq!(events.recv_timeout(HANGS_AFTER).unwrap().id, id);
        }
        assert!(events.try_recv().is_none());
    }
}

/// A filter is added to the index, and removed from it, in parts.
#[test]
fn large_filters_that_begin_and_end_lose_no_event_of_others() {
    const PUTS: u64 = 300;
    let store = store_in_memory();
    let tube = store.create_tube("0", TubeOptions::new().driver(FIFO)).unwrap();
    let puts = store.events(Filter::new().tube("0").kinds([EventKind::Put]), 1000).unwrap();
    std::thread::scope(|scope| {
        let others = scope.spawn(|| {
            for _ in 0..20 {
                let events = store.events(filter(64, 64, 0, 0), 10).unwrap();
                let before = store.find_tube("0").unwrap().put(Put::new("").key("1")).unwrap().id;
                let event = events.recv_timeout(HANGS_AFTER).unwrap();
                assert_eq!((event.id, event.kind), (before, EventKind::Put));
                drop(events);
                store.find_tube("0").unwrap().delete(before).unwrap();
            }
        });
        for _ in 0..PUTS {
            tube.put("").unwrap();
        }
        others.join().unwrap();
    });
    for _ in 0..PUTS + 20 {
        assert_eq!(puts.recv_timeout(HANGS_AFTER).unwrap().kind, EventKind::Put);
    }
    assert_eq!((puts.try_recv().is_none(), puts.dropped()), (true, 0));
}
