//! Batches: handlers that get many jobs at a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Ended, Job, Left, Report, Worker};
use tubewell::{
    Backoff, Bytes, Error, FIFO, FIFOTTL, Failure, IntoOutcome, LIMFIFOTTL, Outcome, Put, Result,
    TaskState, Tube, TubeOptions, UTUBE,
};

use super::executor::{block_on, poll_pending, wait_until, with_timeout};
use super::gate::Gate;
use super::support::*;
use crate::stores;

const HOUR: Duration = secs(3600);

impl Form {
    /// Adds a handler of batches that does not wait.
    pub fn on_batch<T: Send + Sync + 'static, R: IntoOutcome + Send + 'static>(
        self,
        worker: Worker,
        tube: &Tube<T>,
        (most, within): (usize, Duration),
        handler: impl Fn(&[Job<T>]) -> R + Send + Sync + 'static,
    ) -> Worker {
        if self == Form::Threads {
            return worker.on_batch(tube, most, within, handler);
        }
        let handler = Arc::new(handler);
        worker.on_batch_async(tube, most, within, move |jobs| {
            let handler = handler.clone();
            async move {
                let jobs: Vec<Job<T>> = jobs.into_iter().map(AsyncJob::into_blocking).collect();
                handler(&jobs)
            }
        })
    }
}

/// The ids of the batches that a handler got.
#[derive(Clone, Default)]
struct Batches(Arc<Mutex<Vec<Vec<u64>>>>);

impl Batches {
    fn note<T>(&self, jobs: &[Job<T>]) {
        self.0.lock().unwrap().push(jobs.iter().map(|job| job.id()).collect());
    }

    fn all(&self) -> Vec<Vec<u64>> {
        self.0.lock().unwrap().clone()
    }

    fn sizes(&self) -> Vec<usize> {
        self.all().iter().map(Vec::len).collect()
    }

    /// A handler that notes its batch, and has done it.
    fn noting<T>(&self) -> impl Fn(&[Job<T>]) + Send + Sync + 'static {
        let batches = self.clone();
        move |jobs| batches.note(jobs)
    }
}

fn must_not_run<T>(jobs: &[Job<T>]) {
    panic!("a batch of {} runs", jobs.len());
}

fn put_all(tube: &Tube, count: u64) -> Vec<u64> {
    let receipts = tube.put_many((0..count).map(|n| format!("{n}"))).unwrap();
    receipts.iter().map(|receipt| receipt.id).collect()
}

/// Waits until a worker has gathered so many tasks, and all of its lanes wait for further ones.
fn wait_until_gathered(case: &Case, tasks: u64, lanes: u64) {
    wait_until(|| {
        let info = case.tube.info().unwrap();
        (case.tube.statistics().unwrap().tasks.taken, info.waiting) == (tasks, lanes)
    });
}

#[test]
fn batch_runs_once_it_is_full() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let worker = Worker::new(&case.store).limit(3);
        let worker = form.on_batch(worker, &case.tube, (3, HOUR), batches.noting());
        let worker = form.start(worker);
        let first = case.put("a");
        wait_until_gathered(&case, 1, 1);
        assert_eq!(batches.all(), [[0; 0]; 0]);
        let ids = [first, case.put("b"), case.put("c")];
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.jobs()), (3, 3));
        assert_eq!(batches.all(), [ids]);
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
    });
}

#[test]
fn batch_runs_with_what_came_when_its_time_has_elapsed() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let worker =
            form.on_batch(Worker::new(&case.store), &case.tube, (10, HOUR), batches.noting());
        let worker = form.start(worker);
        let ids = put_all(&case.tube, 2);
        wait_until_gathered(&case, 2, 1);
        case.clock.advance(HOUR);
        wait_until(|| case.tube.statistics().unwrap().tasks.done == 2);
        assert_eq!(batches.all(), [ids]);
        assert_eq!(worker.stop().unwrap().done, 2);
    });
}

#[test]
fn time_of_a_batch_counts_from_its_first_task() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let worker =
            form.on_batch(Worker::new(&case.store), &case.tube, (10, secs(10)), batches.noting());
        let worker = form.start(worker);
        let first = case.put("first");
        wait_until_gathered(&case, 1, 1);
        case.clock.advance(secs(6));
        let second = case.put("second");
        wait_until_gathered(&case, 2, 1);
        case.clock.advance(secs(4));
        wait_until(|| case.tube.statistics().unwrap().tasks.done == 2);
        assert_eq!(batches.all(), [[first, second]]);
        assert_eq!(worker.stop().unwrap().jobs(), 2);
    });
}

