//! The owner of a taken task.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Result, SessionId};

/// Maximum length of the label of a session, in bytes: as that of names.
pub(crate) const LABEL_MAX: usize = 255;

/// Refuses a label that is too long for a session.
pub(crate) fn check_label(label: &str) -> Result<()> {
    if label.len() <= LABEL_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!("the label of a session must have at most {LABEL_MAX} bytes")))
}

/// The session that has taken a task, and for how long; from
/// [`Query::owner`](crate::Query::owner) and [`Claim::owner`](crate::Claim::owner).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Owner {
    /// The session.
    pub session: SessionId,
    /// The label of the session, if it was begun with
    /// [`session`](crate::Store::session).
    pub label: Option<Arc<str>>,
    /// How long it has held the task; of a parked claim, the time since it was taken or since the
    /// store was opened.
    pub held: Duration,
    /// How long until the claim expires; `None` without a limit.
    pub expires_in: Option<Duration>,
    /// Whether the claim is parked: the session has given it up, and may have ended.
    pub is_parked: bool,
}

/// A session that has claims, or has [described](crate::Session::describe) itself; from
/// [`Store::owners`](crate::Store::owners).
///
/// Times are on running time, which stands still while the machine is suspended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct OwnerInfo {
    /// The session. If it has ended, it has parked claims that stand.
    pub session: SessionId,
    /// The label of the session, if it was begun with
    /// [`session`](crate::Store::session).
    pub label: Option<Arc<str>>,
    /// What it is, as it has described itself.
    pub kind: Option<Arc<str>>,
    /// What else it has said of itself.
    pub metadata: Option<Arc<str>>,
    /// How long ago the session began; `None` if it has ended.
    pub since: Option<Duration>,
    /// How long ago it last took a task or made a call with a claim; `None` if it has ended.
    pub last_seen: Option<Duration>,
    /// How many tasks it has whose claims have not expired.
    pub running: u64,
    /// How many tasks it has whose ttr has elapsed, within their
    /// [reclaim delay](crate::TubeOptions::reclaim_delay).
    pub overdue: u64,
    /// How many claims it has [parked](crate::Claim::park).
    pub parked: u64,
}

/// `session "worker-3" (0123…)`, or `session 0123…` without a label, and `(parked)` behind it if the
/// claim is parked.
impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.label {
            Some(label) => write!(f, "session {label:?} ({})", self.session)?,
            None => write!(f, "session {}", self.session)?,
        }
        if self.is_parked { f.write_str(" (parked)") } else { Ok(()) }
    }
}
