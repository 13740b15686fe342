//! Invariants that all parts of the store hold together, while workers use it.

use std::collections::BTreeSet;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;
use std::time::Duration;

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Error, FIFOTTL, Failure, Filter, Outcome, Put, Result, TaskState, Tube, TubeOptions,
};

use super::executor::{eventually_ready, poll_pending, wait_until, with_timeout};
use super::gate::Gate;
use super::rng::Rng;
use super::support::*;

const ROOTS: u64 = 150;

/// Ends a job at random, by the id of its task and the number of its take. Some jobs put a child.
fn end_at_random(job: &Job, tube: &Tube) -> Result<Outcome> {
    let mut rng = Rng::new(job.id() * 1000 + u64::from(job.takes()));
    if job.body() == b"root" && job.takes() == 1 && rng.one_in(3) {
        tube.put("child")?;
    }
    Ok(match rng.below(12) {
        0 => Outcome::release(),
        1 => Outcome::snooze(Duration::ZERO),
        2 | 3 => Outcome::fail(Failure::new("group", "message")),
        4 => Outcome::bury(Failure::new("group", "message")),
        5 => resume_unwind(Box::new("panic")),
        6 => {
            tube.delete(job.id())?;
            Outcome::done()
        }
        7 => return Err(Error::Overloaded),
        _ => Outcome::done(),
    })
}

/// The ids of the tasks whose jobs were reported so.
fn ids_of(reports: &[Report], wanted: impl Fn(&Report) -> Option<u64>) -> BTreeSet<u64> {
    let ids: Vec<u64> = reports.iter().filter_map(wanted).collect();
    let set: BTreeSet<u64> = ids.iter().copied().collect();
    assert_eq!(set.len(), ids.len(), "a task has ended twice: {ids:?}");
    set
}

/// I03 I04
#[test]
fn every_task_is_in_one_state_and_ends_once_whatever_its_jobs_do() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(4));
        case.tube.put_many((0..ROOTS).map(|_| "root")).unwrap();
        let (tube, (reports, watch)) = (case.tube.clone(), reports());
        let worker = Worker::new(&case.store).concurrency(4).watch(watch);
        let random = move |job: &Job| end_at_random(job, &tube);
        let worker = form.start(form.on(worker, &case.tube, random));
        wait_until(|| {
            let tasks = case.tube.statistics().unwrap().tasks;
            let sum = tasks.ready + tasks.taken + tasks.delayed + tasks.blocked + tasks.buried;
            assert_eq!(sum, tasks.total);
            tasks.total == tasks.buried
        });
        let tally = worker.stop().unwrap();
        let reports = reports.lock().unwrap();
        assert_eq!(reports.len() as u64, tally.jobs());
        let done = ids_of(&reports, |report| match report {
            Report::Ended { id, end: Ended::Done, .. } => Some(*id),
            _ => None,
        });
        let deleted = ids_of(&reports, |report| match report {
            Report::Lost { id, .. } => Some(*id),
            _ => None,
        });
        let page = case.tube.query().list(TaskState::Buried, None, 1000).unwrap();
        let buried: BTreeSet<u64> = page.items.iter().map(|info| info.id).collect();
        let all: BTreeSet<u64> = (0..case.store.admin().next_id().unwrap()).collect();
        let ends = [&done, &deleted, &buried];
        assert!(ends.iter().all(|ids| !ids.is_empty()) && all.len() as u64 > ROOTS);
        assert_eq!(ends.into_iter().flatten().copied().collect::<BTreeSet<u64>>(), all);
        assert_eq!(ends.map(BTreeSet::len).iter().sum::<usize>(), all.len());
        let calls = case.tube.statistics().unwrap().calls;
        assert_eq!((calls.ack, calls.delete), (done.len() as u64, deleted.len() as u64));
    });
}

/// I04
#[test]
fn retried_tasks_keep_their_places_in_the_order_of_jobs() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(4));
        let priority = |n: u64| u32::try_from(n % 3).unwrap();
        case.tube.put_many((0..60).map(|n| Put::new("x").priority(priority(n)))).unwrap();
        let (send, jobs) = shared_channel();
        let tube = case.tube.clone();
        let worker = form.on(Worker::new(&case.store), &case.tube, move |job: &Job| {
            send.lock().unwrap().send((job.priority(), job.id())).unwrap();
            end_at_random(job, &tube)
        });
        let worker = form.start(worker);
        wait_until(|| {
            let tasks = case.tube.statistics().unwrap().tasks;
            tasks.total == tasks.buried
        });
        worker.stop().unwrap();
        let jobs: Vec<(u32, u64)> = jobs.try_iter().collect();
        assert!(jobs.len() > 60 && jobs.is_sorted(), "{jobs:?}");
    });
}

