//! Workers as futures, and handlers that are futures.

use std::future::pending;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::thread;

use tubewell::worker::{AsyncJob, Worker};
use tubewell::{FIFOTTL, Outcome, TaskState, TubeOptions};

use super::executor::{
    block_on, eventually_ready, poll, poll_pending, wait_until, waker_calling, with_timeout,
};
use super::support::*;

/// Awaits one wake-up.
async fn yield_once() {
    let mut has_yielded = false;
    std::future::poll_fn(move |context| {
        if std::mem::replace(&mut has_yielded, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

#[test]
fn future_runs_as_many_handlers_at_a_time_as_it_may() {
    with_timeout(|| {
        let case = Case::new();
        case.tube.put_many((0..1000).map(|n| format!("{n}"))).unwrap();
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (inside, highest) = (running.clone(), most.clone());
        let wait_for_all = move |_: AsyncJob| {
            let (running, most) = (inside.clone(), highest.clone());
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                while most.load(Ordering::SeqCst) < 1000 {
                    yield_once().await;
                }
            }
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, wait_for_all);
        let tally = block_on(worker.concurrency(1000).limit(1000).run_async()).unwrap();
        assert_eq!((tally.done, most.load(Ordering::SeqCst)), (1000, 1000));
    });
}

#[test]
fn idle_future_is_woken_for_tasks_only() {
    with_timeout(|| {
        let case = Case::new();
        let handler = |_: AsyncJob| async {};
        let mut worker = Worker::new(&case.store).on_async(&case.tube, handler).run_async();
        let wakes = Arc::new(AtomicUsize::new(0));
        let count = wakes.clone();
        let waker = waker_calling(move || {
            count.fetch_add(1, Ordering::SeqCst);
        });
        poll_pending(&mut worker, &waker);
        case.clock.advance(secs(86_400));
        case.another("beside").put("y").unwrap();
        assert_eq!(wakes.load(Ordering::SeqCst), 0);
        let id = case.put("x");
        wait_until(|| {
            poll_pending(&mut worker, &waker);
            case.state(id).is_none()
        });
        assert!(wakes.load(Ordering::SeqCst) > 0);
    });
}

/// Jobs that are always ready do not keep the other tasks of the executor from running.
#[test]
fn future_returns_to_its_executor_after_each_job() {
    with_timeout(|| {
        let case = Case::new();
        case.tube.put_many((0..100).map(|n| format!("{n}"))).unwrap();
        let calls = Arc::new(AtomicUsize::new(0));
        let count = calls.clone();
        let handler = move |_: AsyncJob| {
            count.fetch_add(1, Ordering::SeqCst);
            async {}
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, handler).concurrency(3);
        let mut worker = worker.limit(100).run_async();
        poll_pending(&mut worker, Waker::noop());
        assert!(calls.load(Ordering::SeqCst) <= 3, "{calls:?}");
        assert_eq!(eventually_ready(&mut worker).unwrap().done, 100);
    });
}

#[test]
fn dropped_future_drops_its_handlers_and_releases_their_tasks() {
    struct Raise(Arc<AtomicBool>);
    impl Drop for Raise {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(3));
        let id = case.put("x");
        let (begun, dropped) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (has_begun, raise) = (begun.clone(), dropped.clone());
        let hang = move |job: AsyncJob| {
            let raise = Raise(raise.clone());
            let has_begun = has_begun.clone();
            async move {
                let _keep = (job, raise);
                has_begun.store(true, Ordering::SeqCst);
                pending::<()>().await;
            }
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, hang).concurrency(3);
        let mut worker = worker.run_async();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            begun.load(Ordering::SeqCst)
        });
        assert_eq!(case.state(id), Some(TaskState::Taken));
        drop(worker);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        wait_until(|| {
            case.store.tubes().unwrap()[0].waiting == 0 && case.store.owners().unwrap().is_empty()
        });
        assert!(dropped.load(Ordering::SeqCst));
    });
}

#[test]
fn dropped_future_releases_the_tasks_of_handlers_that_were_handed_out() {
    with_timeout(|| {
        let case = Case::new();
        let id = case.put("x");
        let (send, ended) = shared_channel();
        let wait = move |job: AsyncJob| {
            let send = send.clone();
            async move {
                job.cancelled().await;
                let is_current = job.is_current().await.unwrap();
                send.lock().unwrap().send(!is_current).unwrap();
            }
        };
        let begun = Arc::new(AtomicBool::new(false));
        let begin = begun.clone();
        let worker =
            Worker::new(&case.store).on_async(&case.tube, wait).spawn_with(move |handler| {
                begin.store(true, Ordering::SeqCst);
                thread::spawn(move || block_on(handler));
            });
        let mut worker = worker.run_async();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            begun.load(Ordering::SeqCst)
        });
        drop(worker);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        assert_eq!(ended.recv(), Ok(true));
    });
}

