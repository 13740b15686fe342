//! The time of single puts and acks of one caller, in a tube with a million tasks.

use std::path::Path;
use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, flush_times, timed};

const BACKLOG: u64 = 1_000_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let start = Instant::now();
    let mut disk = flush_times(&setting.dir, || start.elapsed() < setting.duration)?;
    note_percentiles(report, "write and fdatasync of 128 B", &mut disk);
    for (name, durability) in [("durable", Durability::Flush), ("written", Durability::write())] {
        let path = setting.fresh("latency");
        let (mut puts, mut acks) = time_calls(&path, durability, setting.duration)?;
        std::fs::remove_file(&path)?;
        let put = note_percentiles(report, &format!("put, {name}"), &mut puts);
        note_percentiles(report, &format!("ack, {name}"), &mut acks);
        let what = format!("put, {name}, 1 caller, backlog of a million");
        if durability == Durability::Flush {
            let got = format!("{:.1} times", put.ratio);
            let what = format!("{what}: p99.9 relative to the median");
            report.target(&what, "at most 3 times", got, put.ratio <= 3.0);
        } else {
            let got = format!("{} µs", short(put.p999));
            report.target(&format!("{what}: p99.9"), "1000 µs", got, put.p999 <= 1000.0);
        }
    }
    Ok(())
}

/// The 99.9th percentile in microseconds, and its ratio to the median.
struct Tail {
    p999: f64,
    ratio: f64,
}

fn note_percentiles(report: &mut Report, name: &str, times: &mut Times) -> Tail {
    let [p50, p99, p999] = [0.5, 0.99, 0.999].map(|share| times.percentile(share));
    report.note(format!("{name}, p50"), p50, "µs");
    report.note(format!("{name}, p99"), p99, "µs");
    report.note(format!("{name}, p99.9 of {}", times.len()), p999, "µs");
    report.note(format!("{name}, max"), times.max(), "µs");
    report.note(format!("{name}, p99.9 / p50"), p999 / p50, "times");
    Tail { p999, ratio: p999 / p50 }
}

/// Puts a task, takes the oldest one and acks it, so that the backlog stays as long as it is and
/// each call changes a row of the file. Returns the times of the puts and of the acks.
fn time_calls(path: &Path, durability: Durability, duration: Duration) -> Outcome<(Times, Times)> {
    let store = Store::open(path)?;
    let tube = store.create_tube("work", TubeOptions::new().durability(durability).driver(FIFO))?;
    fill(&tube)?;
    store.flush()?;
    let (mut puts, mut acks) = (Times::default(), Times::default());
    let start = Instant::now();
    for n in 0.. {
        if start.elapsed() >= duration {
            break;
        }
        let task = body(BACKLOG + n, BODY);
        let (put, time) = timed(|| tube.put(task));
        put?;
        puts.add(time);
        let claim = tube.try_take()?.ok_or("no ready task")?;
        assert_eq!(checked(claim.body(), BODY), n, "tasks are taken in order");
        let (ack, time) = timed(|| claim.ack());
        ack?;
        acks.add(time);
    }
    assert_eq!(tube.statistics()?.tasks.total, BACKLOG);
    store.close()?;
    Ok((puts, acks))
}

fn fill(tube: &Tube) -> Outcome {
    for first in (0..BACKLOG).step_by(10_000) {
        tube.put_many((first..first + 10_000).map(|n| body(n, BODY)))?;
    }
    Ok(())
}
