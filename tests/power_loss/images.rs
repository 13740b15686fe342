//! Crash images: what a power cut leaves on a disk.
//!
//! Everything written before a sync began survives it once it has returned. Each later write is
//! kept, lost or torn, independently of the others. A file system keeps the length of a file in its journal, so a crash
//! may lose the newest changes of the length but never one in between.

use crate::disk::{Medium, Op};
use crate::rng::Rng;

const SECTOR: usize = 512;

/// Whether synced writes survive.
#[derive(Clone, Debug)]
pub enum SyncMode {
    Reliable,
    /// A sync reports success but loses one write in this many.
    Lossy(u64, Rng),
}

/// A disk's log, replayed up to some position.
pub struct Playback<'a> {
    log: &'a [Op],
    position: usize,
    synced: Medium,
    /// What no sync has covered, with its position in the log.
    pending: Vec<(usize, &'a Op)>,
    sync_mode: SyncMode,
}

impl<'a> Playback<'a> {
    pub fn new(start: Medium, log: &'a [Op], sync_mode: SyncMode) -> Playback<'a> {
        Playback { log, position: 0, synced: start, pending: Vec::new(), sync_mode }
    }

    /// Replays the log up to this position.
    pub fn play_to(&mut self, position: usize) {
        for (at, op) in self.log.iter().enumerate().take(position).skip(self.position) {
            match op {
                Op::Sync { began } => self.sync(*began),
                other => self.pending.push((at, other)),
            }
        }
        self.position = position;
    }

    pub fn position(&self) -> usize {
        self.position
    }

    fn sync(&mut self, began: usize) {
        let covered = self.pending.partition_point(|(at, _)| *at < began);
        for (_, op) in self.pending.drain(..covered) {
            let lost = match &mut self.sync_mode {
                SyncMode::Reliable => false,
                SyncMode::Lossy(one_in, rng) => rng.one_in(*one_in),
            };
            match op {
                Op::Write { .. } if lost => {}
                op => apply(&mut self.synced, op),
            }
        }
    }

    /// The disk after a power cut at this position that loses all that may be lost.
    pub fn synced(&self) -> &Medium {
        &self.synced
    }

    /// Whether a power cut at this position can lose anything.
    pub fn has_unsynced_writes(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The disk after a power cut at this position, and a description of what was lost.
    pub fn crash(&self, rng: &mut Rng) -> (Medium, String) {
        let mut image = self.synced.clone();
        let (pattern, fates) = fates(self.pending.len(), rng);
        let lens = self.pending.iter().filter(|(_, op)| matches!(op, Op::SetLen(_))).count();
        let mut lens_kept = match pattern {
            "all kept" => lens,
            "all lost" => 0,
            _ if rng.one_in(3) => rng.index(lens + 1),
            _ => lens,
        };
        let mut tally = [0; 3];
        for ((_, op), fate) in self.pending.iter().zip(&fates) {
            match op {
                Op::SetLen(len) if lens_kept > 0 => {
                    image.set_len(*len);
                    lens_kept -= 1;
                }
                Op::Write { offset, data } => {
                    tally[*fate as usize] += 1;
                    match fate {
                        Fate::Kept => image.write(*offset, data),
                        Fate::Torn => tear(&mut image, *offset, data, rng),
                        Fate::Lost => {}
                    }
                }
                _ => {}
            }
        }
        let [kept, lost, torn] = tally;
        (
            image,
            format!("{pattern}: {kept} writes kept, {lost} lost, {torn} torn, {lens} new lengths"),
        )
    }
}

/// What a power cut at this position of the log leaves.
pub fn crash(start: &Medium, log: &[Op], at: usize, rng: &mut Rng) -> Medium {
    let mut playback = Playback::new(start.clone(), log, SyncMode::Reliable);
    playback.play_to(at);
    playback.crash(rng).0
}

fn apply(medium: &mut Medium, op: &Op) {
    match op {
        Op::Write { offset, data } => medium.write(*offset, data),
        Op::SetLen(len) => medium.set_len(*len),
        Op::Sync { .. } => {}
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Kept,
    Lost,
    Torn,
}

/// The fate of each of `count` operations. Independent chances would hardly ever lose, or keep,
/// just one write of twenty, and those are the images that show a wrong order of writes.
fn fates(count: usize, rng: &mut Rng) -> (&'static str, Vec<Fate>) {
    let damage = |rng: &mut Rng| if rng.one_in(2) { Fate::Lost } else { Fate::Torn };
    let one = rng.index(count.max(1));
    match rng.below(8) {
        0 => ("all kept", vec![Fate::Kept; count]),
        1 => ("all lost", vec![Fate::Lost; count]),
        2 => {
            let fate = damage(rng);
            let of = |n| if n == one { fate } else { Fate::Kept };
            ("one damaged", (0..count).map(of).collect())
        }
        3 => {
            let of = |n| if n == one { Fate::Kept } else { Fate::Lost };
            ("one kept", (0..count).map(of).collect())
        }
        4 => {
            let of = |n: usize| match n.cmp(&one) {
                std::cmp::Ordering::Less => Fate::Kept,
                std::cmp::Ordering::Equal => Fate::Torn,
                std::cmp::Ordering::Greater => Fate::Lost,
            };
            ("in order", (0..count).map(of).collect())
        }
        _ => {
            let one_in = 2 + rng.below(6);
            let of = |_| if rng.one_in(one_in) { damage(rng) } else { Fate::Kept };
            ("at random", (0..count).map(of).collect())
        }
    }
}

/// Keeps a part of a write: its first bytes, its last bytes, or some of its sectors.
fn tear(image: &mut Medium, offset: u64, data: &[u8], rng: &mut Rng) {
    let cut = rng.index(data.len() + 1);
    match rng.below(3) {
        0 => image.write(offset, &data[..cut]),
        1 => image.write(offset + cut as u64, &data[cut..]),
        _ => {
            let mut from = 0;
            while from < data.len() {
                // Sectors are aligned to the disk, not to the write.
                let start = usize::try_from(offset).unwrap() + from;
                let to = (from + SECTOR - start % SECTOR).min(data.len());
                if rng.one_in(2) {
                    image.write(offset + from as u64, &data[from..to]);
                }
                from = to;
            }
        }
    }
}
