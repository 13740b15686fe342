//! Puts that wait for space in a bounded tube.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use tubewell::{Error, LIMFIFOTTL, Put, TubeOptions};

use super::support::{FileStore, HANGS_AFTER, body, eventually, ms};

#[test]
fn bounded_tube_never_exceeds_capacity_and_serves_all_waiting_puts() {
    const CAPACITY: u64 = 3;
    const EACH: usize = 25;
    let file = FileStore::new();
    let bounded = TubeOptions::new().capacity(CAPACITY);
    let tube = file.store.create_tube("bounded", bounded.driver(LIMFIFOTTL)).unwrap();
    let most = AtomicU64::new(0);
    let look = || {
        let tasks = tube.statistics().unwrap().tasks;
        most.fetch_max(tasks.total, Ordering::SeqCst);
    };
    let mut done = Vec::new();
    thread::scope(|scope| {
        for producer in 0..4 {
            let (tube, look) = (&tube, &look);
            scope.spawn(move || {
                for n in 0..EACH {
                    tube.put_timeout(format!("{producer}.{n:02}"), HANGS_AFTER).unwrap();
                    look();
                }
            });
        }
        eventually("the tube is full", || tube.statistics().unwrap().tasks.total == CAPACITY);
        while done.len() < 4 * EACH {
            let claim = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
            done.push(body(&claim));
            claim.ack().unwrap();
            look();
        }
    });
    assert_eq!(most.into_inner(), CAPACITY);
    for producer in 0..4 {
        let prefix = format!("{producer}.");
        let its: Vec<_> = done.iter().filter(|body| body.starts_with(&prefix)).collect();
        assert!(its.len() == EACH && its.is_sorted(), "{its:?}");
    }
}

#[test]
fn waiting_puts_are_served_in_order_of_arrival() {
    let file = FileStore::new();
    let bounded = TubeOptions::new().capacity(1);
    let tube = file.store.create_tube("bounded", bounded.driver(LIMFIFOTTL)).unwrap();
    tube.put("first").unwrap();
    thread::scope(|scope| {
        let putters: Vec<_> = (0..6_u32)
            .map(|n| {
                // The most urgent put comes last, because only the order of arrival counts.
                let (tube, put) = (&tube, Put::new(n.to_string()).priority(9 - n));
                let putter = scope.spawn(move || tube.put_timeout(put, HANGS_AFTER).unwrap().id);
                eventually("the put waits", || file.waiting_puts(tube) == u64::from(n) + 1);
                putter
            })
            .collect();
        let full = Error::Full { tube: "bounded".into(), capacity: 1 };
        assert_eq!(tube.put("x"), Err(full.clone()));
        assert_eq!(tube.put_timeout("x", ms(1)), Err(full));
        let mut served = Vec::new();
        for _ in 0..7 {
            let claim = tube.take_timeout(HANGS_AFTER).unwrap().unwrap();
            served.push(body(&claim));
            claim.ack().unwrap();
        }
        assert_eq!(served, ["first", "0", "1", "2", "3", "4", "5"]);
        let ids = putters.into_iter().map(|putter| putter.join().unwrap());
        assert!(ids.collect::<Vec<_>>().is_sorted());
    });
}