/// Otherwise each lane would gather a batch of its own.
#[test]
fn tasks_of_all_lanes_come_into_one_batch() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let worker = Worker::new(&case.store).concurrency(4);
        let worker = form.start(form.on_batch(worker, &case.tube, (5, HOUR), batches.noting()));
        wait_until_gathered(&case, 0, 4);
        let mut ids = Vec::new();
        for taken in 1..=4 {
            ids.push(case.put("x"));
            wait_until_gathered(&case, taken, 4);
        }
        ids.push(case.put("full"));
        wait_until(|| case.tube.statistics().unwrap().tasks.done == 5);
        assert_eq!(batches.all(), [ids]);
        assert_eq!(worker.stop().unwrap().done, 5);
    });
}

#[test]
fn batch_has_at_most_so_many_jobs_in_the_order_of_the_tube() {
    with_timeout(|| {
        let (case, batches) = (Case::new(), Batches::default());
        let late = case.tube.put(Put::new("late").priority(500)).unwrap().id;
        let ids = put_all(&case.tube, 24);
        let worker = Worker::new(&case.store).on_batch(&case.tube, 10, HOUR, batches.noting());
        assert_eq!(worker.run_until_idle().unwrap().done, 25);
        assert_eq!(batches.sizes(), [10, 10, 5]);
        assert_eq!(batches.all().concat(), [ids, vec![late]].concat());
    });
}

/// However many lanes take from a tube, each task is in one batch, and none is too large.
#[test]
fn batches_of_many_lanes_have_every_task_once() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let ids = put_all(&case.tube, 100);
        let worker = Worker::new(&case.store).concurrency(4).limit(100);
        let worker = form.on_batch(worker, &case.tube, (7, Duration::ZERO), batches.noting());
        assert_eq!(form.start(worker).wait().unwrap().done, 100);
        let mut seen = batches.all().concat();
        seen.sort_unstable();
        assert_eq!(seen, ids);
        assert!(batches.sizes().iter().all(|size| (1..=7).contains(size)), "{:?}", batches.sizes());
    });
}

#[test]
fn worker_that_ends_when_idle_waits_for_no_batch() {
    with_timeout(|| {
        for concurrency in [1, 3] {
            let (case, batches) = (Case::new(), Batches::default());
            put_all(&case.tube, 3);
            let (tube, noted) = (case.tube.clone(), batches.clone());
            let put_once = move |jobs: &[Job]| {
                noted.note(jobs);
                let again = jobs.iter().filter(|job| job.body() != b"again");
                tube.put_many(again.map(|_| "again")).map(drop)
            };
            let worker = Worker::new(&case.store).concurrency(concurrency);
            let worker = worker.on_batch(&case.tube, 100, Duration::MAX, put_once);
            assert_eq!(worker.run_until_idle().unwrap().done, 6);
            assert_eq!(batches.all().concat().len(), 6);
        }
    });
}

#[test]
fn limit_counts_the_jobs_and_the_last_batch_waits_for_no_more() {
    in_every_form(|form| {
        for concurrency in [1, 3] {
            let (case, batches) = (Case::new(), Batches::default());
            put_all(&case.tube, 30);
            let worker = Worker::new(&case.store).limit(25).concurrency(concurrency);
            let worker = form.on_batch(worker, &case.tube, (10, HOUR), batches.noting());
            let tally = form.start(worker).wait().unwrap();
            assert_eq!((tally.done, tally.jobs()), (25, 25));
            assert_eq!(case.tube.statistics().unwrap().tasks.ready, 5);
            if concurrency == 1 {
                assert_eq!(batches.sizes(), [10, 10, 5]);
            }
        }
    });
}

/// While the batch waited, it held all permits, and the other lanes ended for want of one.
#[test]
fn batch_that_gathers_leaves_the_permits_of_the_limit_to_other_lanes() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let other = case.store.create_tube("other", TubeOptions::new()).unwrap();
        let worker = Worker::new(&case.store).concurrency(2).limit(12);
        let worker = form.on_batch(worker, &case.tube, (1000, Duration::MAX), batches.noting());
        let worker = form.on(worker, &other, |_: &Job| ());
        let worker = form.start(worker);
        let first = case.put("waits");
        wait_until(|| case.tube.statistics().unwrap().tasks.taken == 1);
        for _ in 0..10 {
            other.put("x").unwrap();
            wait_until(|| other.statistics().unwrap().tasks.total == 0);
        }
        let last = case.put("joins");
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.jobs()), (12, 12));
        assert_eq!(batches.all(), [[first, last]]);
    });
}

