//! A store with a million schedules: the rate at which they are stored, the time to open it, and its
//! activity until the first one is due.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tubewell::{Durability, FIFO, Schedule, Store, TubeOptions};

use super::idle::{Activity, SECONDS};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, timed};

const SCHEDULES: u64 = 1_000_000;
const OPENS: usize = 5;
const DAY: Duration = Duration::from_secs(86_400);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("schedules");
    store_schedules(&path, report)?;
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

    let store = Store::open(&path)?;
    Activity::of_idle(&store, SECONDS)?.report("idle store with a million schedules", report);
    store.close()?;
    std::fs::remove_file(&path)?;
    Ok(())
}

/// The first of the schedules is due in a year.
fn store_schedules(path: &Path, report: &mut Report) -> Outcome {
    let store = Store::options().durability(Durability::relaxed()).open(path)?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    let far = SystemTime::now() + DAY * 365;
    let start = Instant::now();
    for n in 0..SCHEDULES {
        let daily = Schedule::every(format!("s{n}"), DAY);
        tube.schedule(daily.starting(far + Duration::from_millis(n)), body(n, BODY))?;
    }
    let rate = SCHEDULES as f64 / start.elapsed().as_secs_f64();
    report.note("schedules stored, relaxed, 1 caller", rate, "schedules/s");
    store.close()?;
    Ok(())
}
