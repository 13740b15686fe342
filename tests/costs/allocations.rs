//! The allocations of plain tasks.

use std::time::Duration;

use tubewell::{Durability, EventKind, FIFO, FIFOTTL, Filter, TubeOptions, UTUBE, UTUBETTL};

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

/// Whatever the filters ask for, and however many they are.
#[test]
fn filters_that_no_event_passes_allocate_nothing() {
    let options = TubeOptions::new().temporary(true);
    let unmet: [fn(u64) -> Filter; 4] = [
        |n| Filter::new().tube(format!("other {n}")),
        |n| Filter::new().tube("work").key(format!("key {n}")),
        |n| Filter::new().owner(format!("worker {n}")),
        |_| Filter::new().kinds([EventKind::Bury]),
    ];
    with_tube(FIFO, options, |store, tube| {
        tube.put("the first put of a run reserves ids").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        let cycle = || {
            tube.put(&[7; 128]).unwrap();
            tube.try_take().unwrap().unwrap().ack().unwrap();
        };
        cycle();
        let alone = allocations(500, cycle);
        let subscriptions: Vec<_> = (0..1000)
            .flat_map(|n| unmet.map(|filter| store.events(filter(n), 10).unwrap()))
            .collect();
        cycle();
        assert_eq!(allocations(500, cycle), alone);
        assert!(subscriptions.iter().all(|events| events.try_recv().is_none()));
    });
}

/// Memory only: no flush, no commit, no row, and no allocation but that of the first report.
#[test]
fn wait_ready_and_progress_cost_nothing_that_is_stored() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put("x").unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        claim.progress(0, 1000).unwrap();
        store.flush().unwrap();
        let before = store.admin().counters().unwrap();
        let report = allocations(500, || claim.progress(1, 1000).unwrap());
        assert_eq!(report, 0);
        for _ in 0..100 {
            assert!(!tube.wait_ready(Duration::ZERO).unwrap());
        }
        claim.release().unwrap();
        assert!(tube.wait_ready(Duration::MAX).unwrap());
        let after = store.admin().counters().unwrap();
        assert_eq!((after.commits, after.flushes), (before.commits, before.flushes));
        assert_eq!((after.rows, after.reads), (before.rows, before.reads));
    });
}
