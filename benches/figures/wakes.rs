//! The time from a put until a waiting consumer has the task.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, Store, Tube, TubeOptions};

use super::medium::{Monitor, SlowFile};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked};

const ROUNDS: u64 = 500;
const PAUSE: Duration = Duration::from_millis(10);

/// With load: the number of wake-ups, and the time between them.
const LOADED_ROUNDS: u64 = 2000;
const LOADED_PAUSE: Duration = Duration::from_millis(2);
/// The load: tasks in its tube, and cycles per millisecond. Its rows do not cancel out, so that the
/// store makes several checkpoints per second.
const LOAD_STOCK: u64 = 10_000;
const LOAD_CYCLES: u64 = 5;
const LOAD_STEP: Duration = Duration::from_millis(1);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    durable(setting, report)?;
    for (name, durability) in [("written", Durability::write()), ("relaxed", Durability::relaxed())]
    {
        under_load(setting, name, durability, report)?;
    }
    Ok(())
}

/// Wake-ups in a durable tube of a store without other calls.
fn durable(setting: &Setting, report: &mut Report) -> Outcome {
    let (file, monitor) = SlowFile::create(&setting.fresh("wake"))?;
    let store = Store::options().open_on(Box::new(file))?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    let (sender, received) = mpsc::channel();
    let consumer = {
        let (tube, monitor) = (tube.clone(), monitor.clone());
        std::thread::spawn(move || {
            for n in 0..ROUNDS {
                let claim = tube.take().expect("take");
                let at = monitor.now();
                assert_eq!(checked(claim.body(), BODY), n);
                claim.ack().expect("ack");
                sender.send(at).expect("the receiver exists");
            }
        })
    };
    let parked = ParkedThread::spawn(&monitor);
    let [mut from_flush, mut from_put, mut bare] = [(); 3].map(|()| Times::default());
    for n in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        let notified = monitor.now();
        parked.wake();
        bare.add_signed(parked.woken_at.recv()? - notified);
        std::thread::sleep(PAUSE);
        // By now the ack of the previous task has been flushed.
        tube.put(body(n, BODY))?;
        let (flushed, returned) = (monitor.flush_ended(), monitor.now());
        let at = received.recv()?;
        // If the consumer is very fast, `flushed` may be the end of the flush of its ack.
        if flushed < at {
            from_flush.add_signed(at - flushed);
        }
        from_put.add_signed(at - returned);
    }
    consumer.join().expect("the consumer does not panic");
    store.close()?;
    note_percentiles(report, "wake-up of a thread by a condition variable alone", &mut bare);
    for (since, times) in
        [("the return of the put", &mut from_put), ("the flush of the put", &mut from_flush)]
    {
        let (p50, p99) = note_percentiles(report, &format!("wake-up, after {since}"), times);
        let got = format!("{} / {} µs", short(p50), short(p99));
        let what = format!("wake-up p50 / p99, after {since}");
        report.target(&what, "15 / 100 µs", got, p50 <= 15.0 && p99 <= 100.0);
    }
    Ok(())
}

fn note_percentiles(report: &mut Report, name: &str, times: &mut Times) -> (f64, f64) {
    let (p50, p99) = (times.percentile(0.5), times.percentile(0.99));
    report.note(format!("{name}, p50"), p50, "µs");
    report.note(format!("{name}, p99 of {}", times.len()), p99, "µs");
    (p50, p99)
}

