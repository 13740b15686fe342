//! Every installed peer delivers a few tasks, with one caller and with several.

use std::path::Path;
use std::time::Duration;

use super::all;
use crate::ledger::Ledger;
use crate::queue::{Peer, Plan, Queue, Result, Setting, Shape, WakePlan, Work};

const TASKS: u64 = 50;

#[test]
fn every_peer_delivers_what_was_put() -> Result<()> {
    for peer in all().iter().filter(|peer| peer.missing().is_none()) {
        let shapes =
            [Shape::Callers(1), Shape::Callers(16), Shape::Tickets(64), Shape::Batches(1000)];
        for shape in shapes.into_iter().filter(|&shape| peer.does(shape)) {
            let ledger = Ledger::new(128);
            with_queue(&**peer, shape, false, |queue| some_tasks(queue, shape, &ledger))
                .map_err(|error| format!("{}, {shape}: {error}", peer.about().name))?;
            assert_eq!(ledger.faults(), (0, Vec::new()), "{}, {shape}", peer.about().name);
        }
    }
    Ok(())
}

#[test]
fn every_peer_with_jobs_retries_each_job_once() -> Result<()> {
    for peer in all().iter().filter(|peer| peer.missing().is_none()) {
        let shapes = [Shape::Callers(1), Shape::Callers(16)];
        for shape in shapes.into_iter().filter(|&shape| peer.does_jobs(shape)) {
            let ledger = Ledger::for_jobs(128);
            with_queue(&**peer, shape, true, |queue| some_jobs(queue, shape, &ledger))
                .map_err(|error| format!("{}, {shape}: {error}", peer.about().name))?;
            assert_eq!(ledger.faults(), (0, Vec::new()), "{}, {shape}", peer.about().name);
        }
    }
    Ok(())
}

#[test]
fn every_peer_wakes_a_waiting_consumer() -> Result<()> {
    let plan = WakePlan { tasks: 3, pause: Duration::from_millis(2) };
    for peer in all().iter().filter(|peer| peer.missing().is_none() && peer.does(Shape::WakeUp)) {
        let ledger = Ledger::new(128);
        let shape = Shape::WakeUp;
        let nanos = with_queue(&**peer, shape, false, |queue| queue.wake_up(&plan, &ledger))
            .map_err(|error| format!("{}: {error}", peer.about().name))?;
        ledger.count_lost();
        assert_eq!(nanos.len(), plan.tasks);
        assert_eq!(ledger.faults(), (0, Vec::new()), "{}", peer.about().name);
    }
    Ok(())
}

/// Runs short phases until enough tasks were put, then until enough cycles were done, and drains the
/// queue after both: the queue of cycles is empty at the start.
fn some_tasks(queue: &dyn Queue, shape: Shape, ledger: &Ledger) -> Result<()> {
    for work in [Work::Put, Work::Cycle] {
        let mut done = 0;
        while done < TASKS {
            done +=
                queue.run(&Plan { work, shape, limit: Duration::from_millis(2) }, ledger)?.tasks;
        }
        queue.drain(shape, Duration::from_secs(20), ledger)?;
    }
    ledger.count_lost();
    Ok(())
}

/// Runs short phases of jobs. No job is left after a phase.
fn some_jobs(queue: &dyn Queue, shape: Shape, ledger: &Ledger) -> Result<()> {
    let (plan, mut done) = (Plan { work: Work::Job, shape, limit: Duration::from_millis(2) }, 0);
    while done < TASKS {
        done += queue.run(&plan, ledger)?.tasks;
        assert_eq!((ledger.put(), ledger.taken()), (done, done));
    }
    queue.drain(shape, Duration::from_secs(20), ledger)?;
    ledger.count_lost();
    Ok(())
}

fn with_queue<T>(
    peer: &dyn Peer,
    shape: Shape,
    jobs: bool,
    work: impl FnOnce(&dyn Queue) -> Result<T>,
) -> Result<T> {
    // Memory is faster than a disk, and the disk is not under test.
    let memory = Path::new("/dev/shm");
    let dir = if memory.is_dir() { tempfile::tempdir_in(memory)? } else { tempfile::tempdir()? };
    let queue = peer.open(dir.path(), &Setting { shape, body: 128, jobs })?;
    let done = work(&*queue);
    queue.close()?;
    done
}