/// The last permit was that of a lane that waited, and the batch took it for the end of the limit.
#[test]
fn batch_waits_for_the_task_of_a_lane_that_has_the_last_permit() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let worker = Worker::new(&case.store).concurrency(2).limit(2);
        let worker = form.on_batch(worker, &case.tube, (10, HOUR), batches.noting());
        let worker = form.start(worker);
        wait_until(|| case.tube.info().unwrap().waiting == 2);
        let first = case.put("a");
        wait_until(|| case.tube.statistics().unwrap().tasks.taken == 1);
        let last = case.put("b");
        worker.wait().unwrap();
        // The lanes may open the batch in any order.
        let mut all = batches.all();
        all[0].sort_unstable();
        assert_eq!(all, [[first, last]]);
    });
}

#[test]
fn stop_gives_the_tasks_of_a_batch_that_gathers_back_without_an_attempt() {
    in_every_form(|form| {
        for concurrency in [1, 3] {
            let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
            let worker = Worker::new(&case.store).concurrency(concurrency);
            let worker = form.on_batch(worker, &case.tube, (10, HOUR), must_not_run::<Bytes>);
            let worker = form.start(worker);
            let ids = put_all(&case.tube, 3);
            wait_until_gathered(&case, 3, concurrency as u64);
            if let Running::Handle(handle) = &worker {
                assert_eq!(handle.running(), []);
                assert_eq!(handle.stop(Duration::ZERO).unwrap(), []);
            }
            assert_eq!(worker.stop().unwrap().jobs(), 0);
            stores::settle(&case.store);
            for id in ids {
                let info = case.tube.query().task(id).unwrap().info;
                assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
            }
        }
    });
}

#[test]
fn dropped_future_gives_the_tasks_of_a_batch_that_gathers_back() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let never = |jobs: Vec<AsyncJob>| async move { assert!(jobs.is_empty(), "it runs") };
        let worker = Worker::new(&case.store).on_batch_async(&case.tube, 10, HOUR, never);
        let mut worker = worker.run_async();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            case.state(id) == Some(TaskState::Taken)
        });
        poll_pending(&mut worker, Waker::noop());
        drop(worker);
        wait_until(|| case.state(id) == Some(TaskState::Ready));
        assert_eq!(case.tube.query().task(id).unwrap().info.attempts_left, Some(1));
    });
}

#[derive(Debug, thiserror::Error)]
#[error("the server answers {0}")]
struct Answer(u16);

#[test]
fn error_and_panic_fail_each_attempt_of_a_batch() {
    in_every_form(|form| {
        let case = Case::new();
        put_all(&case.tube, 6);
        let (reports, watch) = reports();
        let worker = Worker::new(&case.store).backoff(Backoff::none()).max_attempts(1).limit(6);
        let worker = worker.watch(watch).failure_group(|error| {
            error.downcast_ref().map(|Answer(status)| format!("status {status}"))
        });
        let fail = |jobs: &[Job]| match jobs[0].id() {
            0 => Err::<(), _>(Answer(503)),
            _ => panic!("boom"),
        };
        let tally = form.start(form.on_batch(worker, &case.tube, (3, HOUR), fail)).wait().unwrap();
        assert_eq!((tally.failed, tally.panicked, tally.jobs()), (3, 3, 6));
        let ends: Vec<_> = reports.lock().unwrap().iter().map(ended).collect();
        for (id, end) in (0..).zip(&ends) {
            let (ended, group) =
                if id < 3 { (Ended::Failed, "status 503") } else { (Ended::Panicked, "panic") };
            let found = (end.0, end.1, end.2, end.3.as_ref().map(|texts| &*texts.0));
            assert_eq!(found, (id, ended, TaskState::Buried, Some(group)));
        }
    });
}

