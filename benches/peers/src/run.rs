//! Runs the rows, round after round.

use std::path::Path;
use std::time::Duration;

use crate::args::Args;
use crate::ledger::Ledger;
use crate::queue::{Counters, Peer, Plan, Queue, Result, Setting, Shape, WakePlan, Work};
use crate::report::{Measure, PeerReport, Row, Settings, Spread, Wake, percentile};

const WORKS: [Work; 3] = [Work::Put, Work::TakeAck, Work::Cycle];
/// How long a queue may take to give back what is left in it.
const DRAIN: Duration = Duration::from_secs(60);
const WAKE_PAUSE: Duration = Duration::from_millis(5);

/// One row: a peer, an arrangement of callers, what they do, and what was found so far.
struct Job<'a> {
    peer: &'a dyn Peer,
    shape: Shape,
    works: Vec<Work>,
    rounds: Vec<Round>,
    row: Row,
}

/// What one round of a row found.
#[derive(Default)]
struct Round {
    measures: Vec<(Work, Figures)>,
    /// p50 and p99 in microseconds.
    wake: Option<(f64, f64)>,
}

#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    flushes: Option<f64>,
    bytes: Option<f64>,
}

pub fn settings(args: &Args) -> Settings {
    let pauses = args.phase.as_millis() / WAKE_PAUSE.as_millis();
    Settings {
        body_bytes: args.body,
        rounds: args.rounds,
        phase_ms: u64::try_from(args.phase.as_millis()).unwrap_or(u64::MAX),
        wake_tasks: usize::try_from(pauses).unwrap_or(usize::MAX).clamp(20, 1000),
        wake_pause_ms: u64::try_from(WAKE_PAUSE.as_millis()).unwrap_or_default(),
    }
}

/// The rows that were asked for, by name.
pub fn names(peers: &[Box<dyn Peer>], args: &Args) -> Vec<String> {
    let name = |job: &Job| {
        let works: Vec<_> = job.works.iter().map(|work| work.name()).collect();
        format!("{}, {}: {}", job.peer.about().name, job.shape, works.join(", "))
    };
    jobs(peers, args).iter().map(name).collect()
}

/// Measures all rows that were asked for.
///
/// # Errors
/// The directory cannot be used. What a peer does wrong is in its rows.
pub fn run(peers: &[Box<dyn Peer>], args: &Args) -> Result<Vec<PeerReport>> {
    let mut jobs = jobs(peers, args);
    let (settings, count) = (settings(args), jobs.len());
    for round in 1..=args.rounds {
        for (number, job) in jobs.iter_mut().enumerate() {
            let (name, number) = (job.peer.about().name, number + 1);
            eprintln!(
                "round {round} of {}, row {number} of {count}: {name}, {}",
                args.rounds, job.shape
            );
            if job.row.failed.is_none() {
                let dir = tempfile::Builder::new().prefix("peers-").tempdir_in(&args.dir)?;
                job.round(dir.path(), args.phase, &settings);
            }
        }
    }
    let mut rows: Vec<_> = jobs.into_iter().map(|job| (job.peer.about().name, job.row())).collect();
    let wanted = peers.iter().filter(|peer| is_wanted(&args.only, &peer.about().name));
    Ok(wanted
        .map(|peer| {
            let (about, skipped) = (peer.about(), peer.missing());
            let mine = rows.extract_if(.., |(name, _)| *name == about.name);
            PeerReport { rows: mine.map(|(_, row)| row).collect(), about, skipped }
        })
        .collect())
}

fn jobs<'a>(peers: &'a [Box<dyn Peer>], args: &Args) -> Vec<Job<'a>> {
    let mut jobs = Vec::new();
    for peer in peers.iter().map(|peer| &**peer) {
        if !is_wanted(&args.only, &peer.about().name) || peer.missing().is_some() {
            continue;
        }
        for shape in shapes().filter(|&shape| peer.does(shape)) {
            let wanted = |work: &Work| is_wanted(&args.work, &format!("{shape} {}", work.name()));
            let (works, wake) = match shape {
                Shape::WakeUp => (Vec::new(), is_wanted(&args.work, &shape.to_string())),
                _ => (WORKS.into_iter().filter(wanted).collect(), false),
            };
            if wake || !works.is_empty() {
                let row = Row::new(shape);
                jobs.push(Job { peer, shape, works, rounds: Vec::new(), row });
            }
        }
    }
    jobs
}

/// All arrangements of callers, in the order of their rows.
fn shapes() -> impl Iterator<Item = Shape> {
    let callers = [1, 16, 64, 256, 1024].map(Shape::Callers);
    let tickets = [1, 64, 256, 1024].map(Shape::Tickets);
    callers.into_iter().chain(tickets).chain([Shape::Batches(1000), Shape::WakeUp])
}

