//! Those who wait for room in a full tube.

use tubewell::{Error, LIMFIFOTTL, Store, Tube, TubeOptions};

use shuttle::thread;

use crate::explore::explore;
use crate::stage::{FOR_EVER, Flag, end, ms, still, with};

/// A tube that holds one task, and has it; its id.
fn full(store: &Store) -> (Tube, u64) {
    let tube = store.create_tube("one", LIMFIFOTTL, TubeOptions::new().capacity(1)).unwrap();
    let id = tube.put("0").unwrap().id;
    (tube, id)
}

#[test]
fn puts_that_wait_for_room_all_get_in() {
    explore("puts_that_wait_for_room", || {
        let (store, _) = still();
        let (tube, first) = full(&store);
        let putters =
            ["1", "2"].map(|text| with(&tube, move |tube| tube.put_wait(text, FOR_EVER).unwrap()));
        let taker = with(&tube, |tube| {
            [0, 1].map(|_| tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id)
        });
        let last = tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id;
        let mut taken = taker.join().unwrap().to_vec();
        taken.push(last);
        taken.sort_unstable();
        let mut put: Vec<u64> = putters.map(|putter| putter.join().unwrap().id).to_vec();
        put.push(first);
        put.sort_unstable();
        assert_eq!(taken, put);
        end(&store);
    });
}

#[test]
fn a_put_whose_time_is_over_says_full_and_leaves_the_room_to_the_next() {
    explore("a_put_whose_time_is_over", || {
        let (store, clock) = still();
        let (tube, _) = full(&store);
        let over = Flag::default();
        let hasty = with(&tube, {
            let over = over.clone();
            move |tube| {
                let answer = tube.put_wait("hasty", ms(10));
                over.raise();
                answer
            }
        });
        let patient = with(&tube, |tube| tube.put_wait("patient", FOR_EVER).unwrap().id);
        let taker = with(&tube, |tube| {
            tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap();
        });
        while !over.is_up() {
            clock.advance(ms(10));
            thread::yield_now();
        }
        taker.join().unwrap();
        match hasty.join().unwrap() {
            Ok(hasty) => {
                tube.delete(hasty.id).unwrap();
            }
            Err(error) => assert!(matches!(error, Error::Full { .. }), "{error}"),
        }
        let id = patient.join().unwrap();
        assert_eq!(tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap().id, id);
        end(&store);
    });
}