#[test]
fn failed_batch_has_the_backoff_of_the_worker() {
    in_every_form(|form| {
        let case = Case::new();
        put_all(&case.tube, 2);
        let worker = Worker::new(&case.store).backoff(Backoff::constant(secs(60))).limit(2);
        let fail = |_: &[Job]| Err::<(), _>("no");
        let tally = form.start(form.on_batch(worker, &case.tube, (2, HOUR), fail)).wait().unwrap();
        assert_eq!(tally.failed, 2);
        assert_eq!(case.tube.statistics().unwrap().tasks.delayed, 2);
        case.clock.advance(secs(60));
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 2);
    });
}

/// A batch of five jobs, of which four set their end, and whose handler then returns an error, panics, or does neither.
fn set_four_of_five(form: Form, returns: &'static str) {
    let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
    let next = case.another("next");
    let ids = put_all(&case.tube, 5);
    let to = next.clone();
    let each = move |jobs: &[Job]| {
        jobs[0].set_outcome(Outcome::result("first"));
        jobs[1].set_outcome(Err::<(), _>("replaced"));
        jobs[1].set_outcome(Outcome::bury(Failure::new("bad", "it is not good")));
        jobs[2].set_outcome(Outcome::advance(&to, "on"));
        jobs[3].set_outcome(Outcome::snooze(secs(60)));
        match returns {
            "ok" => Ok(()),
            "error" => Err("no"),
            _ => panic!("boom"),
        }
    };
    let worker = Worker::new(&case.store).limit(5);
    let worker = form.on_batch(worker, &case.tube, (5, HOUR), each);
    let tally = form.start(worker).wait().unwrap();
    assert_eq!((tally.buried, tally.advanced, tally.snoozed), (1, 1, 1));
    let (buried, delayed) = (Some(TaskState::Buried), Some(TaskState::Delayed));
    let (counts, last) = match returns {
        "ok" => ((2, 0, 0), None),
        "error" => ((1, 1, 0), buried),
        _ => ((1, 0, 1), buried),
    };
    assert_eq!((tally.done, tally.failed, tally.panicked), counts);
    let states: Vec<_> = ids.iter().map(|id| case.state(*id)).collect();
    assert_eq!(states, [None, buried, None, delayed, last]);
    assert_eq!(next.statistics().unwrap().tasks.ready, 1);
}

#[test]
fn job_of_a_batch_may_have_an_end_of_its_own() {
    in_every_form(|form| {
        for returns in ["ok", "error", "panic"] {
            set_four_of_five(form, returns);
        }
    });
}

/// A handler of one job may say it, too; a function around it sees that.
#[test]
fn end_that_a_job_sets_is_what_its_handler_has_ended_with() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let (tally, _) = form.work(&case, &case.tube, 1, |job: &Job| {
            job.set_outcome(Outcome::snooze(secs(60)));
            Err::<(), _>("no")
        });
        assert_eq!((tally.snoozed, case.state(id)), (1, Some(TaskState::Delayed)));
    });
    let case = Case::new();
    case.put("x");
    let worker = Worker::new(&case.store).on(&case.tube, |job: &Job| {
        job.set_outcome(Outcome::fail(Failure::new("own", "set")));
    });
    let worker = worker.around(|_, next| {
        let handled = next.run();
        assert_eq!(handled.failure().unwrap().group(), "own");
        handled
    });
    assert_eq!(worker.run_until_idle().unwrap().failed, 1);
}

#[test]
fn body_that_is_no_value_buries_its_task_and_leaves_the_others() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let numbers = case.tube.typed::<u32>();
        let ids = [numbers.put(1).unwrap().id, case.put("no number"), numbers.put(3).unwrap().id];
        let worker = Worker::new(&case.store).limit(3);
        let worker = form.on_batch(worker, &numbers, (3, HOUR), batches.noting());
        let tally = form.start(worker).wait().unwrap();
        assert_eq!((tally.done, tally.undecodable), (2, 1));
        assert_eq!(batches.all(), [[ids[0], ids[2]]]);
        assert_eq!(ids.map(|id| case.state(id)), [None, Some(TaskState::Buried), None]);
        assert_eq!(case.tube.query().groups().unwrap()[0].name, "undecodable");
    });
}

#[test]
fn batch_without_a_body_that_is_a_value_is_not_handled() {
    in_every_form(|form| {
        let case = Case::new();
        put_all(&case.tube, 2);
        let worker = Worker::new(&case.store).limit(2);
        let lists = case.tube.typed::<Vec<u8>>();
        let worker = form.on_batch(worker, &lists, (2, HOUR), must_not_run::<Vec<u8>>);
        assert_eq!(form.start(worker).wait().unwrap().undecodable, 2);
    });
}

