//! How far the parents of a task are.
//!
//! The header of a task that waits counts the parents that it waits for no more: an end of a parent writes no
//! more than before. What the open ones are doing is looked up.

use tubewell_drivers::{EdgeEnd, parents};

use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::values::parent_counts::ParentCounts;
use crate::{Result, TaskState};

/// How many parents a call looks up.
const LOOK_UPS: usize = 1000;

verb! {
    /// The parents of a task, counted, and the parent after which the count of the open ones goes on; `None` if it
    /// has ended. `after`: only the states of the open ones after this parent are new.
    92 InTube Look: CountParents { id: u64, after: Option<u64> } -> (ParentCounts, Option<u64>)
}

impl Decide for CountParents {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<(ParentCounts, Option<u64>)>> {
        let CountParents { id, after } = *self;
        let header = core.find(number, id)?.record.header;
        let more = header.more.as_deref();
        let [done, failed, open] = more.map_or([0; 3], |more| {
            [more.done_parents, more.failed_parents, more.open_parents].map(u64::from)
        });
        let total = done + failed + open;
        let mut counts = ParentCounts { total, done, failed, open, ..ParentCounts::default() };
        if open == 0 {
            return Ok(Decided::now((counts, None)));
        }
        let buffer = core.buffer_of(number);
        let edges = parents(&mut core.buffers[buffer], id, after, LOOK_UPS)?;
        for edge in &edges {
            match core.state_of_parent(*edge)? {
                Some(TaskState::Taken) => counts.taken += 1,
                Some(TaskState::Buried) => counts.buried += 1,
                _ => {}
            }
        }
        let last = edges.last().filter(|_| edges.len() == LOOK_UPS);
        Ok(Decided::now((counts, last.map(|(id, _)| *id))))
    }
}

impl Core {
    /// The state of an open parent; `None` if it is gone, and the task was not told yet, or is damaged, which
    /// `verify` reports.
    fn state_of_parent(&mut self, (id, space): EdgeEnd) -> Result<Option<TaskState>> {
        let Some(number) = self.tubes.of_space(space) else { return Ok(None) };
        let found = self.find_if_whole(number, id)?;
        Ok(found.map(|found| self.state_of(id, found.shelf)))
    }
}
