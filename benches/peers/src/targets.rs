//! The targets of tubewell relative to other queues, and whether a run met them.

use crate::queue::{Class, Shape, Work};
use crate::report::{Report, Spread, Target, Verdict, median};

const OURS: &str = "tubewell/fifo";
const REDB: &str = "redb/";
const DISK: &str = "disk/";
const TARANTOOL: &str = "tarantool/fsync";
const WRITTEN: &str = "tubewell/written";
const RELAXED: &str = "tubewell/relaxed";
const TEMPORARY: &str = "tubewell/temporary";
/// The peers whose acknowledged calls survive a killed process.
const PROCESS_SAFE: [&str; 4] = ["yaque", "sqlite/normal", "beanstalkd/-f50", "tarantool/write"];

/// All targets, with what the run measured.
pub fn targets(report: &Report) -> Vec<Target> {
    let mut targets = Vec::new();
    targets.extend(lone(report));
    targets.extend(many(report));
    targets.extend(drivers(report));
    targets.extend(sub_queues(report));
    targets.extend(written(report));
    targets.extend(relaxed(report));
    targets.extend(many_threads(report));
    targets.extend(served(report));
    targets.extend(wake(report));
    targets.extend(costs(report));
    targets
}

/// One caller, relative to the engine, the disk and the durable peers.
fn lone(report: &Report) -> impl Iterator<Item = Target> {
    let one = Shape::Callers(1);
    [Work::Put, Work::Cycle].into_iter().flat_map(move |work| {
        let ours = rate(report, OURS, one, work);
        let what = |peer| format!("1 caller, {}: relative to {peer}", work.name());
        let durable = |name: &str| !is_baseline(name) && !name.starts_with("tubewell");
        [
            at_least(what("plain redb"), 0.95, ours, best(report, REDB, one, work)),
            at_least(what("the disk baseline"), 0.9, ours, best(report, DISK, one, work)),
            at_least(
                what("the best durable peer"),
                1.0,
                ours,
                best_of(report, Class::Durable, durable, one, work),
            ),
        ]
    })
}

/// Many callers, tickets, batches.
fn many(report: &Report) -> Vec<Target> {
    let tarantool = |callers, work| rate(report, TARANTOOL, Shape::Callers(callers), work);
    let redb = |shape, work| best(report, REDB, shape, work);
    let row = |shape: Shape, work: Work, factor: f64, peer: &str, theirs| {
        let what = format!("{shape}, {}: relative to {peer}", work.name());
        at_least(what, factor, rate(report, OURS, shape, work), theirs)
    };
    let (callers, batches) = (Shape::Callers(64), Shape::Batches(1000));
    let (few, more) = (Shape::Tickets(64), Shape::Tickets(256));
    let (fibers, many_fibers) = ("Tarantool with 64 fibers", "Tarantool with 256 fibers");
    let (put, cycle) = (Work::Put, Work::Cycle);
    vec![
        row(callers, put, 0.9, "plain redb", redb(callers, put)),
        row(callers, cycle, 0.8, "plain redb", redb(callers, cycle)),
        row(callers, cycle, 2.0, fibers, tarantool(64, cycle)),
        row(few, cycle, 3.0, fibers, tarantool(64, cycle)),
        row(more, put, 1.2, many_fibers, tarantool(256, put)),
        row(more, cycle, 4.0, many_fibers, tarantool(256, cycle)),
        row(batches, cycle, 0.5, "plain redb in batches of 1000", redb(batches, cycle)),
    ]
}

fn drivers(report: &Report) -> impl Iterator<Item = Target> {
    [("fifottl", 0.7), ("utube", 0.6), ("utubettl", 0.5)].into_iter().flat_map(
        move |(name, factor)| {
            [Shape::Callers(1), Shape::Callers(64)].map(|shape| {
                let ours = rate(report, &format!("tubewell/{name}"), shape, Work::Cycle);
                let what = format!("{name}, {shape}, cycle: relative to fifo");
                at_least(what, factor, ours, rate(report, OURS, shape, Work::Cycle))
            })
        },
    )
}

/// Puts and takes over many sub-queues, 64 callers.
fn sub_queues(report: &Report) -> impl Iterator<Item = Target> {
    let shape = Shape::Callers(64);
    ["utube", "utubettl"].into_iter().flat_map(move |name| {
        [Work::Put, Work::TakeAck].map(|work| {
            let ours = rate(report, &format!("tubewell/{name}"), shape, work);
            let what = format!("{name}, {shape}, {}: relative to fifo", work.name());
            at_least(what, 0.6, ours, rate(report, OURS, shape, work))
        })
    })
}

