//! Cases of other job systems: jobs whose claims end, and claims that are held while jobs run.

use std::time::Duration;

use tubewell::worker::{Job, Report, Worker};
use tubewell::{Error, FIFOTTL, Outcome, Put, TaskState, TubeOptions};

use super::executor::{wait_until, with_timeout};
use super::gate::Gate;
use super::support::*;

/// Q327
#[test]
fn only_the_job_whose_claim_has_ended_is_lost() {
    in_every_form(|form| {
        let case = Case::new();
        let ids = [case.put("deleted"), case.put("done"), case.put("revoked")];
        let (gate, (reports, watch)) = (Gate::default(), reports());
        let (send, lost) = shared_channel();
        let begun = send.clone();
        let worker = form.on_gated(
            Worker::new(&case.store).concurrency(3).limit(3).watch(watch),
            &case.tube,
            &gate,
            move |job: &Job| {
                begun.lock().unwrap().send((job.id(), !job.is_current().unwrap())).unwrap();
            },
            move |job: &Job| {
                send.lock().unwrap().send((job.id(), !job.is_current().unwrap())).unwrap();
            },
        );
        let worker = form.start(worker);
        let next = || [(); 3].map(|()| lost.recv().unwrap());
        assert!(next().iter().all(|(_, is_lost)| !is_lost));
        case.tube.delete(ids[0]).unwrap();
        assert_eq!(case.tube.admin().revoke(ids[2]), Ok(1));
        gate.open();
        let mut ends = next();
        ends.sort_unstable();
        assert_eq!(ends, [(ids[0], true), (ids[1], false), (ids[2], true)]);
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.lost), (1, 2));
        let reports = reports.lock().unwrap();
        let mut lost: Vec<u64> = reports.iter().filter_map(lost_id).collect();
        lost.sort_unstable();
        assert_eq!(lost, [ids[0], ids[2]]);
    });
}

fn lost_id(report: &Report) -> Option<u64> {
    match report {
        Report::Lost { id, .. } => Some(*id),
        _ => None,
    }
}

/// Q327
#[test]
fn worker_shows_the_jobs_that_run_and_none_while_it_is_idle() {
    with_timeout(|| {
        let case = Case::new();
        let gate = Gate::default();
        let wait = gate.clone();
        let worker = Worker::new(&case.store).on(&case.tube, move |_: &Job| wait.pass());
        let worker = worker.concurrency(2).start().unwrap();
        assert_eq!(worker.running(), []);
        let id = case.put("x");
        wait_until(|| worker.running().len() == 1);
        case.clock.advance(secs(7));
        let running = worker.running();
        assert_eq!((&*running[0].tube, running[0].id, running[0].ran), ("case", id, secs(7)));
        // The claims of other sessions are none of its jobs.
        case.put("y");
        wait_until(|| worker.running().len() == 2);
        gate.open();
        wait_until(|| worker.running().is_empty());
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        assert_eq!(worker.tally().done, 2);
    });
}

/// Q332
#[test]
fn longest_time_of_zero_is_refused() {
    let case = Case::new();
    let worker = || Worker::new(&case.store).on(&case.tube, |_: &Job| ());
    let refused = worker().max_runtime(Duration::ZERO).start();
    assert!(matches!(&refused, Err(Error::Invalid { what }) if what.contains("max_runtime")));
    drop(worker().max_runtime(Duration::MAX).start().unwrap());
}

/// Q332
#[test]
fn shorter_limit_of_the_worker_and_its_tube_holds() {
    in_every_form(|form| {
        for (tube, worker) in [(Some(10), Some(60)), (Some(60), Some(10)), (Some(10), None)] {
            let options = TubeOptions::new().max_attempts(1);
            let options = match tube {
                Some(most) => options.max_runtime(secs(most)),
                None => options,
            };
            let case = Case::with(FIFOTTL, options.ttr(secs(30)));
            let id = case.put("x");
            let clock = case.clock.clone();
            let hang = move |job: &Job| {
                clock.advance(secs(9));
                assert!(job.is_current().unwrap());
                clock.advance(secs(1));
                assert!(!job.is_current().unwrap());
            };
            let mut runs = form.on(Worker::new(&case.store), &case.tube, hang).limit(1);
            if let Some(most) = worker {
                runs = runs.max_runtime(secs(most));
            }
            let tally = form.start(runs).wait().unwrap();
            assert_eq!(lost(tally), 1, "{tube:?} {worker:?}");
            let failure = case.tube.query().task(id).unwrap().info.failure.unwrap();
            assert_eq!(failure.group, "expired");
        }
    });
}

