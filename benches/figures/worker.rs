//! Workers: jobs that do nothing, beside bare takes and acks; steps, beside puts; and stops.

use std::cell::Cell;
use std::future::ready;
use std::time::{Duration, Instant};

use tokio::runtime;
use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{Claim, Durability, FIFO, Store, Tube, TubeOptions};

use super::pair;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, median, phase, timed};

const RUNS: usize = 11;
/// How long the tasks of a run last, as far as the run before it can tell.
const LENGTH: f64 = 0.25;
/// Tasks of the first run, which finds out how many that are.
const FIRST: f64 = 500.0;
/// Tasks of one `put_many`.
const BATCH: usize = 1000;
const FUTURES: usize = 1000;
const STEP_RUNS: usize = 9;
/// Claims whose steps are stored in a run, and steps of each; no task has more.
const CLAIMS: usize = 256;
const STEPS: usize = 1000;
const STOPS: usize = 50;
const TARGET: f64 = 0.9;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let (durable, written) = (Durability::Flush, Durability::write());
    for (durability, name) in [(durable, "durable"), (written, "written")] {
        for callers in [Callers::Threads(1), Callers::Threads(8), Callers::Threads(64)] {
            jobs(setting, report, (durability, name), callers)?;
        }
        jobs(setting, report, (durability, name), Callers::Futures(FUTURES))?;
    }
    for (durability, name, callers) in
        [(durable, "durable", 1), (durable, "durable", 64), (written, "written", 1)]
    {
        steps(setting, report, (durability, name), callers)?;
    }
    stops(setting, report)
}

/// The threads or futures that take and ack, or run jobs.
#[derive(Clone, Copy)]
enum Callers {
    Threads(usize),
    /// Futures on one thread.
    Futures(usize),
}

/// Works off tasks that were put before, with a worker and with bare takes and acks in turn.
fn jobs(
    setting: &Setting,
    report: &mut Report,
    (durability, name): (Durability, &str),
    callers: Callers,
) -> Outcome {
    let options = || TubeOptions::new().durability(durability);
    let stores = pair::open(setting, "worker", [options(), options()])?;
    let wanted = Cell::new(FIRST);
    let work = |at: usize| -> Outcome<f64> {
        let (store, tube) = &stores[at];
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a number")]
        let tasks = wanted.get().max(FIRST / 5.0) as u64;
        for first in (0..tasks).step_by(BATCH) {
            tube.put_many((first..tasks).take(BATCH).map(|n| body(n, BODY)))?;
        }
        let start = Instant::now();
        match callers {
            _ if tube.statistics()?.tasks.ready != tasks => return Err("a run left tasks".into()),
            Callers::Threads(threads) if at == 0 => take_on_threads(tube, threads)?,
            Callers::Threads(threads) => work_on_threads(store, tube, threads, tasks)?,
            Callers::Futures(futures) if at == 0 => take_with_futures(tube, futures)?,
            Callers::Futures(futures) => work_with_futures(store, tube, futures, tasks)?,
        }
        let rate = tasks as f64 / start.elapsed().as_secs_f64();
        wanted.set(rate * LENGTH);
        Ok(rate)
    };
    work(0)?;
    work(1)?;
    let rates = pair::in_turn(RUNS, work)?;
    let how = match callers {
        Callers::Threads(1) => format!("{name}, 1 thread"),
        Callers::Threads(threads) => format!("{name}, {threads} threads"),
        Callers::Futures(futures) => format!("{name}, {futures} futures"),
    };
    let names = ["take and ack", "job of a worker"].map(|what| format!("{what}, {how}"));
    let what = format!("job of a worker, relative to take and ack, {how}");
    pair::compare(report, names, (&what, TARGET), &rates);
    stores.iter().try_for_each(|(store, _)| store.close())?;
    Ok(())
}

