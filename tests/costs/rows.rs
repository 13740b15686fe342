//! The rows that each verb edits.

use std::time::Duration;

use tubewell::{Claim, FIFO, FIFOTTL, Filter, Outcome, Put, TubeOptions, UTUBE, UTUBETTL};

use crate::{rows_edited, with_tube};

/// Each call edits the record, its place, head or due, the header, and the counts of the tube.
#[test]
fn every_verb_edits_few_rows() {
    let ttl = |put: Put<&'static str>| put.ttl(Duration::from_secs(60));
    let plain = || Put::new("x");
    for (driver, put, most) in [
        (FIFO, plain(), [3, 3, 5, 5, 3, 1002, 1002]),
        (FIFOTTL, plain(), [3, 3, 5, 5, 3, 1002, 1002]),
        (FIFOTTL, ttl(plain()), [4, 4, 6, 6, 4, 2002, 2002]),
        (UTUBE, plain(), [4, 6, 6, 6, 5, 3002, 3002]),
        (UTUBETTL, ttl(plain()), [5, 7, 7, 7, 6, 4002, 4002]),
    ] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            let sub_queued = [UTUBE, UTUBETTL].contains(&driver);
            let of = |n: usize| {
                if sub_queued { put.clone().sub_queue(format!("{n}")) } else { put.clone() }
            };
            let take_all = || tube.take_many(1000, Duration::ZERO).unwrap();
            tube.put(of(0)).unwrap();
            let mut id = 0;
            let edited = [
                rows_edited(store, || id = tube.put(of(0)).unwrap().id),
                rows_edited(store, || _ = tube.try_take().unwrap().unwrap().ack().unwrap()),
                rows_edited(store, || _ = tube.admin().bury(id, None).unwrap()),
                rows_edited(store, || _ = tube.admin().kick(Filter::new().limit(1)).unwrap()),
                rows_edited(store, || _ = tube.delete(id).unwrap()),
                rows_edited(store, || _ = tube.put_many((0..1000).map(of)).unwrap()),
                rows_edited(store, || {
                    _ = Claim::end_many(take_all(), |_| Outcome::done()).unwrap();
                }),
            ];
            println!("{driver}: {edited:?} rows");
            assert_eq!(tube.statistics().unwrap().tasks.total, 0);
            let within = edited.iter().zip(most).all(|(edited, most)| *edited <= most);
            assert!(within, "{driver}: {edited:?} rows, at most {most:?} expected");
        });
    }
}
