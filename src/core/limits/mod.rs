//! The limits of sub-queues, their cooldowns and pauses, and the limits that tubes share.

mod sub_queues;
mod verbs;
mod verify;

pub(crate) use verbs::{AllLimits, PauseSubQueue, PausedSubQueues, SetLimit};
