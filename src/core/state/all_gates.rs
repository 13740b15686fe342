//! The gates and limits of all tubes.

use super::gates::Alarms;
use super::limits::SharedLimits;

/// What opens by itself, and what tubes share.
#[derive(Debug, Default)]
pub(in crate::core) struct AllGates {
    /// The alarms of the gates of tubes.
    pub(in crate::core) alarms: Alarms,
    /// Those for sub-queues that open by themselves.
    pub(in crate::core) sub_queue_alarms: Alarms,
    /// The limits of sub-queues that tubes share.
    pub(in crate::core) limits: SharedLimits,
}