/// Written tubes, relative to relaxed ones with one caller, and to each process-safe peer.
fn written(report: &Report) -> impl Iterator<Item = Target> {
    let to = move |peer: &str, factor, shape: Shape, work: Work| {
        let name = peer.trim_start_matches("tubewell/");
        let what = format!("written, {shape}, {}: relative to {name}", work.name());
        at_least(what, factor, rate(report, WRITTEN, shape, work), rate(report, peer, shape, work))
    };
    let one = Shape::Callers(1);
    // Puts of 150k/s and cycles of 200k/s, on a machine where relaxed tubes do 370k/s and 470k/s.
    let relaxed =
        [to(RELAXED, 150.0 / 370.0, one, Work::Put), to(RELAXED, 200.0 / 470.0, one, Work::Cycle)];
    let peers = PROCESS_SAFE.into_iter().flat_map(move |peer| {
        [1, 16, 64].map(|callers| to(peer, 1.0, Shape::Callers(callers), Work::Cycle))
    });
    relaxed.into_iter().chain(peers)
}

/// Many callers on tubes without a flush per call, relative to one caller.
fn many_threads(report: &Report) -> impl Iterator<Item = Target> {
    [WRITTEN, RELAXED, TEMPORARY].into_iter().flat_map(move |name| {
        [Work::Put, Work::Cycle].into_iter().flat_map(move |work| {
            let of = move |callers| rate(report, name, Shape::Callers(callers), work);
            [16, 64].map(|callers| {
                let (tube, shape) = (name.trim_start_matches("tubewell/"), Shape::Callers(callers));
                let what = format!("{tube}, {shape}, {}: relative to 1 caller", work.name());
                at_least(what, 0.8, of(callers), of(1))
            })
        })
    })
}

/// 64 connections, relative to those of beanstalkd by the same kind of socket.
fn served(report: &Report) -> impl Iterator<Item = Target> {
    let shape = Shape::Callers(64);
    [("served-unix", "beanstalkd/-f0-unix"), ("served-tcp", "beanstalkd/-f0")].into_iter().flat_map(
        move |(name, peer)| {
            [Work::Put, Work::Cycle].map(|work| {
                let ours = rate(report, &format!("tubewell/{name}"), shape, work);
                let what = format!("{name}, {shape}, {}: relative to {peer}", work.name());
                at_least(what, 8.0, ours, rate(report, peer, shape, work))
            })
        },
    )
}

fn relaxed(report: &Report) -> impl Iterator<Item = Target> {
    let of = |name| rate(report, name, Shape::Callers(1), Work::Cycle);
    let peers = [("sqlite/normal", 10.0), ("yaque", 1.0), ("rustqueue/hybrid", 1.0)];
    peers.into_iter().map(move |(peer, factor)| {
        let what = format!("relaxed, 1 caller, cycle: relative to {peer}");
        at_least(what, factor, of(RELAXED), of(peer))
    })
}

fn wake(report: &Report) -> Vec<Target> {
    let of =
        |name: &str| report.row(name, Shape::WakeUp).filter(|row| row.is_valid())?.wake.as_ref();
    let ours = of(OURS);
    let peers = report.peers.iter().map(|peer| peer.about.name.as_str());
    let others: Vec<_> = peers
        .filter(|name| !is_baseline(name) && !name.starts_with("tubewell"))
        .filter_map(of)
        .collect();
    let least = |figures: Vec<f64>| figures.into_iter().min_by(f64::total_cmp);
    let p50 = least(others.iter().map(|wake| wake.p50_us.median).collect());
    let p99 = least(others.iter().map(|wake| wake.p99_us.median).collect());
    let (ours50, ours99) =
        (ours.map(|wake| wake.p50_us.median), ours.map(|wake| wake.p99_us.median));
    let p99_of = |name| of(name).map(|wake| wake.p99_us.median);
    vec![
        at_most("wake-up p50, µs".into(), Some(15.0), ours50),
        at_most("wake-up p99, µs".into(), Some(100.0), ours99),
        at_most("wake-up p99 of written, µs".into(), Some(100.0), p99_of(WRITTEN)),
        at_most("wake-up p99 of relaxed, µs".into(), Some(100.0), p99_of(RELAXED)),
        at_most("wake-up p50, µs: at most the best peer".into(), p50, ours50),
        at_most("wake-up p99, µs: at most the best peer".into(), p99, ours99),
    ]
}

/// Flushes and bytes written with one caller.
fn costs(report: &Report) -> [Target; 2] {
    let one = Shape::Callers(1);
    let measure = |name: &str, work| report.row(name, one).and_then(|row| row.measure(work));
    let flushes = measure(OURS, Work::Cycle).and_then(|cycle| cycle.flushes_per_task.as_ref());
    let bytes = |name: &str| Some(measure(name, Work::Put)?.bytes_per_task.as_ref()?.median);
    // The growth of the file adds a few flushes to the two of each cycle.
    [
        at_most(
            "flushes per cycle, 1 caller".into(),
            Some(2.02),
            flushes.map(|flushes| flushes.median),
        ),
        at_most(
            "bytes written per put, 1 caller: at most plain redb + 8 KiB".into(),
            bytes("redb/leader").map(|bytes| bytes + 8192.0),
            bytes(OURS),
        ),
    ]
}

