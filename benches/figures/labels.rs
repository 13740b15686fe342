//! The costs of tags and of a history.

use tubewell::{Durability, Put, TubeOptions};

use super::pair;
use super::report::Report;
use super::setting::{BODY, Outcome, Setting, body, phase};

const RUNS: usize = 9;
const CALLERS: usize = 64;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    tags(setting, report)?;
    history(setting, report)
}

fn tags(setting: &Setting, report: &mut Report) -> Outcome {
    for (durability, name) in [(Durability::Flush, "durable"), (Durability::relaxed(), "relaxed")] {
        let options = || TubeOptions::new().durability(durability);
        let stores = pair::open(setting, "tags", [options(), options()])?;
        let rates = pair::in_turn(RUNS, |at| {
            phase(CALLERS, |n| {
                let put = Put::new(body(n, BODY));
                let hour = n / 1000;
                let tagged = |put: Put<Vec<u8>>| put.tag("mail").tag(format!("{hour}")).tag("eu");
                Ok(stores[at].1.put(if at == 1 { tagged(put) } else { put }).map(|_| 1)?)
            })
        })?;
        let what = format!("puts with three tags, of those without, {name}, {CALLERS} callers");
        compare(report, &what, 0.6, &rates);
    }
    Ok(())
}

/// A put and its entry cost no more than three puts: so do a cycle and its entries.
fn history(setting: &Setting, report: &mut Report) -> Outcome {
    for (durability, callers, name) in [
        (Durability::Flush, CALLERS, "durable, 64 callers"),
        (Durability::relaxed(), 1, "relaxed, 1 caller"),
    ] {
        let options = |history| TubeOptions::new().durability(durability).history(history);
        let stores = pair::open(setting, "history", [options(0), options(10)])?;
        let rates = pair::in_turn(RUNS, |at| {
            let tube = &stores[at].1;
            let puts = phase(callers, |n| Ok(tube.put(body(n, BODY)).map(|_| 1)?))?;
            let cycles = phase(callers, |n| Ok(pair::cycle(tube, n).map(|()| 1)?))?;
            tube.admin().truncate()?;
            Ok([puts, cycles])
        })?;
        for (at, call) in ["puts", "cycles"].into_iter().enumerate() {
            let what = format!("{call} with a history of 10, of those without, {name}");
            let rates = rates.each_ref().map(|runs| runs.iter().map(|run| run[at]).collect());
            compare(report, &what, 1.0 / 3.0, &rates);
        }
    }
    Ok(())
}

fn compare(report: &mut Report, what: &str, share: f64, rates: &[Vec<f64>; 2]) {
    let names = ["without", "with"].map(|which| format!("{what}: {which}"));
    pair::compare(report, names, (what, share), rates);
}
