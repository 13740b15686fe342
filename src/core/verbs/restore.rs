//! Restored tasks: what they bring along that a put cannot give.

use std::borrow::Cow;

use tubewell_drivers::{Header, NEVER, Note, StepRows};

use super::steps::encode_restored;
use crate::base::micros::micros_ceil;
use crate::base::tube_no::TubeNo;
use crate::core::claims::{Rules, encode_failure};
use crate::core::state::{Core, History, PutRequest};
use crate::values::ending::FailureKind;
use crate::values::spawned_by::SpawnedBy;
use crate::values::step::Step;
use crate::{Error, Result};

impl Core {
    /// Completes the header of a task that is restored: its age, its attempts, its last failure, and
    /// how it is buried or done.
    pub(in crate::core) fn restored_header(
        &self,
        number: TubeNo,
        request: &PutRequest,
        mut header: Header,
    ) -> Result<Header> {
        let history = request.history.as_deref();
        if let Some(History { forgiven, failure, spawned_by, steps, put_at, .. }) = history {
            if let Some(moment) = put_at {
                header.created = self.clocks().time_of(*moment);
            }
            header.edit_more(|more| {
                more.forgiven = *forgiven;
                more.has_steps = !steps.is_empty();
                more.spawned_by = spawned_by.map(SpawnedBy::as_numbers);
                if failure.is_some() {
                    more.notes |= Note::Failure.bit();
                }
            });
        }
        if request.is_done() {
            return self.done_header(number, request, &header);
        }
        if !request.is_buried() {
            return Ok(header);
        }
        let buried_with = history.and_then(|history| history.buried_with.clone());
        // Without a moment, it was buried when its last failure was recorded, or its retention begins anew.
        let failure = history.and_then(|history| history.failure.as_ref());
        let ago = failure.filter(|_| buried_with.is_some()).map_or(0, |f| micros_ceil(f.ago));
        let rules = self.rules(number)?;
        let now = self.ended_at(request).unwrap_or(rules.now.saturating_sub(ago));
        Ok(Rules { now, ..rules }.bury(header, buried_with, FailureKind::Call).header)
    }

    /// The notes of a task that is restored: its last failure, and its result.
    pub(in crate::core) fn restored_notes<'a>(
        &self,
        request: &'a PutRequest,
    ) -> Vec<(Note, Cow<'a, [u8]>)> {
        let Some(history) = request.history.as_deref() else { return Vec::new() };
        let failure = history.failure.as_ref();
        let failure = failure.map(|failure| encode_failure(failure, self.now.timeline));
        let result = history.result.as_deref().map(Cow::Borrowed);
        let notes = [(Note::Failure, failure.map(Cow::Owned)), (Note::Result, result)];
        notes.into_iter().filter_map(|(note, bytes)| Some((note, bytes?))).collect()
    }

    /// The rows of the steps of a task that is restored.
    pub(in crate::core) fn restored_steps(&self, id: u64, request: &PutRequest) -> StepRows {
        if request.steps().is_empty() {
            return StepRows::new();
        }
        let now = self.now.timeline;
        let wall = self.wall.at(now);
        let steps = (0..).zip(request.steps());
        let row = |(number, step): (u16, &Step)| {
            (step.name.clone(), encode_restored(id, number, step, now, wall))
        };
        steps.map(row).collect()
    }

    /// When a task that is restored has ended, if that is known.
    fn ended_at(&self, request: &PutRequest) -> Option<u64> {
        let moment = request.history.as_ref()?.ended_at?;
        Some(self.clocks().time_of(moment))
    }

    /// The header of a task that is restored as done. Refuses it if its tube keeps nothing.
    fn done_header(&self, number: TubeNo, request: &PutRequest, header: &Header) -> Result<Header> {
        let (rules, ended) = (self.rules(number)?, self.ended_at(request));
        let rules = Rules { now: ended.unwrap_or(rules.now), ..rules };
        let has_result = request.history.as_ref().is_some_and(|history| history.result.is_some());
        let Some(mut kept) = rules.done(header, has_result) else {
            let name = self.tubes.get(number).map_or("", |tube| &tube.definition.name);
            return Err(Error::invalid(format!(
                "tube {name:?} keeps no done tasks; leave the task out, or restore it into a tube \
                 that was created with keep_done"
            )));
        };
        // Its ttl has ended with it.
        kept.expires_at = NEVER;
        if let Some(ttl) = request.ttl {
            let until = self.now.timeline.saturating_add(ttl);
            let age = rules.policies.keep_done.and_then(|keep| keep.age).map_or(0, micros_ceil);
            kept.edit_more(|more| {
                more.ended = ended.or(Some(rules.now.min(until.saturating_sub(age))));
                more.until = (until != NEVER).then_some(until);
            });
        }
        Ok(kept)
    }
}
