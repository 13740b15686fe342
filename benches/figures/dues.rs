//! Many tasks that are not ready: a million delayed tasks that fall due, a million buried tasks.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, Filter, ManualClock, Put, Store, Tube, TubeOptions,
};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

const MILLION: u64 = 1_000_000;

/// Times puts, takes and acks in one tube while all tasks of another tube fall due at one moment.
pub fn measure_due(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("due");
    put_delayed(&path, report)?;
    let store = Store::open(&path)?;
    let live = store.find_tube("live")?;
    let delayed = store.find_tube("delayed")?;
    let start = Instant::now();
    let falling_due = || Ok(delayed.statistics()?.tasks.delayed > 0);
    let during = time_calls_while(&live, falling_due, Duration::from_secs(300))?;
    let took = start.elapsed().as_secs_f64();
    report.note("time until all of them are ready", took, "s");
    assert_eq!(delayed.statistics()?.tasks.ready, MILLION);
    let after = time_calls_while(&live, || Ok(true), Duration::from_secs(3))?;
    for (name, mut times) in [("no task falls due", after), ("a million tasks fall due", during)] {
        for (verb, times) in ["put", "take", "ack"].iter().zip(&mut times) {
            report.note(format!("{verb} while {name}, p50"), times.percentile(0.5), "µs");
            let p99 = times.percentile(0.99);
            report.note(format!("{verb} while {name}, p99 of {}", times.len()), p99, "µs");
            report.note(format!("{verb} while {name}, max"), times.max(), "µs");
            if name == "a million tasks fall due" && *verb != "ack" {
                let what = format!("{verb} p99 while {name}");
                report.target(&what, "10 ms", format!("{} ms", short(p99 / 1e3)), p99 <= 10_000.0);
            }
        }
    }
    assert!(checked(delayed.try_take()?.ok_or("no ready task")?.body(), BODY) < MILLION);
    Ok(store.close()?)
}

/// Puts the delayed tasks under a stopped clock. All of them are due when the store is opened with
/// the real clock.
fn put_delayed(path: &Path, report: &mut Report) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let store = Store::options().clock(ManualClock::at(now)).open(path)?;
    store.create_tube("live", TubeOptions::new().driver(FIFO))?;
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let tube = store.create_tube("delayed", relaxed.driver(FIFOTTL))?;
    let (start, delay) = (Instant::now(), Duration::from_secs(1));
    for first in (0..MILLION).step_by(10_000) {
        tube.put_many((first..first + 10_000).map(|n| Put::new(body(n, BODY)).delay(delay)))?;
    }
    let rate = MILLION as f64 / start.elapsed().as_secs_f64();
    report.note("puts of a million delayed tasks, relaxed", rate, "tasks/s");
    Ok(store.close()?)
}

/// Times single puts, takes and acks, with 1 ms between cycles, as long as `going_on` is true, but
/// at most for `limit`.
fn time_calls_while(
    live: &Tube,
    going_on: impl Fn() -> Outcome<bool>,
    limit: Duration,
) -> Outcome<[Times; 3]> {
    let mut times = [(); 3].map(|()| Times::default());
    let start = Instant::now();
    for n in 0.. {
        if start.elapsed() > limit || !going_on()? {
            break;
        }
        let (put, time) = timed(|| live.put(body(n, BODY)));
        put?;
        times[0].add(time);
        let (claim, time) = timed(|| live.try_take());
        times[1].add(time);
        let claim = claim?.ok_or("no task after a put")?;
        assert_eq!(checked(claim.body(), BODY), n);
        let (ack, time) = timed(|| claim.ack());
        ack?;
        times[2].add(time);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(times)
}

/// Times cycles in a small ready set, alternating between a tube with a million buried tasks and a
/// tube without.
pub fn measure_buried(setting: &Setting, report: &mut Report) -> Outcome {
    let open = |name| -> Outcome<(Store, Tube)> {
        let store = Store::options().durability(Durability::relaxed()).open(setting.fresh(name))?;
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL))?;
        Ok((store, tube))
    };
    let (buried, alone) = (open("buried")?, open("alone")?);
    let start = Instant::now();
    for first in (0..MILLION).step_by(1000) {
        buried.1.put_many((first..first + 1000).map(|n| body(n, BODY)))?;
        for claim in buried.1.take_many(1000, Duration::ZERO)? {
            claim.bury(None)?;
        }
    }
    assert_eq!(buried.1.statistics()?.tasks.buried, MILLION);
    report.note(
        "puts and buries of a million tasks, relaxed",
        MILLION as f64 / start.elapsed().as_secs_f64(),
        "tasks/s",
    );
    buried.0.flush()?;
    let mut times = [Times::default(), Times::default()];
    for _ in 0..40 {
        cycles(&buried.1, &mut times[0])?;
        cycles(&alone.1, &mut times[1])?;
    }
    let [with_buried, without] = times.map(|mut times| times.percentile(0.5));
    report.note("cycle with a million buried tasks, p50", with_buried, "µs");
    report.note("cycle without buried tasks, p50", without, "µs");
    report.target(
        "cycle with a million buried tasks in the tube",
        "within 20 % of none",
        format!("{:+.0} %", (with_buried / without - 1.0) * 100.0),
        with_buried <= without * 1.2,
    );
    let (kicked, time) = timed(|| buried.1.admin().kick(Filter::new().limit(10_000)));
    assert_eq!(kicked?, 10_000);
    report.note("kick of 10,000 of them", 10_000.0 / time.as_secs_f64(), "tasks/s");
    alone.0.close()?;
    Ok(buried.0.close()?)
}

/// Times single cycles in a tube with 100 ready tasks.
fn cycles(tube: &Tube, times: &mut Times) -> Outcome {
    tube.put_many((0..100).map(|n| body(n, BODY)))?;
    for n in 100..1100 {
        let (number, time) = timed(|| {
            tube.put(body(n, BODY))?;
            let claim = tube.try_take()?;
            let number = claim.as_ref().map(|claim| checked(claim.body(), BODY));
            claim.map(Claim::ack).transpose().map(|_| number)
        });
        assert_eq!(number?, Some(n - 100), "the oldest task is taken first");
        times.add(time);
    }
    Claim::end_many(tube.take_many(100, Duration::ZERO)?, |_| tubewell::Outcome::done())?;
    Ok(())
}