/// Whether a name contains one of the patterns, or there are none.
fn is_wanted(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| name.contains(pattern.as_str()))
}

impl Job<'_> {
    fn round(&mut self, dir: &Path, phase: Duration, settings: &Settings) {
        let ledger = Ledger::new(settings.body_bytes);
        match self.measure(dir, phase, settings, &ledger) {
            Ok(round) => self.rounds.push(round),
            Err(error) => self.row.failed = Some(error.to_string()),
        }
        let (faults, told) = ledger.faults();
        self.row.faults += faults;
        self.row.told.extend(told);
        self.row.told.truncate(5);
    }

    fn measure(
        &self,
        dir: &Path,
        phase: Duration,
        settings: &Settings,
        ledger: &Ledger,
    ) -> Result<Round> {
        let setting = Setting { shape: self.shape, body: settings.body_bytes };
        let queue = self.peer.open(dir, &setting)?;
        let round = match self.shape {
            Shape::WakeUp => wake_up(&*queue, settings, ledger),
            _ => self.works(&*queue, phase, ledger),
        };
        // Closed even if that went wrong, since it may be a process.
        let closed = queue.close();
        let round = round?;
        closed?;
        ledger.settle();
        Ok(round)
    }

    fn works(&self, queue: &dyn Queue, phase: Duration, ledger: &Ledger) -> Result<Round> {
        let mut round = Round::default();
        // Whoever is to take needs something to be put first.
        let stocked = self.works.contains(&Work::TakeAck);
        for work in WORKS {
            let wanted = self.works.contains(&work);
            if !(wanted || stocked && work == Work::Put) {
                continue;
            }
            if work == Work::Cycle {
                drain(queue, self.shape, ledger)?;
            }
            let plan = Plan { work, shape: self.shape, limit: phase };
            let figures = timed(queue, &plan, ledger)?;
            if wanted {
                round.measures.push((work, figures));
            }
        }
        drain(queue, self.shape, ledger)?;
        Ok(round)
    }

    fn row(self) -> Row {
        let mut row = self.row;
        for work in self.works {
            let all = || {
                let of_round = |round: &Round| {
                    round.measures.iter().find(|(of, _)| *of == work).map(|(_, figures)| *figures)
                };
                self.rounds.iter().filter_map(of_round)
            };
            let known = |figure: fn(Figures) -> Option<f64>| {
                let figures: Option<Vec<f64>> = all().map(figure).collect();
                figures.filter(|figures| !figures.is_empty()).map(Spread::new)
            };
            if let Some(tasks_per_second) = known(|figures| Some(figures.rate)) {
                row.measures.push(Measure {
                    work,
                    tasks_per_second,
                    flushes_per_task: known(|figures| figures.flushes),
                    bytes_per_task: known(|figures| figures.bytes),
                });
            }
        }
        let wakes: Vec<(f64, f64)> = self.rounds.iter().filter_map(|round| round.wake).collect();
        if !wakes.is_empty() {
            let (p50, p99) = wakes.into_iter().unzip();
            row.wake = Some(Wake { p50_us: Spread::new(p50), p99_us: Spread::new(p99) });
        }
        row
    }
}

fn timed(queue: &dyn Queue, plan: &Plan, ledger: &Ledger) -> Result<Figures> {
    let before = queue.counters();
    let outcome = queue.run(plan, ledger)?;
    let tasks = outcome.tasks as f64;
    if outcome.tasks == 0 || outcome.elapsed.is_zero() {
        return Err(format!("no task was done in a whole phase of {}", plan.work.name()).into());
    }
    let spent = |figure: fn(&Counters) -> u64| {
        let (before, after) = (before.as_ref()?, queue.counters()?);
        Some(figure(&after).saturating_sub(figure(before)) as f64 / tasks)
    };
    Ok(Figures {
        rate: tasks / outcome.elapsed.as_secs_f64(),
        flushes: spent(|counters| counters.flushes),
        bytes: spent(|counters| counters.bytes_written),
    })
}

fn drain(queue: &dyn Queue, shape: Shape, ledger: &Ledger) -> Result<()> {
    if ledger.taken() < ledger.put() {
        queue.drain(shape, DRAIN, ledger)?;
    }
    Ok(())
}

fn wake_up(queue: &dyn Queue, settings: &Settings, ledger: &Ledger) -> Result<Round> {
    let pause = Duration::from_millis(settings.wake_pause_ms);
    let mut nanos = queue.wake_up(&WakePlan { tasks: settings.wake_tasks, pause }, ledger)?;
    nanos.sort_unstable();
    let micros = |percent| percentile(&nanos, percent).map(|nanos| nanos as f64 / 1e3);
    let wake = micros(50).zip(micros(99)).ok_or("no task was waited for")?;
    Ok(Round { measures: Vec::new(), wake: Some(wake) })
}
