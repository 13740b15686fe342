//! Tasks per second of tubewell with each driver, durability, and number of threads, tickets and
//! tasks per batch.
//!
//! All rows run in turn, several times, so that a disturbance of the machine affects all of them.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use tubewell::{
    Claim, Durability, FIFO, FIFOTTL, Put, Store, Ticket, Tube, TubeOptions, UTUBE, UTUBETTL,
};

use super::report::Report;
use super::setting::{BODY, Outcome, PHASE, Setting, body, checked, median, phase};

const RUNS: usize = 5;
const LARGE: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Durable,
    Written,
    Relaxed,
    Temporary,
}

/// How calls are made.
#[derive(Clone, Copy)]
enum Callers {
    Threads(usize),
    Tickets(usize),
    Batches(usize),
}

struct Case {
    name: String,
    kind: Kind,
    driver: &'static str,
    size: usize,
    callers: Callers,
    /// For each run: puts, takes with acks, and cycles per second.
    rates: Vec<[f64; 3]>,
    flushes: f64,
}

impl Case {
    fn new(kind: Kind, driver: &'static str, size: usize, callers: Callers) -> Case {
        let how = match callers {
            Callers::Threads(1) => "1 thread".into(),
            Callers::Threads(threads) => format!("{threads} threads"),
            Callers::Tickets(tickets) => format!("{tickets} tickets of 1 thread"),
            Callers::Batches(tasks) => format!("batches of {tasks}"),
        };
        let kind_name = match kind {
            Kind::Durable => "durable",
            Kind::Written => "written",
            Kind::Relaxed => "relaxed",
            Kind::Temporary => "temporary",
        };
        let name = format!("{kind_name} {driver}, {size} B, {how}");
        Case { name, kind, driver, size, callers, rates: Vec::new(), flushes: 0.0 }
    }

    fn cycle(&self) -> f64 {
        median(&self.rates.iter().map(|rates| rates[2]).collect::<Vec<_>>())
    }
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for size in [BODY, LARGE] {
        for callers in [
            Callers::Threads(1),
            Callers::Threads(16),
            Callers::Threads(64),
            Callers::Tickets(1),
            Callers::Tickets(64),
            Callers::Tickets(256),
            Callers::Tickets(1024),
            Callers::Batches(1000),
        ] {
            cases.push(Case::new(Kind::Durable, FIFO, size, callers));
        }
        for kind in [Kind::Written, Kind::Relaxed, Kind::Temporary] {
            cases.push(Case::new(kind, FIFO, size, Callers::Threads(1)));
        }
    }
    for driver in [FIFOTTL, UTUBE, UTUBETTL] {
        cases.push(Case::new(Kind::Durable, driver, BODY, Callers::Threads(1)));
        cases.push(Case::new(Kind::Durable, driver, BODY, Callers::Threads(64)));
        cases.push(Case::new(Kind::Written, driver, BODY, Callers::Threads(1)));
        cases.push(Case::new(Kind::Relaxed, driver, BODY, Callers::Threads(1)));
    }
    cases
}

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let mut cases = cases();
    for _ in 0..RUNS {
        for case in &mut cases {
            run(setting, case)?;
        }
    }
    println!(
        "| tasks/s, median | put | take+ack | cycle | flushes per cycle |\n|---|---|---|---|---|"
    );
    for case in &cases {
        let of =
            |kind: usize| median(&case.rates.iter().map(|rates| rates[kind]).collect::<Vec<_>>());
        let cell = |kind| super::report::short(of(kind));
        println!(
            "| {} | {} | {} | {} | {:.3} |",
            case.name,
            cell(0),
            cell(1),
            cell(2),
            case.flushes
        );
    }
    println!();
    for case in &cases {
        for (kind, verb) in ["put", "take+ack", "cycle"].into_iter().enumerate() {
            let runs: Vec<f64> = case.rates.iter().map(|rates| rates[kind]).collect();
            report.spread(format!("{}: {verb}", case.name), &runs, "tasks/s");
        }
        report.note(format!("{}: flushes", case.name), case.flushes, "per cycle");
    }
    compare_with_targets(&cases, report);
    Ok(())
}

fn compare_with_targets(cases: &[Case], report: &mut Report) {
    let cycle =
        |name: &str| cases.iter().find(|case| case.name == name).map_or(f64::NAN, Case::cycle);
    for (driver, wanted) in [(FIFOTTL, 0.7), (UTUBE, 0.6), (UTUBETTL, 0.5)] {
        for how in [
            "durable {}, 128 B, 1 thread",
            "durable {}, 128 B, 64 threads",
            "written {}, 128 B, 1 thread",
            "relaxed {}, 128 B, 1 thread",
        ] {
            let got = cycle(&how.replace("{}", driver)) / cycle(&how.replace("{}", FIFO));
            let what = format!("cycle, {}", how.replace("{}", driver));
            report.target(&what, &format!("{wanted} of fifo"), format!("{got:.2}"), got >= wanted);
        }
    }
    let single = cases.iter().find(|case| case.name == "durable fifo, 128 B, 1 thread");
    let flushes = single.map_or(f64::NAN, |case| case.flushes);
    report.target("flushes per cycle, 1 thread", "2", format!("{flushes:.2}"), flushes < 2.05);
}

