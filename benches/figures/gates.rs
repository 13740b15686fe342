//! The cost of keys, of a finish, and of takes beside many tasks that cannot be taken.

use std::time::Duration;

use tubewell::{Durability, FIFO, Put, Rate, Store, Tube, TubeOptions, UTUBE};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, checked, phase, timed};

const RUNS: usize = 5;
const CALLERS: usize = 64;
/// Tasks that cannot be taken, and the sub-queues in which they are.
const LIMITED: u64 = 1_000_000;
const SUB_QUEUES: u64 = 10_000;
/// Takes that are timed in each round, and the number of rounds.
const FREE: u64 = 200;
const ROUNDS: u64 = 25;
/// Tasks of one `put_many`.
const STEP: u64 = 5000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    keys(setting, report)?;
    finish(setting, report)?;
    gates(setting, report)
}

/// Durable puts with keys, beside puts without, in turn.
fn keys(setting: &Setting, report: &mut Report) -> Outcome {
    let mut rates = [Vec::new(), Vec::new()];
    for _ in 0..RUNS {
        for (with_key, rates) in [false, true].into_iter().zip(&mut rates) {
            let store = Store::open(setting.fresh("keys"))?;
            let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
            rates.push(puts(&tube, with_key)?);
            store.close()?;
        }
    }
    let [without, with] = rates;
    report.spread(format!("put, durable, {CALLERS} threads"), &without, "tasks/s");
    report.spread(format!("put with a key, durable, {CALLERS} threads"), &with, "tasks/s");
    let what = format!("put with a key, of one without, durable, {CALLERS} threads");
    report.ratio(&what, 0.7, (&with, &without));
    Ok(())
}

/// Puts per second.
fn puts(tube: &Tube, with_key: bool) -> Outcome<f64> {
    phase(CALLERS, |n| {
        let put = Put::new(body(n, BODY));
        tube.put(if with_key { put.key(format!("order-{n}")) } else { put })?;
        Ok(1)
    })
}

/// The flushes of an end with three puts.
fn finish(setting: &Setting, report: &mut Report) -> Outcome {
    let store = Store::open(setting.fresh("finish"))?;
    let work = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
    let mails = store.create_tube("mails", TubeOptions::new().driver(FIFO))?;
    let mut flushes = Vec::new();
    for n in 0..100 {
        work.put(body(n, BODY))?;
        let claim = work.try_take()?.ok_or("no ready task")?;
        let before = store.admin().counters()?.flushes;
        let mut finish = tubewell::Outcome::done();
        for mail in 0..3 {
            finish = finish.and_put(&mails, body(3 * n + mail, BODY));
        }
        claim.end(finish)?;
        flushes.push((store.admin().counters()?.flushes - before) as f64);
    }
    store.close()?;
    let count = report.spread("flushes of an end with three puts", &flushes, "");
    report.target("flushes of an end with three puts", "1", short(count), count <= 1.0);
    Ok(())
}

/// Why the tasks of a store cannot be taken.
#[derive(Clone, Copy, PartialEq)]
enum Gate {
    /// They wait for a parent.
    Blocked,
    /// As many tasks of their sub-queues are taken as may be.
    Full,
    /// The rate of their sub-queues is used up, by tasks that are acked.
    Rated,
}

