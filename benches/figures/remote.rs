//! A store that is served: calls through connections, beside calls of its own process.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use tubewell::{Durability, FIFO, ServeOptions, Store, Tube, TubeOptions, connect};

use super::idle::thread_activity;
use super::pair::{cycle, in_turn};
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, Times, body, phase};

const ROUND_TRIPS: u64 = 5000;
const RUNS: usize = 7;
const TICKETS: usize = 256;
const WAKES: u64 = 1000;
const PAUSE: Duration = Duration::from_millis(1);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    round_trips(setting, report)?;
    for durability in [Durability::Flush, Durability::write()] {
        for callers in [1, 16, 64] {
            connections(setting, report, durability, callers)?;
        }
    }
    tickets(setting, report)?;
    wakes(setting, report)
}

/// A store with a tube, and connections to it.
fn served(
    setting: &Setting,
    subject: &str,
    durability: Durability,
    connections: usize,
) -> Outcome<(Store, Tube, Vec<Tube>)> {
    let folder = setting.fresh(subject);
    std::fs::create_dir_all(&folder)?;
    let store = Store::open(folder.join("store"))?;
    let options = TubeOptions::new().durability(durability);
    let tube = store.create_tube("work", options.driver(FIFO))?;
    let served = store.admin().serve(ServeOptions::unix(folder.join("socket")))?;
    let remote = (0..connections).map(|_| connect(served.url())?.find_tube("work"));
    let remote = remote.collect::<tubewell::Result<_>>()?;
    Ok((store, tube, remote))
}

/// Calls that change memory alone, so that the call itself takes little.
fn round_trips(setting: &Setting, report: &mut Report) -> Outcome {
    let (store, tube, remote) = served(setting, "round-trips", Durability::relaxed(), 1)?;
    let measure = |tube: &Tube| -> Outcome<Times> {
        let mut times = Times::default();
        for n in 0..ROUND_TRIPS {
            let start = Instant::now();
            tube.put(body(n, BODY))?;
            times.add(start.elapsed());
        }
        tube.admin().truncate()?;
        Ok(times)
    };
    let (mut here, mut there) = (measure(&tube)?, measure(&remote[0])?);
    for (name, times) in [("of its own process", &mut here), ("through a connection", &mut there)] {
        report.note(format!("relaxed put {name}, p50"), times.percentile(0.5), "µs");
        report.note(format!("relaxed put {name}, p99"), times.percentile(0.99), "µs");
    }
    let more = there.percentile(0.5) - here.percentile(0.5);
    report.target("round trip p50, beyond the call", "40 µs", short(more) + " µs", more <= 40.0);
    Ok(store.close()?)
}

/// Cycles of threads, and of as many connections.
fn connections(
    setting: &Setting,
    report: &mut Report,
    durability: Durability,
    callers: usize,
) -> Outcome {
    let (store, tube, remote) =
        served(setting, &format!("{durability}-{callers}"), durability, callers)?;
    let measure = |at: usize| -> Outcome<f64> {
        phase(callers, |n| {
            #[allow(clippy::cast_possible_truncation, reason = "less than the number of callers")]
            let connection = (n % callers as u64) as usize;
            cycle(if at == 0 { &tube } else { &remote[connection] }, n)?;
            Ok(1)
        })
    };
    let rates = in_turn(RUNS, measure)?;
    for (name, rates) in ["threads", "connections"].iter().zip(&rates) {
        report.spread(format!("{durability} cycles, {callers} {name}"), rates, "tasks/s");
    }
    let what = format!("{durability} cycles of {callers} connections, relative to threads");
    let wanted = if durability == Durability::Flush && callers == 64 { 0.8 } else { 0.0 };
    report.ratio(&what, wanted, (&rates[1], &rates[0]));
    Ok(store.close()?)
}

/// One thread that has many puts in flight.
fn tickets(setting: &Setting, report: &mut Report) -> Outcome {
    let (store, tube, remote) = served(setting, "remote-tickets", Durability::Flush, 1)?;
    let mut processor = [Times::default(), Times::default()];
    let measure = |at: usize| -> Outcome<f64> {
        let tube = if at == 0 { &tube } else { &remote[0] };
        let deferred = tube.to_async();
        let (start, (_, nanos), mut puts) = (Instant::now(), thread_activity(), 0);
        while start.elapsed() < super::setting::PHASE {
            let tickets = (0..TICKETS as u64).map(|n| deferred.put(body(n, BODY)));
            for ticket in tickets.collect::<Vec<_>>() {
                ticket.wait()?;
            }
            puts += TICKETS;
        }
        let rate = puts as f64 / start.elapsed().as_secs_f64();
        let used = (thread_activity().1 - nanos) / puts as f64;
        processor[at].add(Duration::from_secs_f64(used / 1e9));
        tube.admin().truncate()?;
        Ok(rate)
    };
    let rates = in_turn(RUNS, measure)?;
    let names = ["of its own process", "through a connection"];
    for ((name, rates), used) in names.iter().zip(&rates).zip(&mut processor) {
        report.spread(format!("puts with {TICKETS} tickets {name}"), rates, "tasks/s");
        let used = used.percentile(0.5);
        report.note(format!("processor time of such a put {name}, all threads"), used, "µs");
    }
    let what = format!("{TICKETS} tickets through a connection, relative to its own process");
    report.ratio(&what, 0.7, (&rates[1], &rates[0]));
    Ok(store.close()?)
}

/// From a relaxed put of the owner until a taker of a connection has the task.
fn wakes(setting: &Setting, report: &mut Report) -> Outcome {
    let (store, tube, mut remote) = served(setting, "remote-wakes", Durability::relaxed(), 1)?;
    let remote = remote.remove(0);
    let (sender, woken) = mpsc::channel();
    let taker = std::thread::spawn(move || {
        for _ in 0..WAKES {
            let claim = remote.take().expect("take");
            sender.send(Instant::now()).expect("the receiver exists");
            claim.ack().expect("ack");
        }
    });
    let mut times = Times::default();
    for n in 0..WAKES {
        while store.tubes()?[0].waiting == 0 {
            std::thread::sleep(PAUSE);
        }
        let start = Instant::now();
        tube.put(body(n, BODY))?;
        times.add(woken.recv()?.duration_since(start));
    }
    taker.join().expect("the taker does not panic");
    let (p50, p99) = (times.percentile(0.5), times.percentile(0.99));
    report.note("wake-up of a taker through a connection, p99", p99, "µs");
    let what = "wake-up p50 of a taker through a connection";
    report.target(what, "60 µs", short(p50) + " µs", p50 <= 60.0);
    Ok(store.close()?)
}
