//! The costs of tags, of a history and of many schedules.

use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, Put, Schedule, Store, Tube, TubeOptions};

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
        let tubes = [
            tube(setting, "without-tags", durability, 0)?,
            tube(setting, "with-tags", durability, 0)?,
        ];
        let mut rates = [Vec::new(), Vec::new()];
        for run in 0..RUNS {
            for at in in_turn(run) {
                let put = |n: u64| {
                    let put = Put::new(body(n, BODY));
                    let hour = n / 1000;
                    let tagged = |put: Put| put.tag("mail").tag(format!("{hour}")).tag("eu");
                    Ok(tubes[at].put(if at == 1 { tagged(put) } else { put }).map(|_| 1)?)
                };
                rates[at].push(phase(CALLERS, put)?);
            }
        }
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
        let tubes = [
            tube(setting, "without-history", durability, 0)?,
            tube(setting, "with-history", durability, 10)?,
        ];
        let (mut puts, mut cycles) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
        for run in 0..RUNS {
            for at in in_turn(run) {
                let tube = &tubes[at];
                puts[at].push(phase(callers, |n| Ok(tube.put(body(n, BODY)).map(|_| 1)?))?);
                cycles[at].push(phase(callers, |n| Ok(cycle(tube, n).map(|()| 1)?))?);
                tube.truncate()?;
            }
        }
        let third = 1.0 / 3.0;
        compare(
            report,
            &format!("puts with a history of 10, of those without, {name}"),
            third,
            &puts,
        );
        let what = format!("cycles with a history of 10, of those without, {name}");
        compare(report, &what, third, &cycles);
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

fn tube(setting: &Setting, name: &str, durability: Durability, history: u32) -> Outcome<Tube> {
    let store = Store::open(setting.fresh(name))?;
    let options = TubeOptions::new().durability(durability).history(history);
    Ok(store.create_tube("work", FIFO, options)?)
}

/// Both tubes; each of them is the first one in every second run.
fn in_turn(run: usize) -> [usize; 2] {
    if run.is_multiple_of(2) { [0, 1] } else { [1, 0] }
}

fn cycle(tube: &Tube, n: u64) -> tubewell::Result<()> {
    tube.put(body(n, BODY))?;
    tube.try_take()?.map_or(Ok(()), |claim| claim.ack().map(drop))
}

fn compare(report: &mut Report, what: &str, share: f64, [without, with]: &[Vec<f64>; 2]) {
    report.spread(format!("{what}: without"), without, "tasks/s");
    report.spread(format!("{what}: with"), with, "tasks/s");
    report.ratio(what, share, (with, without));
}
