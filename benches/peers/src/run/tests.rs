use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::{names, run};
use crate::args::{Args, parse};
use crate::peers;
use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape, Work};
use crate::report::Row;
use crate::threads::{Caller, Threaded, Verbs};

#[test]
fn rows_are_selected_by_parts_of_their_names() -> Result<()> {
    let args = args(&["--only", "redb/leader,disk", "--work", "1 caller put,64 callers"])?;
    let wanted = [
        "disk/overwrite, 1 caller: put",
        "redb/leader, 1 caller: put",
        "redb/leader, 64 callers: put, take+ack, cycle",
    ];
    assert_eq!(names(&peers::all(), &args), wanted);
    Ok(())
}

#[test]
fn every_round_measures_the_selected_work() -> Result<()> {
    let report = run(&peers::all(), &args(&["--only", "temporary", "--rounds", "2"])?);
    let rows = &report[0].rows;
    assert!(rows.iter().all(Row::is_valid), "{rows:?}");
    assert_eq!(rows[0].shape, Shape::Callers(1));
    for (row, work) in [(0, Work::Put), (0, Work::TakeAck), (0, Work::Cycle), (1, Work::Job)] {
        let rounds = rows[row].measure(work).map(|measure| &measure.tasks_per_second.rounds);
        assert_eq!(rounds.map(Vec::len), Some(2));
    }
    assert!(rows.last().is_some_and(|row| row.wake.is_some()));
    Ok(())
}

#[test]
fn row_fails_if_its_peer_loses_and_duplicates_tasks() -> Result<()> {
    let all: Vec<Box<dyn Peer>> = vec![Box::new(LossyPeer)];
    let report = run(&all, &args(&["--work", "1 caller put,1 caller take"])?);
    let row = &report[0].rows[0];
    assert!(row.faults > 0 && !row.is_valid() && row.measure(Work::Put).is_none());
    let faults = row.fault_examples.join(" ");
    assert!(faults.contains("lost") || faults.contains("twice"), "{faults}");
    Ok(())
}

#[test]
fn row_of_jobs_fails_if_its_peer_loses_and_duplicates_jobs() -> Result<()> {
    let all: Vec<Box<dyn Peer>> = vec![Box::new(LossyPeer)];
    let report = run(&all, &args(&["--work", "1 caller job"])?);
    let row = &report[0].rows[0];
    assert!(row.is_of_jobs() && row.faults > 0 && row.measure(Work::Job).is_none(), "{row:?}");
    let faults = row.fault_examples.join(" ");
    assert!(faults.contains("more than twice"), "{faults}");
    Ok(())
}

#[test]
fn jobs_are_rows_of_their_own() -> Result<()> {
    let args = args(&["--only", "tubewell/fifo,oban", "--work", "16 callers"])?;
    let wanted = [
        "tubewell/fifo, 16 callers: put, take+ack, cycle",
        "tubewell/fifo, 16 callers: job",
        "tubewell/fifo-counts-flushed, 16 callers: job",
        "oban-sql/full, 16 callers: job",
        "oban-sql/normal, 16 callers: job",
    ];
    assert_eq!(names(&peers::all(), &args), wanted);
    Ok(())
}

fn args(words: &[&str]) -> Result<Args> {
    let words = words.iter().copied();
    let quick = ["--quick", "--phase", "20ms"].into_iter().chain(words);
    let args = parse(lexopt::Parser::from_args(quick))?.ok_or("the help was asked for")?;
    Ok(Args { dir: std::env::temp_dir(), ..args })
}

/// Loses every tenth body and stores the previous one twice. Of each ten failed jobs, it stores one
/// twice and loses the next one.
struct LossyPeer;

#[derive(Clone, Default)]
struct LossyQueue(Arc<Mutex<(u64, VecDeque<Vec<u8>>)>>);

impl Peer for LossyPeer {
    fn about(&self) -> About {
        About {
            name: "lossy".into(),
            version: "0".into(),
            class: Class::Memory,
            loses: Losses::new("all", "all", "all"),
            callers: "threads".into(),
            waits: "does not".into(),
            note: String::new(),
        }
    }

    fn does_jobs(&self, _: Shape) -> bool {
        true
    }

    fn open(&self, _: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Threaded(LossyQueue::default())))
    }
}

impl Verbs for LossyQueue {
    type Caller = LossyQueue;

    fn caller(&self) -> Result<LossyQueue> {
        Ok(self.clone())
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

impl Caller for LossyQueue {
    type Task = Vec<u8>;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let (count, bodies) = &mut *self.0.lock();
        *count += 1;
        match (*count % 10, bodies.back().cloned()) {
            (0, Some(last)) => bodies.push_back(last),
            _ => bodies.push_back(body.to_vec()),
        }
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Vec<u8>>> {
        Ok(self.0.lock().1.pop_front())
    }

    fn wait(&mut self, _: Duration) -> Result<Option<Vec<u8>>> {
        self.take()
    }

    fn ack(&mut self, _: Vec<u8>) -> Result<()> {
        Ok(())
    }

    fn fail(&mut self, job: Vec<u8>) -> Result<()> {
        let (count, bodies) = &mut *self.0.lock();
        *count += 1;
        match *count % 20 {
            // A caller counts a put and a failure in turn.
            2 => bodies.extend([job.clone(), job]),
            4 => {}
            _ => bodies.push_back(job),
        }
        Ok(())
    }

    fn ack_with_result(&mut self, _: Vec<u8>) -> Result<()> {
        Ok(())
    }
}
