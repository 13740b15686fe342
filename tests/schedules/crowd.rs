//! Several verbs at once, looked at while they go on.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{Error, FIFO, FIFOTTL, Put, TubeOptions, UTUBETTL, WhenFull};

use crate::explore::explore;
use crate::stage::{FOR_EVER, body, end, is_closed, ms, still, taker, tube, with};

#[test]
fn everything_agrees_in_the_middle_of_everything() {
    explore("everything_agrees_in_the_middle", || {
        let (store, _) = still();
        let tube = tube(&store, UTUBETTL);
        let putter = with(&tube, |tube| {
            for (text, sub) in [("a1", "a"), ("b1", "b"), ("a2", "a")] {
                tube.put(Put::new(text).sub_queue(sub)).unwrap();
            }
        });
        // Each ends a claim in a way of its own; what is left of the three tasks is theirs too.
        let acks = with(&tube, |tube| {
            tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap();
        });
        let buries = with(&tube, |tube| {
            tube.take(FOR_EVER).unwrap().unwrap().release(ms(0)).unwrap();
            tube.take(FOR_EVER).unwrap().unwrap().bury().unwrap();
        });
        for _ in 0..2 {
            assert_eq!(store.verify().unwrap(), [""; 0]);
        }
        putter.join().unwrap();
        acks.join().unwrap();
        buries.join().unwrap();
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.taken, tasks.buried), (1, 0, 1));
        end(&store);
    });
}

#[test]
fn tubes_of_memory_and_of_the_file_do_not_hold_each_other_up() {
    explore("tubes_of_memory_and_of_the_file", || {
        let (store, _) = still();
        let kept = tube(&store, FIFO);
        let fleeting =
            store.create_tube("fleeting", FIFO, TubeOptions::new().temporary(true)).unwrap();
        let takers = {
            let (store, kept, fleeting) = (store.clone(), kept.clone(), fleeting.clone());
            thread::spawn(move || {
                let mut got = [(); 2].map(|()| {
                    let claim = store.take_any(&[&kept, &fleeting], FOR_EVER).unwrap().unwrap();
                    let text = body(&claim);
                    claim.ack().unwrap();
                    text
                });
                got.sort_unstable();
                got
            })
        };
        let putter = with(&fleeting, |fleeting| fleeting.put("fleeting").unwrap());
        kept.put("kept").unwrap();
        putter.join().unwrap();
        assert_eq!(takers.join().unwrap(), ["fleeting", "kept"]);
        end(&store);
    });
}

#[test]
fn a_tube_is_dropped_or_somebody_waits_in_it() {
    explore("a_tube_is_dropped", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        tube.put("x").unwrap();
        tube.truncate().unwrap();
        let takes = with(&tube, |tube| tube.take(FOR_EVER).map(|claim| claim.map(|c| body(&c))));
        let drops = {
            let store = store.clone();
            thread::spawn(move || store.drop_tube(FIFO))
        };
        let puts = with(&tube, |tube| tube.put("y").is_ok());
        match (drops.join().unwrap(), puts.join().unwrap()) {
            (Ok(()), _) => {
                // The put may have been before, the take not.
                let dropped = matches!(takes.join().unwrap(), Err(Error::TubeDropped { .. }));
                assert!(dropped || !store.tubes().iter().any(|tube| tube.name == FIFO));
            }
            (Err(Error::TubeBusy { .. }), put) => {
                assert!(put, "the tube is still there");
                assert_eq!(takes.join().unwrap().unwrap().as_deref(), Some("y"));
            }
            (Err(error), _) => panic!("{error}"),
        }
        end(&store);
    });
}

#[test]
fn a_body_is_read_to_its_end_or_not_at_all_while_the_store_closes() {
    explore("a_body_is_read_to_its_end", || {
        let (store, _) = still();
        let tube = tube(&store, FIFOTTL);
        // Kept apart from its record, so that it is read without the lock.
        let id = tube.put(vec![7; 5000]).unwrap().id;
        let takes = with(&tube, |tube| tube.try_take());
        let peeks = with(&tube, move |tube| tube.peek(id));
        store.close().unwrap();
        match takes.join().unwrap() {
            Ok(claim) => assert_eq!(claim.unwrap().data(), [7; 5000]),
            other => assert!(is_closed(&other)),
        }
        match peeks.join().unwrap() {
            Ok(task) => assert_eq!(task.data, [7; 5000]),
            other => assert!(is_closed(&other)),
        }
    });
}

#[test]
fn an_ack_whose_ticket_is_dropped_still_frees_its_sub_queue() {
    explore("an_ack_whose_ticket_is_dropped", || {
        let (store, _) = still();
        let tube = tube(&store, UTUBETTL);
        let puts = ["a", "b"].map(|text| Put::new(text).sub_queue("s"));
        tube.put_many(puts).unwrap();
        let first = tube.try_take().unwrap().unwrap();
        let next = taker(&tube);
        let awaits = with(&tube, |tube| block_on(tube.take_async(FOR_EVER)).unwrap().unwrap());
        let acks = thread::spawn(move || drop(first.ack_deferred(WhenFull::Block).unwrap()));
        tube.put(Put::new("c").sub_queue("other")).unwrap();
        acks.join().unwrap();
        let mut got = [body(&next.join().unwrap()), body(&awaits.join().unwrap())];
        got.sort_unstable();
        assert_eq!(got, ["b", "c"]);
        end(&store);
    });
}
