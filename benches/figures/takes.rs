//! How long a take takes while flushes are slow: it is never to wait for one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tubewell::{FIFO, Store, Tube, TubeOptions, WhenFull};

use super::medium::{Slow, Watch};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

const SLOW: Duration = Duration::from_millis(50);
const WRITERS: u64 = 4;
const STOCK: u64 = 60_000;
const PHASE: Duration = Duration::from_secs(5);
/// Bodies of writers that make the file grow.
const LARGE: usize = 200_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let mut nothing = nothing();
    tell(report, "12 µs of anything, timed in the same way", &mut nothing);
    for (name, slow, size) in [
        ("flushes as they are", Duration::ZERO, BODY),
        ("each flush takes 50 ms", SLOW, BODY),
        ("each flush takes 50 ms, the file grows", SLOW, LARGE),
    ] {
        let (slow_file, watch) = Slow::create(&setting.fresh("take"))?;
        let store = Store::options().open_on(Box::new(slow_file))?;
        let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
        for first in (0..STOCK).step_by(10_000) {
            tube.put_many((first..first + 10_000).map(|n| body(n, BODY)))?;
        }
        watch.slow_down(slow);
        let resizes = watch.resizes();
        let mut takes = take_beside_writers(&store, &tube, size, &watch)?;
        let p99 = tell(report, &format!("take, {name}"), &mut takes);
        report.note(format!("the file grew, {name}"), (watch.resizes() - resizes) as f64, "times");
        if !slow.is_zero() {
            let what = format!("take p99, {name}");
            report.mark(&what, "50 µs", format!("{} µs", short(p99)), p99 <= 50.0);
        }
        watch.slow_down(Duration::ZERO);
        store.close()?;
    }
    Ok(())
}

fn tell(report: &mut Report, name: &str, times: &mut Times) -> f64 {
    report.note(format!("{name}, p50"), times.percentile(0.5), "µs");
    let p99 = times.percentile(0.99);
    report.note(format!("{name}, p99 of {}", times.len()), p99, "µs");
    report.note(format!("{name}, most"), times.most(), "µs");
    p99
}

/// Takes at a steady pace, one after the other, while writers keep a flush under way all the time.
fn take_beside_writers(
    store: &Store,
    tube: &Tube,
    size: usize,
    watch: &Arc<Watch>,
) -> Outcome<Times> {
    let over = AtomicBool::new(false);
    let flushes = store.counters().flushes;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (tube, over) = (tube, &over);
            scope.spawn(move || {
                for n in 0.. {
                    if over.load(Ordering::Relaxed) {
                        return;
                    }
                    // What the taker finds is told apart by its size.
                    tube.put(body((writer << 32) + n, size)).expect("a put");
                }
            });
        }
        let mut times = Times::default();
        let deferred = tube.deferred(WhenFull::Block);
        let start = Instant::now();
        let mut next = 0;
        let outcome: Outcome<Times> = (|| {
            while start.elapsed() < PHASE && next < STOCK {
                let (claim, time) = timed(|| tube.try_take());
                let claim = claim?.expect("the tube is stocked");
                times.add(time);
                assert_eq!(checked(claim.data(), BODY), next, "the tasks come in order");
                next += 1;
                drop(deferred.ack_claim(claim)?);
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(std::mem::take(&mut times))
        })();
        over.store(true, Ordering::Relaxed);
        let flushes = store.counters().flushes - flushes;
        assert!(flushes > 10, "the writers flushed {flushes} times; {watch:?}");
        outcome
    })
}

/// How long the machine makes of twelve microseconds of work, about what a take takes.
fn nothing() -> Times {
    let mut times = Times::default();
    let start = Instant::now();
    while start.elapsed() < PHASE / 2 {
        let ((), time) = timed(|| {
            let begun = Instant::now();
            while begun.elapsed() < Duration::from_micros(12) {
                std::hint::spin_loop();
            }
        });
        times.add(time);
        std::thread::sleep(Duration::from_micros(100));
    }
    times
}
