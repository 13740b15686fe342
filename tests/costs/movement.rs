//! Tasks that go on in other tubes, and what is put with their end.

use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, Filter, Keep, Outcome, Put, TubeOptions, UTUBE, UTUBETTL};

use crate::{allocations, flushes_and_commits, rows_edited, with_tube};

/// The header of the store, the counts of each tube, and the record, place, due and head of each task
/// in each tube: a row that goes, and a row that comes.
#[test]
fn movement_edits_the_rows_of_a_task_in_both_tubes() {
    let ttl = |put: Put<Vec<u8>>| put.ttl(Duration::from_secs(60));
    let plain = || Put::new(b"x".to_vec());
    let large = || Put::new(vec![7; 3000]);
    for (driver, put, most) in [
        (FIFO, plain(), [5, 5, 8, 515]),
        (FIFO, large(), [7, 7, 12, 1027]),
        (FIFOTTL, ttl(plain()), [7, 7, 12, 1027]),
        (UTUBE, plain().sub_queue("a"), [9, 9, 16, 1029]),
        (UTUBETTL, ttl(large()).sub_queue("a"), [13, 13, 24, 2053]),
    ] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            let next = store.create_tube("next", TubeOptions::new().driver(driver)).unwrap();
            let mail = store.create_tube("mail", TubeOptions::new().driver(driver)).unwrap();
            let is_sub_queued = [UTUBE, UTUBETTL].contains(&driver);
            let of = |n: u32| {
                if is_sub_queued { put.clone().sub_queue(format!("{n}")) } else { put.clone() }
            };
            // The first put of a run reserves ids.
            tube.delete(tube.put(put.clone()).unwrap().id).unwrap();
            let id = tube.put(put.clone()).unwrap().id;
            let claim = || tube.claim(id).unwrap();
            let edited = [
                rows_edited(store, || _ = tube.admin().move_to(&next, id).unwrap()),
                rows_edited(store, || {
                    _ = next.claim(id).unwrap().end(Outcome::advance(tube, put.clone()));
                }),
                rows_edited(store, || {
                    let finish = Outcome::done().and_put(&next, of(1)).and_put(&mail, of(2));
                    let finish = finish.and_put(&mail, of(3));
                    claim().end(finish).unwrap();
                }),
                {
                    tube.put_many((0..256).map(|_| put.clone())).unwrap();
                    rows_edited(store, || _ = tube.admin().move_to(&next, Filter::new()).unwrap())
                },
            ];
            println!("{driver}: {edited:?} rows");
            let within = edited.iter().zip(most).all(|(edited, most)| *edited <= most);
            assert!(within, "{driver}: {edited:?} rows, at most {most:?} expected");
        });
    }
}

#[test]
fn movement_and_finish_cost_one_flush() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for options in [TubeOptions::new(), keep] {
        with_tube(UTUBE, options, |store, tube| {
            let next = store.create_tube("next", TubeOptions::new().driver(FIFO)).unwrap();
            let mail = store.create_tube("mail", TubeOptions::new().driver(UTUBE)).unwrap();
            tube.put_many(["a", "b", "c", "d"]).unwrap();
            let cost = |call: &dyn Fn()| flushes_and_commits(store, call);
            let finish = || {
                let finish = Outcome::result("R").and_put(&next, "1").and_put(&mail, "2");
                tube.claim(0).unwrap().end(finish.and_put(tube, "3")).unwrap();
            };
            let advance = || _ = tube.claim(1).unwrap().end(Outcome::advance(&next, "5")).unwrap();
            let both = || {
                let outcome = Outcome::advance(&next, "4").and_put(&next, "1");
                let outcome = outcome.and_put(&mail, "2").and_put(&mail, "3");
                tube.claim(2).unwrap().end(outcome).unwrap();
            };
            assert_eq!(cost(&finish), (1, 1));
            assert_eq!(cost(&advance), (1, 1));
            assert_eq!(cost(&both), (1, 1));
            assert_eq!(cost(&|| _ = tube.admin().move_to(&mail, 3).unwrap()), (1, 1));
            assert_eq!(cost(&|| _ = mail.admin().move_to(&next, Filter::new()).unwrap()), (1, 1));
            assert_eq!(
                cost(&|| assert_eq!(mail.admin().move_to(&next, Filter::new()), Ok(0))),
                (0, 0)
            );
        });
    }
}

/// A step of a pipeline allocates little more than an ack and a put.
#[test]
fn advance_allocates_little() {
    let relaxed = TubeOptions::new().durability(tubewell::Durability::relaxed());
    with_tube(FIFO, relaxed, |_, tube| {
        tube.put(&[7; 128]).unwrap();
        let step = allocations(500, || {
            tube.try_take().unwrap().unwrap().end(Outcome::advance(tube, &[7; 128])).unwrap();
        });
        println!("{step} allocations");
        assert!(step <= 20, "{step} allocations per step");
    });
}
