//! What a disk has after a kill or a power cut at every operation of a run.

use crate::disk::{Medium, Op};
use crate::images::{Playback, SyncMode};
use crate::rng::Rng;
use crate::size::amount;

/// Calls `check` with what the disk has after a kill at each operation from `first` on (at each third one in
/// a quick run), and with
/// `cuts_power` also after a power cut there if not all is synced. It gets the image, the position and a
/// text that says which image it is. Returns the number of images.
pub fn crash_at_every_operation(
    log: &[Op],
    first: usize,
    cuts_power: bool,
    rng: &mut Rng,
    mut check: impl FnMut(Medium, usize, &str),
) -> usize {
    let (mut images, mut played) = (0, 0);
    let mut medium = Medium::default();
    let mut killed = Playback::new(Medium::default(), log, SyncMode::Reliable);
    for at in (first..=log.len()).step_by(amount(3, 1, 1)) {
        for op in &log[played..at] {
            match op {
                Op::Write { offset, data } => medium.write(*offset, data),
                Op::SetLen(len) => medium.set_len(*len),
                Op::Sync { .. } => {}
            }
        }
        played = at;
        check(medium.clone(), at, &format!("operation {at}, killed"));
        images += 1;
        killed.play_to(at);
        if cuts_power && killed.has_unsynced_writes() {
            let (image, lost) = killed.crash(rng);
            check(image, at, &format!("operation {at}, power cut, {lost}"));
            images += 1;
        }
    }
    images
}