/// T069
/// Difference: nothing is renewed from time to time. A worker holds a task once, for as long as the
/// job may run.
#[test]
fn worker_holds_its_own_tasks_and_no_others_beyond_the_ttr() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().ttr(secs(60)));
        let others = case.put("of another session");
        let session = case.store.session("beside").unwrap();
        let claim = session.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.id(), others);
        let own = case.put("of the worker");
        let (clock, tube) = (case.clock.clone(), case.tube.clone());
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            assert_eq!(job.id(), own);
            let touches = tube.statistics().unwrap().calls.touch;
            clock.advance(secs(59));
            assert_eq!(tube.query().task(others).unwrap().info.state, TaskState::Taken);
            clock.advance(secs(1));
            assert_eq!(tube.query().task(others).unwrap().info.state, TaskState::Ready);
            clock.advance(secs(86_400 * 365));
            assert!(job.is_current().unwrap());
            assert_eq!(tube.statistics().unwrap().calls.touch, touches);
        });
        assert_eq!((tally.done, claim.is_current().unwrap()), (1, false));
        assert_eq!(case.state(others), Some(TaskState::Ready));
    });
}

/// I01
#[test]
fn calls_of_a_job_whose_task_has_another_holder_are_refused_and_change_nothing() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(5));
        let other = case.another("other");
        let id = case.put("x");
        let (store, tube) = (case.store.clone(), case.tube.clone());
        let (send, holder) = shared_channel();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            assert_eq!(tube.admin().revoke(id), Ok(1));
            let session = store.session("next").unwrap();
            let claim = session.tube(&tube).unwrap().claim(id).unwrap();
            let stored = || {
                (tube.query().task(id).unwrap(), tube.query().history(id), tube.query().steps(id))
            };
            let before = (stored(), other.statistics().unwrap());
            let stale = Err(Error::NotTaken { id });
            assert_eq!(job.progress(1, 2), stale);
            assert_eq!(job.progress_text("half"), stale);
            assert_eq!(job.log("entry").map(drop), stale);
            assert_eq!(job.checkpoint("y").map(drop), stale);
            assert_eq!(job.park(secs(60)).map(drop), stale);
            assert_eq!(job.steps().map(drop), stale);
            let run = || -> tubewell::Result<u8> { panic!("it must not run") };
            assert_eq!(job.step("step", run).map(drop), stale);
            assert_eq!(job.spawn("spawn", &other, "child").map(drop), stale);
            assert_eq!(job.sleep("sleep", secs(60)), stale);
            assert_eq!(job.join("join", &other, &[id]), stale);
            assert_eq!((stored(), other.statistics().unwrap()), before);
            send.lock().unwrap().send((session, claim)).unwrap();
            Outcome::advance(&other, "late")
        });
        assert_eq!((tally.lost, tally.jobs()), (1, 1));
        let (_session, claim) = holder.recv().unwrap();
        assert!(claim.is_current().unwrap());
        assert_eq!((claim.body(), claim.takes()), (&b"x"[..], 2));
        claim.ack().unwrap();
    });
}

/// I11
#[test]
fn job_that_ends_within_the_reclaim_delay_keeps_its_task() {
    in_every_form(|form| {
        for (late, is_done) in [(14, true), (15, false)] {
            let options = TubeOptions::new().max_runtime(secs(10)).reclaim_delay(secs(5));
            let case = Case::with(FIFOTTL, options.max_attempts(1));
            let id = case.put("x");
            let clock = case.clock.clone();
            let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
                clock.advance(secs(late));
                assert_eq!(!job.is_current().unwrap(), !is_done);
                let refused = if is_done { Ok(()) } else { Err(Error::NotTaken { id }) };
                assert_eq!(job.progress(1, 2), refused);
            });
            assert_eq!((tally.done, lost(tally)), if is_done { (1, 0) } else { (0, 1) });
            assert_eq!(case.state(id), if is_done { None } else { Some(TaskState::Buried) });
        }
    });
}

/// I05
#[test]
fn wall_clock_that_jumps_back_changes_nothing_for_a_worker() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("now");
        case.tube.put(Put::new("later").delay(secs(100))).unwrap();
        let clock = case.clock.clone();
        let jump = move |job: &Job| {
            if job.body() == b"later" {
                return Outcome::done();
            }
            clock.set_wall(Duration::ZERO);
            clock.advance(secs(9));
            assert!(job.is_current().unwrap());
            clock.advance(secs(1));
            assert!(!job.is_current().unwrap());
            Outcome::done()
        };
        let worker = form.on(Worker::new(&case.store), &case.tube, jump);
        let worker = form.start(worker.max_runtime(secs(10)).limit(2));
        // The task of the job is ready at its old place, and is taken again.
        assert_eq!(lost(worker.wait().unwrap()), 2);
        let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
        let worker = form.start(worker.limit(2));
        wait_until(|| case.tube.statistics().unwrap().tasks.total == 1);
        case.clock.advance(secs(79));
        assert_eq!(case.tube.statistics().unwrap().tasks.delayed, 1);
        case.clock.advance(secs(1));
        assert_eq!(worker.wait().unwrap().done, 2);
    });
}
