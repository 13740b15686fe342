//! The time of a take while writes or flushes are slow. A take must never wait for either.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use super::medium::{Monitor, Slow, SlowFile};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

const SLOW: Duration = Duration::from_millis(50);
const WRITERS: u64 = 4;
const STOCK: u64 = 60_000;
const PHASE: Duration = Duration::from_secs(5);
/// The length of bodies that make the file grow.
const LARGE: usize = 200_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    note_percentiles(report, "12 µs of CPU work, timed in the same way", &mut spin_times());
    let (flush, write) = (Durability::Flush, Durability::write());
    let (flushes, writes) = (Some(Slow::Flushes), Some(Slow::Writes));
    for (name, durability, slow, size) in [
        ("normal flushes", flush, None, BODY),
        ("each flush takes 50 ms", flush, flushes, BODY),
        ("each flush takes 50 ms, the file grows", flush, flushes, LARGE),
        ("each flush takes 50 ms, written", write, flushes, BODY),
        ("each write takes 50 ms, written", write, writes, BODY),
    ] {
        let (slow_file, monitor) = SlowFile::create(&setting.fresh("take"))?;
        let store = Store::options().durability(durability).open_on(Box::new(slow_file))?;
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
        for first in (0..STOCK).step_by(10_000) {
            tube.put_many((first..first + 10_000).map(|n| body(n, BODY)))?;
        }
        let slow_down = |by| slow.into_iter().for_each(|slow| monitor.slow_down(slow, by));
        slow_down(SLOW);
        let resizes = monitor.resizes();
        let mut takes = take_while_writing(&store, &tube, size, &monitor)?;
        let p99 = note_percentiles(report, &format!("take, {name}"), &mut takes);
        let resizes = (monitor.resizes() - resizes) as f64;
        report.note(format!("growth of the file, {name}"), resizes, "times");
        if slow.is_some() {
            let what = format!("take p99, {name}");
            report.target(&what, "50 µs", format!("{} µs", short(p99)), p99 <= 50.0);
        }
        slow_down(Duration::ZERO);
        store.close()?;
    }
    Ok(())
}

fn note_percentiles(report: &mut Report, name: &str, times: &mut Times) -> f64 {
    report.note(format!("{name}, p50"), times.percentile(0.5), "µs");
    let p99 = times.percentile(0.99);
    report.note(format!("{name}, p99 of {}", times.len()), p99, "µs");
    report.note(format!("{name}, max"), times.max(), "µs");
    p99
}

/// Times takes at a constant rate while other threads keep a write or a flush in progress at all times.
fn take_while_writing(
    store: &Store,
    tube: &Tube,
    size: usize,
    monitor: &Arc<Monitor>,
) -> Outcome<Times> {
    let stop = AtomicBool::new(false);
    let writes = store.admin().counters()?.writes;
    std::thread::scope(|scope| {
        for writer in 0..WRITERS {
            let (tube, stop) = (tube, &stop);
            scope.spawn(move || {
                for n in 0.. {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    tube.put(body((writer << 32) + n, size)).expect("put");
                }
            });
        }
        let mut times = Times::default();
        let start = Instant::now();
        let mut next = 0;
        let outcome: Outcome<Times> = (|| {
            while start.elapsed() < PHASE && next < STOCK {
                let (claim, time) = timed(|| tube.try_take());
                let claim = claim?.expect("the tube has ready tasks");
                times.add(time);
                assert_eq!(checked(claim.body(), BODY), next, "tasks are taken in order");
                next += 1;
                drop(claim.into_async().ack());
                std::thread::sleep(Duration::from_micros(100));
            }
            Ok(std::mem::take(&mut times))
        })();
        stop.store(true, Ordering::Relaxed);
        let writes = store.admin().counters()?.writes - writes;
        assert!(writes > 10, "the writers wrote {writes} times; {monitor:?}");
        outcome
    })
}

/// Times a busy loop of 12 µs, about the time of a take, as a reference for the machine.
fn spin_times() -> Times {
    let mut times = Times::default();
    let start = Instant::now();
    while start.elapsed() < PHASE / 2 {
        let ((), time) = timed(|| {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(12) {
                std::hint::spin_loop();
            }
        });
        times.add(time);
        std::thread::sleep(Duration::from_micros(100));
    }
    times
}
