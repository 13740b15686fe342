//! How soon a waiting consumer has the task that was put.

use std::sync::mpsc;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tubewell::{FIFO, Store, TubeOptions};

use super::medium::{Slow, Watch};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked};

const ROUNDS: u64 = 500;
const PAUSE: Duration = Duration::from_millis(10);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let (file, watch) = Slow::create(&setting.fresh("wake"))?;
    let store = Store::options().open_on(Box::new(file))?;
    let tube = store.create_tube("work", FIFO, TubeOptions::new())?;
    let (in_hand, hands) = mpsc::channel();
    let consumer = {
        let (tube, watch) = (tube.clone(), watch.clone());
        std::thread::spawn(move || {
            for n in 0..ROUNDS {
                let claim = tube.take(None).expect("a take").expect("a task");
                let at = watch.now();
                assert_eq!(checked(claim.data(), BODY), n);
                claim.ack().expect("an ack");
                in_hand.send(at).expect("somebody counts");
            }
        })
    };
    let bell = Bell::hang(&watch);
    let [mut from_flush, mut from_put, mut bare] = [(); 3].map(|()| Times::default());
    for n in 0..ROUNDS {
        std::thread::sleep(PAUSE);
        let rung = watch.now();
        bell.ring();
        bare.add_signed(bell.heard.recv()? - rung);
        std::thread::sleep(PAUSE);
        // The ack of the last one has been flushed, too.
        tube.put(body(n, BODY))?;
        let (flushed, returned) = (watch.flush_ended(), watch.now());
        let at = hands.recv()?;
        // Of a very fast consumer, the ack's flush may have ended by now.
        if flushed < at {
            from_flush.add_signed(at - flushed);
        }
        from_put.add_signed(at - returned);
    }
    consumer.join().expect("the consumer goes on to the end");
    store.close()?;
    tell(report, "a bare thread, woken through a condvar", &mut bare);
    for (since, times) in [("put returned", &mut from_put), ("the put's flush", &mut from_flush)] {
        let (p50, p99) = tell(report, &format!("task in hand, after {since}"), times);
        let got = format!("{} / {} µs", short(p50), short(p99));
        let what = format!("wake-up p50 / p99, after {since}");
        report.mark(&what, "15 / 100 µs", got, p50 <= 15.0 && p99 <= 100.0);
    }
    Ok(())
}

fn tell(report: &mut Report, name: &str, times: &mut Times) -> (f64, f64) {
    let (p50, p99) = (times.percentile(0.5), times.percentile(0.99));
    report.note(format!("{name}, p50"), p50, "µs");
    report.note(format!("{name}, p99 of {}", times.len()), p99, "µs");
    (p50, p99)
}

/// A thread that sleeps until it is woken and says when: what the machine takes for that.
struct Bell {
    rung: Arc<(Mutex<bool>, Condvar)>,
    heard: mpsc::Receiver<f64>,
}

impl Bell {
    fn hang(watch: &Arc<Watch>) -> Bell {
        let rung = Arc::new((Mutex::new(false), Condvar::new()));
        let (tell, heard) = mpsc::channel();
        let (ours, watch) = (rung.clone(), watch.clone());
        std::thread::spawn(move || {
            for _ in 0..ROUNDS {
                let mut is_rung = ours.0.lock().expect("nobody panics");
                while !std::mem::take(&mut *is_rung) {
                    is_rung = ours.1.wait(is_rung).expect("nobody panics");
                }
                let at = watch.now();
                drop(is_rung);
                if tell.send(at).is_err() {
                    return;
                }
            }
        });
        Bell { rung, heard }
    }

    fn ring(&self) {
        *self.rung.0.lock().expect("nobody panics") = true;
        self.rung.1.notify_one();
    }
}