#[test]
fn handler_that_its_runtime_drops_releases_its_task() {
    with_timeout(|| {
        let case = Case::new();
        let id = case.put("x");
        let calls = AtomicUsize::new(0);
        let run_second = move |handler| {
            if calls.fetch_add(1, Ordering::SeqCst) > 0 {
                block_on(handler);
            }
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, |_: AsyncJob| async {});
        let worker = worker.spawn_with(run_second).limit(2).run_async();
        let tally = block_on(worker).unwrap();
        assert_eq!((tally.released, tally.done), (1, 1));
        assert_eq!(case.state(id), None);
    });
}

#[test]
fn panic_of_the_function_that_runs_handlers_fails_the_attempt() {
    with_timeout(|| {
        let case = Case::new();
        case.put("x");
        let worker = Worker::new(&case.store).on_async(&case.tube, |_: AsyncJob| async {});
        let worker = worker.spawn_with(|_| panic!("no runtime")).limit(1).run_async();
        assert_eq!(block_on(worker).unwrap().panicked, 1);
    });
}

#[test]
fn handlers_that_are_futures_run_on_threads_too() {
    with_timeout(|| {
        // The task that panics is not taken again.
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        case.tube.put_many(["a", "b", "c"]).unwrap();
        let slow = |job: AsyncJob| async move {
            yield_once().await;
            assert_ne!(job.body(), b"b");
            yield_once().await;
            Outcome::done()
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, slow).concurrency(2).limit(3);
        let worker = worker.start().unwrap();
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.panicked), (2, 1));
    });
}

#[test]
fn stopped_future_resolves_when_the_last_handler_has_ended() {
    with_timeout(|| {
        let case = Case::new();
        case.tube.put_many(["a", "b"]).unwrap();
        let gate: Arc<Mutex<Option<Waker>>> = Arc::default();
        let (open, inside) = (Arc::new(AtomicBool::new(false)), gate.clone());
        let is_open = open.clone();
        let wait = move |_: AsyncJob| {
            let (gate, open) = (inside.clone(), is_open.clone());
            std::future::poll_fn(move |context| {
                *gate.lock().unwrap() = Some(context.waker().clone());
                if open.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
            })
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, wait);
        let stopper = worker.stopper();
        let mut worker = worker.run_async();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            gate.lock().unwrap().is_some()
        });
        stopper.stop();
        poll_pending(&mut worker, Waker::noop());
        open.store(true, Ordering::SeqCst);
        gate.lock().unwrap().take().unwrap().wake();
        wait_until(|| match poll(&mut worker, Waker::noop()) {
            Poll::Ready(tally) => {
                assert_eq!(tally.unwrap().done, 1);
                true
            }
            Poll::Pending => false,
        });
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 1);
    });
}

#[test]
fn calls_of_a_job_that_wait_for_a_flush_have_futures() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().history(9));
        let id = case.put("old");
        let calls = |job: AsyncJob| async move {
            job.log("begun").await?;
            job.checkpoint("new").await?;
            let token = job.park(secs(60)).await?;
            assert_eq!(token.to_string().parse(), Ok(token));
            job.check().await
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, calls).limit(1);
        assert_eq!(form.start(worker).wait().unwrap().detached, 1);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"new");
        assert_eq!(case.state(id), Some(TaskState::Taken));
        let history = case.tube.query().history(id).unwrap();
        assert!(history.iter().any(|entry| entry.text.as_deref() == Some("begun")));
    });
}

/// A future that is not `Unpin`, in a runtime with a timer.
#[test]
fn worker_runs_on_a_runtime() {
    with_timeout(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let case = Case::new();
            case.tube.put_many((0..10).map(|n| format!("{n}"))).unwrap();
            let sleep = |_: AsyncJob| async {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            };
            let worker = Worker::new(&case.store).on_async(&case.tube, sleep).concurrency(4);
            let worker = worker.spawn_with(|handler| drop(tokio::spawn(handler))).limit(10);
            assert_eq!(worker.run_async().await.unwrap().done, 10);
        });
    });
}

#[test]
fn future_of_a_worker_can_be_sent_between_threads() {
    fn assert_send<T: Send>(_: &T) {}
    let case = Case::new();
    let worker = Worker::new(&case.store).on_async(&case.tube, |job: AsyncJob| async move {
        job.cancelled().await;
        drop(job);
    });
    let future = worker.limit(0).run_async();
    assert_send(&future);
    assert_eq!(eventually_ready(&mut pin!(future)).unwrap().jobs(), 0);
}