/// I06
#[test]
fn panic_of_a_handler_uses_an_attempt_and_wakes_the_next_taker() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(2));
        let id = case.put("x");
        let gate = Gate::default();
        let panic = |_: &Job| -> () { resume_unwind(Box::new("no more")) };
        let start = || {
            let worker = Worker::new(&case.store).limit(1);
            form.start(form.on_gated(worker, &case.tube, &gate, |_| {}, panic))
        };
        let worker = start();
        wait_until(|| case.state(id) == Some(TaskState::Taken));
        let mut taker = case.tube.to_async().take_timeout(Duration::MAX);
        poll_pending(&mut taker, Waker::noop());
        gate.open();
        assert_eq!(worker.wait().unwrap().panicked, 1);
        let claim = eventually_ready(&mut taker).unwrap().unwrap();
        assert_eq!((claim.id(), claim.attempt(), claim.attempts_left()), (id, 2, Some(0)));
        claim.end(Outcome::snooze(Duration::ZERO)).wait().unwrap();
        // The last attempt buries the task, and wakes no taker.
        assert_eq!(start().wait().unwrap().panicked, 1);
        assert_eq!(case.state(id), Some(TaskState::Buried));
        let mut taker = case.tube.to_async().take_timeout(Duration::MAX);
        poll_pending(&mut taker, Waker::noop());
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        assert!(eventually_ready(&mut taker).unwrap().is_some());
    });
}

/// I06
#[test]
fn dropped_worker_uses_no_attempt_and_wakes_the_next_taker() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(2));
        let ids = [case.put("x"), case.put("y")];
        let gate = Gate::default();
        let worker = Worker::new(&case.store).concurrency(2);
        let begun = Arc::new(AtomicUsize::new(0));
        let count = begun.clone();
        let begin = move |_: &Job| _ = count.fetch_add(1, Ordering::SeqCst);
        let worker = Form::Future.on_gated(worker, &case.tube, &gate, begin, |_| ());
        let mut worker = worker.run_async();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            begun.load(Ordering::SeqCst) == 2
        });
        let mut takers = [(); 3].map(|()| case.tube.to_async().take_timeout(Duration::MAX));
        for taker in &mut takers {
            poll_pending(taker, Waker::noop());
        }
        drop(worker);
        for (taker, id) in takers.iter_mut().zip(ids) {
            let claim = eventually_ready(taker).unwrap().unwrap();
            assert_eq!((claim.id(), claim.attempt()), (id, 1));
            claim.ack().wait().unwrap();
        }
        poll_pending(&mut takers[2], Waker::noop());
    });
}

/// I08
#[test]
fn last_parent_wakes_as_many_jobs_as_it_makes_tasks_ready() {
    in_every_form(|form| {
        let case = Case::new();
        let children = case.another("children");
        let [first, second] = [case.put("first"), case.put("second")];
        let after = |ids: &[u64]| {
            let put = Put::new("x").after(&case.tube, ids.iter().copied());
            children.put(put).unwrap().id
        };
        let early = [after(&[first]), after(&[first]), after(&[first])];
        let late = after(&[first, second]);
        let gate = Gate::default();
        let (send, begun) = shared_channel();
        let begin = move |job: &Job| send.lock().unwrap().send(job.id()).unwrap();
        let worker = Worker::new(&case.store).concurrency(6);
        let worker = form.start(form.on_gated(worker, &children, &gate, begin, |_| ()));
        let waiting = || {
            let tubes = case.store.tubes().unwrap();
            tubes.iter().find(|info| info.name == "children").unwrap().waiting
        };
        wait_until(|| waiting() == 6);
        let done = |id| {
            form.work(&case, &case.tube, 1, move |job: &Job| assert_eq!(job.id(), id));
        };
        done(first);
        let mut woken = [(); 3].map(|()| begun.recv().unwrap());
        woken.sort_unstable();
        assert_eq!((woken, waiting()), (early, 3));
        assert_eq!(children.query().task(late).unwrap().info.state, TaskState::Blocked);
        done(second);
        assert_eq!((begun.recv().unwrap(), waiting()), (late, 2));
        gate.open();
        assert_eq!(worker.stop().unwrap().done, 4);
        assert!(begun.try_recv().is_err());
    });
}

/// I09
#[test]
fn subscriber_that_reads_nothing_delays_no_worker() {
    in_every_form(|form| {
        let case = Case::new();
        let slow = case.store.events(Filter::new(), 1).unwrap();
        case.tube.put_many((0..300).map(|n| n.to_string())).unwrap();
        let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
        let tally = form.start(worker.concurrency(3).limit(300)).wait().unwrap();
        assert_eq!(tally.done, 300);
        // A put, a take and an ack of each task, but for the one that was read.
        wait_until(|| slow.dropped() == 899);
        assert!(slow.try_recv().is_some());
    });
}

