//! The cost of metrics: cycles in tubes with them beside cycles in tubes without them, in turn.

use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body, median, phase};

const RUNS: usize = 15;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (durability, name, callers, share) in [
        (Durability::Flush, "durable", 1, 0.97),
        (Durability::Flush, "durable", 64, 0.97),
        (Durability::write(), "written", 1, 0.8),
        (Durability::relaxed(), "relaxed", 1, 0.8),
    ] {
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            let mut pair = [0, 30];
            // Each goes first in turn.
            if run % 2 == 1 {
                pair.reverse();
            }
            for days in pair {
                let store = Store::open(setting.fresh("metrics"))?;
                let options = TubeOptions::new().durability(durability).metrics(days);
                let tube = store.create_tube("work", FIFO, options)?;
                rates[usize::from(days > 0)].push(cycles(&tube, callers)?);
                store.close()?;
            }
        }
        let [without, with] = rates;
        let how = format!("{name}, {callers} threads");
        report.spread(format!("cycle without metrics, {how}"), &without, "tasks/s");
        report.spread(format!("cycle with metrics, {how}"), &with, "tasks/s");
        let pairs: Vec<f64> =
            with.iter().zip(&without).map(|(with, without)| with / without).collect();
        report.note(format!("median of the ratios of pairs, {how}"), median(&pairs), "");
        report.ratio(
            &format!("cycle with metrics, of one without, {how}"),
            share,
            (&with, &without),
        );
    }
    Ok(())
}

/// Puts with takes and acks per second.
fn cycles(tube: &Tube, callers: usize) -> Outcome<f64> {
    phase(callers, |n| {
        tube.put(body(n, BODY))?;
        let claim = tube.try_take()?;
        claim.map(tubewell::Claim::ack).transpose()?;
        Ok(1)
    })
}
