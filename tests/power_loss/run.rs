//! Runs a seed: a load, power cuts all over it, and then another load on what one of them left.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::check;
use crate::disk::{Medium, Op};
use crate::history::History;
use crate::images::{Honesty, Playback};
use crate::life::Life;
use crate::load::{Done, Flavour, Load, Start};
use crate::rng::Rng;

/// How much was checked.
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
            "{} images, {} of them crashed again; {} loads, {} operations of the disk",
            of(&self.images),
            of(&self.crashed_again),
            of(&self.loads),
            of(&self.operations)
        )
    }
}

/// How a seed is run.
pub struct Run<'a> {
    /// One write in so many is lost by a sync that says that all is well.
    pub lies: Option<u64>,
    /// What is done to a history before it is believed.
    pub believe: fn(&mut History),
    pub tally: &'a Tally,
    /// Whether there is time for more.
    pub go_on: &'a dyn Fn() -> bool,
}

impl Run<'_> {
    /// All that a seed leads to; what is wrong is told in words.
    pub fn seed(&self, seed: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let mut start = Start::new();
        for nth in 0..=rng.below(3) {
            // Seeds that follow each other bring some of each.
            let flavour = match (seed + nth) % 8 {
                0 => Flavour::Fat,
                4 => Flavour::Crowded,
                _ => Flavour::Plain,
            };
            let calls = 10
                + match flavour {
                    Flavour::Plain => rng.below(90),
                    Flavour::Fat => rng.below(40),
                    Flavour::Crowded => 20,
                };
            let load_rng = rng.fork();
            let from = start.clone();
            let loaded =
                catch_unwind(AssertUnwindSafe(|| Load::run(from, calls, flavour, load_rng)));
            let mut done = match loaded {
                Ok(Ok(done)) => done,
                Ok(Err(error)) => return Err(format!("load {nth}, before any crash: {error}")),
                Err(_) => return Err(format!("load {nth}, before any crash: see the panic above")),
            };
            (self.believe)(&mut done.history);
            self.tally.loads.fetch_add(1, Ordering::Relaxed);
            self.tally.operations.fetch_add(done.log.len() as u64, Ordering::Relaxed);
            let next = self.crash_all_over(&start, &done, &mut rng);
            match next.map_err(|told| format!("load {nth} ({flavour:?}), {told}"))? {
                Some(next) => start = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Cuts the power at every moment of the making of a store, so many times.
    pub fn creation(&self, seed: u64, times: u64) -> Result<(), String> {
        let mut rng = Rng::new(seed);
        let start = Start::new();
        let Done { log, history } =
            Load::run(start.clone(), 0, Flavour::Plain, rng.fork()).map_err(|e| e.to_string())?;
        for position in 0..=log.len() {
            let mut playback = Playback::new(start.medium.clone(), &log, Honesty::Honest);
            playback.play_to(position);
            for _ in 0..times {
                self.crash(&playback, &history, &mut rng)?;
            }
        }
        Ok(())
    }

    /// Cuts the power at every moment of a compaction, so many times.
    pub fn compaction(&self, seed: u64, times: u64) -> Result<(), String> {
        let compacted = (seed..).find_map(|seed| {
            let done = Load::run(Start::new(), 60, Flavour::Crowded, Rng::new(seed));
            done.map(|done| Some(done).filter(Done::is_compacted)).transpose()
        });
        let Some(done) = compacted else { return Err("no load was compacted".into()) };
        self.crash_at_the_end(&done.map_err(|error| error.to_string())?, seed, times)
    }

    /// Cuts the power at every moment of a pause in which a file gives its room back, so many
    /// times.
    pub fn pause(&self, seed: u64, times: u64) -> Result<(), String> {
        let drained = (seed..).find_map(|seed| Load::drained(40, Rng::new(seed)).transpose());
        let Some(done) = drained else { return Err("no file gave room back".into()) };
        self.crash_at_the_end(&done.map_err(|error| error.to_string())?, seed, times)
    }

    /// Cuts the power at every moment of what a load did last.
    fn crash_at_the_end(&self, done: &Done, seed: u64, times: u64) -> Result<(), String> {
        let Done { log, history } = done;
        let from = history.steps.last().map_or(0, |step| step.issued);
        let mut rng = Rng::new(seed);
        let mut playback = Playback::new(Start::new().medium, log, Honesty::Honest);
        for position in from..=log.len() {
            playback.play_to(position);
            for _ in 0..times {
                if !(self.go_on)() {
                    return Ok(());
                }
                self.crash(&playback, history, &mut rng)?;
            }
        }
        Ok(())
    }

    /// Cuts the power at every sync and now and then between; answers with one of the images, for
    /// the next load to begin on, or with none if time is up.
    fn crash_all_over(
        &self,
        start: &Start,
        done: &Done,
        rng: &mut Rng,
    ) -> Result<Option<Start>, String> {
        let Done { log, history } = done;
        let honesty = match self.lies {
            None => Honesty::Honest,
            Some(one_in) => Honesty::Lying(one_in, rng.fork()),
        };
        let mut playback = Playback::new(start.medium.clone(), log, honesty);
        let mut next = None;
        let mut seen = 0;
        for position in 0..=log.len() {
            for _ in 0..cuts(log, position, rng) {
                playback.play_to(position);
                if !(self.go_on)() {
                    return Ok(None);
                }
                let left = self.crash(&playback, history, rng)?;
                seen += 1;
                if rng.one_in(seen) {
                    next = Some(left);
                }
                if !playback.at_risk() {
                    break;
                }
            }
        }
        Ok(next)
    }

    /// Cuts the power where the playback stands, and a second time in one of three; answers with
    /// what it left.
    fn crash(
        &self,
        playback: &Playback<'_>,
        history: &History,
        rng: &mut Rng,
    ) -> Result<Start, String> {
        let expected = history.expect(playback.position());
        let (image, how) = playback.crash(rng);
        let how = format!("crash at {}, {how}", playback.position());
        let life = check(image.clone(), &expected, rng).map_err(|told| format!("{how}: {told}"))?;
        self.tally.images.fetch_add(1, Ordering::Relaxed);
        if rng.one_in(3) {
            self.crash_again(&image, &life, rng).map_err(|told| format!("{how}; then {told}"))?;
        }
        let (contents, id, now) = (life.contents, expected.id, expected.now);
        Ok(Start { medium: image, contents, id, now, clears: history.clears })
    }

    /// Cuts the power a second time, during recovery or in the little work after it.
    fn crash_again(&self, image: &Medium, life: &Life, rng: &mut Rng) -> Result<(), String> {
        // Half of them while the store is being opened.
        let until = if rng.one_in(2) { life.opened } else { life.log.len() };
        let position = rng.index(until + 1);
        let mut playback = Playback::new(image.clone(), &life.log, Honesty::Honest);
        playback.play_to(position);
        let (image, how) = playback.crash(rng);
        check(image, &life.expect(position), rng).map_err(|told| {
            format!(
                "a second crash at {position} of {} (open at {}), {how}: {told}",
                life.log.len(),
                life.opened
            )
        })?;
        self.tally.crashed_again.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// How often the power is cut at a position.
fn cuts(log: &[Op], position: usize, rng: &mut Rng) -> u64 {
    let before = log.get(position);
    let after = position.checked_sub(1).and_then(|last| log.get(last));
    match (before, after) {
        // Everything since the last sync is at stake.
        (Some(Op::Sync), _) => 2,
        (_, Some(Op::Sync)) | (None, _) => rng.below(2),
        _ => u64::from(rng.one_in(6)),
    }
}
