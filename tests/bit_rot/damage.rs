//! Damage to the bytes of a file.

use std::fmt;

use crate::file_map::{ENGINE_START, FileMap, Location, PAGE};
use crate::rng::Rng;
use crate::sample::{Image, Sample};

/// The tables of a store.
pub const TABLES: [&str; 10] =
    ["tasks", "bodies", "places", "heads", "dues", "meta", "claims", "index", "notes", "days"];

#[derive(Clone, Debug)]
pub enum Damage {
    Flip {
        at: usize,
        bit: u8,
    },
    Zero {
        page: usize,
    },
    Swap {
        page: usize,
        with: usize,
    },
    /// The page gets its contents from an older version of the file.
    Stale {
        page: usize,
        version: usize,
    },
    /// The file is cut to this length.
    Truncate {
        len: usize,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

impl Damage {
    pub fn random(sample: &Sample, image: &Image, map: &FileMap, rng: &mut Rng) -> Damage {
        let page = |rng: &mut Rng| map.pages[rng.index(map.pages.len())];
        match rng.below(20) {
            0..=5 => Damage::in_row(map, rng),
            6..=8 => {
                let at = page(rng) * PAGE + rng.index(PAGE);
                Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
            }
            9 => {
                let at = if rng.one_in(4) { rng.index(320) } else { ENGINE_START + rng.index(320) };
                Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
            }
            10..=11 => Damage::Zero { page: page(rng) },
            12..=13 => Damage::Swap { page: page(rng), with: page(rng) },
            14 => Damage::Truncate { len: rng.index(image.bytes.len()) },
            _ => Damage::stale(sample, image, map, rng),
        }
    }

    /// A flipped bit in a key or a value. Each table is equally likely.
    fn in_row(map: &FileMap, rng: &mut Rng) -> Damage {
        let table = rng.pick(&TABLES);
        let rows: Vec<_> = map.rows.iter().filter(|row| row.table == table).collect();
        let row = rows[rng.index(rows.len())];
        let range =
            if rng.one_in(2) || row.value_at.is_empty() { &row.key_at } else { &row.value_at };
        let at = range.start + rng.index(range.len());
        Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
    }

    fn stale(sample: &Sample, image: &Image, map: &FileMap, rng: &mut Rng) -> Damage {
        // Most pages are the same in most versions: draw again until one differs.
        for _ in 0..200 {
            let page = map.pages[rng.index(map.pages.len())];
            let version = rng.index(sample.older.len());
            let range = page * PAGE..(page + 1) * PAGE;
            let old = sample.older[version].get(range.clone());
            if old.is_some_and(|old| *old != image.bytes[range]) {
                return Damage::Stale { page, version };
            }
        }
        Damage::Zero { page: 0 }
    }

    /// A damaged copy of the file.
    pub fn apply(&self, sample: &Sample, image: &Image) -> Vec<u8> {
        let mut bytes = image.bytes.clone();
        let range = |page: usize| page * PAGE..(page + 1) * PAGE;
        match *self {
            Damage::Flip { at, bit } => bytes[at] ^= 1 << bit,
            Damage::Zero { page } => bytes[range(page)].fill(0),
            Damage::Swap { page, with } => {
                let one = bytes[range(page)].to_vec();
                bytes.copy_within(range(with), page * PAGE);
                bytes[range(with)].copy_from_slice(&one);
            }
            Damage::Stale { page, version } => {
                bytes[range(page)].copy_from_slice(&sample.older[version][range(page)]);
            }
            Damage::Truncate { len } => bytes.truncate(len),
        }
        bytes
    }

    /// Whether two branch pages may now refer to the same page. A commit to such a file can make
    /// the engine panic during a panic, which aborts the process and cannot be caught.
    pub fn may_alias_pages(&self, location: &Location) -> bool {
        match self {
            Damage::Flip { .. } => *location == Location::Other,
            Damage::Swap { .. } | Damage::Stale { .. } => true,
            Damage::Zero { .. } | Damage::Truncate { .. } => false,
        }
    }

    /// Which part of the file is damaged.
    pub fn location(&self, map: &FileMap) -> Location {
        match self {
            Damage::Flip { at, .. } => map.byte(*at),
            Damage::Zero { page } | Damage::Swap { page, .. } | Damage::Stale { page, .. } => {
                map.page(*page)
            }
            Damage::Truncate { .. } => Location::Other,
        }
    }
}
