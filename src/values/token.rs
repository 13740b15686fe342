//! The token of a parked claim.

use std::fmt;

/// What resumes a parked claim: from [`Claim::park`](crate::Claim::park), for
/// [`Store::resume_claim`](crate::Store::resume_claim).
///
/// It has a text form for files, arguments and environment variables, which parses back. With the
/// feature `serde` it is serialized as that text. It is not a secret: whoever has it can finish the
/// task, and so can whoever has the store.
///
/// # Example
/// ```
/// # use std::time::Duration;
/// use tubewell::{ClaimToken, Store};
///
/// # let store = Store::in_memory()?;
/// # let jobs = store.tube("jobs")?;
/// # jobs.put("work")?;
/// let token = jobs.try_take()?.unwrap().park(Duration::from_secs(3600))?;
/// let text = token.to_string();
/// assert_eq!(text.parse::<ClaimToken>()?, token);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct ClaimToken {
    pub(crate) tube: String,
    pub(crate) id: u64,
    pub(crate) epoch: u64,
}

impl ClaimToken {
    /// The name of the tube of the task.
    #[must_use]
    pub fn tube(&self) -> &str {
        &self.tube
    }

    /// The id of the task.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.id
    }
}

impl fmt::Debug for ClaimToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClaimToken({self})")
    }
}
