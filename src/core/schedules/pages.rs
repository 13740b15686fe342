//! The public descriptions of schedules.

use tubewell_drivers::{Header, Shelf};

use super::verbs::no_recurrence;
use crate::base::micros::{duration, limit};
use crate::base::moment::system_time;
use crate::base::tube_no::TubeNo;
use crate::core::state::{Core, Decided, check_key, missed_of, recurrence};
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::core::verbs::{
    KeyLookUp, Keyed, Listing, begin_of_page, cursor_of_empty_page, found_position, key_of,
};
use crate::values::task::Cursor;
use crate::{Overlap, Page, Result, ScheduleInfo, TaskState};

/// The maximum number of schedules of a page: each is looked up in the calendar.
const PAGE_MAX: usize = 1000;

verb! {
    /// A page of the schedules of a tube.
    97 InTube Look: ListSchedules { after: Option<Cursor>, limit: usize } -> Page<ScheduleInfo>
}

impl Decide for ListSchedules {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Page<ScheduleInfo>>> {
        core.schedules(number, self.after.as_ref(), self.limit).map(Decided::now)
    }
}

verb! {
    /// The schedule with a key, in whichever tube it is. The answer waits for the flush of its last change.
    68 InTube Read: FindSchedule { key: Box<str> } -> Option<ScheduleInfo> {
        fn check(&self, _: Limits) -> Result<()> {
            check_key(&self.key)
        }
    }
}

impl Decide for FindSchedule {
    fn decide(&self, core: &mut Core, _: TubeRef<'_>) -> Result<Decided<Option<ScheduleInfo>>> {
        let KeyLookUp::Task(Keyed { number, id, found }) = core.live_key(&self.key)? else {
            return Ok(Decided { answer: None, wait: core.wait_of_absence() });
        };
        let answer = core.describe_schedule(number, id, &found.record.header);
        if answer.is_none() && found.shelf == Shelf::Recurring {
            return Err(no_recurrence(id));
        }
        Ok(Decided { answer, wait: core.wait_of_last_change(number, id) })
    }
}

impl Core {
    fn schedules(
        &mut self,
        number: TubeNo,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<ScheduleInfo>> {
        let limit = limit.min(PAGE_MAX);
        let shelf = Shelf::Recurring;
        let begin = begin_of_page(after, Listing::State(TaskState::Recurring))?;
        if limit == 0 {
            let next = Some(cursor_of_empty_page(after));
            return Ok(Page { next, ..Page::default() });
        }
        let from = begin.map(|cursor| &cursor.position);
        let found = self.edit(number, |ledger| ledger.page(shelf, from, limit))?;
        let next = found.tasks.last().filter(|_| found.may_have_more);
        let next = next.map(|(id, task)| Cursor::from(found_position(*id, task)));
        let items = found
            .tasks
            .iter()
            .filter_map(|(id, task)| self.describe_schedule(number, *id, &task.record.header))
            .collect();
        Ok(Page { items, next, damaged: found.damaged.len() as u64 })
    }

    /// `None` for a task that has no schedule.
    fn describe_schedule(&self, number: TubeNo, id: u64, header: &Header) -> Option<ScheduleInfo> {
        let tube = &self.tubes.get(number)?.definition.name;
        let info = describe_schedule(tube, id, header, self.clocks().left(header))?;
        let stopped = self.stopped(number, header.recur()?);
        Some(ScheduleInfo { stopped, ..info })
    }
}

/// The public description of a schedule from its record only. `left`: how long until it is due.
pub(crate) fn describe_schedule(
    tube: &str,
    id: u64,
    header: &Header,
    left: u64,
) -> Option<ScheduleInfo> {
    let recur = header.recur()?;
    Some(ScheduleInfo {
        id,
        tube: tube.to_owned(),
        key: key_of(header).map(ToString::to_string).unwrap_or_default(),
        recurrence: recurrence(recur.rule.clone()),
        next: system_time(recur.next),
        due_in: limit(left),
        runs: recur.runs,
        skipped: recur.skipped,
        last: recur.last,
        times: recur.times,
        missed: missed_of(recur.missed),
        within: recur.within.map(limit),
        overlap: if recur.skips_overlap { Overlap::Skip } else { Overlap::Allow },
        priority: recur.priority,
        ttl: recur.ttl.map(limit),
        ttr: recur.ttr.map(limit),
        delay: duration(recur.delay),
        sub_queue: (!header.sub.is_empty()).then(|| header.sub.to_string()),
        max_attempts: header.more.as_ref().and_then(|more| more.max_attempts),
        max_runtime: header.own_max_runtime().map(limit),
        tags: recur.tags.iter().map(ToString::to_string).collect(),
        size: header.size,
        stopped: None,
    })
}
