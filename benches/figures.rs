//! The figures of a release, in one run: `cargo bench --bench figures [-- DIR]`.
//!
//! Everything runs in DIR (default: a temporary folder), which should be on the disk that is to be
//! measured. Rates are tasks per second; each is the median of five runs with its extremes.
#![allow(clippy::disallowed_methods, reason = "a bench measures real time")]
#![allow(clippy::expect_used, clippy::cast_precision_loss, reason = "a bench may stop, and rounds")]

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, Put, Result, Store, Ticket, Tube, TubeOptions, UTUBE,
    UTUBETTL, WhenFull,
};

const BODY: [u8; 128] = [7; 128];
const RUNS: usize = 5;
const PHASE: Duration = Duration::from_millis(600);

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let given = std::env::args().skip(1).find(|arg| !arg.starts_with('-'));
    let temporary = tempfile::tempdir()?;
    let dir = given.map_or_else(|| temporary.path().to_path_buf(), PathBuf::from);
    let floor = disk_floor(&dir)?;
    println!("fdatasync of 128 B over written blocks: {floor:.0?} (median of 500)");
    println!("\n| durable, fifo, 128 B | put | take+ack | cycle |");
    println!("|---|---|---|---|");
    for threads in [1, 16, 64] {
        row(&format!("{threads} threads"), &dir, Durability::Flush, FIFO, &|tube| {
            by_threads(tube, threads)
        })?;
    }
    for tickets in [64, 256] {
        row(&format!("{tickets} tickets, 1 thread"), &dir, Durability::Flush, FIFO, &|tube| {
            by_tickets(tube, tickets)
        })?;
    }
    for driver in [FIFOTTL, UTUBE, UTUBETTL] {
        row(&format!("64 threads, {driver}"), &dir, Durability::Flush, driver, &|tube| {
            by_threads(tube, 64)
        })?;
    }
    row("batches of 1000", &dir, Durability::Flush, FIFO, &by_batches)?;
    row("relaxed, 1 thread", &dir, Durability::relaxed(), FIFO, &|tube| by_threads(tube, 1))?;
    println!();
    for tasks in [10_000, 1_000_000] {
        backlog(&dir, tasks)?;
    }
    for subs in [100, 10_000] {
        sub_queues(&dir, subs)?;
    }
    println!("peak resident memory of this whole run: {} KiB", peak_memory());
    Ok(())
}

/// Tasks per second of the three kinds of work.
struct Rates([f64; 3]);

fn row(
    name: &str,
    dir: &Path,
    durability: Durability,
    driver: &str,
    run: &dyn Fn(&Tube) -> Result<Rates>,
) -> Result<()> {
    let mut rates = Vec::new();
    let mut flushes = 0.0;
    for _ in 0..RUNS {
        let path = fresh(dir);
        let store = Store::options().durability(durability).open(&path)?;
        let tube = store.create_tube("work", driver, TubeOptions::new())?;
        let before = store.counters().flushes;
        rates.push(run(&tube)?.0);
        let tasks = tube.statistics()?.calls.put + tube.statistics()?.calls.ack;
        flushes = (store.counters().flushes - before) as f64 / tasks.max(1) as f64;
        store.close()?;
    }
    let cell = |kind: usize| {
        let mut all: Vec<f64> = rates.iter().map(|rates| rates[kind]).collect();
        all.sort_by(f64::total_cmp);
        format!("{:.1}k ({:.1}-{:.1})", all[RUNS / 2] / 1e3, all[0] / 1e3, all[RUNS - 1] / 1e3)
    };
    println!(
        "| {name} ({flushes:.3} flushes per put or ack) | {} | {} | {} |",
        cell(0),
        cell(1),
        cell(2)
    );
    Ok(())
}