/// Whether this peer is a baseline, not a queue.
pub fn is_baseline(name: &str) -> bool {
    name.starts_with(REDB) || name.starts_with(DISK)
}

fn rate<'a>(report: &'a Report, peer: &str, shape: Shape, work: Work) -> Option<&'a Spread> {
    Some(&report.row(peer, shape)?.measure(work)?.tasks_per_second)
}

/// The fastest durable peer whose name starts with `prefix`.
fn best<'a>(report: &'a Report, prefix: &str, shape: Shape, work: Work) -> Option<&'a Spread> {
    best_of(report, Class::Durable, |name| name.starts_with(prefix), shape, work)
}

fn best_of(
    report: &Report,
    class: Class,
    wanted: impl Fn(&str) -> bool,
    shape: Shape,
    work: Work,
) -> Option<&Spread> {
    let peers = report.peers.iter().filter(|peer| peer.about.class == class);
    let names = peers.map(|peer| peer.about.name.as_str()).filter(|name| wanted(name));
    names
        .filter_map(|name| rate(report, name, shape, work))
        .max_by(|a, b| a.median.total_cmp(&b.median))
}

/// A target for the ratio of our figure to theirs: at least `factor`.
fn at_least(what: String, factor: f64, ours: Option<&Spread>, theirs: Option<&Spread>) -> Target {
    let got = ours.zip(theirs).map(|(ours, theirs)| ratio(ours, theirs));
    Target {
        what,
        wanted: format!("at least {}", (factor * 1000.0).round() / 1000.0),
        got,
        verdict: verdict(got, |got| got >= factor),
    }
}

/// A target for our figure: at most `limit`.
fn at_most(what: String, limit: Option<f64>, got: Option<f64>) -> Target {
    let got = got.filter(|_| limit.is_some());
    let verdict = verdict(got, |got| limit.is_some_and(|limit| got <= limit));
    let wanted =
        limit.map_or_else(|| "at most the best peer".into(), |limit| format!("at most {limit:.2}"));
    Target { what, wanted, got, verdict }
}

fn verdict(got: Option<f64>, met: impl Fn(f64) -> bool) -> Verdict {
    match got {
        None => Verdict::NotMeasured,
        Some(got) if met(got) => Verdict::Met,
        Some(_) => Verdict::Missed,
    }
}

/// The median of the ratios of each round. A disturbance affects both figures of a round alike.
fn ratio(ours: &Spread, theirs: &Spread) -> f64 {
    let mut ratios: Vec<f64> =
        ours.rounds.iter().zip(&theirs.rounds).map(|(ours, theirs)| ours / theirs).collect();
    ratios.sort_by(f64::total_cmp);
    median(&ratios)
}

#[cfg(test)]
mod tests {
    use super::{ratio, targets};
    use crate::report::tests::sample;
    use crate::report::{Spread, Verdict};

    #[test]
    fn ratio_compares_round_by_round() {
        let ours = Spread::new(vec![10.0, 20.0, 30.0]);
        let theirs = Spread::new(vec![10.0, 10.0, 60.0]);
        assert!((ratio(&ours, &theirs) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn target_without_its_peer_is_not_measured() {
        let targets = targets(&sample());
        let of = |what: &str| targets.iter().find(|target| target.what == what).map(|t| t.verdict);
        assert_eq!(of("1 caller, cycle: relative to plain redb"), Some(Verdict::Missed));
        assert_eq!(
            of("1 caller, cycle: relative to the disk baseline"),
            Some(Verdict::NotMeasured)
        );
        assert_eq!(of("64 callers, cycle: relative to plain redb"), Some(Verdict::Met));
        assert_eq!(of("flushes per cycle, 1 caller"), Some(Verdict::Met));
        assert_eq!(of("wake-up p50, µs"), Some(Verdict::Missed));
    }

    #[test]
    fn written_is_compared_with_relaxed_and_with_each_process_safe_peer() {
        let mut report = sample();
        report.peers[0].about.name = "tubewell/relaxed".into();
        report.peers[1].about.name = "tubewell/written".into();
        let targets = targets(&report);
        let of = |what: &str| targets.iter().find(|target| target.what == what);
        let verdict = |what: &str| of(what).map(|target| target.verdict);
        let relaxed = of("written, 1 caller, cycle: relative to relaxed");
        assert_eq!(
            relaxed.map(|target| (target.wanted.as_str(), target.verdict)),
            Some(("at least 0.426", Verdict::Met))
        );
        assert_eq!(verdict("written, 64 callers, cycle: relative to yaque"), Some(Verdict::Missed));
        assert_eq!(
            verdict("written, 16 callers, cycle: relative to yaque"),
            Some(Verdict::NotMeasured)
        );
        assert_eq!(verdict("relaxed, 64 callers, cycle: relative to 1 caller"), Some(Verdict::Met));
    }
}
