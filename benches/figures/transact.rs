//! Transactions of the application, beside plain redb that does the same: a task leaves the queue,
//! and a row is written for it, with one commit.

use std::time::{Duration, Instant};

use tubewell::redb::{Database, TableDefinition};
use tubewell::{FIFO, Store, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body, checked};

const RUNS: usize = 7;
const PHASE: Duration = Duration::from_millis(500);
/// More than a run can do.
const TASKS: u64 = 20_000;
const TARGET: f64 = 0.8;

/// The queue of plain redb, by the order of puts.
const QUEUE: TableDefinition<u64, &[u8]> = TableDefinition::new("queue");
const EFFECTS: TableDefinition<u64, &[u8]> = TableDefinition::new("effects");

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (what, puts) in [("row and ack", false), ("row, ack and put", true)] {
        let (mut plain, mut with) = (Vec::new(), Vec::new());
        for _ in 0..RUNS {
            plain.push(plain_redb(setting, puts)?);
            with.push(transact(setting, puts)?);
        }
        report.spread(format!("{what}: plain redb"), &plain, "tasks/s");
        report.spread(format!("{what}: transact"), &with, "tasks/s");
        let what = format!("transact, {what}: relative to plain redb");
        report.ratio(&what, TARGET, (&with, &plain));
    }
    Ok(())
}

fn plain_redb(setting: &Setting, puts: bool) -> Outcome<f64> {
    let database = Database::create(setting.fresh("redb"))?;
    let transaction = database.begin_write()?;
    let mut queue = transaction.open_table(QUEUE)?;
    for id in 0..TASKS {
        queue.insert(id, &body(id, BODY)[..])?;
    }
    drop(queue);
    transaction.commit()?;
    rate(|round| {
        let transaction = database.begin_write()?;
        {
            let mut queue = transaction.open_table(QUEUE)?;
            let (id, task) = queue.pop_first()?.ok_or("the queue is empty")?;
            checked(task.value(), BODY);
            transaction.open_table(EFFECTS)?.insert(id.value(), task.value())?;
            drop((id, task));
            if puts {
                queue.insert(TASKS + round, &body(round, BODY)[..])?;
            }
        }
        Ok(transaction.commit()?)
    })
}

fn transact(setting: &Setting, puts: bool) -> Outcome<f64> {
    let store = Store::open(setting.fresh("transact"))?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    for first in (0..TASKS).step_by(1000) {
        tube.put_many((first..first + 1000).map(|id| body(id, BODY)))?;
    }
    // The database takes the puts, as that of plain redb has.
    store.transact(|tx| tx.open_table(EFFECTS).map(drop))?;
    let rate = rate(|round| {
        let claim = tube.try_take()?.ok_or("the tube is empty")?;
        checked(claim.body(), BODY);
        store.transact(|tx| -> Outcome {
            tx.open_table(EFFECTS)?.insert(claim.id(), claim.body())?;
            if puts {
                tx.put(&tube, body(round, BODY))?;
            }
            Ok(tx.end(&claim, tubewell::Outcome::done())?)
        })
    })?;
    store.close()?;
    Ok(rate)
}

/// How often per second this can be done.
fn rate(mut work: impl FnMut(u64) -> Outcome) -> Outcome<f64> {
    let (start, mut round) = (Instant::now(), 0);
    while start.elapsed() < PHASE {
        work(round)?;
        round += 1;
    }
    Ok(round as f64 / start.elapsed().as_secs_f64())
}
