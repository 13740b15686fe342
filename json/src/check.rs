//! The progress and the findings of a check of a store, as JSON.

use serde::Serialize;

/// How far a check is.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckProgress {
    /// The number of checked tasks.
    pub checked: u64,
    /// The number of all tasks.
    pub of: u64,
}

/// What a check has found.
#[derive(Debug, Serialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct CheckResult {
    /// A sentence for each finding; none means that the store is sound.
    pub findings: Vec<String>,
}
