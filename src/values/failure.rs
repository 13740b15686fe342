//! Failures: what a worker reports about a task that it could not do.

use std::any::type_name;
use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

mod group;

use tubewell_drivers::FAILURE_GROUP_MAX;

use crate::{Error, Result};

/// The longest message that is kept, in bytes. A message is read by people, and is stored with each
/// failed attempt.
const MESSAGE_MAX: usize = 10_000;

/// Why an attempt has failed: a group, which many failures share, and a message for people.
///
/// [`Claim::fail`](crate::Claim::fail) and [`Claim::bury`](crate::Claim::bury) report it.
/// The buried tasks of a tube are listed and counted by group:
/// [`Query::groups`](crate::Query::groups). A message of more than 10,000 bytes is cut. A group has 1
/// to 255 bytes; with another length the call returns [`Invalid`](crate::Error::Invalid).
///
/// # Example
/// ```
/// use tubewell::Failure;
///
/// let timeout = Failure::new("timeout", "example.org did not answer within 30 s");
/// assert_eq!(timeout.group(), "timeout");
///
/// let error = "twelve".parse::<u32>().unwrap_err();
/// let failure = Failure::of(&error);
/// assert_eq!(failure.group(), "ParseIntError");
/// assert_eq!(failure.message(), "invalid digit found in string");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Failure {
    group: Arc<str>,
    message: String,
}

impl Failure {
    /// A failure of this group.
    #[must_use]
    pub fn new(group: impl Into<String>, message: impl Into<String>) -> Failure {
        let mut message = message.into();
        let mut end = message.len().min(MESSAGE_MAX);
        while !message.is_char_boundary(end) {
            end -= 1;
        }
        message.truncate(end);
        Failure { group: group.into().into(), message }
    }

    /// The failure that an error describes. The message has the texts of the error and of its sources, joined
    /// by `: `.
    ///
    /// The group is the name of its type, without the path and without type parameters, and that of
    /// its variant: `ParseIntError`, `PageError::Timeout`. Where the type is a `dyn Error` or is called
    /// `Error`, it is the variant or the kind alone, or the first such name among the sources:
    /// `NotFound` of an [`io::Error`](std::io::Error), `DiskFull` of an [`Error`](crate::Error). Names
    /// are read from the `Debug` text, as `derive(Debug)` writes it; an error that has none is in the
    /// group `Error`, or `serde_json::Error` if its crate is known. No text of an error is a group, so
    /// the groups are as few as the variants in the code of the program.
    #[must_use]
    pub fn of<E: StdError + ?Sized>(error: &E) -> Failure {
        Failure::of_type(type_name::<E>(), error)
    }

    /// As [`of`](Failure::of), for an error whose type has this name.
    pub(crate) fn of_type<E: StdError + ?Sized>(name: &str, error: &E) -> Failure {
        let mut group = group::group_of(name, error);
        group.truncate(FAILURE_GROUP_MAX);
        Failure::new(group, message_of(error.to_string(), error.source()))
    }

    /// This failure in another group.
    pub(crate) fn in_group(self, group: impl Into<Arc<str>>) -> Failure {
        Failure { group: group.into(), ..self }
    }

    /// This failure in the group of errors of which nothing is known.
    pub(crate) fn in_unknown_group(self) -> Failure {
        self.in_group(group::UNKNOWN)
    }

    /// The group.
    #[must_use]
    pub fn group(&self) -> &str {
        &self.group
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The group, shared.
    pub(crate) fn shared_group(&self) -> &Arc<str> {
        &self.group
    }

    /// Refuses a group that cannot be stored.
    pub(crate) fn check(&self) -> Result<()> {
        Failure::check_parts(&self.group, &self.message)
    }

    /// Refuses a group that cannot be stored, and a message that was not cut.
    pub(crate) fn check_parts(group: &str, message: &str) -> Result<()> {
        if message.len() > MESSAGE_MAX {
            return Err(Error::invalid(format!(
                "the message of a failure has at most {MESSAGE_MAX} bytes"
            )));
        }
        if (1..=FAILURE_GROUP_MAX).contains(&group.len()) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a failure group has 1 to {FAILURE_GROUP_MAX} bytes, not {}: use a short name that \
             failures of one kind share, and put the rest into the message",
            group.len()
        )))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// So that a handler of a [worker](crate::worker) can return it with `?`.
impl StdError for Failure {}

/// The message of an error with those of its sources.
fn message_of(mut message: String, mut source: Option<&(dyn StdError + 'static)>) -> String {
    while let Some(cause) = source.filter(|_| message.len() < MESSAGE_MAX) {
        message.push_str(": ");
        message.push_str(&cause.to_string());
        source = cause.source();
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_of_an_error_has_the_messages_of_its_sources() {
        #[derive(Debug, thiserror::Error)]
        #[error("cannot read the list")]
        struct ReadList<T: std::fmt::Debug>(#[source] std::io::Error, T);
        let error = ReadList(std::io::Error::other("disk on fire"), 7);
        let failure = Failure::of(&error);
        assert_eq!(failure.group(), "ReadList");
        assert_eq!(failure.message(), "cannot read the list: disk on fire");
        let dynamic: &dyn StdError = &error;
        assert_eq!(Failure::of(dynamic).group(), "ReadList");
        let sync: Box<dyn StdError + Send + Sync> = Box::new(error);
        assert_eq!(Failure::of(&*sync).group(), "ReadList");
    }

    #[test]
    fn long_message_is_cut_between_characters() {
        let failure = Failure::new("group", "é".repeat(MESSAGE_MAX));
        assert_eq!(failure.message().len(), MESSAGE_MAX);
        let odd = Failure::new("group", format!("x{}", "é".repeat(MESSAGE_MAX)));
        assert_eq!(odd.message().len(), MESSAGE_MAX - 1);
    }

    #[test]
    fn group_without_bytes_or_with_too_many_is_refused() {
        for length in [0, 256, 10_000] {
            let refused = Failure::new("x".repeat(length), "").check();
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{length}");
        }
        Failure::new("x".repeat(255), "").check().unwrap();
    }
}
