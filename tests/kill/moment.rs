//! Killing a child at a random moment.

use std::time::Duration;

use crate::executor::HANGS_AFTER;
use crate::process::{ChildProcess, Job};
use crate::rng::Rng;

/// Starts a child and kills it at a random moment: after fewer reports than `lines`, if it is not
/// killed earlier. Returns its reports.
pub fn kill_at_random(job: &Job, rng: &mut Rng, lines: u64) -> Vec<String> {
    let mut child = ChildProcess::start(job);
    // One in four children is killed early, most of these while they open the store.
    let timeout = match rng.range(0..4) {
        0 => Duration::from_micros(rng.range(0..30_000)),
        _ => HANGS_AFTER,
    };
    child.read_lines(rng.range(1..lines), timeout);
    child.kill()
}
