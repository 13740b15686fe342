//! Many busy sub-queues: their effect on a free sub-queue, and the time to drain them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tubewell::{Claim, Durability, Put, Store, Tube, TubeOptions, UTUBE};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, timed};

/// Tasks of the free sub-queue per round, and the number of rounds.
const FREE: u64 = 200;
const ROUNDS: usize = 25;

/// Numbers of busy sub-queues, and of ready tasks in each. 10,000 times 1000 would take an hour.
const CASES: [(u64, u64); 3] = [(10, 1000), (1000, 1000), (10_000, 100)];

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (subs, each) in CASES {
        let busy = BusyTube::fill(setting, "busy", subs, each)?;
        let alone = BusyTube::fill(setting, "alone", 0, 0)?;
        let mut times = [Times::default(), Times::default()];
        for _ in 0..ROUNDS {
            busy.time_free_sub_queue(&mut times[0])?;
            alone.time_free_sub_queue(&mut times[1])?;
        }
        alone.store.close()?;
        let name = format!("{subs} busy sub-queues of {each} ready tasks");
        let [with_busy, without] = times.map(|mut times| times.percentile(0.5));
        let what = format!("take and ack on a free sub-queue, with {name}");
        report.note(format!("{what}, p50"), with_busy, "µs");
        report.note("take and ack on a free sub-queue, without busy ones, p50", without, "µs");
        report.target(
            &what,
            "within 20 % of no busy ones",
            format!("{:+.0} %", (with_busy / without - 1.0) * 100.0),
            with_busy <= without * 1.2,
        );
        busy.drain(subs, each, report)?;
    }
    Ok(())
}

/// A store with one tube of busy sub-queues. Each sub-queue has one taken task; its others are
/// ready.
struct BusyTube {
    store: Store,
    tube: Tube,
    claims: Vec<Claim>,
}

impl BusyTube {
    /// The store is relaxed, so that flushes do not affect the figures.
    fn fill(setting: &Setting, name: &str, subs: u64, each: u64) -> Outcome<BusyTube> {
        let options = Store::options().durability(Durability::relaxed());
        let store = options.open(setting.fresh(name))?;
        let tube = store.create_tube("work", TubeOptions::new().driver(UTUBE))?;
        // The tasks of the sub-queues alternate, as in an application.
        let mut tasks = (0..=each).flat_map(|_| 0..subs);
        loop {
            let batch: Vec<_> = tasks.by_ref().take(10_000).map(task).collect();
            if batch.is_empty() {
                break;
            }
            tube.put_many(batch)?;
        }
        let claims = tube.take_many(usize::try_from(subs)?, Duration::ZERO)?;
        assert_eq!(claims.len() as u64, subs, "one task of each sub-queue");
        assert!(tube.try_take()?.is_none(), "all sub-queues are busy");
        store.flush()?;
        Ok(BusyTube { store, tube, claims })
    }

    /// Times single pairs of a take and an ack on a free sub-queue.
    fn time_free_sub_queue(&self, times: &mut Times) -> Outcome {
        self.tube.put_many((0..FREE).map(|n| Put::new(body(n, BODY)).sub_queue("free")))?;
        self.store.flush()?;
        for n in 0..FREE {
            let (claim, time) = timed(|| {
                let claim = self.tube.try_take()?;
                let known = claim
                    .as_ref()
                    .map(|claim| (checked(claim.body(), BODY), claim.sub_queue() == Some("free")));
                claim.map(Claim::ack).transpose().map(|_| known)
            });
            assert_eq!(claim?, Some((n, true)), "the next free task");
            times.add(time);
        }
        Ok(self.store.flush().map(|_| ())?)
    }

    /// Drains the tube with one consumer per sub-queue. Each acks its task and takes the next one.
    fn drain(self, subs: u64, each: u64, report: &mut Report) -> Outcome {
        let mut claims = VecDeque::from(self.claims);
        let quarter = (subs * (each + 1)).div_ceil(4);
        let (mut quarters, mut done) = (Vec::new(), 0);
        let start = Instant::now();
        let mut began = start;
        while let Some(claim) = claims.pop_front() {
            let sub = checked(claim.body(), BODY);
            assert_eq!(claim.sub_queue(), Some(name(sub).as_str()));
            claim.ack()?;
            claims.extend(self.tube.try_take()?);
            done += 1;
            if done % quarter == 0 || claims.is_empty() {
                let tasks = if done % quarter == 0 { quarter } else { done % quarter };
                quarters.push(tasks as f64 / began.elapsed().as_secs_f64());
                began = Instant::now();
            }
        }
        assert_eq!(done, subs * (each + 1), "all tasks were taken");
        let rate = done as f64 / start.elapsed().as_secs_f64();
        report.note(format!("{subs} consumers drain {done} tasks, relaxed"), rate, "tasks/s");
        let (first, last) = (quarters[0], quarters[3]);
        report.target(
            &format!("{subs} consumers drain {done} tasks"),
            "linear: the last quarter within 20 % of the rate of the first",
            format!("{} then {} tasks/s", short(first), short(last)),
            last >= first * 0.8 && first >= last * 0.8,
        );
        Ok(self.store.close()?)
    }
}

fn name(sub: u64) -> String {
    format!("sub{sub}")
}

fn task(sub: u64) -> Put<Vec<u8>> {
    Put::new(body(sub, BODY)).sub_queue(name(sub))
}