fn run(setting: &Setting, case: &mut Case) -> Outcome {
    let durability = match case.kind {
        Kind::Written => Durability::write(),
        Kind::Relaxed => Durability::relaxed(),
        Kind::Durable | Kind::Temporary => Durability::Flush,
    };
    let store = Store::options().durability(durability).open(setting.fresh("rates"))?;
    let options = TubeOptions::new().temporary(case.kind == Kind::Temporary);
    let tube = store.create_tube("work", options.driver(case.driver))?;
    let work = Work { tube: &tube, size: case.size };
    let put = work.put(case.callers)?;
    let drain = work.drain(case.callers)?;
    tube.admin().truncate()?;
    let before = (store.admin().counters()?.flushes, tube.statistics()?.calls.ack);
    let cycle = work.cycle(case.callers)?;
    let cycles = tube.statistics()?.calls.ack - before.1;
    case.flushes = (store.admin().counters()?.flushes - before.0) as f64 / cycles.max(1) as f64;
    case.rates.push([put, drain, cycle]);
    Ok(store.close()?)
}

/// The three kinds of work. Each runs for one phase and returns tasks per second.
struct Work<'a> {
    tube: &'a Tube,
    size: usize,
}

impl Work<'_> {
    fn task(&self, n: u64) -> Put<Vec<u8>> {
        let put = Put::new(body(n, self.size));
        match self.tube.driver() {
            UTUBE => put.sub_queue(format!("sub{}", n % 1000)),
            UTUBETTL => put.sub_queue(format!("sub{}", n % 1000)).ttl(Duration::from_secs(3600)),
            FIFOTTL => put.ttl(Duration::from_secs(3600)).priority(3),
            _ => put,
        }
    }

    fn check(&self, claim: Claim) -> Claim {
        checked(claim.body(), self.size);
        claim
    }

    fn put(&self, callers: Callers) -> Outcome<f64> {
        let deferred = self.tube.to_async();
        match callers {
            Callers::Threads(threads) => {
                phase(threads, |n| Ok(self.tube.put(self.task(n)).map(|_| 1)?))
            }
            Callers::Tickets(tickets) => {
                keep_in_flight(tickets, |n| Ok(Some(deferred.put(self.task(n)))))
            }
            Callers::Batches(tasks) => phase(1, |n| {
                let first = n * tasks as u64;
                Ok(self.tube.put_many((first..).take(tasks).map(|n| self.task(n)))?.len())
            }),
        }
    }

    /// Takes and acks until the phase ends or no task is left.
    fn drain(&self, callers: Callers) -> Outcome<f64> {
        match callers {
            Callers::Threads(threads) => phase(threads, |_| match self.tube.try_take()? {
                Some(claim) => Ok(self.check(claim).ack().map(|_| 1)?),
                None => Ok(0),
            }),
            Callers::Tickets(tickets) => {
                keep_in_flight(tickets, |_| match self.tube.try_take()? {
                    Some(claim) => Ok(Some(self.check(claim).into_async().ack())),
                    None => Ok(None),
                })
            }
            Callers::Batches(tasks) => phase(1, |_| self.take_batch(tasks)),
        }
    }

    fn cycle(&self, callers: Callers) -> Outcome<f64> {
        match callers {
            Callers::Threads(threads) => phase(threads, |n| {
                self.tube.put(self.task(n))?;
                let claim = self
                    .tube
                    .take_timeout(Duration::from_secs(10))?
                    .ok_or("no task after a put")?;
                Ok(self.check(claim).ack().map(|_| 1)?)
            }),
            Callers::Tickets(tickets) => self.cycles_in_flight(tickets),
            Callers::Batches(tasks) => phase(1, |n| {
                let first = n * tasks as u64;
                self.tube.put_many((first..).take(tasks).map(|n| self.task(n)))?;
                self.take_batch(tasks)
            }),
        }
    }

    fn take_batch(&self, tasks: usize) -> Outcome<usize> {
        let claims = self.tube.take_many(tasks, Duration::ZERO)?;
        for claim in &claims {
            checked(claim.body(), self.size);
        }
        Ok(Claim::end_many(claims, |_| tubewell::Outcome::done())?
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?
            .len())
    }

    /// Keeps `tickets` cycles in flight in one thread.
    fn cycles_in_flight(&self, tickets: usize) -> Outcome<f64> {
        enum Step {
            Put(Ticket<tubewell::Receipt>),
            Ack(Ticket<tubewell::Receipt>),
        }
        let deferred = self.tube.to_async();
        let start = Instant::now();
        let mut in_flight = VecDeque::new();
        let (mut begun, mut done) = (0, 0_usize);
        let mut open = true;
        while open || !in_flight.is_empty() {
            open = start.elapsed() < PHASE;
            while open && in_flight.len() < tickets {
                in_flight.push_back(Step::Put(deferred.put(self.task(begun))));
                begun += 1;
            }
            match in_flight.pop_front() {
                Some(Step::Put(ticket)) => {
                    ticket.wait()?;
                    let claim = self.tube.try_take()?.ok_or("no task after a put")?;
                    in_flight.push_back(Step::Ack(self.check(claim).into_async().ack()));
                }
                Some(Step::Ack(ticket)) => {
                    ticket.wait()?;
                    done += 1;
                }
                None => break,
            }
        }
        Ok(done as f64 / start.elapsed().as_secs_f64())
    }
}

/// Keeps `tickets` calls in flight in one thread for one phase, or until `submit` returns `None`.
fn keep_in_flight<T>(
    tickets: usize,
    mut submit: impl FnMut(u64) -> Outcome<Option<Ticket<T>>>,
) -> Outcome<f64> {
    let start = Instant::now();
    let mut in_flight = VecDeque::new();
    let (mut begun, mut done) = (0, 0_usize);
    while start.elapsed() < PHASE {
        while in_flight.len() < tickets {
            let Some(ticket) = submit(begun)? else { break };
            begun += 1;
            in_flight.push_back(ticket);
        }
        let Some(first) = in_flight.pop_front() else { break };
        first.wait()?;
        done += 1;
    }
    for ticket in in_flight {
        ticket.wait()?;
        done += 1;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}
