//! What a backlog costs: opening, memory, the size of the file, and what is left once it is gone.

use std::path::Path;
use std::time::{Duration, Instant};

use tubewell::{Claim, Durability, FIFO, Store, TubeOptions};

use super::child::Process;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, checked, mebibytes};

const OPENS: usize = 5;
/// The cache of a store, and one so small that what is beside it is seen.
const CACHES: [(&str, u64); 2] = [("64 MiB", 64 << 20), ("1 MiB", 1 << 20)];
/// After so long a pause a store expects another one; then it is killed.
const REST: &str = "6500";

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let sizes: &[(u64, &str)] = &[(10_000, "10k"), (1_000_000, "1M"), (10_000_000, "10M")];
    let sizes = &sizes[..if setting.large { 3 } else { 2 }];
    let (mut opens, mut beside) = (Vec::new(), Vec::new());
    for (tasks, name) in sizes {
        let path = setting.fresh("backlog");
        fill(&path, *tasks, name, report)?;
        report.note(format!("file, {name} tasks"), mebibytes(&path), "MiB");
        opens.push(open(&path, name, &mut beside, report)?);
        killed(&path, name, report)?;
        if *tasks <= 1_000_000 {
            drain(&path, name, report)?;
        }
        std::fs::remove_file(&path)?;
    }
    let (least, most) = (least(&opens), greatest(&opens));
    let all = opens.iter().map(|open| short(*open)).collect::<Vec<_>>().join(", ");
    let names = sizes.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
    // Half of it is the disk's: opening flushes.
    let flat = most <= 20.0 && most <= least * 2.0;
    report.mark(
        &format!("open after a clean close, {names} tasks"),
        "flat, under 20 ms",
        format!("{all} ms"),
        flat,
    );
    let beside = greatest(&beside);
    report.mark(
        &format!("resident memory beside the cache, {names} tasks"),
        "16 MiB",
        format!("{} MiB", short(beside)),
        beside <= 16.0,
    );
    Ok(())
}

fn fill(path: &Path, tasks: u64, name: &str, report: &mut Report) -> Outcome {
    let start = Instant::now();
    let store = Store::options().durability(Durability::relaxed()).open(path)?;
    let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
    for first in (0..tasks).step_by(10_000) {
        tube.put_many((first..first + 10_000).map(|n| body(n, BODY)))?;
    }
    store.close()?;
    let rate = tasks as f64 / start.elapsed().as_secs_f64();
    report.note(format!("filling with {name} tasks, relaxed, 10,000 at a time"), rate, "tasks/s");
    Ok(())
}

/// Opens it several times, each in a process of its own; returns the median, and adds what memory
/// there was beside the cache.
fn open(path: &Path, name: &str, beside: &mut Vec<f64>, report: &mut Report) -> Outcome<f64> {
    let path = path.to_str().ok_or("a path of letters")?;
    let mut median = 0.0;
    for (cache_name, cache) in CACHES {
        let [mut opens, mut firsts, mut memories, mut opened] = [(); 4].map(|()| Vec::new());
        for _ in 0..OPENS {
            let answers = Process::start(&["open", path, &cache.to_string()])?.answers()?;
            opens.push(answers["open"]);
            firsts.push(answers["first"]);
            opened.push(answers["opened"]);
            memories.push(answers["worked"]);
        }
        if cache == CACHES[0].1 {
            median = report.spread(format!("open after a clean close, {name}"), &opens, "ms");
            report.spread(format!("open and take the first, {name}"), &firsts, "ms");
            report.spread(format!("memory once opened, {name}"), &opened, "MiB");
        }
        let what = format!("memory after 500,000 tasks were read, {name}, cache {cache_name}");
        report.spread(what, &memories, "MiB");
        beside.push(greatest(&memories) - cache as f64 / f64::from(1 << 20));
    }
    Ok(median)
}

/// Opens what a killed process left: one at work, and one that had come to rest.
fn killed(path: &Path, name: &str, report: &mut Report) -> Outcome {
    let path = path.to_str().ok_or("a path of letters")?;
    for (how, rest) in [("at work", "0"), ("at rest", REST)] {
        Process::start(&["work", path, rest])?.kill_when_ready()?;
        let cache = CACHES[0].1.to_string();
        let answers = Process::start(&["open", path, &cache])?.answers()?;
        report.note(format!("open after a kill {how}, {name}"), answers["open"], "ms");
    }
    Ok(())
}

fn drain(path: &Path, name: &str, report: &mut Report) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.tube("work")?;
    let (start, mut drained) = (Instant::now(), 0);
    loop {
        let claims = tube.take_many(1000, Duration::ZERO)?;
        if claims.is_empty() {
            break;
        }
        drained += claims.len();
        for claim in &claims {
            checked(claim.data(), BODY);
        }
        Claim::ack_many(claims)?.into_iter().collect::<Result<Vec<_>, _>>()?;
    }
    let rate = drained as f64 / start.elapsed().as_secs_f64();
    report.note(format!("draining {name} tasks, durable, 1000 at a time"), rate, "tasks/s");
    report.note(format!("file after draining {name} tasks"), mebibytes(path), "MiB");
    let start = Instant::now();
    while mebibytes(path) >= 4.0 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(200));
    }
    let (size, after) = (mebibytes(path), start.elapsed().as_secs_f64());
    report.note(format!("file {after:.0} s later, {name} tasks drained"), size, "MiB");
    report.mark(
        &format!("file, a minute after draining {name} tasks"),
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
