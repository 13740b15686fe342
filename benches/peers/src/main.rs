//! tubewell beside its peers: the same work, on the same disk, in one run.

mod ledger;
mod peers;
mod process;
mod queue;
mod remote;
mod threads;
mod wire;

use std::time::Duration;

use ledger::Ledger;
use queue::{Plan, Result, Setting, Shape, WakePlan, Work};

fn main() -> Result<()> {
    let shapes = [
        Shape::Callers(1),
        Shape::Callers(16),
        Shape::Callers(64),
        Shape::Tickets(64),
        Shape::Batches(1000),
        Shape::WakeUp,
    ];
    for peer in peers::all() {
        let about = peer.about();
        for shape in shapes.into_iter().filter(|&shape| peer.does(shape)) {
            let dir = tempfile::tempdir_in(".")?;
            let queue = peer.open(dir.path(), &Setting { shape, body: 128 })?;
            let ledger = Ledger::new(128);
            if shape == Shape::WakeUp {
                let plan = WakePlan { tasks: 100, pause: Duration::from_millis(5) };
                let mut times = queue.wake_up(&plan, &ledger)?;
                times.sort_unstable();
                println!("{} {shape}: p50 {} p99 {}", about.name, times[50], times[98]);
            } else {
                for work in [Work::Put, Work::TakeAck, Work::Cycle] {
                    let limit = Duration::from_millis(300);
                    let outcome = queue.run(&Plan { work, shape, limit }, &ledger)?;
                    let rate = outcome.tasks as f64 / outcome.elapsed.as_secs_f64();
                    println!("{} {shape} {work:?}: {rate:.0}/s", about.name);
                }
            }
            println!("  {:?} {:?}", ledger.faults(), queue.counters());
            queue.close()?;
        }
    }
    Ok(())
}
