//! The cost of what jobs need: counted attempts, kept results, many kept tasks, waits for an end.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use tubewell::{Counting, Durability, Ending, FIFO, Failure, Keep, Store, Tube, TubeOptions};

use super::process::ChildProcess;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, median, phase, timed};

const RUNS: usize = 5;
const RESULT: &[u8] = b"0123456789abcdef";

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    attempts(setting, report)?;
    results(setting, report)?;
    kept(setting, report)?;
    waits(setting, report)
}

/// The verb with which a caller ends its claims.
type End = fn(tubewell::Claim) -> tubewell::Result<tubewell::Receipt>;

/// How much so many threads do in a second, each claim ended with this verb.
type Rate = fn(&Tube, End, usize) -> Outcome<f64>;

/// Cycles with counted takes, beside those without, in turn.
fn attempts(setting: &Setting, report: &mut Report) -> Outcome {
    for (name, durability, threads, wanted) in [
        ("durable", Durability::Flush, 1, 0.9),
        ("durable", Durability::Flush, 64, 0.9),
        ("written", Durability::write(), 1, 0.6),
        ("written", Durability::write(), 64, 0.6),
        ("relaxed", Durability::relaxed(), 1, 0.6),
        ("relaxed", Durability::relaxed(), 64, 0.6),
    ] {
        let plain = TubeOptions::new().durability(durability);
        let counted = plain.clone().max_attempts(3).count_takes(Counting::Written);
        let what = format!("cycle with a counted take, {name}, {threads} threads");
        let rates = [(plain, ack as End), (counted, ack as End)];
        compare(setting, report, (&what, wanted), &rates, (cycles, threads))?;
    }
    Ok(())
}

/// Acks with a result that is kept, beside plain ones: in cycles, and alone. All are kept, or the
/// newest 10,000: each ack then forgets one.
fn results(setting: &Setting, report: &mut Report) -> Outcome {
    for (name, keep) in [("kept", Keep::new()), ("kept, up to 10,000", Keep::new().count(10_000))] {
        for threads in [1, 64] {
            let what = format!("cycle with a result that is {name}, durable, {threads} threads");
            let keeping = TubeOptions::new().keep_done(keep);
            let ways = [(TubeOptions::new(), ack as End), (keeping, ack_with_result as End)];
            compare(setting, report, (&what, 0.6), &ways, (cycles, threads))?;
        }
    }
    let ways = [
        (TubeOptions::new(), ack as End),
        (TubeOptions::new().keep_done(Keep::new()), ack_with_result as End),
    ];
    let what = "ack alone of a kept result, durable, 64 threads";
    compare(setting, report, (what, 0.6), &ways, (acks, 64))
}

fn ack(claim: tubewell::Claim) -> tubewell::Result<tubewell::Receipt> {
    claim.ack()
}

fn ack_with_result(claim: tubewell::Claim) -> tubewell::Result<tubewell::Receipt> {
    claim.end(tubewell::Outcome::result(RESULT))
}

/// Measures two ways of work in turn, and compares the ratio of the second one with a target.
fn compare(
    setting: &Setting,
    report: &mut Report,
    (what, wanted): (&str, f64),
    ways: &[(TubeOptions, End); 2],
    (rate, threads): (Rate, usize),
) -> Outcome {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for ((options, end), rates) in ways.iter().zip(&mut rates) {
            let store = Store::open(setting.fresh("jobs"))?;
            let tube = store.create_tube("work", options.clone().driver(FIFO))?;
            rates.push(rate(&tube, *end, threads)?);
            store.close()?;
        }
    }
    let [plain, with] = rates;
    report.spread(format!("{what}: without"), &plain, "tasks/s");
    report.spread(what, &with, "tasks/s");
    report.ratio(&format!("{what}, of one without"), wanted, (&with, &plain));
    Ok(())
}

/// Cycles per second.
fn cycles(tube: &Tube, end: End, threads: usize) -> Outcome<f64> {
    phase(threads, |n| {
        tube.put(body(n, BODY))?;
        let claim = tube.take()?;
        checked(claim.body(), BODY);
        end(claim)?;
        Ok(1)
    })
}

/// Acks per second of tasks that were put and taken before.
fn acks(tube: &Tube, end: End, threads: usize) -> Outcome<f64> {
    const EACH: usize = 250;
    let mut claims = Vec::new();
    for _ in 0..threads {
        tube.put_many((0..EACH as u64).map(|n| body(n, BODY)))?;
        claims.push(tube.take_many(EACH, Duration::ZERO)?);
    }
    let taken: usize = claims.iter().map(Vec::len).sum();
    assert_eq!(taken, threads * EACH, "a take has returned fewer tasks");
    let (ended, time) = timed(|| {
        std::thread::scope(|scope| -> Outcome {
            let ack_all = |claims: Vec<tubewell::Claim>| -> Outcome {
                claims.into_iter().try_for_each(|claim| end(claim).map(drop))?;
                Ok(())
            };
            let threads: Vec<_> =
                claims.into_iter().map(|claims| scope.spawn(move || ack_all(claims))).collect();
            threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
        })
    });
    ended?;
    Ok(taken as f64 / time.as_secs_f64())
}

