//! Runs the rows, in rounds.

use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::args::Args;
use crate::ledger::Ledger;
use crate::queue::{Counters, Peer, Plan, Queue, Result, Setting, Shape, WakePlan, Work};
use crate::report::{Measure, PeerReport, Row, Settings, Spread, Wake, percentile};

const WORKS: [Work; 4] = [Work::Put, Work::TakeAck, Work::Cycle, Work::Job];
/// Maximum time to take the remaining tasks of a queue. Tasks left after that are not checked.
const DRAIN: Duration = Duration::from_secs(3);
/// Maximum time of a row in addition to its phases.
const ROW_TIMEOUT: Duration = Duration::from_secs(120);
const WAKE_PAUSE: Duration = Duration::from_millis(5);

/// One row: a peer, an arrangement of callers, their work, and the results so far.
struct RowRun<'a> {
    peer: &'a dyn Peer,
    shape: Shape,
    /// Jobs are a row of their own. Empty for wake-ups.
    works: Vec<Work>,
    rounds: Vec<Round>,
    row: Row,
}

/// The results of one round of a row.
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
    // With fewer tasks the p99 would be the slowest one.
    let pauses = 2 * args.phase.as_millis() / WAKE_PAUSE.as_millis();
    Settings {
        body_bytes: args.body,
        rounds: args.rounds,
        phase_ms: u64::try_from(args.phase.as_millis()).unwrap_or(u64::MAX),
        wake_tasks: usize::try_from(pauses).unwrap_or(usize::MAX).clamp(20, 1000),
        wake_pause_ms: u64::try_from(WAKE_PAUSE.as_millis()).unwrap_or_default(),
    }
}

/// The names of the selected rows.
pub fn names(peers: &[Box<dyn Peer>], args: &Args) -> Vec<String> {
    let name = |row: &RowRun| {
        let works: Vec<_> = row.works.iter().map(|work| work.name()).collect();
        format!("{}, {}: {}", row.peer.about().name, row.shape, works.join(", "))
    };
    selected(peers, args).iter().map(name).collect()
}

/// Measures the selected rows. Their errors and faults are part of the report.
pub fn run(peers: &[Box<dyn Peer>], args: &Args) -> Vec<PeerReport> {
    let mut runs = selected(peers, args);
    let (settings, count) = (settings(args), runs.len());
    let watchdog = watchdog(ROW_TIMEOUT + 20 * args.phase);
    for round in 1..=args.rounds {
        for (number, run) in runs.iter_mut().enumerate() {
            let (name, number) = (run.peer.about().name, number + 1);
            let row = format!("{name}, {}", run.shape);
            eprintln!("round {round} of {}, row {number} of {count}: {row}", args.rounds);
            // This fails only if the watchdog is ending the program.
            let _ = watchdog.send(row);
            if run.row.failed.is_none() {
                run.round(&args.dir, &settings);
            }
        }
    }
    let mut rows: Vec<_> = runs.into_iter().map(|run| (run.peer.about().name, run.row())).collect();
    let wanted = peers.iter().filter(|peer| is_wanted(&args.only, &peer.about().name));
    wanted
        .map(|peer| {
            let (about, skipped) = (peer.about(), peer.missing());
            let mine = rows.extract_if(.., |(name, _)| *name == about.name);
            PeerReport { rows: mine.map(|(_, row)| row).collect(), about, skipped }
        })
        .collect()
}

/// Starts a thread that ends the program if a row takes longer than `limit`. A peer whose calls
/// never return can only be stopped that way.
fn watchdog(limit: Duration) -> Sender<String> {
    let (sender, started) = mpsc::channel();
    std::thread::spawn(move || {
        let mut row = started.recv();
        while let Ok(name) = row {
            row = match started.recv_timeout(limit) {
                Ok(next) => Ok(next),
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    eprintln!(
                        "peers: {name} did not end within {} s; exclude it with --only or --work",
                        limit.as_secs()
                    );
                    std::process::exit(2);
                }
            };
        }
    });
    sender
}

fn selected<'a>(peers: &'a [Box<dyn Peer>], args: &Args) -> Vec<RowRun<'a>> {
    let mut runs = Vec::new();
    for peer in peers.iter().map(|peer| &**peer) {
        if !is_wanted(&args.only, &peer.about().name) || peer.missing().is_some() {
            continue;
        }
        for shape in shapes() {
            let wanted = |work: &Work| is_wanted(&args.work, &format!("{shape} {}", work.name()));
            let wake = shape == Shape::WakeUp && is_wanted(&args.work, &shape.to_string());
            let works = WORKS.into_iter().filter(|_| shape != Shape::WakeUp).filter(wanted);
            let (jobs, works): (Vec<_>, Vec<_>) = works.partition(|&work| work == Work::Job);
            let mut add = |works: Vec<Work>| {
                let row = Row::new(shape, works.clone());
                runs.push(RowRun { peer, shape, works, rounds: Vec::new(), row });
            };
            if peer.does(shape) && (wake || !works.is_empty()) {
                add(works);
            }
            if peer.does_jobs(shape) && !jobs.is_empty() {
                add(jobs);
            }
        }
    }
    runs
}

