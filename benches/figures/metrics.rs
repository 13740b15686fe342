//! The cost of metrics: cycles in a tube with them beside cycles in a tube without them.
//!
//! A single caller makes short blocks of cycles in both tubes in turn, so that a disturbance of the
//! machine affects both.

use std::time::Instant;

use tubewell::{Claim, Durability, FIFO, Store, Tube, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body, phase};

const BLOCKS: usize = 300;
/// Cycles of one block.
const BLOCK: u64 = 20;
const RUNS: usize = 15;
const CALLERS: usize = 64;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (durability, name, share) in [
        (Durability::Flush, "durable", 0.97),
        (Durability::write(), "written", 0.8),
        (Durability::relaxed(), "relaxed", 0.8),
    ] {
        let stores = two_stores(setting, durability)?;
        let mut rates = [Vec::new(), Vec::new()];
        for block in 0..BLOCKS {
            for at in in_turn(block) {
                let start = Instant::now();
                (0..BLOCK).try_for_each(|n| cycle(&stores[at].1, n))?;
                rates[at].push(BLOCK as f64 / start.elapsed().as_secs_f64());
            }
        }
        compare(report, &format!("{name}, 1 caller"), share, rates);
        stores.iter().try_for_each(|(store, _)| store.close())?;
    }
    let stores = two_stores(setting, Durability::Flush)?;
    let mut rates = [Vec::new(), Vec::new()];
    for run in 0..RUNS {
        for at in in_turn(run) {
            rates[at].push(phase(CALLERS, |n| Ok(cycle(&stores[at].1, n).map(|()| 1)?))?);
        }
    }
    compare(report, &format!("durable, {CALLERS} callers"), 0.97, rates);
    stores.iter().try_for_each(|(store, _)| store.close())?;
    Ok(())
}

/// A store with a tube without metrics, and one with a tube that has them.
fn two_stores(setting: &Setting, durability: Durability) -> Outcome<[(Store, Tube); 2]> {
    let open = |name: &str, days: u32| -> Outcome<(Store, Tube)> {
        let store = Store::open(setting.fresh(name))?;
        let options = TubeOptions::new().durability(durability).metrics(days);
        let tube = store.create_tube("work", FIFO, options)?;
        (0..BLOCK).try_for_each(|n| cycle(&tube, n))?;
        Ok((store, tube))
    };
    Ok([open("without-metrics", 0)?, open("with-metrics", 30)?])
}

/// Both stores; each of them is the first one in every second block.
fn in_turn(block: usize) -> [usize; 2] {
    if block.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

fn cycle(tube: &Tube, n: u64) -> tubewell::Result<()> {
    tube.put(body(n, BODY))?;
    tube.try_take()?.map_or(Ok(()), |claim: Claim| claim.ack().map(drop))
}

fn compare(report: &mut Report, how: &str, share: f64, [without, with]: [Vec<f64>; 2]) {
    report.spread(format!("cycles without metrics, {how}"), &without, "tasks/s");
    report.spread(format!("cycles with metrics, {how}"), &with, "tasks/s");
    let what = format!("cycles with metrics, of those without, {how}");
    report.ratio(&what, share, (&with, &without));
}