/// Stores with many kept tasks: their opens, and the end of one more task, which forgets the oldest
/// one.
fn kept(setting: &Setting, report: &mut Report) -> Outcome {
    for what in ["outcomes", "failures"] {
        let (mut opens, mut memories, mut reads) = (Vec::new(), Vec::new(), Vec::new());
        for (tasks, name) in [(10_000, "10k"), (1_000_000, "1M")] {
            let path = setting.fresh("kept");
            fill(&path, tasks, what == "outcomes")?;
            let (mut times, mut ends) = (Vec::new(), Vec::new());
            for _ in 0..RUNS {
                let child = ["kept", path.to_str().ok_or("the path is not UTF-8")?];
                let answers = ChildProcess::start(&child)?.answers()?;
                times.push(answers["open"]);
                ends.push(answers["end"]);
                memories.push(answers["opened"]);
                reads.push(answers["reads"]);
            }
            opens.push(report.spread(format!("open with {name} kept {what}"), &times, "ms"));
            let end = format!("end of a task that forgets the oldest of {name} {what}");
            report.spread(end, &ends, "ms");
            std::fs::remove_file(&path)?;
        }
        let (few, many) = (opens[0], opens[1]);
        let opened = format!("{} ms, {} ms with 10k", short(many), short(few));
        report.target(&format!("open with 1M kept {what}"), "20 ms", opened, many < 20.0);
        let (few, many) = (median(&memories[..RUNS]), median(&memories[RUNS..]));
        let memory = format!("{} MiB, {} MiB with 10k", short(many), short(few));
        let target = format!("resident memory after an open with 1M kept {what}");
        report.target(&target, "as with few", memory, many <= few + 2.0);
        let (few, many) = (median(&reads[..RUNS]), median(&reads[RUNS..]));
        let pages = format!("{many} reads, {few} with 10k");
        let target = format!("the oldest of 1M {what} is forgotten without a scan");
        report.target(&target, "a few more reads", pages, many <= few + 12.0);
    }
    Ok(())
}

/// Makes a store whose tube keeps this many tasks, and has as many, and one ready task more.
fn fill(path: &Path, tasks: u64, done: bool) -> Outcome {
    let store = Store::options().durability(Durability::relaxed()).open(path)?;
    let keep = Keep::new().count(tasks);
    let options = TubeOptions::new().keep_done(keep).keep_buried(keep);
    let tube = store.create_tube("work", options.driver(FIFO))?;
    for first in (0..tasks).step_by(1000) {
        tube.put_many((first..first + 1000).map(|n| body(n, BODY)))?;
        for claim in tube.take_many(1000, Duration::ZERO)? {
            if done {
                claim.end(tubewell::Outcome::result(RESULT))?;
            } else {
                claim.bury(Failure::new("timeout", "no answer within 30 s"))?;
            }
        }
    }
    tube.put_many((0..2 * RUNS as u64).map(|n| body(n, BODY)))?;
    store.close()?;
    Ok(())
}

/// The time from the return of an ack until a caller that waits for the end of the task has the
/// result.
fn waits(setting: &Setting, report: &mut Report) -> Outcome {
    const ROUNDS: u64 = 500;
    let store = Store::open(setting.fresh("waits"))?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    let (sender, received) = mpsc::channel();
    let (ids, wanted) = mpsc::channel();
    let mut times = Times::default();
    std::thread::scope(|scope| -> Outcome {
        let waiter = scope.spawn(|| -> Outcome {
            let tube = tube.clone();
            for id in wanted {
                let ending = tube.wait_done(id, Duration::MAX)?;
                let at = Instant::now();
                let result = Some(RESULT.to_vec());
                assert_eq!(ending, Some(Ending::Done { result }));
                sender.send(at)?;
            }
            Ok(())
        });
        for n in 0..ROUNDS {
            let id = tube.put(body(n, BODY))?.id;
            ids.send(id)?;
            let claim = tube.try_take()?.ok_or("no ready task")?;
            std::thread::sleep(Duration::from_millis(5));
            let (acked, _) = timed(|| claim.end(tubewell::Outcome::result(RESULT)));
            let returned = Instant::now();
            acked?;
            let at = received.recv()?;
            let micros = |from: Instant, to: Instant| (to - from).as_secs_f64() * 1e6;
            let is_later = at > returned;
            times.add_signed(if is_later { micros(returned, at) } else { -micros(at, returned) });
        }
        drop(ids);
        waiter.join().expect("the waiter does not panic")
    })?;
    store.close()?;
    let (p50, p99) = (times.percentile(0.5), times.percentile(0.99));
    report.note("wait_done, after the return of the ack, p50", p50, "µs");
    report.note("wait_done, after the return of the ack, p99", p99, "µs");
    let got = format!("{} µs", short(p50));
    report.target("wait_done p50, after the return of the ack", "30 µs", got, p50 <= 30.0);
    Ok(())
}
