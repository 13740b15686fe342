//! A store with a damaged file. It opens or returns an error. If it opens, it delivers no body that
//! was not put, its own code does not panic, and each call and each iteration ends.

use arbitrary::{Result, Unstructured};

use crate::disk::Disk;
use crate::edits::{damage, damage_rows};
use crate::exercise::exercise_store;
use crate::history::HISTORY;
use crate::oracle::Oracle;
use crate::panics;

const EDITS_MAX: usize = 16;

pub fn check(bytes: &[u8], oracle: Oracle) {
    let mut u = Unstructured::new(bytes);
    if let Ok(disk) = damaged_disk(&mut u) {
        panics::allow_engine_panics(|| exercise_store(&disk, oracle));
    }
}

/// Rows are damaged first, since that requires a file that the engine can read.
fn damaged_disk(u: &mut Unstructured<'_>) -> Result<Disk> {
    let (image, used) = HISTORY.image(u.int_in_range(0..=4)?);
    let disk = Disk::new(image.clone());
    let rows = u.int_in_range(0..=3)?;
    for _ in 0..rows {
        damage_rows(&disk, u)?;
    }
    let mut bytes = disk.bytes();
    for _ in 0..EDITS_MAX {
        if u.is_empty() {
            break;
        }
        damage(&mut bytes, used, u)?;
    }
    Ok(Disk::new(bytes))
}