/// Takes beside many tasks that cannot be taken, against takes without them, and against takes with
/// the claims or the used rates of their sub-queues alone.
fn gates(setting: &Setting, report: &mut Report) -> Outcome {
    for (gate, name) in [(Gate::Blocked, "blocked"), (Gate::Full, "full"), (Gate::Rated, "rated")] {
        let mut measured = Vec::new();
        for (file, tasks) in [("limited", LIMITED), ("used", gate.used()), ("alone", 0)] {
            let store = OneTube::open(setting, file, gate)?;
            store.fill(tasks)?;
            measured.push((store, Times::default()));
        }
        for round in 0..ROUNDS {
            for (store, times) in &mut measured {
                store.time_takes(round, times)?;
            }
        }
        let mut medians = Vec::new();
        for (store, mut times) in measured {
            medians.push(times.percentile(0.5));
            store.store.close()?;
        }
        let [with, used, without] = <[f64; 3]>::try_from(medians).map_err(|_| "three stores")?;
        let what = format!("take and ack beside {LIMITED} {name} tasks");
        report.note(format!("{what}, p50"), with, "µs");
        if gate != Gate::Blocked {
            report.note(format!("beside {SUB_QUEUES} {name} sub-queues without them"), used, "µs");
        }
        report.note(format!("take and ack without {name} tasks, p50"), without, "µs");
        let more = format!("{:+.0} %", (with / without - 1.0) * 100.0);
        report.target(&what, "within 20 % of none", more, with <= without * 1.2);
    }
    Ok(())
}

impl Gate {
    /// How many tasks are taken before no more can be.
    fn used(self) -> u64 {
        match self {
            Gate::Blocked => 0,
            Gate::Full => 2 * SUB_QUEUES,
            Gate::Rated => SUB_QUEUES,
        }
    }

    fn options(self) -> TubeOptions {
        match self {
            Gate::Blocked => TubeOptions::new(),
            Gate::Full => TubeOptions::new().sub_queue_limit(2),
            Gate::Rated => {
                TubeOptions::new().sub_queue_rate(Rate::per(1, Duration::from_secs(3600)))
            }
        }
    }
}

/// A store with one tube, relaxed, so that flushes do not affect the figures.
struct OneTube {
    store: Store,
    tube: Tube,
    gate: Gate,
}

impl OneTube {
    fn open(setting: &Setting, name: &str, gate: Gate) -> Outcome<OneTube> {
        let store = Store::options().durability(Durability::relaxed()).open(setting.fresh(name))?;
        let driver = if gate == Gate::Blocked { FIFO } else { UTUBE };
        let tube = store.create_tube("work", gate.options().driver(driver))?;
        Ok(OneTube { store, tube, gate })
    }

    /// Puts tasks behind a parent, or into sub-queues, of which it takes what can be taken.
    fn fill(&self, tasks: u64) -> Outcome {
        let parents = self.store.create_tube("parents", TubeOptions::new().driver(FIFO))?;
        let parent = parents.put(body(0, BODY))?.id;
        let task = |n: u64| match self.gate {
            Gate::Blocked => Put::new(body(n, BODY)).after(&parents, [parent]),
            _ => Put::new(body(n, BODY)).sub_queue(format!("sub{}", n % SUB_QUEUES)),
        };
        for first in (0..tasks).step_by(usize::try_from(STEP)?) {
            self.tube.put_many((first..first + STEP).map(task))?;
        }
        let mut taken = 0;
        while let Some(claim) = self.tube.try_take()? {
            taken += 1;
            match self.gate {
                // It stays taken until the store is closed.
                Gate::Full => std::mem::forget(claim),
                _ => drop(claim.ack()?),
            }
        }
        assert_eq!(taken, tasks.min(self.gate.used()), "no more tasks can be taken");
        self.store.flush()?;
        Ok(())
    }

    /// Times single pairs of a take and an ack of tasks that can be taken.
    fn time_takes(&self, round: u64, times: &mut Times) -> Outcome {
        let put = |n: u64| {
            let put = Put::new(body(n, BODY));
            if self.gate == Gate::Blocked { put } else { put.sub_queue(format!("free{round}-{n}")) }
        };
        self.tube.put_many((0..FREE).map(put))?;
        self.store.flush()?;
        for n in 0..FREE {
            let (taken, time) = timed(|| {
                let claim = self.tube.try_take()?;
                let number = claim.as_ref().map(|claim| checked(claim.body(), BODY));
                claim.map(tubewell::Claim::ack).transpose().map(|_| number)
            });
            assert_eq!(taken?, Some(n), "the next free task");
            times.add(time);
        }
        self.store.flush()?;
        Ok(())
    }
}