fn by_threads(tube: &Tube, threads: usize) -> Result<Rates> {
    let put = phase(threads, |n| tube.put(task(tube, n)).map(|_| 1))?;
    let stocked = tube.statistics()?.tasks.ready;
    // Enough to last: what is measured is taking, not waiting for more.
    let drain = phase(threads, |_| match tube.try_take()? {
        Some(claim) => claim.ack().map(|_| 1),
        None => Ok(0),
    })?;
    assert!(stocked > 0, "there was something to take");
    tube.truncate()?;
    let cycle = phase(threads, |n| {
        tube.put(task(tube, n))?;
        match tube.take(Duration::from_secs(10))? {
            Some(claim) => claim.ack().map(|_| 1),
            None => Ok(0),
        }
    })?;
    Ok(Rates([put, drain, cycle]))
}

fn task(tube: &Tube, n: usize) -> Put {
    let put = Put::new(BODY);
    match tube.driver() {
        UTUBE => put.sub_queue(format!("sub{}", n % 1000)),
        UTUBETTL => put.sub_queue(format!("sub{}", n % 1000)).ttl(Duration::from_secs(3600)),
        FIFOTTL => put.ttl(Duration::from_secs(3600)).pri(3),
        _ => put,
    }
}

/// Runs `work` on so many threads for a while; a thread stops when there is no more of it.
fn phase(threads: usize, work: impl Fn(usize) -> Result<usize> + Sync) -> Result<f64> {
    let start = Instant::now();
    let done: Result<Vec<usize>> = std::thread::scope(|scope| {
        let work = &work;
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                scope.spawn(move || {
                    let mut done = 0;
                    for n in 0.. {
                        if start.elapsed() >= PHASE {
                            break;
                        }
                        match work(thread + n * threads)? {
                            0 => break,
                            more => done += more,
                        }
                    }
                    Ok(done)
                })
            })
            .collect();
        handles.into_iter().map(|handle| handle.join().expect("no panic")).collect()
    });
    Ok(done?.iter().sum::<usize>() as f64 / start.elapsed().as_secs_f64())
}

fn by_tickets(tube: &Tube, tickets: usize) -> Result<Rates> {
    let deferred = tube.deferred(WhenFull::Block);
    let put = in_flight(tickets, || deferred.put(&BODY).map(Some))?;
    let drain = in_flight(tickets, || match tube.try_take()? {
        Some(claim) => deferred.ack_claim(claim).map(Some),
        None => Ok(None),
    })?;
    tube.truncate()?;
    let cycle = cycles_in_flight(tube, tickets)?;
    Ok(Rates([put, drain, cycle]))
}