#[test]
fn batch_of_a_kind_buries_tasks_of_other_kinds() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let (films, mails) = (case.tube.typed_as::<u32>("film"), case.tube.typed_as::<u32>("mail"));
        let mail = mails.put(0).unwrap().id;
        let ids = films.put_many([1, 2]).unwrap();
        let other = mails.put(3).unwrap().id;
        let worker = Worker::new(&case.store).limit(4);
        let worker = form.on_batch(worker, &films, (3, HOUR), batches.noting());
        let tally = form.start(worker).wait().unwrap();
        assert_eq!((tally.done, tally.undecodable), (2, 2));
        assert_eq!(batches.all(), [[ids[0].id, ids[1].id]]);
        assert_eq!([mail, other].map(|id| case.state(id)), [Some(TaskState::Buried); 2]);
        let groups = case.tube.query().groups().unwrap();
        assert_eq!((groups[0].name.as_str(), groups[0].count), ("unknown kind", 2));
    });
}

#[test]
fn claims_do_not_run_out_while_a_batch_gathers_and_runs() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().ttr(secs(1)).max_attempts(1));
        let clock = case.clock.clone();
        let hold = move |jobs: &[Job]| {
            clock.advance(HOUR);
            assert!(jobs.iter().all(|job| job.is_current().unwrap()));
        };
        let worker = form.on_batch(Worker::new(&case.store), &case.tube, (2, HOUR), hold);
        let worker = form.start(worker.limit(2));
        case.put("first");
        wait_until_gathered(&case, 1, 1);
        case.clock.advance(secs(1000));
        case.put("second");
        assert_eq!(worker.wait().unwrap().done, 2);
    });
}

#[test]
fn task_that_is_deleted_while_its_batch_gathers_is_lost() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let (reports, watch) = reports();
        let worker = Worker::new(&case.store).limit(3).watch(watch);
        let worker = form.start(form.on_batch(worker, &case.tube, (3, HOUR), batches.noting()));
        let ids = put_all(&case.tube, 2);
        wait_until_gathered(&case, 2, 1);
        case.tube.delete(ids[0]).unwrap();
        let last = case.put("last");
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.lost, tally.jobs()), (2, 1, 3));
        assert_eq!(batches.all(), [[ids[1], last]]);
        let is_lost = |report: &Report| matches!(report, Report::Lost { id, .. } if *id == ids[0]);
        assert!(is_lost(&reports.lock().unwrap()[0]));
    });
}

#[test]
fn task_that_is_deleted_while_its_batch_runs_is_lost_alone() {
    in_every_form(|form| {
        let case = Case::new();
        let ids = put_all(&case.tube, 3);
        let tube = case.tube.clone();
        let delete = move |jobs: &[Job]| tube.delete(jobs[1].id()).map(drop);
        let worker = Worker::new(&case.store).limit(3);
        let worker = form.on_batch(worker, &case.tube, (3, HOUR), delete);
        let tally = form.start(worker).wait().unwrap();
        assert_eq!((tally.done, tally.lost), (2, 1));
        assert!(ids.iter().all(|id| case.state(*id).is_none()));
    });
}

/// The longest time of a worker is that of its handler, and not that of gathering.
#[test]
fn async_handler_of_a_batch_is_dropped_when_the_time_of_all_its_jobs_has_elapsed() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let has_begun = Arc::new(AtomicBool::new(false));
        let begun = has_begun.clone();
        let hang = move |jobs: Vec<AsyncJob>| {
            let begun = begun.clone();
            async move {
                begun.store(true, Ordering::SeqCst);
                std::future::pending::<()>().await;
                drop(jobs);
            }
        };
        let (reports, watch) = reports();
        let worker = Worker::new(&case.store).max_runtime(secs(30)).limit(2).watch(watch);
        let worker = form.start(worker.on_batch_async(&case.tube, 2, HOUR, hang));
        case.put("first");
        wait_until_gathered(&case, 1, 1);
        case.clock.advance(secs(600));
        case.put("second");
        wait_until(|| has_begun.load(Ordering::SeqCst));
        case.clock.advance(secs(29));
        assert_eq!(case.tube.statistics().unwrap().tasks.taken, 2);
        case.clock.advance(secs(1));
        let tally = worker.wait().unwrap();
        assert_eq!((tally.timed_out, tally.jobs()), (2, 2));
        let is_right =
            |report: &Report| matches!(report, Report::TimedOut { ran, .. } if *ran == secs(30));
        assert!(reports.lock().unwrap().iter().all(is_right), "{reports:?}");
        assert_eq!(case.tube.statistics().unwrap().tasks.buried, 2);
    });
}

