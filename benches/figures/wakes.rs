//! The time from a put until a waiting consumer has the task.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tubewell::{FIFO, Store, TubeOptions};

use super::medium::{Monitor, SlowFile};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked};

const ROUNDS: u64 = 500;
const PAUSE: Duration = Duration::from_millis(10);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let (file, monitor) = SlowFile::create(&setting.fresh("wake"))?;
    let store = Store::options().open_on(Box::new(file))?;
    let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
    let (sender, received) = mpsc::channel();
    let consumer = {
        let (tube, monitor) = (tube.clone(), monitor.clone());
        std::thread::spawn(move || {
            for n in 0..ROUNDS {
                let claim = tube.take(None).expect("take").expect("a task");
                let at = monitor.now();
                assert_eq!(checked(claim.data(), BODY), n);
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
