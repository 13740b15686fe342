//! An update, checked and converted before the core is locked.

use std::sync::Arc;

use tubewell_drivers::Body;

use super::request::{check_distinct_tags, check_size, check_tags};
use crate::micros::micros_ceil;
use crate::moment::micros_of;
use crate::{Result, Update};

/// An update, after the checks and conversions that need no lock.
#[derive(Clone, Debug, Default)]
pub(crate) struct UpdateRequest {
    pub(in crate::core) pri: Option<u32>,
    /// Microseconds.
    pub(in crate::core) delay: Option<u64>,
    /// The moment, or that it has none.
    pub(in crate::core) not_before: Option<Option<u64>>,
    pub(in crate::core) body: Option<Body>,
    pub(in crate::core) tags: Option<Arc<[Arc<str>]>>,
}

impl UpdateRequest {
    pub(crate) fn new(update: Update, max_body: usize) -> Result<UpdateRequest> {
        let request = UpdateRequest {
            pri: update.pri,
            delay: update.delay.map(micros_ceil),
            not_before: update.not_before.map(|moment| moment.map(micros_of)),
            body: update.body.map(Body::new),
            tags: None,
        };
        request.check(max_body)?;
        Ok(UpdateRequest { tags: update.tags.map(check_tags).transpose()?, ..request })
    }

    /// The checks of `new`, for an update that another process has made.
    pub(in crate::core) fn check(&self, max_body: usize) -> Result<()> {
        self.body.as_ref().map_or(Ok(()), |body| check_size("body", body, max_body))?;
        self.tags.as_deref().map_or(Ok(()), check_distinct_tags)
    }
}

/// A change of the tags of a task. Each tag is named once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TagEdit<'a> {
    Add(&'a [Arc<str>]),
    Remove(&'a [Arc<str>]),
}
