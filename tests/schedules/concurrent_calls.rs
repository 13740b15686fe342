//! Several verbs at the same time.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Error, FIFO, FIFOTTL, Put, TubeOptions, UTUBETTL};

use crate::explore::explore;
use crate::support::{
    NO_TIMEOUT, body, is_closed, manual_clock_store, ms, spawn_with, taker, tube, verify_and_close,
};

#[test]
fn verify_finds_nothing_while_other_calls_run() {
    explore("verify_finds_nothing_while_other_calls_run", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, UTUBETTL);
        let putter = spawn_with(&tube, |tube| {
            for (text, sub) in [("a1", "a"), ("b1", "b"), ("a2", "a")] {
                tube.put(Put::new(text).sub_queue(sub)).unwrap();
            }
        });
        // Each thread ends its claims in a different way. One of the three tasks stays ready.
        let acks = spawn_with(&tube, |tube| {
            tube.take().unwrap().ack().unwrap();
        });
        let buries = spawn_with(&tube, |tube| {
            tube.take().unwrap().release_in(ms(0)).unwrap();
            tube.take().unwrap().bury(None).unwrap();
        });
        for _ in 0..2 {
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
        putter.join().unwrap();
        acks.join().unwrap();
        buries.join().unwrap();
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.taken, tasks.buried), (1, 0, 1));
        verify_and_close(&store);
    });
}

#[test]
fn take_any_takes_from_temporary_and_durable_tubes() {
    explore("take_any_takes_from_temporary_and_durable_tubes", || {
        let (store, _) = manual_clock_store();
        let kept = tube(&store, FIFO);
        let temporary = store
            .create_tube("temporary", TubeOptions::new().temporary(true).driver(FIFO))
            .unwrap();
        let takers = {
            let (store, kept, temporary) = (store.clone(), kept.clone(), temporary.clone());
            thread::spawn(move || {
                let mut got = [(); 2].map(|()| {
                    let claim = store.take_any(&[&kept, &temporary], NO_TIMEOUT).unwrap().unwrap();
                    let text = body(&claim);
                    claim.ack().unwrap();
                    text
                });
                got.sort_unstable();
                got
            })
        };
        let putter = spawn_with(&temporary, |temporary| temporary.put("temporary").unwrap());
        kept.put("kept").unwrap();
        putter.join().unwrap();
        assert_eq!(takers.join().unwrap(), ["kept", "temporary"]);
        verify_and_close(&store);
    });
}

#[test]
fn drop_tube_succeeds_or_is_refused_while_a_take_waits() {
    explore("drop_tube_succeeds_or_is_refused_while_a_take_waits", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        tube.put("x").unwrap();
        tube.admin().truncate().unwrap();
        let takes = spawn_with(&tube, |tube| {
            tube.take_timeout(NO_TIMEOUT).map(|claim| claim.map(|c| body(&c)))
        });
        let drops = {
            let store = store.clone();
            thread::spawn(move || store.drop_tube(FIFO))
        };
        let puts = spawn_with(&tube, |tube| tube.put("y").is_ok());
        match (drops.join().unwrap(), puts.join().unwrap()) {
            (Ok(()), _) => {
                // The put may have come before the drop, the take did not.
                let dropped = matches!(takes.join().unwrap(), Err(Error::TubeDropped { .. }));
                assert!(dropped || !store.tubes().unwrap().iter().any(|tube| tube.name == FIFO));
            }
            (Err(Error::TubeBusy { .. }), put) => {
                assert!(put, "the tube exists, so the put must succeed");
                assert_eq!(takes.join().unwrap().unwrap().as_deref(), Some("y"));
            }
            (Err(error), _) => panic!("{error}"),
        }
        verify_and_close(&store);
    });
}

#[test]
fn body_read_during_close_is_complete_or_refused() {
    explore("body_read_during_close_is_complete_or_refused", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFOTTL);
        // The body has a row of its own, so it is read without the lock.
        let id = tube.put(vec![7; 5000]).unwrap().id;
        let takes = spawn_with(&tube, |tube| tube.try_take());
        let peeks = spawn_with(&tube, move |tube| tube.query().task(id));
        store.close().unwrap();
        match takes.join().unwrap() {
            Ok(claim) => assert_eq!(claim.unwrap().body(), [7; 5000]),
            other => assert!(is_closed(&other)),
        }
        match peeks.join().unwrap() {
            Ok(task) => assert_eq!(task.body, [7; 5000]),
            other => assert!(is_closed(&other)),
        }
    });
}

#[test]
fn ack_with_dropped_ticket_frees_its_sub_queue() {
    explore("ack_with_dropped_ticket_frees_its_sub_queue", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, UTUBETTL);
        let puts = ["a", "b"].map(|text| Put::new(text).sub_queue("s"));
        tube.put_many(puts).unwrap();
        let first = tube.try_take().unwrap().unwrap();
        let next = taker(&tube);
        let awaits = spawn_with(&tube, |tube| {
            block_on(tube.to_async().take_timeout(NO_TIMEOUT)).unwrap().unwrap()
        });
        let acks = thread::spawn(move || drop(first.into_async().ack()));
        tube.put(Put::new("c").sub_queue("other")).unwrap();
        acks.join().unwrap();
        let mut got = [body(&next.join().unwrap()), body(&awaits.join().unwrap())];
        got.sort_unstable();
        assert_eq!(got, ["b", "c"]);
        verify_and_close(&store);
    });
}
