//! Cases of other job systems: stops, and tasks that go from one worker to another.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Report, Worker};
use tubewell::{
    Counting, Error, EventKind, Events, FIFO, FIFOTTL, Failure, Filter, Outcome, Store, TaskState,
    TubeOptions,
};

use super::blocking_disk::Disk;
use super::executor::{block_on, wait_until, with_timeout};
use super::gate::Gate;
use super::support::*;
use crate::stores::{self, ManualClock};

/// The events of a task, up to the put of another one: what happened, and to whose job.
fn events_of(case: &Case, events: &Events, id: u64) -> Vec<(EventKind, Option<Arc<str>>)> {
    let last = case.put("last");
    let until_last = std::iter::from_fn(|| events.recv()).take_while(|event| event.id != last);
    until_last.filter(|event| event.id == id).map(|event| (event.kind, event.owner)).collect()
}

fn by(owner: &str, kind: EventKind) -> (EventKind, Option<Arc<str>>) {
    (kind, Some(owner.into()))
}

/// A worker has snoozed a task, and the next one has done it.
fn snoozed_and_then_done() -> [(EventKind, Option<Arc<str>>); 5] {
    [
        (EventKind::Put, None),
        by("worker", EventKind::Take),
        by("worker", EventKind::Snooze),
        by("next", EventKind::Take),
        by("next", EventKind::Ack),
    ]
}

/// A worker with this name, whose jobs are done immediately.
fn next_worker(form: Form, case: &Case) -> Worker {
    form.on(Worker::new(&case.store).name("next"), &case.tube, |job: &Job| {
        assert_eq!(job.attempt(), 1, "the first attempt does not count");
    })
}

/// T056
#[test]
fn stop_of_an_idle_worker_returns_to_every_caller() {
    with_timeout(|| {
        let case = Case::new();
        let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ()).concurrency(3);
        let worker = worker.start().unwrap();
        wait_until(|| case.store.tubes().unwrap()[0].waiting == 3);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(worker.stop(Duration::MAX).unwrap(), []));
            }
        });
        assert_eq!((worker.wait().unwrap().jobs(), worker.running()), (0, vec![]));
        assert_eq!(case.store.tubes().unwrap()[0].waiting, 0);
        assert_eq!(worker.stop(Duration::ZERO).unwrap(), []);
    });
}

/// T059
#[test]
fn limit_counts_the_jobs_of_all_tubes() {
    in_every_form(|form| {
        for concurrency in [1, 4] {
            let case = Case::new();
            let tubes = ["1", "2", "3"].map(|name| case.another(name));
            let mut worker = Worker::new(&case.store).concurrency(concurrency);
            for tube in &tubes {
                tube.put_many(["a", "b", "c"]).unwrap();
                worker = form.on(worker, tube, |_: &Job| ());
            }
            let tally = form.start(worker.limit(5)).wait().unwrap();
            assert_eq!((tally.done, tally.jobs()), (5, 5));
            let ready = tubes.iter().map(|tube| tube.statistics().unwrap().tasks.ready);
            assert_eq!(ready.sum::<u64>(), 4);
        }
    });
}

/// T060
#[test]
fn job_that_a_stop_interrupts_is_done_by_another_worker() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let events = case.store.events(Filter::new().tube("case"), 100).unwrap();
        let id = case.put("long");
        let worker = Worker::new(&case.store);
        let (gate, stopper) = (Gate::default(), worker.stopper());
        let (send, begun) = shared_channel();
        let begin = move |_: &Job| send.lock().unwrap().send(()).unwrap();
        let worker = form.on_gated(worker, &case.tube, &gate, begin, Job::check);
        let worker = form.start(worker);
        begun.recv().unwrap();
        stopper.stop();
        gate.open();
        assert_eq!(worker.wait().unwrap().snoozed, 1);
        assert_eq!(form.start(next_worker(form, &case).limit(1)).wait().unwrap().done, 1);
        assert_eq!(events_of(&case, &events, id), snoozed_and_then_done());
    });
}

