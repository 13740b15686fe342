//! The workloads of child processes.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use tubewell::{Failure, Store, TaskState, Tube};

use super::idle;
use super::setting::{BODY, Outcome, body, checked, millis, resident, timed};

/// Runs the workload that `--child` names.
pub fn run(workload: &str, arguments: &[String]) -> Outcome {
    let path = arguments.first().map(Path::new).ok_or("the path of the store is missing")?;
    let number = arguments.get(1).and_then(|text| text.parse::<u64>().ok());
    match workload {
        "open" => open(path, number.ok_or("the cache size in bytes is missing")?),
        "work" => work(path, number.ok_or("the idle time in milliseconds is missing")?),
        "kept" => kept(path),
        "idle" => idle::child(path, number.ok_or("the duration in seconds is missing")?),
        _ => Err(format!("no child workload {workload:?}").into()),
    }
}

fn print(name: &str, value: f64) {
    println!("{name} {value}");
}

/// Opens the store and does some cycles; prints times, reads and memory.
fn open(path: &Path, cache: u64) -> Outcome {
    let options = Store::options().cache_size(usize::try_from(cache)?);
    let (store, opened) = timed(|| options.open(path));
    let (store, after) = (store?, resident());
    let tube = store.find_tube("work")?;
    let (claim, first) = timed(|| tube.try_take());
    let claim = claim?.ok_or("no ready task")?;
    checked(claim.body(), BODY);
    print("open", millis(opened));
    print("first", millis(opened + first));
    print("reads", store.admin().counters()?.reads as f64);
    print("opened", after);
    drop(claim);
    fill_cache(&tube)?;
    for n in 0..2000 {
        let claim = tube.try_take()?.ok_or("no ready task")?;
        tube.put(body(n, BODY))?;
        claim.ack()?;
    }
    print("worked", resident());
    store.close()?;
    Ok(())
}

/// Opens a store with kept tasks, and ends one more, which forgets the oldest one. Prints times,
/// reads and memory.
fn kept(path: &Path) -> Outcome {
    let (store, opened) = timed(|| Store::open(path));
    let (store, after) = (store?, resident());
    print("open", millis(opened));
    print("opened", after);
    let tube = store.find_tube("work")?;
    let claim = tube.try_take()?.ok_or("no ready task")?;
    let before = store.admin().counters()?.reads;
    let (ended, time) = timed(|| {
        if tube.query().groups()?.is_empty() {
            claim.end(tubewell::Outcome::result("done"))
        } else {
            claim.bury(Failure::new("timeout", "no answer"))
        }
    });
    ended?;
    print("end", millis(time));
    print("reads", (store.admin().counters()?.reads - before) as f64);
    store.close()?;
    Ok(())
}

/// Lists up to 500,000 tasks, which fills the cache if the file is larger than the cache.
fn fill_cache(tube: &Tube) -> Outcome {
    let mut after = None;
    for _ in 0..500 {
        let page = tube.query().list(TaskState::Ready, after, 1000)?;
        after = page.next;
        if after.is_none() {
            break;
        }
    }
    Ok(())
}

/// Does some cycles and prints "ready". With an idle time, in milliseconds, the child is idle
/// before and after that line; without one it puts tasks until it is killed.
fn work(path: &Path, idle: u64) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.find_tube("work")?;
    for n in 0..200 {
        let claim = tube.try_take()?.ok_or("no ready task")?;
        tube.put(body(n, BODY))?;
        claim.ack()?;
    }
    std::thread::sleep(Duration::from_millis(idle));
    println!("ready");
    std::io::stdout().flush()?;
    if idle > 0 {
        std::thread::park();
    }
    loop {
        tube.put(body(1, BODY))?;
    }
}