/// That of a tube begins with the take.
#[test]
fn batch_that_gathers_for_longer_than_the_tube_allows_loses_its_task() {
    in_every_form(|form| {
        let options = TubeOptions::new().max_attempts(2).max_runtime(secs(60));
        let (case, batches) = (Case::with(FIFOTTL, options), Batches::default());
        let worker = Worker::new(&case.store).limit(2);
        let worker = form.start(form.on_batch(worker, &case.tube, (2, HOUR), batches.noting()));
        let first = case.put("first");
        wait_until_gathered(&case, 1, 1);
        case.clock.advance(secs(60));
        // It is ready then, and the same batch gets it again.
        let tally = worker.wait().unwrap();
        assert_eq!((lost(tally), tally.done), (1, 1));
        assert_eq!(batches.all(), [[first]]);
    });
}

/// A worker of two threads whose first batch hangs until the gate opens.
#[test]
fn batch_that_runs_after_the_time_of_a_stop_is_left_and_its_tasks_are_snoozed() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let ids = put_all(&case.tube, 3);
        let (gate, (reports, watch)) = (Gate::default(), reports());
        let wait = gate.clone();
        let hang = move |_: &[Job]| wait.pass();
        let worker = Worker::new(&case.store).on_batch(&case.tube, 3, HOUR, hang);
        let worker = worker.concurrency(2).watch(watch).start().unwrap();
        wait_until(|| worker.running().len() == 3);
        let left = worker.stop(Duration::ZERO).unwrap();
        let mut left: Vec<u64> = left.iter().map(|Left { id, .. }| *id).collect();
        left.sort_unstable();
        assert_eq!(left, ids);
        for id in ids {
            let info = case.tube.query().task(id).unwrap().info;
            assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
        }
        assert_eq!((worker.tally().left, worker.tally().jobs()), (3, 3));
        gate.open();
        drop(worker);
        assert_eq!(reports.lock().unwrap().len(), 0);
    });
}

#[test]
fn batch_that_returns_early_because_of_a_stop_fails_no_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let ids = put_all(&case.tube, 3);
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let check = move |jobs: &[Job]| -> Result<()> {
            stopper.stop();
            jobs[1].check()
        };
        let worker = form.on_batch(worker, &case.tube, (3, HOUR), check);
        assert_eq!(form.start(worker).wait().unwrap().snoozed, 3);
        assert!(ids.iter().all(|id| case.state(*id) == Some(TaskState::Ready)));
    });
}

/// The other attempts do not fail because one task is gone.
#[test]
fn batch_that_returns_early_because_a_claim_has_ended_fails_no_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        put_all(&case.tube, 3);
        let tube = case.tube.clone();
        let check = move |jobs: &[Job]| -> Result<()> {
            tube.delete(jobs[0].id())?;
            jobs[0].check()
        };
        let worker = form.on_batch(Worker::new(&case.store), &case.tube, (3, HOUR), check);
        let tally = form.start(worker.limit(3)).wait().unwrap();
        assert_eq!((tally.lost, tally.snoozed, tally.jobs()), (1, 2, 3));
    });
}

#[test]
fn job_of_a_batch_that_sleeps_is_suspended_alone() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let ids = put_all(&case.tube, 2);
        let sleep = |jobs: &[Job]| jobs[0].set_outcome(jobs[0].sleep("wait", HOUR));
        let worker = form.on_batch(Worker::new(&case.store), &case.tube, (2, HOUR), sleep);
        let tally = form.start(worker.limit(2)).wait().unwrap();
        assert_eq!((tally.suspended, tally.done), (1, 1));
        assert_eq!(case.state(ids[0]), Some(TaskState::Delayed));
    });
}