/// I09
#[test]
fn watcher_that_blocks_delays_neither_other_jobs_nor_other_callers() {
    with_timeout(|| {
        let case = Case::new();
        let gate = Gate::default();
        let wait = gate.clone();
        let first = case.put("first");
        let watch = move |report: &Report| {
            if matches!(report, Report::Ended { id, .. } if *id == first) {
                wait.pass();
            }
        };
        let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ()).concurrency(2);
        let worker = worker.watch(watch).start().unwrap();
        wait_until(|| case.state(first).is_none());
        case.tube.put_many((0..100).map(|n| n.to_string())).unwrap();
        wait_until(|| worker.tally().done == 101);
        assert_eq!(worker.running(), []);
        let other = case.another("other");
        other.put("x").unwrap();
        other.take().unwrap().ack().unwrap();
        gate.open();
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
    });
}

/// I09
#[test]
fn watcher_that_blocks_the_future_of_a_worker_delays_no_other_caller() {
    for form in [Form::Future, Form::Spawned] {
        with_timeout(move || {
            let case = Case::new();
            let other = case.another("other");
            let gate = Gate::default();
            let wait = gate.clone();
            let ids = [case.put("x"), case.put("y")];
            let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
            let worker = form.start(worker.watch(move |_: &Report| wait.pass()));
            wait_until(|| case.state(ids[0]).is_none());
            other.put("x").unwrap();
            other.take().unwrap().ack().unwrap();
            assert_eq!(case.state(ids[1]), Some(TaskState::Ready));
            gate.open();
            wait_until(|| case.state(ids[1]).is_none());
            assert_eq!(worker.stop().unwrap().done, 2);
        });
    }
}

/// I09
#[test]
fn stop_does_not_wait_for_a_watcher_beyond_its_time() {
    with_timeout(|| {
        let case = Case::new();
        let gate = Gate::default();
        let wait = gate.clone();
        let id = case.put("x");
        let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ()).concurrency(2);
        let worker = worker.watch(move |_: &Report| wait.pass()).start().unwrap();
        wait_until(|| case.state(id).is_none());
        assert_eq!(worker.stop(Duration::ZERO).unwrap(), []);
        assert_eq!(worker.stop(Duration::from_millis(1)).unwrap(), []);
        gate.open();
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        assert_eq!(worker.wait().unwrap().done, 1);
    });
}

/// I10
#[test]
fn waiting_worker_gets_the_tasks_of_a_paused_tube_when_the_pause_ends() {
    in_every_form(|form| {
        let case = Case::new();
        let (send, begun) = shared_channel();
        let begin = move |job: &Job| send.lock().unwrap().send(job.id()).unwrap();
        let worker = form.on(Worker::new(&case.store), &case.tube, begin).concurrency(2);
        let worker = form.start(worker);
        let waiting = || case.store.tubes().unwrap()[0].waiting;
        wait_until(|| waiting() == 2);
        case.tube.admin().pause().unwrap();
        let id = case.put("x");
        assert_eq!((waiting(), case.state(id)), (2, Some(TaskState::Ready)));
        assert!(begun.try_recv().is_err());
        case.tube.admin().unpause().unwrap();
        assert_eq!(begun.recv().unwrap(), id);
        wait_until(|| waiting() == 2);
        case.tube.admin().pause_for(secs(60)).unwrap();
        let id = case.put("y");
        case.clock.advance(secs(59));
        assert_eq!((waiting(), case.state(id)), (2, Some(TaskState::Ready)));
        case.clock.advance(secs(1));
        assert_eq!(begun.recv().unwrap(), id);
        assert_eq!(worker.stop().unwrap().done, 2);
    });
}

/// I12
#[test]
fn job_cannot_wait_for_a_task_that_waits_for_it() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let child = case.tube.put(Put::new("child").after(&case.tube, [id])).unwrap().id;
        let grandchild = Put::new("grandchild").after(&case.tube, [child]);
        let grandchild = case.tube.put(grandchild).unwrap().id;
        let tube = case.tube.clone();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            let graph = || {
                [id, child, grandchild]
                    .map(|id| (tube.query().parents(id), tube.query().children(id)))
            };
            let before = graph();
            for own in [id, child, grandchild] {
                let refused = job.join("all", &tube, &[own]);
                assert!(matches!(refused, Err(Error::Cycle { .. })), "{refused:?}");
            }
            assert_eq!((graph(), job.steps().unwrap().len()), (before, 0));
            assert!(job.is_current().unwrap());
        });
        assert_eq!((tally.done, case.state(child)), (1, Some(TaskState::Ready)));
        assert_eq!(case.state(grandchild), Some(TaskState::Blocked));
    });
}
