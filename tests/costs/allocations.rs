//! The allocations of plain tasks.

use tubewell::{Durability, FIFO, FIFOTTL, TubeOptions, UTUBE, UTUBETTL};

use crate::{allocations, with_tube};

#[test]
fn put_take_ack_without_flush_allocates_little() {
    for options in
        [TubeOptions::new().durability(Durability::relaxed()), TubeOptions::new().temporary(true)]
    {
        for (driver, most) in [(FIFO, 5), (FIFOTTL, 5), (UTUBE, 8), (UTUBETTL, 8)] {
            with_tube(driver, options.clone(), |_, tube| {
                tube.put("the first put of a run reserves ids").unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
                let cycle = allocations(500, || {
                    tube.put(&[7; 128]).unwrap();
                    tube.try_take().unwrap().unwrap().ack().unwrap();
                });
                println!("{driver}: {cycle} allocations");
                assert!(cycle <= most, "{driver}, {options:?}: {cycle} allocations per cycle");
            });
        }
    }
}

/// The allocations are the share of the reads that fill the window, the read of the body, and the
/// claim.
#[test]
fn take_from_file_allocates_little() {
    with_tube(FIFO, TubeOptions::new(), |_, tube| {
        tube.put_many(vec![[7; 128].as_slice(); 4000]).unwrap();
        let take = allocations(1000, || _ = tube.try_take().unwrap().unwrap().detach());
        println!("{take} allocations");
        assert!(take <= 6, "{take} allocations per take");
    });
}
