//! Takes that are counted, and attempts that fail.

use tubewell::{Counting, Durability, FIFO, Failure, Store, Tube, TubeOptions};

use crate::{allocations, with_tube};

/// Flushes, commits and rows of a put, a take, an ack, a take and a failure with attempts left, in
/// a tube that limits them.
fn costs_of_attempts(store: &Store, tube: &Tube) -> [[u64; 3]; 5] {
    let take = || tube.try_take().unwrap().unwrap();
    let cost = |work: &mut dyn FnMut()| {
        let before = store.admin().counters().unwrap();
        work();
        let after = store.admin().counters().unwrap();
        let flushes = after.flushes - before.flushes;
        [flushes, after.commits - before.commits, after.rows - before.rows]
    };
    tube.put("the first put of a run reserves ids").unwrap();
    take().ack().unwrap();
    let mut claim = None;
    let put = cost(&mut || _ = tube.put("x").unwrap());
    let taken = cost(&mut || claim = Some(take()));
    let ack = cost(&mut || _ = claim.take().unwrap().ack().unwrap());
    tube.put("x").unwrap();
    let again = cost(&mut || claim = Some(take()));
    let failure = Failure::new("timeout", "no answer");
    let fail = cost(&mut || _ = claim.take().unwrap().fail(failure.clone()).unwrap());
    [put, taken, ack, again, fail]
}

/// A counted take is a commit of one row and the header of the store, which also has what was put
/// before it in a relaxed tube. The row is removed with the commit of the ack or the failure.
#[test]
fn counted_takes_cost_one_row_and_what_their_counting_says() {
    let (flush, write, relaxed) = (Durability::Flush, Durability::write(), Durability::relaxed());
    for (durability, counting, expected, most) in [
        (flush, Counting::Lazily, [[1, 1, 3], [0, 0, 0], [1, 1, 3], [0, 0, 0], [1, 1, 3]], 30),
        (flush, Counting::Written, [[1, 1, 3], [0, 1, 2], [1, 1, 4], [0, 1, 2], [1, 1, 4]], 43),
        (flush, Counting::Flushed, [[1, 1, 3], [1, 1, 2], [1, 1, 4], [1, 1, 2], [1, 1, 4]], 44),
        (write, Counting::Lazily, [[0, 1, 3], [0, 0, 0], [0, 1, 3], [0, 0, 0], [0, 1, 3]], 26),
        (write, Counting::Written, [[0, 1, 3], [0, 1, 2], [0, 1, 4], [0, 1, 2], [0, 1, 4]], 38),
        (write, Counting::Flushed, [[0, 1, 3], [1, 1, 2], [0, 1, 4], [1, 1, 2], [0, 1, 4]], 38),
        (relaxed, Counting::Lazily, [[0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0], [0, 0, 0]], 5),
        (relaxed, Counting::Written, [[0, 0, 0], [0, 1, 6], [0, 0, 0], [0, 1, 6], [0, 0, 0]], 22),
        (relaxed, Counting::Flushed, [[0, 0, 0], [1, 1, 6], [0, 0, 0], [1, 1, 6], [0, 0, 0]], 22),
    ] {
        let options = TubeOptions::new().max_attempts(1000).durability(durability);
        with_tube(FIFO, options.count_takes(counting), |store, tube| {
            let costs = costs_of_attempts(store, tube);
            tube.admin().truncate().unwrap();
            let cycle = allocations(100, || {
                tube.put(&[7; 128]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            });
            println!("{durability}, {counting}: {costs:?}, {cycle} allocations");
            assert_eq!(costs, expected, "{durability}, {counting}");
            assert!(cycle <= most, "{durability}, {counting}: {cycle} allocations per cycle");
        });
    }
}