/// All arrangements of callers, in the order of the rows.
fn shapes() -> impl Iterator<Item = Shape> {
    let callers = [1, 16, 64, 256, 1024].map(Shape::Callers);
    let tickets = [1, 64, 256, 1024].map(Shape::Tickets);
    callers.into_iter().chain(tickets).chain([Shape::Batches(1000), Shape::WakeUp])
}

/// Whether the name contains one of the patterns. True if there are no patterns.
fn is_wanted(patterns: &[String], name: &str) -> bool {
    patterns.is_empty() || patterns.iter().any(|pattern| name.contains(pattern.as_str()))
}

impl RowRun<'_> {
    fn round(&mut self, root: &Path, settings: &Settings) {
        let mut round = Round::default();
        for works in self.queues() {
            let length = settings.body_bytes;
            let ledger =
                if self.does_jobs() { Ledger::for_jobs(length) } else { Ledger::new(length) };
            let measured = self.measure(&works, root, settings, &ledger, &mut round);
            let (faults, examples) = ledger.faults();
            self.row.faults += faults;
            self.row.fault_examples.extend(examples);
            self.row.fault_examples.truncate(5);
            if let Err(error) = measured {
                self.row.failed = Some(error.to_string());
                return;
            }
        }
        self.rounds.push(round);
    }

    /// The work for each queue of a round. Cycles have a queue of their own, since the take phase
    /// may leave tasks in its queue.
    fn queues(&self) -> Vec<Vec<Work>> {
        let (cycle, others): (Vec<_>, Vec<_>) =
            self.works.iter().copied().partition(|&work| work == Work::Cycle);
        let mut queues = vec![others, cycle];
        queues.retain(|works| !works.is_empty());
        if self.shape == Shape::WakeUp {
            queues.push(Vec::new());
        }
        queues
    }

    fn does_jobs(&self) -> bool {
        self.works.contains(&Work::Job)
    }

    /// Does this work on a new queue, or the wake-up phase if `works` is empty.
    fn measure(
        &self,
        works: &[Work],
        root: &Path,
        settings: &Settings,
        ledger: &Ledger,
        round: &mut Round,
    ) -> Result<()> {
        let dir = tempfile::Builder::new().prefix("peers-").tempdir_in(root)?;
        let jobs = self.does_jobs();
        let setting = Setting { shape: self.shape, body: settings.body_bytes, jobs };
        let queue = self.peer.open(dir.path(), &setting)?;
        let measured = if works.is_empty() {
            wake_up(&*queue, settings, ledger).map(|wake| round.wake = Some(wake))
        } else {
            let phase = Duration::from_millis(settings.phase_ms);
            self.works(works, &*queue, phase, ledger).map(|all| round.measures.extend(all))
        };
        let emptied = measured.and_then(|()| drain(&*queue, self.shape, ledger));
        // Also after an error, since the queue may be a process.
        let closed = queue.close();
        if emptied? {
            ledger.count_lost();
        }
        closed
    }

    fn works(
        &self,
        works: &[Work],
        queue: &dyn Queue,
        phase: Duration,
        ledger: &Ledger,
    ) -> Result<Vec<(Work, Figures)>> {
        // The first calls create files and fill caches.
        let first = if self.does_jobs() { Work::Job } else { Work::Cycle };
        let warm_up = Plan { work: first, shape: self.shape, limit: phase / 10 };
        queue.run(&warm_up, ledger)?;
        let mut measures = Vec::new();
        let mut timed = |work| {
            let figures = timed(queue, &Plan { work, shape: self.shape, limit: phase }, ledger)?;
            if works.contains(&work) {
                measures.push((work, figures));
            }
            Result::Ok(())
        };
        if works.contains(&first) {
            timed(first)?;
        } else {
            // The take phase needs tasks.
            timed(Work::Put)?;
        }
        if works.contains(&Work::TakeAck) {
            timed(Work::TakeAck)?;
        }
        Ok(measures)
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
        return Err(format!("no task completed in a phase of {}", plan.work.name()).into());
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

/// Takes the remaining tasks; returns whether all were taken in time. No job remains, so one that is
/// taken here is a fault.
fn drain(queue: &dyn Queue, shape: Shape, ledger: &Ledger) -> Result<bool> {
    let start = Instant::now();
    if ledger.is_for_jobs() || ledger.taken() < ledger.put() {
        queue.drain(shape, DRAIN, ledger)?;
    }
    Ok(start.elapsed() < DRAIN)
}

/// p50 and p99 in microseconds.
fn wake_up(queue: &dyn Queue, settings: &Settings, ledger: &Ledger) -> Result<(f64, f64)> {
    let pause = Duration::from_millis(settings.wake_pause_ms);
    let mut nanos = queue.wake_up(&WakePlan { tasks: settings.wake_tasks, pause }, ledger)?;
    nanos.sort_unstable();
    let micros = |percent| percentile(&nanos, percent).map(|nanos| nanos as f64 / 1e3);
    micros(50).zip(micros(99)).ok_or_else(|| "the wake-up phase had no tasks".into())
}

#[cfg(test)]
mod tests;
