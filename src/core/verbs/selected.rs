//! Calls on the selected tasks of a tube, which look at so many of them at a time.

use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use tubewell_drivers::Shelf;

use super::peek::{cursor, rank_of};
use super::select::Selected;
use crate::Result;
use crate::base::tube_no::TubeNo;
use crate::core::claims::End;
use crate::core::state::{Core, Decided};
use crate::core::verb::{Decide, Limits, TubeName, TubeRef, verb};
use crate::core::wire::{wire_enum, wire_struct};
use crate::values::filter::{Filter, IDS_MAX};
use crate::values::task::Cursor;

/// The maximum number of selected tasks that one call changes while it holds the lock. A delete and a kick
/// of chosen ids change all of them.
const SELECT_STEP: usize = 512;

/// How many claims one call looks at while it holds the lock.
const CLAIMS_STEP: usize = 8 * SELECT_STEP;

/// What a call does to selected tasks.
#[derive(Clone, Debug)]
pub(crate) enum TaskEdit {
    Delete,
    Kick,
    /// Those that are not done go on in another tube.
    Move(TubeName),
    /// A delete, with the selected tasks that wait for them in these tubes; in all tubes if there are none.
    DeleteAcross(Vec<Arc<str>>),
}

wire_enum! { TaskEdit { 0 => Delete, 1 => Kick, 2 => Move(to), 3 => DeleteAcross(tubes) } }

/// A step of a call on selected tasks.
pub(crate) struct SelectStep {
    /// How many tasks it has changed.
    pub(crate) changed: u64,
    /// An upper bound of the tasks that there were to select before it.
    pub(crate) bound: u64,
    /// Where the next step continues; `None` after the last one.
    pub(crate) next: Option<Cursor>,
    /// Where the ids of tasks began that were put after the first step.
    pub(crate) below: u64,
    /// The first error of a task, if the call goes on with the others.
    pub(crate) failed: Result<()>,
}

wire_struct! { SelectStep { changed, bound, next, below, failed } }

verb! {
    /// Deletes, kicks or moves up to `limit` selected tasks: those of one step.
    28 InTube Edit: EditTasks {
        filter: Filter,
        edit: TaskEdit,
        after: Option<Cursor>,
        /// Only tasks with ids below this move, or are deleted across tubes; `None` in the first step.
        below: Option<u64>,
        limit: u64,
    } -> SelectStep {
        fn check(&self, _: Limits) -> Result<()> {
            match self.edit {
                TaskEdit::Delete | TaskEdit::DeleteAcross(_) => self.filter.check_delete(),
                TaskEdit::Kick => self.filter.check_kick(),
                TaskEdit::Move(_) => self.filter.check_move(),
            }
        }
    }
}

impl Decide for EditTasks {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<SelectStep>> {
        let EditTasks { filter, edit, after, below, limit } = self;
        let (after, below) = (after.as_ref(), below.unwrap_or(core.ids.next()));
        let mut decided = match edit {
            TaskEdit::Delete => core.delete_selected(number, filter, after, *limit),
            TaskEdit::Kick => core.kick_selected(number, filter, after, *limit),
            TaskEdit::Move(to) => core.move_selected(number, to, filter, (after, below), *limit),
            TaskEdit::DeleteAcross(names) => {
                core.delete_across(number, names, filter, (after, below), *limit)
            }
        }?;
        decided.answer.below = below;
        if decided.answer.changed == 0 {
            // What an earlier call has changed of chosen tasks is not to be undone either.
            decided.wait = filter.ids.as_ref().and_then(|ids| core.last_change_of(number, ids));
        }
        Ok(decided)
    }
}

verb! {
    /// Ends the claims on up to `limit` selected tasks of any holder: those of one step. `forgive`: their
    /// attempts do not count. A task that cannot be read stays as it is.
    34 InTube Memory: Revoke { filter: Filter, forgive: bool, after: Option<Cursor>, limit: u64 } -> SelectStep {
        fn check(&self, _: Limits) -> Result<()> {
            self.filter.check_end_claims()
        }
    }
}