fn take_on_threads(tube: &Tube, threads: usize) -> Outcome {
    let take_all = || -> tubewell::Result<()> {
        while let Some(claim) = tube.try_take()? {
            claim.ack()?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(take_all)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

fn work_on_threads(store: &Store, tube: &Tube, threads: usize, tasks: u64) -> Outcome {
    let worker = Worker::new(store).on(tube, |_: &Job| ()).concurrency(threads).limit(tasks);
    let worker = worker.start()?;
    assert_eq!(worker.wait()?.done, tasks);
    Ok(())
}

fn take_with_futures(tube: &Tube, futures: usize) -> Outcome {
    let take_all = |tube: Tube| async move {
        while let Some(claim) = tube.to_async().try_take().await? {
            claim.ack().await?;
        }
        Ok::<(), tubewell::Error>(())
    };
    runtime::Builder::new_current_thread().build()?.block_on(async {
        let tasks: Vec<_> = (0..futures).map(|_| tokio::spawn(take_all(tube.clone()))).collect();
        for task in tasks {
            task.await??;
        }
        Ok(())
    })
}

fn work_with_futures(store: &Store, tube: &Tube, futures: usize, tasks: u64) -> Outcome {
    let worker = Worker::new(store).on_async(tube, |_: AsyncJob| ready(()));
    let worker = worker.concurrency(futures).limit(tasks).run_async();
    let tally = runtime::Builder::new_current_thread().build()?.block_on(worker)?;
    assert_eq!(tally.done, tasks);
    Ok(())
}

/// Steps of claims, and puts, each with 128 bytes, in turn.
fn steps(
    setting: &Setting,
    report: &mut Report,
    (durability, name): (Durability, &str),
    callers: usize,
) -> Outcome {
    let options = || TubeOptions::new().durability(durability);
    let rates = pair::in_turn(STEP_RUNS, |at| {
        let [(_, tube), (store, with_steps)] = pair::open(setting, "step", [options(), options()])?;
        if at == 0 {
            return phase(callers, |n| Ok(tube.put(body(n, BODY)).map(|_| 1)?));
        }
        with_steps.put_many((0..CLAIMS as u64).map(|n| body(n, BODY)))?;
        let claims = with_steps.take_many(CLAIMS, Duration::ZERO)?;
        let rate = phase(callers, |n| step(&claims, callers, usize::try_from(n)?))?;
        for claim in claims {
            drop(claim.detach());
        }
        store.close()?;
        Ok(rate)
    })?;
    let how = format!("{name}, {callers} callers");
    let names = ["put", "step"].map(|what| format!("{what}, {how}"));
    let what = format!("step, relative to put, {how}");
    pair::compare(report, names, (&what, TARGET), &rates);
    Ok(())
}

/// Stores the step of this number. Each caller has claims of its own, as a worker has. Returns 0 if
/// they have no further step.
fn step(claims: &[Claim], callers: usize, n: usize) -> Outcome<usize> {
    let (caller, nth) = (n % callers, n / callers);
    let Some(claim) = claims.get(caller + callers * (nth / STEPS)) else { return Ok(0) };
    let value = || Ok::<String, tubewell::Error>("v".repeat(BODY));
    claim.step(&format!("step {}", nth % STEPS), value)?;
    Ok(1)
}

/// The time of a stop while all threads wait for tasks.
fn stops(setting: &Setting, report: &mut Report) -> Outcome {
    let store = Store::open(setting.fresh("stop"))?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    for threads in [1, 64] {
        let mut times = Vec::new();
        for _ in 0..STOPS {
            let worker =
                Worker::new(&store).on(&tube, |_: &Job| ()).concurrency(threads).start()?;
            while store.tubes()?[0].waiting < threads as u64 {
                std::thread::sleep(Duration::from_millis(1));
            }
            let (left, took) = timed(|| worker.stop(Duration::from_secs(10)));
            assert_eq!(left?, []);
            times.push(took.as_secs_f64() * 1e3);
        }
        let what = format!("stop of a worker whose threads wait, {threads} threads");
        let slowest = times.iter().copied().fold(0.0, f64::max);
        report.spread(&*what, &times, "ms");
        let got = format!("{} ms, median {} ms", short(slowest), short(median(&times)));
        report.target(&what, "under 10 ms", got, slowest < 10.0);
    }
    Ok(store.close()?)
}
