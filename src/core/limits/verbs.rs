//! The verbs of limits: pause a sub-queue, set a limit that tubes share.
//!
//! Pauses and limits are rows of `meta`. Like all changes of the catalog they are always flushed.

use std::sync::Arc;

use tubewell_drivers::{NEVER, SUB_QUEUE_MAX, Table};

use crate::base::micros::duration;
use crate::base::tube_no::TubeNo;
use crate::core::catalog::{encode, limit_key, pause_key};
use crate::core::state::limits::SubQueueLimits;
use crate::core::state::{Buffer, Core, Decided, TubeState};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::values::limit::PausedSubQueue;
use crate::{Error, Limit, Result};

verb! {
    /// Pauses a sub-queue for `time` microseconds of the timeline, instead of the pause that it has: none
    /// of its tasks may be taken. Zero ends it.
    43 InTube Edit: PauseSubQueue { name: Box<str>, time: u64 } -> ()
}

impl Decide for PauseSubQueue {
    fn decide(&self, core: &mut Core, TubeRef { number, .. }: TubeRef<'_>) -> Result<Decided<()>> {
        let PauseSubQueue { name: ref sub, time } = *self;
        check_sub_queue(sub)?;
        let until = core.now.timeline.saturating_add(time);
        let until = Some(until).filter(|until| *until > core.now.timeline);
        let Some(tube) = core.tubes.get(number) else { return Err(Error::Closed) };
        if !tube.definition.sub_queued {
            return Err(tube.unsupported("sub-queues"));
        }
        let key = pause_key(&tube.definition.name, sub);
        let sub: Arc<str> = sub.clone().into();
        let paused = tube.limits.as_ref().and_then(|limits| limits.paused_until(&sub, core.now));
        if paused == until {
            return Ok(core.once_stored(&key));
        }
        core.store_pause(number, &sub, until);
        // Before the storage can fail, which ends this wait with an error.
        let decided = core.once_stored(&key);
        let offered = core.offer_or_remove(number, &sub);
        core.await_sub_queues(number);
        if let Err(error) = offered.and_then(|()| core.serve(&[number])) {
            core.fail_with(&error);
        }
        Ok(decided)
    }
}

verb! {
    /// The paused sub-queues of a tube, by name.
    44 InTube Look: PausedSubQueues {} -> Vec<PausedSubQueue>
}

impl Decide for PausedSubQueues {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<PausedSubQueue>>> {
        let tube = core.tubes.get(number).ok_or(Error::Closed)?;
        let now = core.now.timeline;
        let pauses = tube.limits.iter().flat_map(|limits| limits.pauses());
        let pauses = pauses.filter(|(_, until)| *until > now).map(|(name, until)| PausedSubQueue {
            name: name.to_string(),
            resumes_in: (until != NEVER).then(|| duration(until - now)),
        });
        Ok(Decided::now(pauses.collect()))
    }
}

verb! {
    /// Sets a limit that tubes share; `None` removes it.
    11 InStore Edit: SetLimit { name: Arc<str>, most: Option<u32> } -> () {
        fn check(&self, _: Limits) -> Result<()> {
            check_sub_queue(&self.name)
        }
    }
}

impl Decide for SetLimit {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<()>> {
        let SetLimit { name, most } = self;
        let key = limit_key(name);
        if core.gates.limits.most.get(name) == most.as_ref() {
            return Ok(core.once_stored(&key));
        }
        let rows = &mut core.buffers[Buffer::File].edits.active;
        if let Some(most) = most {
            rows.replace(Table::Meta, key.clone(), encode(most));
            core.gates.limits.most.insert(name.clone(), *most);
        } else {
            rows.remove(Table::Meta, key.clone());
            core.gates.limits.most.remove(name);
        }
        // Before the storage can fail, which ends this wait with an error.
        let decided = core.once_stored(&key);
        core.shared_limits_freed(std::slice::from_ref(name));
        Ok(decided)
    }
}

verb! {
    /// The limits that are set, by name.
    12 InStore Look: AllLimits {} -> Vec<Limit> {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for AllLimits {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Vec<Limit>>> {
        let limit = |(name, most): (&Arc<str>, &u32)| Limit {
            name: name.to_string(),
            most: *most,
            taken: core.gates.limits.taken_of(name),
        };
        Ok(Decided::now(core.gates.limits.most.iter().map(limit).collect()))
    }
}

impl Core {
    /// The answer to a call that has changed a row of `meta`, or has found it as it is wanted.
    fn once_stored(&self, key: &[u8]) -> Decided<()> {
        let is_pending = self.buffers[Buffer::File].edits.get(Table::Meta, key).is_some();
        Decided { answer: (), wait: is_pending.then(|| self.flush_of(Buffer::File)) }
    }

    /// Sets or removes a pause, in memory and with the next commit.
    pub(super) fn store_pause(&mut self, number: TubeNo, sub: &Arc<str>, until: Option<u64>) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let policies = &tube.definition.policies;
        let limits = tube.limits.get_or_insert_with(|| Box::new(SubQueueLimits::new(policies)));
        let key = pause_key(&tube.definition.name, sub);
        let rows = &mut self.buffers[Buffer::File].edits.active;
        match (limits.set_pause(sub, until), until) {
            (_, Some(until)) => rows.replace(Table::Meta, key, encode(&until)),
            (Some(_), None) => rows.remove(Table::Meta, key),
            (None, None) => {}
        }
    }

    /// Loads a pause at open.
    pub(in crate::core) fn load_pause(&mut self, number: TubeNo, sub: &str, until: u64) {
        let Some(tube) = self.tubes.get_mut(number) else { return };
        let policies = &tube.definition.policies;
        let limits = tube.limits.get_or_insert_with(|| Box::new(SubQueueLimits::new(policies)));
        limits.set_pause(&sub.into(), Some(until));
    }

    /// Removes the pauses of a tube that is dropped.
    pub(in crate::core) fn remove_pauses(&mut self, tube: &TubeState) {
        for (sub, _) in tube.limits.iter().flat_map(|limits| limits.pauses()) {
            let key = pause_key(&tube.definition.name, sub);
            self.buffers[Buffer::File].edits.active.remove(Table::Meta, key);
        }
    }
}

fn check_sub_queue(name: &str) -> Result<()> {
    if name.len() > SUB_QUEUE_MAX {
        return Err(Error::invalid(format!(
            "the name of a sub-queue must have at most {SUB_QUEUE_MAX} bytes; this one has {}",
            name.len()
        )));
    }
    Ok(())
}