impl Decide for Revoke {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<SelectStep>> {
        let Revoke { filter, forgive, after, limit } = self;
        let bound = core.tubes.get(number).map_or(0, |tube| tube.taken.len() as u64);
        let limit = at_most(*limit, SELECT_STEP);
        let (claimed, next) = core.select_claims(number, filter, after.as_ref(), limit);
        let end = if *forgive { End::Revoke } else { End::Release { delay: 0 } };
        let ended = core.end_selected_claims(number, claimed, end);
        Ok(ended.map(|(changed, failed)| {
            let step = SelectStep::new(changed, bound, next);
            SelectStep { failed, ..step }
        }))
    }
}

/// How many tasks one step of a delete or a kick changes at most.
pub(super) fn step_of(filter: &Filter, limit: u64) -> usize {
    at_most(limit, if filter.ids.is_some() { IDS_MAX } else { SELECT_STEP })
}

/// The limit of a caller, or that of a step if it is lower.
pub(super) fn at_most(limit: u64, most: usize) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX).min(most)
}

impl SelectStep {
    pub(super) fn new(changed: u64, bound: u64, next: Option<Cursor>) -> SelectStep {
        SelectStep { changed, bound, next, below: u64::MAX, failed: Ok(()) }
    }
}

impl Core {
    fn kick_selected(
        &mut self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: u64,
    ) -> Result<Decided<SelectStep>> {
        let all_buried = filter.ids.is_none() && filter.group.is_none() && filter.tags.is_empty();
        let empty = self.tubes.get(number).and_then(|tube| tube.empty_up_to.buried);
        let are_first = all_buried && after.map(rank_of) <= empty;
        let (bound, Selected { tasks, next }) =
            self.select(number, filter, after, step_of(filter, limit))?;
        let decided = self.kick_all(number, &tasks, are_first)?;
        Ok(decided.map(|changed| SelectStep::new(changed, bound, next)))
    }

    /// The selected ones of the claims on tasks of a tube. Reads memory only.
    fn select_claims(
        &self,
        number: TubeNo,
        filter: &Filter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> (Vec<u64>, Option<Cursor>) {
        if let Some(ids) = &filter.ids {
            let begin = after.map_or(Unbounded, |last| Excluded(last.position.id));
            let rest = ids.range((begin, Unbounded)).copied();
            let wanted = rest.filter(|id| self.is_selected_claim(number, *id, filter));
            let wanted: Vec<u64> = wanted.take(limit).collect();
            let last = wanted.last().filter(|_| wanted.len() == limit);
            let next = last.map(|id| cursor(Shelf::Ready, 0, *id));
            return (wanted, next);
        }
        let (mut wanted, mut after, mut left) = (Vec::new(), after.cloned(), CLAIMS_STEP);
        loop {
            let want = (limit - wanted.len()).min(left);
            let (taken, next) = self.taken_after(number, after.as_ref(), want);
            left -= want;
            let taken = taken.into_iter().map(|(_, id)| id);
            wanted.extend(taken.filter(|id| self.is_selected_claim(number, *id, filter)));
            after = next;
            if after.is_none() || wanted.len() == limit || left == 0 {
                return (wanted, after);
            }
        }
    }

    fn is_selected_claim(&self, number: TubeNo, id: u64, filter: &Filter) -> bool {
        let Some(claim) = self.claims.get(id).filter(|claim| claim.tube == number) else {
            return false;
        };
        let has_owner = |wanted: &str| self.label(claim).is_some_and(|label| **label == *wanted);
        filter.wanted_owner().is_none_or(has_owner)
            && filter.wanted_tag().is_none_or(|tag| claim.header.has_tag(tag))
    }

    /// Ends the claims on these tasks. Returns how many, and the first error. A damaged task stays as it is;
    /// the others are released all the same. An end that is stored is waited for.
    fn end_selected_claims(
        &mut self,
        number: TubeNo,
        tasks: Vec<u64>,
        end: End<'_>,
    ) -> Decided<(u64, Result<()>)> {
        let visibility = self.visibility(number);
        let (ended, outcome, is_stored) = self.publish_together(|core| {
            let (mut ended, mut outcome, mut is_stored) = (0, Ok(()), false);
            for id in tasks {
                match core.end_told(id, end, visibility) {
                    Ok((_, when_stored)) => {
                        ended += 1;
                        is_stored |= when_stored;
                    }
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            (ended, outcome, is_stored)
        });
        if !is_stored {
            return Decided { answer: (ended, outcome), wait: None };
        }
        self.schedule_flush(self.buffer_of(number), visibility);
        self.decided(number, visibility, |_| (ended, outcome))
    }
}