/// T060
/// Difference: a thread cannot be suspended. What it returns later is ignored.
#[test]
fn task_of_a_job_that_still_runs_after_a_stop_is_done_by_another_worker() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let events = case.store.events(Filter::new().tube("case"), 100).unwrap();
        let id = case.put("long");
        let (gate, (tell, ended)) = (Gate::default(), channel());
        let (wait, tell) = (gate.clone(), Mutex::new(tell));
        let hang = move |job: &Job| {
            wait.pass();
            tell.lock().unwrap().send(!job.is_current().unwrap()).unwrap();
            Outcome::bury(Failure::new("late", "it is no longer the holder"))
        };
        let worker = Worker::new(&case.store).on(&case.tube, hang).start().unwrap();
        wait_until(|| worker.running().len() == 1);
        assert_eq!(worker.stop(Duration::ZERO).unwrap().len(), 1);
        let next = next_worker(Form::Threads, &case).run_until_idle().unwrap();
        assert_eq!((next.done, case.state(id)), (1, None));
        gate.open();
        assert_eq!(ended.recv(), Ok(true));
        assert_eq!(worker.wait().unwrap().left, 1);
        drop(worker);
        // The thread that was left has ended, and with it the session of its worker.
        wait_until(|| case.store.owners().unwrap().is_empty());
        assert_eq!(events_of(&case, &events, id), snoozed_and_then_done());
    });
}

/// T063
/// Difference: a handler says that an error is not the task's, by `Outcome::Snooze`.
#[test]
fn task_that_a_worker_cannot_do_now_is_done_by_another_worker() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let (tally, _) = form.work(&case, &case.tube, 1, |_: &Job| Outcome::snooze(Duration::ZERO));
        assert_eq!((tally.snoozed, case.state(id)), (1, Some(TaskState::Ready)));
        assert_eq!(form.start(next_worker(form, &case).limit(1)).wait().unwrap().done, 1);
    });
}

/// T063
/// Difference: the attempt counts, so that a task that ends its workers is buried in the end.
#[test]
fn task_whose_handler_was_dropped_is_released_until_its_budget_is_spent() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(3));
        let id = case.put("x");
        for attempt in 1..=3 {
            let worker = Worker::new(&case.store).on_async(&case.tube, |_: AsyncJob| async {});
            let worker = worker.spawn_with(drop).limit(1);
            let tally = block_on(worker.run_async()).unwrap();
            assert_eq!(tally.released, 1);
            let info = case.tube.query().task(id).unwrap().info;
            assert_eq!(info.attempts, attempt);
            let state = if attempt == 3 { TaskState::Buried } else { TaskState::Ready };
            assert_eq!(info.state, state);
        }
        assert_eq!(case.tube.query().task(id).unwrap().info.failure.unwrap().group, "released");
    });
}

/// Q326
#[test]
fn worker_whose_takes_fail_reports_it_and_goes_on() {
    in_every_form(|form| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let options = TubeOptions::new().max_attempts(5).count_takes(Counting::Flushed);
        let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
        tube.put_many(["one", "two", "three"]).unwrap();
        let (reports, watch) = reports();
        disk.fail_flushes(true);
        let worker = form.on(Worker::new(&store), &tube, |_: &Job| ()).watch(watch);
        let worker = form.start(worker.concurrency(2));
        wait_until(|| reports.lock().unwrap().len() == 2);
        disk.fail_flushes(false);
        wait_until(|| {
            clock.advance(secs(60));
            tube.statistics().is_ok_and(|numbers| numbers.tasks.total == 0)
        });
        assert_eq!(worker.stop().unwrap().done, 3);
        let reports = reports.lock().unwrap();
        assert!(matches!(&reports[..2], [Report::Error(_), Report::Error(_)]), "{reports:?}");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// T060 T063
#[test]
fn stop_during_an_outage_of_the_storage_waits_for_no_job() {
    with_timeout(|| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let options = TubeOptions::new().max_attempts(1).count_takes(Counting::Flushed);
        let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
        tube.put_many(["runs", "waits"]).unwrap();
        let (gate, (reports, watch)) = (Gate::default(), reports());
        let wait = gate.clone();
        let worker = Worker::new(&store).on(&tube, move |_: &Job| wait.pass()).watch(watch);
        let worker = worker.start().unwrap();
        wait_until(|| worker.running().len() == 1);
        disk.fail_flushes(true);
        assert!(tube.put("outcome unknown").is_err());
        for timeout in [Duration::ZERO, Duration::from_millis(1)] {
            let refused = worker.stop(timeout);
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        }
        assert_eq!(worker.running().len(), 1);
        gate.open();
        assert_eq!(worker.wait().unwrap().not_stored, 1);
        assert!(matches!(&reports.lock().unwrap()[..], [Report::NotStored { id: 0, .. }]));
        drop(worker);
        disk.fail_flushes(false);
        clock.advance(secs(60));
        // The only attempt is not repeated.
        assert_eq!(tube.try_take().unwrap().unwrap().body(), b"waits");
        assert_eq!(tube.query().task(0).unwrap().info.failure.unwrap().group, "released");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
