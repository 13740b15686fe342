//! A report each night at half past two, Berlin time: put by a schedule, made by a worker.
//!
//! The clock of the example is moved by hand, over the night in which clocks go forward, when half
//! past two does not exist, and over a month in which the application is closed. An application
//! leaves the clock out. Run it with
//! `cargo run --features cron --example nightly_report`.

use std::time::Duration;

use tubewell::{
    Job, ManualClock, Missed, Overlap, Put, Schedule, Store, Tube, TubeOptions, Worker,
};

const DAY: Duration = Duration::from_secs(86_400);
/// 2026-03-27 12:00 UTC, a Friday.
const NOON: Duration = Duration::from_secs(1_774_612_800);

/// What an application does at each start: it opens its store, and stores its schedule. If the
/// schedule is there already, it is brought in line, and keeps the next moment of its expression.
fn open(clock: &ManualClock, path: &std::path::Path) -> tubewell::Result<(Store, Tube)> {
    let store = Store::options().clock(clock).open(path)?;
    let options = TubeOptions::new().max_attempts(3);
    let reports = store.open_tube("reports", options)?;
    let nightly = Schedule::cron("report", "30 2 * * *", "Europe/Berlin")
        // After a month, only the newest report is made.
        .missed(Missed::Latest(1))
        // A report that takes longer than a day is not made twice at the same time.
        .overlap(Overlap::Skip);
    reports.schedule(nightly, Put::new("sales").ttr(Duration::from_secs(3600)))?;
    Ok((store, reports))
}

fn report(job: &Job, reports: &Tube) -> tubewell::Result<()> {
    let run = reports.query().task(job.id())?.info.spawned_by;
    let moment = run.and_then(|run| run.moment.duration_since(std::time::UNIX_EPOCH).ok());
    let hours = moment.unwrap_or_default().saturating_sub(NOON).as_secs_f64() / 3600.0;
    println!("{}: {hours:.1} hours after the start", job.key().unwrap_or_default());
    Ok(())
}

/// Makes the reports that are due. An application calls `Worker::start` once.
fn work(store: &Store, reports: &Tube) -> tubewell::Result<u64> {
    let of = reports.clone();
    let worker = Worker::new(store).on(reports, move |job: &Job| report(job, &of));
    Ok(worker.run_until_idle()?.done)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("app.tubewell");
    let clock = ManualClock::at(NOON);

    let (store, reports) = open(&clock, &path)?;
    let mut nights = 0;
    for _ in 0..7 {
        clock.advance(DAY);
        nights += work(&store, &reports)?;
    }
    store.close()?;

    clock.advance(DAY * 30);
    let (store, reports) = open(&clock, &path)?;
    clock.advance(Duration::from_secs(1));
    let after = work(&store, &reports)?;
    println!("{nights} reports in 7 nights, {after} after a month without the application");
    store.close()?;
    Ok(())
}
