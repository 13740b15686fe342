//! Keys, and the put of a key in use.

use tubewell::{Claim, FIFO, Keep, OnKey, Put, TubeOptions, UTUBETTL};

use crate::{flushes_and_commits, rows_edited, with_tube};

/// A key is one row more. What a put keeps is not written, and what it replaces is written as a put
/// and a delete together.
#[test]
fn key_costs_one_row_and_a_kept_task_nothing() {
    for (driver, most) in [(FIFO, [4, 0, 3, 4, 0]), (UTUBETTL, [5, 0, 4, 5, 0])] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            tube.put("warm").unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
            let put = |on_key| Put::new("x").key("k").on_key(on_key);
            let mut cost = Vec::new();
            let mut measure = |flushes: u64, call: &mut dyn FnMut()| {
                let rows = rows_edited(store, || {
                    assert_eq!(flushes_and_commits(store, call), (flushes, flushes));
                });
                cost.push(rows);
            };
            measure(1, &mut || _ = tube.put(put(OnKey::Reject)).unwrap());
            measure(0, &mut || _ = tube.put(put(OnKey::Keep)).unwrap());
            measure(1, &mut || _ = tube.put(put(OnKey::Replace)).unwrap());
            measure(1, &mut || _ = tube.try_take().unwrap().unwrap().ack().unwrap());
            measure(0, &mut || assert_eq!(store.by_key("k"), Ok(None)));
            println!("{driver}: {cost:?} rows");
            let is_within = cost.iter().zip(most).all(|(rows, most)| *rows <= most);
            assert!(is_within, "{driver}: {cost:?} rows, at most {most:?} expected");
        });
    }
}

/// A task that is kept after its end keeps its key without another write.
#[test]
fn kept_ack_of_a_task_with_a_key_costs_what_it_costs_without() {
    with_tube(FIFO, TubeOptions::new().keep_done(Keep::new()), |store, tube| {
        let ack = |claim: Claim| rows_edited(store, || _ = claim.ack().unwrap());
        tube.put_many([Put::new("x"), Put::new("x").key("k")]).unwrap();
        let plain = ack(tube.try_take().unwrap().unwrap());
        assert_eq!(ack(tube.try_take().unwrap().unwrap()), plain);
    });
}

#[test]
fn keys_of_other_tasks_cost_a_plain_task_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many((0..100).map(|n| Put::new("x").key(format!("k{n}")))).unwrap();
        let put = || _ = tube.put("x").unwrap();
        put();
        assert_eq!((rows_edited(store, put), flushes_and_commits(store, put)), (3, (1, 1)));
    });
}
