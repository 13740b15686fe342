//! Runs a seed: a load, power cuts at many positions of its log, and a further load on one of the
//! images they left.

use std::fmt;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::check;
use crate::disk::{Medium, Op};
use crate::history::History;
use crate::image_run::ImageRun;
use crate::images::{Playback, SyncMode};
use crate::load::{Load, LoadOutcome, LoadProfile, Setup, Start};
use crate::rng::Rng;
use crate::state::Levels;

/// The database begins behind the journal.
const JOURNAL_END: u64 = 1 << 20;
/// A load with more disk operations than this is long.
const LONG_LOG: u64 = 250;
/// Operations after a checkpoint that count as a part of it.
const AFTER_CHECKPOINT: usize = 4;

/// Counts of what was checked.
#[derive(Debug, Default)]
pub struct Tally {
    pub images: AtomicU64,
    pub crashed_again: AtomicU64,
    pub loads: AtomicU64,
    pub operations: AtomicU64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(
            f,
            "{} images, {} of them with a second crash; {} loads, {} disk operations",
            of(&self.images),
            of(&self.crashed_again),
            of(&self.loads),
            of(&self.operations)
        )
    }
}

/// The options of a search.
pub struct SeedRunner<'a> {
    /// A planted defect: each sync loses one write in this many.
    pub lossy_one_in: Option<u64>,
    /// A planted defect: an edit of the history before images are compared with it.
    pub edit_history: fn(&mut History),
    pub tally: &'a Tally,
    /// Whether there is time for another image.
    pub may_continue: &'a dyn Fn() -> bool,
}

