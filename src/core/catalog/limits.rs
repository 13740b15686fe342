//! The limits and pauses of a file that is not opened.

use tubewell_drivers::{NEVER, Row};

use super::rows::paused_names;
use crate::Limit;
use crate::base::codec;
use crate::base::micros::duration;
use crate::values::limit::PausedSubQueue;

/// The pause of a sub-queue of the tube with this name.
pub(crate) type StoredPause = (String, PausedSubQueue);

/// The limits and the pauses in rows of `meta`, as far as they can be read, at this moment of the
/// timeline; and the descriptions of the rows that cannot be read.
pub(crate) fn read_limits(rows: &[Row], now: u64) -> (Vec<Limit>, Vec<StoredPause>, Vec<String>) {
    let (mut limits, mut pauses, mut lost) = (Vec::new(), Vec::new(), Vec::new());
    for (key, value) in rows {
        if let Some(name) = key.strip_prefix(b"limit/") {
            let name = String::from_utf8_lossy(name).into_owned();
            match codec::decode_row(value) {
                Some(most) => limits.push(Limit { name, most, taken: 0 }),
                None => lost.push(format!("the limit {name:?}")),
            }
        } else if key.starts_with(b"paused/") {
            match (paused_names(key), codec::decode_row::<u64>(value)) {
                (Some((tube, sub)), Some(until)) if until > now => {
                    let resumes_in = (until != NEVER).then(|| duration(until - now));
                    let paused = PausedSubQueue { name: sub.to_owned(), resumes_in };
                    pauses.push((tube.to_owned(), paused));
                }
                (Some(_), Some(_)) => {}
                _ => lost.push("the pause of a sub-queue".to_owned()),
            }
        }
    }
    (limits, pauses, lost)
}