fn in_flight<T>(
    tickets: usize,
    mut submit: impl FnMut() -> Result<Option<Ticket<T>>>,
) -> Result<f64> {
    let start = Instant::now();
    let mut flying = std::collections::VecDeque::new();
    let mut done = 0usize;
    while start.elapsed() < PHASE {
        while flying.len() < tickets {
            match submit()? {
                Some(ticket) => flying.push_back(ticket),
                None => break,
            }
        }
        let Some(first) = flying.pop_front() else { break };
        first.wait()?;
        done += 1;
    }
    while let Some(ticket) = flying.pop_front() {
        ticket.wait()?;
        done += 1;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// One thread keeps so many cycles in flight: each is a put, then a take, then an ack.
fn cycles_in_flight(tube: &Tube, tickets: usize) -> Result<f64> {
    enum Step {
        Put(Ticket<tubewell::Receipt>),
        Ack(Ticket<tubewell::Receipt>),
    }
    let deferred = tube.deferred(WhenFull::Block);
    let start = Instant::now();
    let mut flying = std::collections::VecDeque::new();
    let mut done = 0usize;
    let mut open = true;
    while open || !flying.is_empty() {
        open = start.elapsed() < PHASE;
        while open && flying.len() < tickets {
            flying.push_back(Step::Put(deferred.put(&BODY)?));
        }
        match flying.pop_front() {
            Some(Step::Put(ticket)) => {
                ticket.wait()?;
                let claim = tube.try_take()?.expect("what was put can be taken");
                flying.push_back(Step::Ack(deferred.ack_claim(claim)?));
            }
            Some(Step::Ack(ticket)) => {
                ticket.wait()?;
                done += 1;
            }
            None => break,
        }
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

fn by_batches(tube: &Tube) -> Result<Rates> {
    let put = phase(1, |_| tube.put_many(vec![BODY.as_slice(); 1000]).map(|all| all.len()))?;
    let drain = phase(1, |_| {
        let claims = tube.take_many(1000, Duration::ZERO)?;
        Claim::ack_many(claims).map(|all| all.len())
    })?;
    tube.truncate()?;
    let cycle = phase(1, |_| {
        tube.put_many(vec![BODY.as_slice(); 1000])?;
        Claim::ack_many(tube.take_many(1000, Duration::ZERO)?).map(|all| all.len())
    })?;
    Ok(Rates([put, drain, cycle]))
}

fn backlog(dir: &Path, tasks: usize) -> Result<()> {
    let path = fresh(dir);
    let store = Store::open(&path)?;
    let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
    for _ in 0..tasks / 10_000 {
        tube.put_many(vec![BODY.as_slice(); 10_000])?;
    }
    let store_again = store.clone();
    drop(store);
    store_again.close()?;
    drop((store_again, tube));
    let size = std::fs::metadata(&path).map(|meta| meta.len()).unwrap_or_default();
    let (before, start) = (resident(), Instant::now());
    let store = Store::open(&path)?;
    let opened = start.elapsed();
    let tube = store.tube("work")?;
    let taken = tube.try_take()?.expect("a task");
    let first = start.elapsed();
    taken.ack()?;
    println!(
        "{tasks} tasks: open {opened:.1?}, to the first task {first:.1?}, memory +{} KiB, file {} MiB, ready {}",
        resident().saturating_sub(before),
        size >> 20,
        tube.statistics()?.tasks.ready,
    );
    store.close()
}

/// One taken and 100 ready tasks in each sub-queue; take and ack on one free sub-queue.
fn sub_queues(dir: &Path, subs: usize) -> Result<()> {
    let store = Store::options().durability(Durability::relaxed()).open(fresh(dir))?;
    let tube = store.create_tube("work", UTUBE, TubeOptions::new())?;
    for sub in 0..subs {
        let name = format!("sub{sub}");
        tube.put_many((0..100).map(|_| Put::new(BODY).sub_queue(&name)))?;
    }
    let held = tube.take_many(subs, Duration::ZERO)?;
    assert_eq!(held.len(), subs, "one of each sub-queue");
    tube.put_many((0..2000).map(|_| Put::new(BODY).sub_queue("free")))?;
    store.flush()?;
    let start = Instant::now();
    let mut done = 0;
    while let Some(claim) = tube.try_take()? {
        claim.ack()?;
        done += 1;
    }
    let each = start.elapsed() / done;
    println!(
        "utube, {subs} busy sub-queues: {each:.1?} for a take+ack on a free one (relaxed, {done} tasks)"
    );
    drop(held);
    store.close()
}

fn disk_floor(dir: &Path) -> std::io::Result<Duration> {
    let path = dir.join("floor");
    let mut file = File::create(&path)?;
    file.write_all(&vec![0; 1 << 20])?;
    file.sync_all()?;
    let mut times: Vec<Duration> = Vec::new();
    for n in 0..500u64 {
        let start = Instant::now();
        file.seek(SeekFrom::Start(n * 128))?;
        file.write_all(&BODY)?;
        file.sync_data()?;
        times.push(start.elapsed());
    }
    times.sort();
    std::fs::remove_file(path)?;
    Ok(times[250])
}

fn fresh(dir: &Path) -> PathBuf {
    let path = dir.join("figures.tubewell");
    let _ = std::fs::remove_file(&path);
    path
}

fn resident() -> u64 {
    memory("VmRSS:")
}

fn peak_memory() -> u64 {
    memory("VmHWM:")
}

/// A line of this process's status, in KiB; 0 where the system has none.
fn memory(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_whitespace().nth(1)?.parse().ok()).unwrap_or_default()
}
