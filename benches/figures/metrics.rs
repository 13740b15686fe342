//! The cost of metrics: cycles in a tube with them beside cycles in a tube without them.
//!
//! A single caller makes short blocks of cycles in both tubes in turn.

use std::time::Instant;

use tubewell::{Durability, Store, Tube, TubeOptions};

use super::pair;
use super::report::Report;
use super::setting::{Outcome, Setting, phase};

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
        let rates = pair::in_turn(BLOCKS, |at| {
            let start = Instant::now();
            (0..BLOCK).try_for_each(|n| pair::cycle(&stores[at].1, n))?;
            Ok(BLOCK as f64 / start.elapsed().as_secs_f64())
        })?;
        compare(report, &format!("{name}, 1 caller"), share, &rates);
        stores.iter().try_for_each(|(store, _)| store.close())?;
    }
    let stores = two_stores(setting, Durability::Flush)?;
    let rates = pair::in_turn(RUNS, |at| {
        phase(CALLERS, |n| Ok(pair::cycle(&stores[at].1, n).map(|()| 1)?))
    })?;
    compare(report, &format!("durable, {CALLERS} callers"), 0.97, &rates);
    stores.iter().try_for_each(|(store, _)| store.close())?;
    Ok(())
}

/// A store with a tube without metrics, and one with a tube that has them. Each has made a block.
fn two_stores(setting: &Setting, durability: Durability) -> Outcome<[(Store, Tube); 2]> {
    let options = |days| TubeOptions::new().durability(durability).metrics(days);
    let stores = pair::open(setting, "metrics", [options(0), options(30)])?;
    for (_, tube) in &stores {
        (0..BLOCK).try_for_each(|n| pair::cycle(tube, n))?;
    }
    Ok(stores)
}

fn compare(report: &mut Report, how: &str, share: f64, rates: &[Vec<f64>; 2]) {
    let names = ["without", "with"].map(|which| format!("cycles {which} metrics, {how}"));
    let what = format!("cycles with metrics, of those without, {how}");
    pair::compare(report, names, (&what, share), rates);
}
