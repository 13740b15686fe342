//! The error of a row that cannot be decoded.

/// A stored row that is not what was written: a wrong checksum, an unknown version, a missing row.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {id}: {what} cannot be read")]
pub struct RecordError {
    /// The id of the task; 0 if it is unknown.
    pub id: u64,
    /// The part that cannot be read.
    pub what: String,
}

impl RecordError {
    pub(crate) fn new(id: u64, what: impl Into<String>) -> RecordError {
        RecordError { id, what: what.into() }
    }

    /// The error of a record with something that this release does not know.
    pub(crate) fn newer(id: u64, what: &str) -> RecordError {
        let advice = "a newer release of tubewell wrote it, use that release";
        RecordError::new(id, format!("its record ({what}: {advice})"))
    }
}