/// Wake-ups in a tube of a store in which another thread works at a constant rate.
fn under_load(
    setting: &Setting,
    name: &str,
    durability: Durability,
    report: &mut Report,
) -> Outcome {
    let store = Store::options().durability(durability).open(setting.fresh("wake-load"))?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    let busy = store.create_tube("busy", TubeOptions::new().driver(FIFO))?;
    busy.put_many((0..LOAD_STOCK).map(|n| body(n, BODY)))?;
    let stop = AtomicBool::new(false);
    let (times, load) = std::thread::scope(|scope| {
        let load = scope.spawn(|| work_steadily(&busy, &stop));
        let times = wake_repeatedly(&tube);
        stop.store(true, Ordering::Relaxed);
        (times, load.join().expect("the load does not panic"))
    });
    let ([mut from_return, mut from_call], load) = (times?, load?);
    store.close()?;
    report.note(format!("load during the wake-ups, {name}"), load, "cycles/s");
    let since = |event| format!("wake-up under load, {name}, after {event} of the put");
    note_percentiles(report, &since("the call"), &mut from_call);
    let what = since("the return");
    let (_, p99) = note_percentiles(report, &what, &mut from_return);
    report.target(&format!("{what}, p99"), "100 µs", format!("{} µs", short(p99)), p99 <= 100.0);
    Ok(())
}

/// Puts single tasks for a waiting consumer. Returns the times since the return of each put, and
/// those since its call.
fn wake_repeatedly(tube: &Tube) -> Outcome<[Times; 2]> {
    let (sender, received) = mpsc::channel();
    std::thread::scope(|scope| {
        let consumer = scope.spawn(move || -> Outcome {
            for n in 0..LOADED_ROUNDS {
                let claim = tube.take()?;
                let at = Instant::now();
                assert_eq!(checked(claim.body(), BODY), n);
                claim.ack()?;
                sender.send(at)?;
            }
            Ok(())
        });
        let mut times = [(); 2].map(|()| Times::default());
        for n in 0..LOADED_ROUNDS {
            std::thread::sleep(LOADED_PAUSE);
            let called = Instant::now();
            tube.put(body(n, BODY))?;
            let returned = Instant::now();
            let at = received.recv()?;
            for (times, start) in times.iter_mut().zip([returned, called]) {
                times.add_signed(signed_micros(start, at));
            }
        }
        consumer.join().expect("the consumer does not panic")?;
        Ok(times)
    })
}

/// Microseconds from `start` to `end`; negative if `end` is before `start`.
fn signed_micros(start: Instant, end: Instant) -> f64 {
    let micros =
        |later: Instant, earlier| later.saturating_duration_since(earlier).as_secs_f64() * 1e6;
    micros(end, start) - micros(start, end)
}

/// Puts and acks tasks at a constant rate, if the store keeps pace, until `stop` is set. Returns
/// cycles per second.
fn work_steadily(tube: &Tube, stop: &AtomicBool) -> Outcome<f64> {
    let (start, mut done) = (Instant::now(), 0);
    while !stop.load(Ordering::Relaxed) {
        for _ in 0..LOAD_CYCLES {
            tube.put(body(LOAD_STOCK + done, BODY))?;
            let claim = tube.try_take()?.ok_or("no ready task")?;
            assert_eq!(checked(claim.body(), BODY), done);
            claim.ack()?;
            done += 1;
        }
        std::thread::sleep(LOAD_STEP);
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// A thread that waits on a condition variable and sends the time of each wake-up: the reference
/// for the machine.
struct ParkedThread {
    notified: Arc<(Mutex<bool>, Condvar)>,
    woken_at: mpsc::Receiver<f64>,
}

impl ParkedThread {
    fn spawn(monitor: &Arc<Monitor>) -> ParkedThread {
        let notified = Arc::new((Mutex::new(false), Condvar::new()));
        let (sender, woken_at) = mpsc::channel();
        let (pair, monitor) = (notified.clone(), monitor.clone());
        std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let mut flag = pair.0.lock().expect("not poisoned");
                while !std::mem::take(&mut *flag) {
                    flag = pair.1.wait(flag).expect("not poisoned");
                }
                let at = monitor.now();
                drop(flag);
                if sender.send(at).is_err() {
                    return;
                }
            }
        });
        ParkedThread { notified, woken_at }
    }

    fn wake(&self) {
        *self.notified.0.lock().expect("not poisoned") = true;
        self.notified.1.notify_one();
    }
}
