//! The costs of a job over those of a take and an ack, and of a worker that waits.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{Durability, FIFO, FIFOTTL, TubeOptions};

use crate::{allocations, flushes_and_commits, with_tube};

const JOBS: u64 = 500;

/// One allocation: what a job shares with its worker.
#[test]
fn job_allocates_once_more_than_a_take_and_an_ack() {
    for driver in [FIFO, FIFOTTL] {
        let options = TubeOptions::new().durability(Durability::relaxed());
        with_tube(driver, options, |store, tube| {
            let put = |count| tube.put_many((0..count).map(|_| [7; 128].as_slice())).unwrap();
            put(2 * JOBS);
            let bare = allocations(JOBS, || _ = tube.try_take().unwrap().unwrap().ack().unwrap());
            let work = || {
                let worker = Worker::new(store).on(tube, |_: &Job| ()).run_until_idle();
                assert_eq!(worker.unwrap().done, JOBS);
            };
            put(JOBS);
            work();
            put(JOBS);
            let jobs = allocation_counter::measure(work).count_total;
            println!("{driver}: {bare} allocations, {} with a worker", jobs.div_ceil(JOBS));
            // The worker itself has a few.
            assert!(jobs <= (bare + 1) * JOBS + 100, "{driver}: {bare}, {jobs}");
        });
    }
}

/// As on a thread, one for what a job shares with its worker, and one for the future of its handler;
/// but a bare take has an allocation for its tube.
#[test]
fn job_of_a_future_allocates_once_more_than_a_take_and_an_ack() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let options = TubeOptions::new().durability(Durability::relaxed());
    with_tube(FIFO, options, |store, tube| {
        let put = |count| tube.put_many((0..count).map(|_| [7; 128].as_slice())).unwrap();
        let bare = || {
            runtime.block_on(async {
                while let Some(claim) = tube.to_async().try_take().await.unwrap() {
                    claim.ack().await.unwrap();
                }
            });
        };
        let work = || {
            let worker = Worker::new(store).on_async(tube, |_: AsyncJob| ready(())).limit(JOBS);
            assert_eq!(runtime.block_on(worker.run_async()).unwrap().done, JOBS);
        };
        let count = |all: &dyn Fn()| {
            put(JOBS);
            allocation_counter::measure(all).count_total
        };
        // The first calls grow maps and buffers.
        count(&bare);
        count(&work);
        let (bare, jobs) = (count(&bare), count(&work));
        println!("{JOBS} takes and acks: {bare} allocations, with a worker {jobs}");
        // The worker itself has a few.
        assert!(jobs <= bare + JOBS + 100, "{bare}, {jobs}");
    });
}

/// The end of a job is a commit and a flush, as an ack is. A take is none.
#[test]
fn job_is_one_flush() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many(["one", "two", "three"]).unwrap();
        let work = || Worker::new(store).on(tube, |_: &Job| ()).run_until_idle().unwrap();
        assert_eq!(flushes_and_commits(store, || assert_eq!(work().done, 3)), (3, 3));
    });
}

/// The ends of the jobs of a batch are one call.
#[test]
fn batch_is_one_flush() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many(["one", "two", "three"]).unwrap();
        let work = || {
            let worker = Worker::new(store).on_batch(tube, 3, Duration::MAX, |_: &[Job]| ());
            worker.run_until_idle().unwrap()
        };
        assert_eq!(flushes_and_commits(store, || assert_eq!(work().done, 3)), (1, 1));
    });
}

/// It reads, writes, commits and flushes nothing, and the store wakes it for nothing.
#[test]
fn waiting_worker_costs_nothing() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, tube| {
        let jobs = Arc::new(AtomicU64::new(0));
        let count = jobs.clone();
        let worker = Worker::new(store).concurrency(8).on(tube, move |_: &Job| {
            count.fetch_add(1, Ordering::SeqCst);
        });
        let worker = worker.start().unwrap();
        while store.tubes().unwrap()[0].waiting < 8 {
            std::thread::yield_now();
        }
        let before = store.admin().counters().unwrap();
        tube.statistics().unwrap();
        let after = store.admin().counters().unwrap();
        assert_eq!((after.commits, after.flushes), (before.commits, before.flushes));
        assert_eq!((after.rows, after.reads), (before.rows, before.reads));
        assert_eq!(store.tubes().unwrap()[0].waiting, 8);
        worker.stop(Duration::MAX).unwrap();
        assert_eq!(jobs.load(Ordering::SeqCst), 0);
    });
}
