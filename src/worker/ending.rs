//! Which lanes of a worker have ended, and which wait for that.

use crate::Error;

/// How the lanes of a worker end.
pub(super) struct Ending {
    pub(super) lanes: Vec<LaneEnding>,
    /// Why the worker has ended, if neither a stop, the limit nor a close of the store was the
    /// cause.
    pub(super) error: Option<Error>,
}

#[derive(Clone, Copy, Default)]
pub(super) struct LaneEnding {
    pub(super) has_ended: bool,
    /// A stop has left its job.
    pub(super) is_left: bool,
    /// How many calls its handler makes now that wait for the end of the worker.
    pub(super) waits: u32,
}

impl Ending {
    pub(super) fn new(lanes: usize) -> Ending {
        Ending { lanes: vec![LaneEnding::default(); lanes], error: None }
    }

    /// Whether a caller waits for no lane any longer. `own` is the lane whose handler is the caller:
    /// two handlers that wait for the end of their worker do not wait for each other.
    pub(super) fn is_over(&self, own: Option<usize>) -> bool {
        self.lanes
            .iter()
            .all(|lane| lane.has_ended || lane.is_left || (own.is_some() && lane.waits > 0))
    }
}
