//! A store whose file was damaged: it opens or says why not, and whatever it then answers, it
//! hands out no body that was not put, and neither panics nor goes round in circles.

use arbitrary::{Result, Unstructured};

use crate::disk::Disk;
use crate::edits::{damage, damage_rows};
use crate::history::HISTORY;
use crate::use_all::use_all;
use crate::{Oracle, panics};

const EDITS_MAX: usize = 16;

pub fn check(bytes: &[u8], oracle: Oracle) {
    let mut u = Unstructured::new(bytes);
    if let Ok(disk) = damaged_disk(&mut u) {
        panics::watch(|| use_all(&disk, oracle));
    }
}

/// Damage to rows comes first, since it needs a file that the engine reads.
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
