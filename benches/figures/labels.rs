//! The costs of tags, of a history and of many schedules.

use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, Put, Schedule, Store, TubeOptions};

use super::pair;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, phase, timed};

const RUNS: usize = 9;
const CALLERS: usize = 64;
const SCHEDULES: u64 = 1_000_000;
const OPENS: usize = 5;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    tags(setting, report)?;
    history(setting, report)?;
    schedules(setting, report)
}

fn tags(setting: &Setting, report: &mut Report) -> Outcome {
    for (durability, name) in [(Durability::Flush, "durable"), (Durability::relaxed(), "relaxed")] {
        let options = || TubeOptions::new().durability(durability);
        let stores = pair::open(setting, "tags", [options(), options()])?;
        let rates = pair::in_turn(RUNS, |at| {
            phase(CALLERS, |n| {
                let put = Put::new(body(n, BODY));
                let hour = n / 1000;
                let tagged = |put: Put| put.tag("mail").tag(format!("{hour}")).tag("eu");
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
            tube.truncate()?;
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

fn schedules(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("schedules");
    let store = Store::options().durability(Durability::relaxed()).open(&path)?;
    let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
    let far = std::time::SystemTime::now() + Duration::from_secs(86_400 * 365);
    let start = Instant::now();
    for n in 0..SCHEDULES {
        let daily = Schedule::every(Duration::from_secs(86_400)).key(format!("s{n}"));
        tube.schedule(daily.starting(far + Duration::from_millis(n)).put(body(n, BODY)))?;
    }
    let rate = SCHEDULES as f64 / start.elapsed().as_secs_f64();
    report.note("schedules stored, relaxed, 1 caller", rate, "schedules/s");
    store.close()?;
    let mut opens = Vec::new();
    for _ in 0..OPENS {
        let (store, took) = timed(|| Store::open(&path));
        opens.push(took.as_secs_f64() * 1e3);
        store?.close()?;
    }
    let slowest = opens.iter().copied().fold(0.0, f64::max);
    report.spread("open with a million schedules", &opens, "ms");
    let got = format!("{} ms", short(slowest));
    report.target("open with a million schedules", "under 20 ms", got, slowest < 20.0);
    std::fs::remove_file(&path)?;
    Ok(())
}

fn compare(report: &mut Report, what: &str, share: f64, rates: &[Vec<f64>; 2]) {
    let names = ["without", "with"].map(|which| format!("{what}: {which}"));
    pair::compare(report, names, (what, share), rates);
}
