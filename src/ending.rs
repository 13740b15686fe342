//! How tasks end: what callers learn of a task that is over.

use std::time::Duration;

/// How a task has ended; from [`Tube::outcome`](crate::Tube::outcome) and
/// [`Tube::wait_done`](crate::Tube::wait_done).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub enum Ending {
    /// It was acked.
    Done {
        /// The result, if it was acked with one.
        result: Option<Vec<u8>>,
    },
    /// It was buried: it is set aside until it is kicked or deleted.
    Buried {
        /// Its last failure, if one was recorded.
        failure: Option<LastFailure>,
    },
    /// It was deleted.
    Deleted,
    /// Its ttl elapsed.
    Expired,
    /// It has ended, and the store does not know how: its tube keeps no outcomes, the outcome was
    /// removed, or its tube was truncated or dropped.
    Gone,
}

/// The last failure of a task, as it was recorded.
///
/// With the feature `serde`, `ago` is an object with `secs` and `nanos`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LastFailure {
    /// The group. Where no worker reported a failure, it is `expired` (its time elapsed), `released`
    /// (released by its worker) or `lost` (the process or the session of its worker ended).
    pub group: String,
    /// The message.
    pub message: String,
    /// Which attempt it was; the first one is 1.
    pub attempt: u32,
    /// The label of the session that had the task, if it had one.
    pub owner: Option<String>,
    /// How long ago it was recorded, on the timeline.
    pub ago: Duration,
}

impl LastFailure {
    /// A failure of this attempt, without an owner, recorded now: for
    /// [`Restore::failure`](crate::Restore::failure). The fields can be set.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::LastFailure;
    ///
    /// let mut failure = LastFailure::new("timeout", "no answer", 3);
    /// failure.owner = Some("worker-3".into());
    /// failure.ago = Duration::from_secs(60);
    /// ```
    #[must_use]
    pub fn new(group: impl Into<String>, message: impl Into<String>, attempt: u32) -> LastFailure {
        let (group, message) = (group.into(), message.into());
        LastFailure { group, message, attempt, owner: None, ago: Duration::ZERO }
    }
}

/// The buried tasks of a tube with one failure group; from [`Query::groups`](crate::Query::groups).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct FailureGroup {
    /// The name of the group.
    pub name: String,
    /// The number of buried tasks in it.
    pub count: u64,
}
