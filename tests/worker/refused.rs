//! Workers that cannot be started.

use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{Error, FIFO, Result, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::support::*;
use crate::stores;

/// Asserts that no form starts this worker, and that nothing is left of it.
fn assert_refused(case: &Case, what: &str, worker: impl Fn() -> Worker) {
    let refused = |answer: Result<()>| match answer {
        Err(Error::Invalid { what: why }) => assert!(why.contains(what), "{why}"),
        answer => panic!("{answer:?}"),
    };
    refused(worker().start().map(drop));
    refused(worker().run_until_idle().map(drop));
    refused(block_on(worker().run_async()).map(drop));
    assert_eq!(case.store.owners().unwrap().len(), 0);
    assert_eq!(case.tube.statistics().unwrap().tasks.ready, 1);
}

#[test]
fn worker_that_could_do_nothing_is_refused() {
    with_timeout(|| {
        let case = Case::new();
        case.put("x");
        let with =
            |tube: &tubewell::Tube| Worker::new(&case.store).on_async(tube, |_: AsyncJob| async {});
        assert_refused(&case, "at least one tube", || Worker::new(&case.store));
        assert_refused(&case, "1 to 1024", || with(&case.tube).concurrency(0));
        assert_refused(&case, "1 to 1024", || with(&case.tube).concurrency(1025));
        assert_refused(&case, "two handlers", || {
            with(&case.tube).on_async(&case.tube.typed::<u8>(), |_: AsyncJob<u8>| async {})
        });
        assert_refused(&case, "label", || with(&case.tube).name("x".repeat(10_000)));
        let other = stores::in_memory();
        let foreign = other.create_tube("foreign", TubeOptions::new().driver(FIFO)).unwrap();
        assert_refused(&case, "another store", || with(&foreign));
    });
}

#[test]
fn future_refuses_a_handler_that_blocks() {
    let case = Case::new();
    let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ());
    let refused = block_on(worker.run_async());
    assert!(matches!(&refused, Err(Error::Invalid { what }) if what.contains("on_async")));
}

#[test]
fn worker_of_a_dropped_tube_or_a_closed_store_is_refused() {
    let case = Case::new();
    let other = case.another("other");
    let worker = || Worker::new(&case.store).on(&other, |_: &Job| ());
    case.store.drop_tube("other").unwrap();
    assert!(matches!(worker().start(), Err(Error::TubeDropped { .. })));
    let store = stores::in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    stores::close(&store);
    let refused = Worker::new(&store).on(&tube, |_: &Job| ()).start();
    assert!(matches!(refused, Err(Error::Closed)), "{refused:?}");
}
