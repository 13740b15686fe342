//! Great crowds that are not ready: a million delayed tasks falling due, a million buried.

use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

use tubewell::{Claim, Durability, FIFO, FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

const CROWD: u64 = 1_000_000;

/// All of them fall due at one moment; somebody puts and takes meanwhile.
pub fn measure_due(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("due");
    put_delayed(&path, report)?;
    let store = Store::open(&path)?;
    let live = store.tube("live")?;
    let crowd = store.tube("crowd")?;
    let falling = Instant::now();
    let going_on = || Ok(crowd.statistics()?.tasks.delayed > 0);
    let during = bystander(&live, going_on, Duration::from_secs(300))?;
    let took = falling.elapsed().as_secs_f64();
    report.note("until all of them are ready", took, "s");
    assert_eq!(crowd.statistics()?.tasks.ready, CROWD);
    let after = bystander(&live, || Ok(true), Duration::from_secs(3))?;
    for (name, mut times) in [("nothing falls due", after), ("a million fall due", during)] {
        for (verb, times) in ["put", "take", "ack"].iter().zip(&mut times) {
            report.note(format!("{verb} while {name}, p50"), times.percentile(0.5), "µs");
            let p99 = times.percentile(0.99);
            report.note(format!("{verb} while {name}, p99 of {}", times.len()), p99, "µs");
            report.note(format!("{verb} while {name}, most"), times.most(), "µs");
            if name == "a million fall due" && *verb != "ack" {
                let what = format!("{verb} p99 while {name}");
                report.mark(&what, "10 ms", format!("{} ms", short(p99 / 1e3)), p99 <= 10_000.0);
            }
        }
    }
    assert!(checked(crowd.try_take()?.ok_or("a ready task")?.data(), BODY) < CROWD);
    Ok(store.close()?)
}

/// By a clock that stands still, so that all are due when the store is opened by a real one.
fn put_delayed(path: &Path, report: &mut Report) -> Outcome {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    let store = Store::options().clock(ManualClock::at(now)).open(path)?;
    store.create_tube("live", FIFO, TubeOptions::new())?;
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    let crowd = store.create_tube("crowd", FIFOTTL, relaxed)?;
    let (start, delay) = (Instant::now(), Duration::from_secs(1));
    for first in (0..CROWD).step_by(10_000) {
        crowd.put_many((first..first + 10_000).map(|n| Put::new(body(n, BODY)).delay(delay)))?;
    }
    let rate = CROWD as f64 / start.elapsed().as_secs_f64();
    report.note("putting a million delayed tasks, relaxed", rate, "tasks/s");
    Ok(store.close()?)
}

/// Puts, takes and acks, each for itself and after a breath, as long as something goes on.
fn bystander(
    live: &Tube,
    going_on: impl Fn() -> Outcome<bool>,
    most: Duration,
) -> Outcome<[Times; 3]> {
    let mut times = [(); 3].map(|()| Times::default());
    let start = Instant::now();
    for n in 0.. {
        if start.elapsed() > most || !going_on()? {
            break;
        }
        let (put, time) = timed(|| live.put(body(n, BODY)));
        put?;
        times[0].add(time);
        let (claim, time) = timed(|| live.try_take());
        times[1].add(time);
        let claim = claim?.ok_or("what was put can be taken")?;
        assert_eq!(checked(claim.data(), BODY), n);
        let (ack, time) = timed(|| claim.ack());
        ack?;
        times[2].add(time);
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(times)
}

/// A small ready set, worked on beside the buried ones and without them, in turns.
pub fn measure_buried(setting: &Setting, report: &mut Report) -> Outcome {
    let open = |name| -> Outcome<(Store, Tube)> {
        let store = Store::options().durability(Durability::relaxed()).open(setting.fresh(name))?;
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new())?;
        Ok((store, tube))
    };
    let (beside, alone) = (open("buried")?, open("alone")?);
    let start = Instant::now();
    for first in (0..CROWD).step_by(1000) {
        beside.1.put_many((first..first + 1000).map(|n| body(n, BODY)))?;
        for claim in beside.1.take_many(1000, Duration::ZERO)? {
            claim.bury()?;
        }
    }
    assert_eq!(beside.1.statistics()?.tasks.buried, CROWD);
    report.note(
        "putting and burying a million, relaxed",
        CROWD as f64 / start.elapsed().as_secs_f64(),
        "tasks/s",
    );
    beside.0.flush()?;
    let mut times = [Times::default(), Times::default()];
    for _ in 0..40 {
        cycles(&beside.1, &mut times[0])?;
        cycles(&alone.1, &mut times[1])?;
    }
    let [crowd, nobody] = times.map(|mut times| times.percentile(0.5));
    report.note("cycle beside a million buried, p50", crowd, "µs");
    report.note("cycle beside none, p50", nobody, "µs");
    report.mark(
        "cycle in a small ready set beside a million buried",
        "within 20 % of none buried",
        format!("{:+.0} %", (crowd / nobody - 1.0) * 100.0),
        crowd <= nobody * 1.2,
    );
    let (kicked, time) = timed(|| beside.1.kick(10_000));
    assert_eq!(kicked?, 10_000);
    report.note("kicking 10,000 of them", 10_000.0 / time.as_secs_f64(), "tasks/s");
    alone.0.close()?;
    Ok(beside.0.close()?)
}

/// Times cycles, each for itself, with a hundred tasks about.
fn cycles(tube: &Tube, times: &mut Times) -> Outcome {
    tube.put_many((0..100).map(|n| body(n, BODY)))?;
    for n in 100..1100 {
        let (number, time) = timed(|| {
            tube.put(body(n, BODY))?;
            let claim = tube.try_take()?;
            let number = claim.as_ref().map(|claim| checked(claim.data(), BODY));
            claim.map(Claim::ack).transpose().map(|_| number)
        });
        assert_eq!(number?, Some(n - 100), "the oldest one comes next");
        times.add(time);
    }
    Claim::ack_many(tube.take_many(100, Duration::ZERO)?)?;
    Ok(())
}
