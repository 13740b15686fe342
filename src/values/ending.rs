//! How tasks end: what callers learn of a task that is over.

use std::time::Duration;

use serde::de::DeserializeOwned;

use crate::{Error, Result};

/// How a task has ended; from [`Tube::ending`](crate::Tube::ending) and
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

impl Ending {
    /// The result of a task that is done, as a value: JSON, as [`Outcome::value`](crate::Outcome::value)
    /// has written it. A task that is done without a result has the value `null`: `()`, or the `None`
    /// of an option.
    ///
    /// # Errors
    /// [`Codec`](Error::Codec): the result is no JSON of this type, or the task has ended otherwise; the
    /// text says how, with the failure of a task that was buried.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Keep, Outcome, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().keep_done(Keep::new());
    /// let sums = store.open_tube("sums", options)?;
    /// let id = sums.put("2 + 2")?.id;
    /// sums.try_take()?.unwrap().end(Outcome::value(&4))?;
    /// let ending = sums.wait_done(id, Duration::from_secs(5))?.unwrap();
    /// assert_eq!(ending.value::<i32>()?, 4);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn value<R: DeserializeOwned>(&self) -> Result<R> {
        let result: &[u8] = match self {
            Ending::Done { result } => result.as_deref().unwrap_or(b"null"),
            Ending::Buried { failure: Some(failure) } => {
                let LastFailure { group, message, attempt, .. } = failure;
                let why = format!("{group}: {message} (attempt {attempt})");
                return Err(Error::Codec { what: format!("the task was buried: {why}") });
            }
            Ending::Buried { failure: None } => return Err(no_result("the task was buried")),
            Ending::Deleted => return Err(no_result("the task was deleted")),
            Ending::Expired => return Err(no_result("the ttl of the task has elapsed")),
            Ending::Gone => return Err(no_result("nothing is kept of the end of the task")),
        };
        serde_json::from_slice(result)
            .map_err(|error| Error::Codec { what: format!("the result of the task: {error}") })
    }

    /// The bytes of the result, if the task is done and has one.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        match self {
            Ending::Done { result } => result.as_deref(),
            _ => None,
        }
    }
}

fn no_result(how: &str) -> Error {
    Error::Codec { what: format!("{how}, so it has no result") }
}

/// The last failure of a task, as it was recorded.
///
/// With the feature `serde`, `ago` is an object with `secs` and `nanos`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct LastFailure {
    /// How it came about.
    #[cfg_attr(feature = "serde", serde(default))]
    pub kind: FailureKind,
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
    /// A failure of this attempt that was reported, without an owner, recorded now: for
    /// [`Restore::failure`](crate::expert::Restore::failure). The fields can be set.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::expert::LastFailure;
    ///
    /// let mut failure = LastFailure::new("timeout", "no answer", 3);
    /// failure.owner = Some("worker-3".into());
    /// failure.ago = Duration::from_secs(60);
    /// ```
    #[must_use]
    pub fn new(group: impl Into<String>, message: impl Into<String>, attempt: u32) -> LastFailure {
        let (group, message) = (group.into(), message.into());
        let (kind, owner, ago) = (FailureKind::Reported, None, Duration::ZERO);
        LastFailure { kind, group, message, attempt, owner, ago }
    }
}

/// How a [failure](LastFailure) came about; for a buried task also how it was buried
/// ([`TaskInfo::buried_by`](crate::TaskInfo::buried_by)).
///
/// Its text is the name of the kind in lower case, such as `reported`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FailureKind {
    /// The holder of the task reported that the attempt had failed. A task that is buried by it had no
    /// attempt left.
    #[default]
    Reported,
    /// A call buried the task, whatever attempts its tube had left: its holder, a worker whose
    /// [own limit of attempts](crate::Worker::max_attempts) was reached, an administrator, or the library itself if a
    /// body cannot be decoded.
    Call,
    /// In the last attempt the time of the claim elapsed: its ttr, its `max_runtime`, or the time for which
    /// it was parked.
    Expired,
    /// The last attempt was lost: the session, the process or the store of the holder ended.
    Lost,
    /// The holder released the task in the last attempt.
    Released,
    /// A task that it waits for was buried or removed; see [`OnParent`](crate::OnParent).
    Parent,
}

impl FailureKind {
    /// The number of the kind in a stored failure.
    pub(crate) fn number(self) -> u8 {
        match self {
            FailureKind::Reported => 0,
            FailureKind::Call => 1,
            FailureKind::Expired => 2,
            FailureKind::Lost => 3,
            FailureKind::Released => 4,
            FailureKind::Parent => 5,
        }
    }

    pub(crate) fn from_number(number: u8) -> Option<FailureKind> {
        FailureKind::NAMED.iter().copied().find(|kind| kind.number() == number)
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
