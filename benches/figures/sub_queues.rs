//! A crowd of busy sub-queues: it costs nobody else anything, and is drained in linear time.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tubewell::{Claim, Durability, Put, Store, Tube, TubeOptions, UTUBE};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

/// Take and ack on the free sub-queue, at a time, and how often.
const FREE: u64 = 200;
const ROUNDS: usize = 25;

/// Sub-queues, and the ready tasks of each; ten thousand times a thousand would take an hour.
const CROWDS: [(u64, u64); 3] = [(10, 1000), (1000, 1000), (10_000, 100)];

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (subs, each) in CROWDS {
        let crowded = Crowd::gather(setting, "crowded", subs, each)?;
        let alone = Crowd::gather(setting, "alone", 0, 0)?;
        let mut times = [Times::default(), Times::default()];
        for _ in 0..ROUNDS {
            crowded.serve_free(&mut times[0])?;
            alone.serve_free(&mut times[1])?;
        }
        alone.store.close()?;
        let name = format!("{subs} busy sub-queues of {each} ready tasks");
        let [crowd, nobody] = times.map(|mut times| times.percentile(0.5));
        report.note(format!("take and ack on a free sub-queue beside {name}, p50"), crowd, "µs");
        report.note("take and ack beside none, p50", nobody, "µs");
        report.mark(
            &format!("free sub-queue beside {name}"),
            "within 20 % of none busy",
            format!("{:+.0} %", (crowd / nobody - 1.0) * 100.0),
            crowd <= nobody * 1.2,
        );
        crowded.drain(subs, each, report)?;
    }
    Ok(())
}

/// A store whose tube has busy sub-queues, each with one taken task and the others ready.
struct Crowd {
    store: Store,
    tube: Tube,
    held: Vec<Claim>,
}

impl Crowd {
    /// Relaxed, so that what is measured is not the disk.
    fn gather(setting: &Setting, name: &str, subs: u64, each: u64) -> Outcome<Crowd> {
        let options = Store::options().durability(Durability::relaxed());
        let store = options.open(setting.fresh(name))?;
        let tube = store.create_tube("work", UTUBE, TubeOptions::new())?;
        // As they would come: not one sub-queue after the other.
        let mut tasks = (0..=each).flat_map(|_| 0..subs);
        loop {
            let some: Vec<Put> = tasks.by_ref().take(10_000).map(task).collect();
            if some.is_empty() {
                break;
            }
            tube.put_many(some)?;
        }
        let held = tube.take_many(usize::try_from(subs)?, Duration::ZERO)?;
        assert_eq!(held.len() as u64, subs, "one of each sub-queue");
        assert!(tube.try_take()?.is_none(), "all the others are held up");
        store.flush()?;
        Ok(Crowd { store, tube, held })
    }

    /// Times a take and an ack, each pair for itself, on a sub-queue that nobody holds.
    fn serve_free(&self, times: &mut Times) -> Outcome {
        self.tube.put_many((0..FREE).map(|n| Put::new(body(n, BODY)).sub_queue("free")))?;
        self.store.flush()?;
        for n in 0..FREE {
            let (claim, time) = timed(|| {
                let claim = self.tube.try_take()?;
                let known = claim
                    .as_ref()
                    .map(|claim| (checked(claim.data(), BODY), claim.sub_queue() == Some("free")));
                claim.map(Claim::ack).transpose().map(|_| known)
            });
            assert_eq!(claim?, Some((n, true)), "the next free task");
            times.add(time);
        }
        Ok(self.store.flush().map(|_| ())?)
    }

    /// As many consumers as there are sub-queues, each acks its task and takes the next one.
    fn drain(self, subs: u64, each: u64, report: &mut Report) -> Outcome {
        let mut held = VecDeque::from(self.held);
        let quarter = (subs * (each + 1)).div_ceil(4);
        let (mut quarters, mut done) = (Vec::new(), 0);
        let start = Instant::now();
        let mut began = start;
        while let Some(claim) = held.pop_front() {
            let sub = checked(claim.data(), BODY);
            assert_eq!(claim.sub_queue(), Some(name(sub).as_str()));
            claim.ack()?;
            held.extend(self.tube.try_take()?);
            done += 1;
            if done % quarter == 0 || held.is_empty() {
                let tasks = if done % quarter == 0 { quarter } else { done % quarter };
                quarters.push(tasks as f64 / began.elapsed().as_secs_f64());
                began = Instant::now();
            }
        }
        assert_eq!(done, subs * (each + 1), "everything came out");
        let rate = done as f64 / start.elapsed().as_secs_f64();
        report.note(format!("{subs} consumers drain {done} tasks, relaxed"), rate, "tasks/s");
        let (first, last) = (quarters[0], quarters[3]);
        report.mark(
            &format!("{subs} consumers drain {done} tasks"),
            "linear: the last quarter as fast as the first, within 20 %",
            format!("{} then {} tasks/s", short(first), short(last)),
            last >= first * 0.8 && first >= last * 0.8,
        );
        Ok(self.store.close()?)
    }
}

fn name(sub: u64) -> String {
    format!("sub{sub}")
}

fn task(sub: u64) -> Put {
    Put::new(body(sub, BODY)).sub_queue(name(sub))
}
