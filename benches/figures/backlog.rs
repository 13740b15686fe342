//! The cost of a backlog: time to open, memory, and the size of the file before and after a drain.

use std::path::Path;
use std::time::{Duration, Instant};

use tubewell::{Claim, Durability, FIFO, Store, TubeOptions};

use super::process::ChildProcess;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, checked, mebibytes};

const OPENS: usize = 5;
/// The default cache size, and a small one, with which other memory dominates.
const CACHES: [(&str, u64); 2] = [("64 MiB", 64 << 20), ("1 MiB", 1 << 20)];
/// Idle time before a kill, in milliseconds: the store has finished its idle work by then.
const IDLE_MILLIS: &str = "6500";

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let sizes: &[(u64, &str)] = &[(10_000, "10k"), (1_000_000, "1M"), (10_000_000, "10M")];
    let sizes = &sizes[..if setting.large { 3 } else { 2 }];
    let (mut opens, mut overheads) = (Vec::new(), Vec::new());
    for (tasks, name) in sizes {
        let path = setting.fresh("backlog");
        fill(&path, *tasks, name, report)?;
        report.note(format!("file size, {name} tasks"), mebibytes(&path), "MiB");
        opens.push(open(&path, name, &mut overheads, report)?);
        killed(&path, name, report)?;
        if *tasks <= 1_000_000 {
            drain(&path, name, report)?;
        }
        std::fs::remove_file(&path)?;
    }
    let (min, max) = (least(&opens), greatest(&opens));
    let all = opens.iter().map(|open| short(*open)).collect::<Vec<_>>().join(", ");
    let names = sizes.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    // About half of the time is the disk's, since an open flushes.
    let constant = max <= 20.0 && max <= min * 2.0;
    report.target(
        &format!("open after a clean close, {names} tasks"),
        "constant, under 20 ms",
        format!("{all} ms"),
        constant,
    );
    let overhead = greatest(&overheads);
    report.target(
        &format!("resident memory without the cache, {names} tasks"),
        "16 MiB",
        format!("{} MiB", short(overhead)),
        overhead <= 16.0,
    );
    Ok(())
}

fn fill(path: &Path, tasks: u64, name: &str, report: &mut Report) -> Outcome {
    let start = Instant::now();
    let store = Store::options().durability(Durability::relaxed()).open(path)?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    for first in (0..tasks).step_by(10_000) {
        tube.put_many((first..first + 10_000).map(|n| body(n, BODY)))?;
    }
    store.close()?;
    let rate = tasks as f64 / start.elapsed().as_secs_f64();
    report.note(format!("puts of {name} tasks, relaxed, 10,000 per batch"), rate, "tasks/s");
    Ok(())
}

/// Opens the store several times, each time in a new process. Returns the median time in
/// milliseconds, and adds the memory without the cache, in MiB, to `overheads`.
fn open(path: &Path, name: &str, overheads: &mut Vec<f64>, report: &mut Report) -> Outcome<f64> {
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    let mut median = 0.0;
    for (cache_name, cache) in CACHES {
        let [mut opens, mut firsts, mut memories, mut opened] = [(); 4].map(|()| Vec::new());
        for _ in 0..OPENS {
            let answers = ChildProcess::start(&["open", path, &cache.to_string()])?.answers()?;
            opens.push(answers["open"]);
            firsts.push(answers["first"]);
            opened.push(answers["opened"]);
            memories.push(answers["worked"]);
        }
        if cache == CACHES[0].1 {
            median = report.spread(format!("open after a clean close, {name} tasks"), &opens, "ms");
            report.spread(format!("open and take the first task, {name} tasks"), &firsts, "ms");
            report.spread(format!("memory after the open, {name} tasks"), &opened, "MiB");
        }
        let what = format!("memory after reading 500,000 tasks, {name} tasks, cache {cache_name}");
        report.spread(what, &memories, "MiB");
        overheads.push(greatest(&memories) - cache as f64 / f64::from(1 << 20));
    }
    Ok(median)
}

/// Opens the store after a kill, once of a process under load and once of an idle one.
fn killed(path: &Path, name: &str, report: &mut Report) -> Outcome {
    let path = path.to_str().ok_or("the path is not UTF-8")?;
    for (how, idle) in [("under load", "0"), ("while idle", IDLE_MILLIS)] {
        ChildProcess::start(&["work", path, idle])?.kill_when_ready()?;
        let cache = CACHES[0].1.to_string();
        let answers = ChildProcess::start(&["open", path, &cache])?.answers()?;
        report.note(format!("open after a kill {how}, {name} tasks"), answers["open"], "ms");
    }
    Ok(())
}

fn drain(path: &Path, name: &str, report: &mut Report) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.find_tube("work")?;
    let (start, mut drained) = (Instant::now(), 0);
    loop {
        let claims = tube.take_many(1000, Duration::ZERO)?;
        if claims.is_empty() {
            break;
        }
        drained += claims.len();
        for claim in &claims {
            checked(claim.body(), BODY);
        }
        Claim::end_many(claims, |_| tubewell::Outcome::done())?
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
    }
    let rate = drained as f64 / start.elapsed().as_secs_f64();
    report.note(format!("drain of {name} tasks, durable, 1000 per batch"), rate, "tasks/s");
    report.note(format!("file size after draining {name} tasks"), mebibytes(path), "MiB");
    let start = Instant::now();
    while mebibytes(path) >= 4.0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(200));
    }
    let (size, after) = (mebibytes(path), start.elapsed().as_secs_f64());
    report.note(format!("file size {after:.0} s later, {name} tasks drained"), size, "MiB");
    report.target(
        &format!("file size within a minute after draining {name} tasks"),
        "under 4 MiB",
        format!("{} MiB after {after:.0} s", short(size)),
        size < 4.0,
    );
    store.close()?;
    Ok(())
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

fn greatest(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}
