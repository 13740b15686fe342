//! Delays in tubes whose driver has none: the worker holds the task for the time.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{FIFO, Failure, Outcome, TaskState, TubeOptions};

use super::support::*;
use crate::stores::ManualClock;

const DAY: Duration = secs(86_400);

/// Moves a clock on until it is dropped.
struct Ticking(Arc<AtomicBool>, Option<JoinHandle<()>>);

impl Ticking {
    fn start(clock: &ManualClock) -> Ticking {
        let (clock, ends) = (clock.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = ends.clone();
        let tick = move || {
            while !is_over.load(Ordering::SeqCst) {
                clock.advance(secs(1));
                thread::yield_now();
            }
        };
        Ticking(ends, Some(thread::spawn(tick)))
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
        self.1.take().unwrap().join().unwrap();
    }
}

/// Runs a worker whose handler returns these outcomes in turn, and returns how long after each of them
/// the next attempt began, at least.
fn gaps(form: Form, case: &Case, outcome: fn(u32) -> Outcome, jobs: u64) -> Vec<Duration> {
    let (begins, clock) = (Arc::<Mutex<Vec<Duration>>>::default(), case.clock.clone());
    let begun = begins.clone();
    let ticking = Ticking::start(&case.clock);
    form.work(case, &case.tube, jobs, move |_: &Job| {
        let mut begun = begun.lock().unwrap();
        begun.push(clock.now());
        outcome(u32::try_from(begun.len()).unwrap())
    });
    drop(ticking);
    let begins = begins.lock().unwrap();
    begins.windows(2).map(|pair| pair[1].checked_sub(pair[0]).unwrap()).collect()
}

#[test]
fn snoozed_task_is_held_for_the_delay_and_keeps_its_attempts() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(2));
        let id = case.put("x");
        let outcome = |attempt| match attempt {
            5 => Outcome::done(),
            _ => Outcome::snooze(secs(30)),
        };
        let gaps = gaps(form, &case, outcome, 5);
        assert!(gaps.iter().all(|gap| *gap >= secs(30)), "{gaps:?}");
        assert_eq!((gaps.len(), case.state(id)), (4, None));
    });
}

#[test]
fn failed_and_released_tasks_are_held_for_the_delay_but_for_the_last_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(3));
        let id = case.put("x");
        let outcome = |attempt| match attempt {
            1 => Outcome::release_in(secs(20)),
            2 => Outcome::fail_in(secs(40), Failure::new("busy", "come back later")),
            _ => Outcome::fail_in(1000 * DAY, Failure::new("busy", "no attempt is left")),
        };
        let gaps = gaps(form, &case, outcome, 3);
        assert!(gaps[0] >= secs(20) && gaps[1] >= secs(40), "{gaps:?}");
        let info = case.tube.query().task(id).unwrap().info;
        assert_eq!((info.state, info.group.as_deref()), (TaskState::Buried, Some("busy")));
        assert!(case.clock.now() < 1000 * DAY);
    });
}

#[test]
fn job_sleeps_in_a_tube_without_delays() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let ticking = Ticking::start(&case.clock);
        let (tally, _) =
            form.work(&case, &case.tube, 2, |job: &Job| job.sleep("an hour", secs(3600)));
        drop(ticking);
        assert_eq!((tally.suspended, tally.done, case.state(id)), (1, 1, None));
        assert!(case.clock.now() >= secs(3600));
    });
}

#[test]
fn stop_ends_the_time_for_which_a_task_is_held() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let (sender, called) = channel();
        let snooze = move |_: &Job| {
            sender.send(()).unwrap();
            Outcome::snooze(DAY)
        };
        let running = form.start(form.on(Worker::new(&case.store), &case.tube, snooze));
        called.recv().unwrap();
        let tally = running.stop().unwrap();
        assert_eq!((tally.snoozed, tally.jobs()), (1, 1));
        let info = case.tube.query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
    });
}

#[test]
fn dropped_worker_gives_back_a_snoozed_task_that_it_holds() {
    let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
    let id = case.put("x");
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let worker = Worker::new(&case.store).on_async(&case.tube, move |_: AsyncJob| {
        counted.fetch_add(1, Ordering::SeqCst);
        async { Outcome::snooze(DAY) }
    });
    {
        let mut worker = pin!(worker.run_async());
        let mut polls = 0;
        while polls < 20 || calls.load(Ordering::SeqCst) == 0 {
            assert!(worker.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
            polls += 1;
            std::thread::yield_now();
        }
        assert_eq!((calls.load(Ordering::SeqCst), case.state(id)), (1, Some(TaskState::Taken)));
    }
    let info = case.tube.query().task(id).unwrap().info;
    assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
}
