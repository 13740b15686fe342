//! Gates: what keeps the ready tasks of a tube from being taken, whichever they are: a pause, and a
//! limit of taken tasks.
//!
//! Every take asks the gates before it looks for a task. The takes that wait at a shut gate are
//! served when it opens. Invariant: a pause that ends by itself has an entry in `Core::pauses` while
//! takes wait in its tube. No other pause has one, so that the sweeper does not wake for it.

use tubewell_drivers::NEVER;

use super::state::{Core, Decided, Now, Policies, TubeState};
use crate::micros::duration;
use crate::{Error, Result};

impl TubeState {
    /// Whether a gate is shut: no task of the tube may be taken now.
    #[inline]
    pub(super) fn is_shut(&self, now: Now) -> bool {
        let Policies { paused, max_taken, .. } = &self.definition.policies;
        paused.is_some_and(|until| until > now.timeline)
            || max_taken.is_some_and(|limit| self.visible.tasks.taken >= limit)
    }

    /// The gate that is shut, as a clause.
    pub(super) fn shut_gate(&self, now: Now) -> Option<String> {
        if !self.is_shut(now) {
            return None;
        }
        let Policies { paused, max_taken, .. } = &self.definition.policies;
        Some(match (paused.filter(|until| *until > now.timeline), max_taken) {
            (Some(NEVER), _) => "its tube is paused".to_owned(),
            (Some(until), _) => {
                format!("its tube is paused for {:?}", duration(until - now.timeline))
            }
            (None, limit) => {
                let (taken, limit) = (self.visible.tasks.taken, limit.unwrap_or_default());
                format!("{taken} tasks of its tube are taken, and {limit} may be")
            }
        })
    }

    /// When its pause ends, if it ends by itself and takes wait for that.
    fn awaited_end_of_pause(&self, now: Now) -> Option<u64> {
        let paused = self.definition.policies.paused.filter(|_| !self.waiting_takes.is_empty());
        paused.filter(|until| *until > now.timeline && *until != NEVER)
    }
}

impl Core {
    /// Pauses a tube for `time` microseconds of the timeline, instead of the pause that it has.
    pub(super) fn pause(&mut self, number: u32, time: u64) -> Result<Decided<()>> {
        self.set_pause(number, Some(self.now.timeline.saturating_add(time)))
    }

    pub(super) fn unpause(&mut self, number: u32) -> Result<Decided<()>> {
        self.set_pause(number, None)
    }

    fn set_pause(&mut self, number: u32, until: Option<u64>) -> Result<Decided<()>> {
        let now = self.now.timeline;
        let Some(tube) = self.tubes.get_mut(&number) else { return Err(Error::Closed) };
        let lasts = |until: Option<u64>| until.filter(|until| *until > now);
        let paused = &mut tube.definition.policies.paused;
        if lasts(*paused) == lasts(until) {
            return Ok(self.definition_stored(number).map(drop));
        }
        *paused = lasts(until);
        Ok(self.definition_changed(number).map(drop))
    }

    /// Serves the takes that wait in a tube whose gates may have opened.
    pub(super) fn gates_changed(&mut self, number: u32) {
        self.await_end_of_pause(number);
        if let Err(error) = self.serve(&[number]) {
            self.fail_with(&error);
        }
    }

    /// Notes when the pause of a tube ends, if takes wait for that.
    #[inline]
    pub(super) fn await_end_of_pause(&mut self, number: u32) {
        let Some(tube) = self.tubes.get_mut(&number) else { return };
        if tube.definition.policies.paused.is_none() && tube.awaited_end.is_none() {
            return;
        }
        let end = tube.awaited_end_of_pause(self.now);
        if let Some(old) = std::mem::replace(&mut tube.awaited_end, end) {
            self.pauses.remove(&(old, number));
        }
        self.pauses.extend(end.map(|end| (end, number)));
    }

    /// Serves the takes that wait for the end of the first pause that has elapsed. Returns false if
    /// none has.
    pub(super) fn end_elapsed_pause(&mut self) -> Result<bool> {
        let Some((end, number)) = self.pauses.first().copied() else { return Ok(false) };
        if end > self.now.timeline {
            return Ok(false);
        }
        self.await_end_of_pause(number);
        self.serve(&[number])?;
        Ok(true)
    }

    /// Checks that the sweeper will serve the takes that wait for the end of a pause, and that it
    /// wakes for no other pause.
    pub(super) fn check_gates(&self, findings: &mut Vec<String>) {
        for (number, tube) in &self.tubes {
            let entry = tube.awaited_end.filter(|end| self.pauses.contains(&(*end, *number)));
            if tube.awaited_end_of_pause(self.now) != entry {
                let name = &tube.definition.name;
                findings.push(format!("tube {name:?}: the end of its pause is not awaited"));
            }
        }
        let awaited = self.tubes.values().filter(|tube| tube.awaited_end.is_some()).count();
        if awaited != self.pauses.len() {
            findings.push("the sweeper waits for the end of a pause that no tube has".to_owned());
        }
    }
}