/// A full tube refuses one end, and a result that is too large the whole call.
#[test]
fn refused_outcome_of_a_job_fails_its_attempt_alone() {
    in_every_form(|form| {
        for large in [false, true] {
            let options = TubeOptions::new().max_attempts(1);
            let case = Case::with(FIFOTTL, options);
            let full = case
                .store
                .create_tube("full", TubeOptions::new().capacity(1).driver(LIMFIFOTTL))
                .unwrap();
            full.put("x").unwrap();
            let ids = put_all(&case.tube, 3);
            let to = full.clone();
            let refuse = move |jobs: &[Job]| {
                jobs[1].set_outcome(if large {
                    Outcome::bury(Failure::new("g".repeat(256), "no such group"))
                } else {
                    Outcome::advance(&to, "y")
                });
            };
            let worker = form.on_batch(Worker::new(&case.store), &case.tube, (3, HOUR), refuse);
            let tally = form.start(worker.limit(3)).wait().unwrap();
            assert_eq!((tally.done, tally.failed, tally.jobs()), (2, 1, 3), "{large}");
            assert_eq!(case.state(ids[1]), Some(TaskState::Buried));
            assert_eq!(case.tube.query().groups().unwrap()[0].name, "refused");
        }
    });
}

/// The others end at once.
#[test]
fn jobs_of_a_tube_without_delays_are_held_each_for_its_delay() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(3));
        let ids = put_all(&case.tube, 3);
        let delay = |jobs: &[Job]| {
            if jobs[0].attempt() == 1 && jobs.len() == 3 {
                jobs[0].set_outcome(Outcome::release_in(HOUR * 10));
                jobs[2].set_outcome(Outcome::release_in(secs(10)));
            }
        };
        let worker = Worker::new(&case.store).limit(3);
        let worker = form.start(form.on_batch(worker, &case.tube, (3, HOUR), delay));
        wait_until(|| case.state(ids[1]).is_none());
        assert_eq!(case.tube.statistics().unwrap().tasks.taken, 2);
        wait_until(|| {
            case.clock.advance(secs(1));
            case.state(ids[2]) == Some(TaskState::Ready)
        });
        assert_eq!(case.state(ids[0]), Some(TaskState::Taken));
        wait_until(|| {
            case.clock.advance(HOUR);
            case.state(ids[0]) == Some(TaskState::Ready)
        });
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.released), (1, 2));
    });
}

#[test]
fn sub_queue_has_one_task_in_a_batch() {
    with_timeout(|| {
        let (case, batches) = (Case::with(UTUBE, TubeOptions::new()), Batches::default());
        for name in ["a", "a", "b", "c"] {
            case.tube.put(Put::new("x").sub_queue(name)).unwrap();
        }
        let worker = Worker::new(&case.store).on_batch(&case.tube, 10, HOUR, batches.noting());
        assert_eq!(worker.run_until_idle().unwrap().done, 4);
        assert_eq!(batches.all(), [vec![0, 2, 3], vec![1]]);
    });
}

#[test]
fn batches_and_single_jobs_share_a_worker() {
    in_every_form(|form| {
        let (case, batches) = (Case::new(), Batches::default());
        let single = case.another("single");
        put_all(&case.tube, 4);
        single.put_many(["a", "b"]).unwrap();
        let worker = Worker::new(&case.store).limit(6);
        let worker = form.on_batch(worker, &case.tube, (4, HOUR), batches.noting());
        let worker = form.on(worker, &single, |_: &Job| ());
        assert_eq!(form.start(worker).wait().unwrap().done, 6);
        assert_eq!(batches.sizes(), [4]);
    });
}

#[test]
fn batches_that_cannot_be_are_refused() {
    with_timeout(|| {
        let case = Case::new();
        let of = |most| Worker::new(&case.store).on_batch(&case.tube, most, HOUR, |_: &[Job]| ());
        let kind = case.tube.typed_as::<u32>("film");
        for (worker, what) in [
            (of(0), "1 to 10000 jobs, not 0"),
            (of(10_001), "1 to 10000 jobs, not 10001"),
            (of(1).on(&kind, |_: &Job<u32>| ()), "a tube of its own"),
            (of(1).around(|_, next| next.run()), "no handler of on"),
        ] {
            let refused = worker.start().err();
            assert!(
                matches!(&refused, Some(Error::Invalid { what: why }) if why.contains(what)),
                "{refused:?}"
            );
        }
        let refused = block_on(of(1).run_async());
        assert!(
            matches!(&refused, Err(Error::Invalid { what }) if what.contains("on_batch_async"))
        );
        assert_eq!(case.store.owners().unwrap().len(), 0);
    });
}