impl<'a> SeedRunner<'a> {
    /// A search without a planted defect.
    pub fn without_defects(tally: &'a Tally, may_continue: &'a dyn Fn() -> bool) -> SeedRunner<'a> {
        SeedRunner { lossy_one_in: None, edit_history: |_| (), tally, may_continue }
    }

    /// Runs a seed; the error describes what is wrong.
    pub fn seed(&self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let mut start = Start::new();
        for nth in 0..=rng.below(3) {
            // Consecutive seeds have all profiles.
            let profile = match (seed + nth) % 8 {
                0 => LoadProfile::LargeBodies,
                4 => LoadProfile::ManyTasks,
                2 => LoadProfile::Moves,
                6 => LoadProfile::LongTail,
                _ => LoadProfile::Mixed,
            };
            let levels = if rng.one_in(3) { Levels::Written } else { Levels::All };
            let setup = Setup { levels, ..profile.into() };
            let calls = 10
                + match profile {
                    LoadProfile::Mixed | LoadProfile::Moves => rng.below(90),
                    LoadProfile::LargeBodies => rng.below(40),
                    LoadProfile::ManyTasks => 20,
                    LoadProfile::LongTail => rng.below(200),
                };
            let load_rng = rng.fork();
            let from = start.clone();
            let loaded = catch_unwind(AssertUnwindSafe(|| Load::run(from, calls, setup, load_rng)));
            let mut outcome = match loaded {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(error)) => return Err(format!("load {nth}, before any crash: {error}")),
                Err(_) => return Err(format!("load {nth}, before any crash: see the panic above")),
            };
            (self.edit_history)(&mut outcome.history);
            self.tally.loads.fetch_add(1, Ordering::Relaxed);
            self.tally.operations.fetch_add(outcome.log.len() as u64, Ordering::Relaxed);
            let next = self.crash_throughout(&start, &outcome, &mut rng);
            match next
                .map_err(|problem| format!("load {nth} ({profile:?}, {levels:?}), {problem}"))?
            {
                Some(next) => start = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Cuts the power at every position of the creation of a store, `times` times each.
    pub fn creation(&self, seed: u64, times: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let start = Start::new();
        let LoadOutcome { log, history } =
            Load::run(start.clone(), 0, LoadProfile::Mixed.into(), rng.fork())
                .map_err(|e| e.to_string())?;
        for position in 0..=log.len() {
            let mut playback = Playback::new(start.medium.clone(), &log, SyncMode::Reliable);
            playback.play_to(position);
            for _ in 0..times {
                self.crash(&playback, &history, &mut rng)?;
            }
        }
        Ok(())
    }

    /// Cuts the power at the positions of a compaction, `times` times each.
    pub fn compaction(&self, seed: u64, times: u64) -> Result<(), String> {
        let compacted = (seed..).find_map(|seed| {
            let outcome =
                Load::run(Start::new(), 60, LoadProfile::ManyTasks.into(), Rng::new(seed));
            outcome.map(|outcome| Some(outcome).filter(LoadOutcome::is_compacted)).transpose()
        });
        let Some(outcome) = compacted else { return Err("no load was compacted".into()) };
        self.crash_during_last_step(&outcome.map_err(|error| error.to_string())?, seed, times)
    }

    /// Cuts the power at the positions of an idle period in which a file shrinks, `times` times each.
    pub fn shrinking(&self, seed: u64, times: u64) -> Result<(), String> {
        let drained =
            (seed..).find_map(|seed| Load::run_until_drained(40, Rng::new(seed)).transpose());
        let Some(outcome) = drained else { return Err("no file shrank".into()) };
        self.crash_during_last_step(&outcome.map_err(|error| error.to_string())?, seed, times)
    }

    /// Cuts the power at every position of the last step of a load, or at a sample of them if there
    /// are many.
    fn crash_during_last_step(
        &self,
        outcome: &LoadOutcome,
        seed: u64,
        times: u64,
    ) -> Result<(), String> {
        let LoadOutcome { log, history } = outcome;
        let from = history.steps.last().map_or(0, |step| step.issued);
        let mut rng = Rng::new(seed);
        let mut playback = Playback::new(Start::new().medium, log, SyncMode::Reliable);
        let one_in = 1 + (log.len() - from) as u64 / LONG_LOG;
        for position in from..=log.len() {
            if !rng.one_in(one_in) {
                continue;
            }
            playback.play_to(position);
            for _ in 0..times {
                if !(self.may_continue)() {
                    return Ok(());
                }
                self.crash(&playback, history, &mut rng)?;
            }
        }
        Ok(())
    }

    /// Cuts the power at positions of some loads in which tasks go from tube to tube. Returns how
    /// often a task was moved, advanced or finished with further puts.
    pub fn moves(&self, seed: u64, loads: u64) -> Result<usize, String> {
        let mut moves = 0;
        for seed in seed..seed + loads {
            let mut rng = Rng::new(seed);
            let setup = Setup::from(LoadProfile::Moves);
            let outcome = Load::run(Start::new(), 80, setup, rng.fork())
                .map_err(|error| format!("seed {seed}: {error}"))?;
            let is_move = |what: &str| what.ends_with("move") || what.ends_with("finish");
            moves += outcome.history.steps.iter().filter(|step| is_move(step.what)).count();
            self.tally.loads.fetch_add(1, Ordering::Relaxed);
            self.tally.operations.fetch_add(outcome.log.len() as u64, Ordering::Relaxed);
            self.crash_throughout(&Start::new(), &outcome, &mut rng)
                .map_err(|problem| format!("seed {seed}: {problem}"))?;
        }
        Ok(moves)
    }

    /// Cuts the power during the checkpoints of long loads, and at a third of as many positions
    /// elsewhere, `images` times in each load. Returns the least number of checkpoints in a load.
    pub fn checkpoints(&self, seed: u64, images: u64, is_threaded: bool) -> Result<usize, String> {
        let mut least = usize::MAX;
        for levels in [Levels::Written, Levels::All] {
            let mut rng = Rng::new(seed);
            let setup = Setup { profile: LoadProfile::LongTail, levels, is_threaded };
            let LoadOutcome { log, history } = Load::run(Start::new(), 500, setup, rng.fork())
                .map_err(|error| error.to_string())?;
            let checkpoints = positions_of_checkpoints(&log);
            least = least.min(checkpoints.len());
            self.tally.loads.fetch_add(1, Ordering::Relaxed);
            self.tally.operations.fetch_add(log.len() as u64, Ordering::Relaxed);
            let position = |rng: &mut Rng| {
                if checkpoints.is_empty() || rng.one_in(4) {
                    return rng.index(log.len() + 1);
                }
                let during = checkpoints[rng.index(checkpoints.len())].clone();
                during.start + rng.index(during.len())
            };
            let mut positions: Vec<usize> = (0..images).map(|_| position(&mut rng)).collect();
            positions.sort_unstable();
            let mut playback = Playback::new(Start::new().medium, &log, SyncMode::Reliable);
            for position in positions {
                playback.play_to(position);
                self.crash(&playback, &history, &mut rng)
                    .map_err(|problem| format!("{levels:?}, {problem}"))?;
            }
        }
        Ok(least)
    }

    /// Cuts the power at every sync and at random positions in between. Returns one of the images
    /// as the start of the next load, or `None` if time is up.
    fn crash_throughout(
        &self,
        start: &Start,
        outcome: &LoadOutcome,
        rng: &mut Rng,
    ) -> Result<Option<Start>, String> {
        let LoadOutcome { log, history } = outcome;
        let sync_mode = match self.lossy_one_in {
            None => SyncMode::Reliable,
            Some(one_in) => SyncMode::Lossy(one_in, rng.fork()),
        };
        let mut playback = Playback::new(start.medium.clone(), log, sync_mode);
        let mut next = None;
        let mut seen = 0;
        // Long loads are rare, and take a sample of their positions.
        let one_in = 1 + log.len() as u64 / LONG_LOG;
        for position in 0..=log.len() {
            for _ in 0..crash_count(log, position, rng) {
                if !rng.one_in(one_in) {
                    continue;
                }
                playback.play_to(position);
                if !(self.may_continue)() {
                    return Ok(None);
                }
                let left = self.crash(&playback, history, rng)?;
                seen += 1;
                if rng.one_in(seen) {
                    next = Some(left);
                }
                if !playback.has_unsynced_writes() {
                    break;
                }
            }
        }
        Ok(next)
    }

    /// Cuts the power at the position of the playback, and in one of three images a second time.
    /// Returns the first image.
    fn crash(
        &self,
        playback: &Playback<'_>,
        history: &History,
        rng: &mut Rng,
    ) -> Result<Start, String> {
        let expected = history.expect(playback.position());
        let (image, how) = playback.crash(rng);
        let how = format!("crash at {}, {how}", playback.position());
        let image_run =
            check(image.clone(), &expected, rng).map_err(|problem| format!("{how}: {problem}"))?;
        self.tally.images.fetch_add(1, Ordering::Relaxed);
        if rng.one_in(3) {
            self.crash_again(&image, &image_run, rng)
                .map_err(|problem| format!("{how}; then {problem}"))?;
        }
        let (contents, id, now) = (image_run.contents, expected.id, expected.now);
        Ok(Start { medium: image, contents, id, now, purges: history.purges })
    }

    /// Cuts the power a second time, during recovery or in the few calls after it.
    fn crash_again(
        &self,
        image: &Medium,
        image_run: &ImageRun,
        rng: &mut Rng,
    ) -> Result<(), String> {
        // Half of these crashes come while the store is being opened.
        let until = if rng.one_in(2) { image_run.opened } else { image_run.log.len() };
        let position = rng.index(until + 1);
        let mut playback = Playback::new(image.clone(), &image_run.log, SyncMode::Reliable);
        playback.play_to(position);
        let (image, how) = playback.crash(rng);
        check(image, &image_run.expect(position), rng).map_err(|problem| {
            format!(
                "a second crash at {position} of {} (open at {}), {how}: {problem}",
                image_run.log.len(),
                image_run.opened
            )
        })?;
        self.tally.crashed_again.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// How many images to build at a position.
fn crash_count(log: &[Op], position: usize, rng: &mut Rng) -> u64 {
    let before = log.get(position);
    let after = position.checked_sub(1).and_then(|last| log.get(last));
    match (before, after) {
        // Right before a sync, everything since the last sync is unsynced.
        (Some(Op::Sync { .. }), _) => 2,
        (_, Some(Op::Sync { .. })) | (None, _) => rng.below(2),
        _ => u64::from(rng.one_in(6)),
    }
}

/// Where the log writes to the database: from the first write up to the sync that covers the last,
/// and a few operations more, in which the journal is used anew.
fn positions_of_checkpoints(log: &[Op]) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    for (at, op) in log.iter().enumerate() {
        let Op::Write { offset, .. } = op else { continue };
        if *offset < JOURNAL_END {
            continue;
        }
        let covers = |op: &Op| matches!(op, Op::Sync { began } if *began > at);
        let synced = log[at..].iter().position(covers).map_or(log.len(), |sync| at + sync);
        let end = (synced + AFTER_CHECKPOINT).min(log.len() + 1);
        match found.last_mut() {
            Some(last) if at <= last.end => last.end = end,
            _ => found.push(at..end),
        }
    }
    found
}
