//! Restored tasks: what they bring along that a put cannot give.

use tubewell_drivers::{Header, Note};

use crate::Result;
use crate::core::claims::{Rules, encode_last_failure};
use crate::core::state::{Core, History, PutRequest};
use crate::micros::micros_ceil;

impl Core {
    /// Completes the header of a task that is restored: its attempts, its last failure, and how it
    /// is buried.
    pub(in crate::core) fn restored_header(
        &self,
        number: u32,
        request: &PutRequest,
        mut header: Header,
    ) -> Result<Header> {
        let history = request.history.as_deref();
        if let Some(History { forgiven, failure, .. }) = history {
            header.edit_more(|more| {
                more.forgiven = *forgiven;
                if failure.is_some() {
                    more.notes |= Note::Failure.bit();
                }
            });
        }
        if !request.buried {
            return Ok(header);
        }
        let buried_with = history.and_then(|history| history.buried_with.clone());
        // It was buried when its last failure was recorded. Otherwise its retention begins anew.
        let failure = history.and_then(|history| history.failure.as_ref());
        let ago = failure.filter(|_| buried_with.is_some()).map_or(0, |f| micros_ceil(f.ago));
        let rules = self.rules(number)?;
        let now = rules.now.saturating_sub(ago);
        Ok(Rules { now, ..rules }.bury(header, buried_with).header)
    }

    /// The note of the last failure of a task that is restored.
    pub(in crate::core) fn restored_note(&self, request: &PutRequest) -> Option<Vec<u8>> {
        let failure = request.history.as_ref()?.failure.as_ref()?;
        Some(encode_last_failure(failure, self.now.timeline))
    }
}
