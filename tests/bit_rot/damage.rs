//! What goes wrong with the bytes.

use std::fmt;

use crate::anatomy::{Anatomy, FRONT, PAGE, Place};
use crate::rng::Rng;
use crate::specimen::{Image, Specimen};

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
    /// The page as it was in an older version of the file.
    Stale {
        page: usize,
        version: usize,
    },
    /// The file ends there.
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
    pub fn random(specimen: &Specimen, image: &Image, anatomy: &Anatomy, rng: &mut Rng) -> Damage {
        let page = |rng: &mut Rng| anatomy.pages[rng.index(anatomy.pages.len())];
        match rng.below(20) {
            0..=5 => Damage::in_a_row(anatomy, rng),
            6..=8 => {
                let at = page(rng) * PAGE + rng.index(PAGE);
                Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
            }
            9 => {
                let at = if rng.one_in(4) { rng.index(320) } else { FRONT + rng.index(320) };
                Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
            }
            10..=11 => Damage::Zero { page: page(rng) },
            12..=13 => Damage::Swap { page: page(rng), with: page(rng) },
            14 => Damage::Truncate { len: rng.index(image.bytes.len()) },
            _ => Damage::stale(specimen, image, anatomy, rng),
        }
    }

    /// A flip in a key or a value; every table as often.
    fn in_a_row(anatomy: &Anatomy, rng: &mut Rng) -> Damage {
        let table = rng.pick(&["tasks", "bodies", "places", "heads", "dues", "meta"]);
        let here: Vec<_> = anatomy.rows.iter().filter(|row| row.table == table).collect();
        let row = here[rng.index(here.len())];
        let range =
            if rng.one_in(2) || row.value_at.is_empty() { &row.key_at } else { &row.value_at };
        let at = range.start + rng.index(range.len());
        Damage::Flip { at, bit: u8::try_from(rng.below(8)).unwrap() }
    }

    fn stale(specimen: &Specimen, image: &Image, anatomy: &Anatomy, rng: &mut Rng) -> Damage {
        // Most pages are the same in most versions: look for one that is not.
        for _ in 0..200 {
            let page = anatomy.pages[rng.index(anatomy.pages.len())];
            let version = rng.index(specimen.older.len());
            let range = page * PAGE..(page + 1) * PAGE;
            let old = specimen.older[version].get(range.clone());
            if old.is_some_and(|old| *old != image.bytes[range]) {
                return Damage::Stale { page, version };
            }
        }
        Damage::Zero { page: 0 }
    }

    /// Does it to a copy of the file.
    pub fn done_to(&self, specimen: &Specimen, image: &Image) -> Vec<u8> {
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
                bytes[range(page)].copy_from_slice(&specimen.older[version][range(page)]);
            }
            Damage::Truncate { len } => bytes.truncate(len),
        }
        bytes
    }

    /// Whether two branches may lead to one page now. A commit over such pages can make the engine
    /// panic twice, which ends the process: nothing that runs in it can see to that.
    pub fn may_cross(&self, place: &Place) -> bool {
        match self {
            Damage::Flip { .. } => *place == Place::Other,
            Damage::Swap { .. } | Damage::Stale { .. } => true,
            Damage::Zero { .. } | Damage::Truncate { .. } => false,
        }
    }

    /// What it hits; of whole pages, what they are.
    pub fn place(&self, anatomy: &Anatomy) -> Place {
        match self {
            Damage::Flip { at, .. } => anatomy.place(*at),
            Damage::Zero { page } | Damage::Swap { page, .. } | Damage::Stale { page, .. } => {
                anatomy.page(*page)
            }
            Damage::Truncate { .. } => Place::Other,
        }
    }
}
