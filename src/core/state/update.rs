//! An update, checked and converted before the core is locked.

use std::sync::Arc;

use tubewell_drivers::Body;

use super::request::{check_distinct_tags, check_size, distinct_tags};
use crate::base::micros::micros_ceil;
use crate::base::moment::micros_of;
use crate::{Result, Update};

/// An update, after the checks and conversions that need no lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateRequest {
    pub(in crate::core) priority: Option<u32>,
    /// Microseconds.
    pub(in crate::core) delay: Option<u64>,
    /// The moment, or that it has none.
    pub(in crate::core) not_before: Option<Option<u64>>,
    pub(in crate::core) body: Option<Body>,
    pub(in crate::core) tags: Option<Arc<[Arc<str>]>>,
}

impl UpdateRequest {
    /// An update as a request, without its checks.
    pub(crate) fn of(update: Update<Vec<u8>>) -> UpdateRequest {
        UpdateRequest {
            priority: update.priority,
            delay: update.delay.map(micros_ceil),
            not_before: update.not_before.map(|moment| moment.map(micros_of)),
            body: update.body.map(Body::new),
            tags: update.tags.map(distinct_tags),
        }
    }

    pub(in crate::core) fn check(&self, max_body: usize) -> Result<()> {
        self.body.as_ref().map_or(Ok(()), |body| check_size("body", body, max_body))?;
        self.tags.as_deref().map_or(Ok(()), check_distinct_tags)
    }
}
