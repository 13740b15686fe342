//! The sweep: expires tasks, ends delays, and fires timers when they fall due.
//!
//! The dues of tasks are rows on the timeline; timers are in memory, on running time.

use std::cmp::Reverse;

use tubewell_drivers::{Found, Header, NEVER, Position, Shelf, Value, keys};

use super::DueKind;
use crate::base::tube_no::TubeNo;
use crate::core::history::Entry;
use crate::core::state::{Buffer, Core, Timer};
use crate::{Error, EventKind, Result, TaskState};

/// A slice of the sweep ends with the due with which it has edited this many rows: a task may have
/// thousands of entries and steps, which are removed with it.
const SLICE_ROWS: usize = 4096;

/// A task that is due.
struct TaskDue {
    buffer: Buffer,
    kind: DueKind,
    key: Vec<u8>,
    pointer: Value,
    /// For how long it has been due.
    late: u64,
    time: u64,
    space: u32,
    id: u64,
}

impl Core {
    /// Processes up to `budget` dues and timers, in order of time, or fewer with [`SLICE_ROWS`]. Returns
    /// whether more are due.
    pub(crate) fn sweep(&mut self, budget: usize) -> Result<bool> {
        let before = self.active_rows();
        for _ in 0..budget {
            if self.health.has_failed() || self.health.is_closed() {
                return Ok(false);
            }
            if !self.sweep_one()? {
                return Ok(false);
            }
            if self.active_rows().saturating_sub(before) >= SLICE_ROWS {
                break;
            }
        }
        Ok(self.next_due() <= self.now.running)
    }

    /// How many rows have edits that are in no commit.
    pub(in crate::core) fn active_rows(&self) -> usize {
        Buffer::ALL.into_iter().map(|buffer| self.buffers[buffer].edits.active.len()).sum()
    }

    /// Processes the first due or timer. Returns false if nothing is due.
    fn sweep_one(&mut self) -> Result<bool> {
        match self.end_overdue_parked_claim() {
            Ok(false) => {}
            ended => return ended,
        }
        if self.must_realign() {
            return self.realign_next().map(|()| true);
        }
        if self.open_due_gates()? || self.open_next_sub_queues()? {
            return Ok(true);
        }
        let timer = self.timers.first().copied().filter(|(due, _)| *due <= self.now.running);
        let timer_delay = timer.map(|(due, _)| self.now.running - due);
        // The clocks differ: compare how late the dues and the timer are.
        if !self.config.hold_due
            && let Some(due) = self.first_task_due()?
            && timer_delay.is_none_or(|delay| due.late >= delay)
        {
            self.threads.swept += 1;
            return match self.process_task_due(due) {
                // A damaged task stays as it is, and `verify` reports it.
                Ok(()) | Err(Error::Corrupt { .. }) => Ok(true),
                Err(error) => Err(error),
            };
        }
        match timer {
            Some(timer) => self.fire_timer(timer).map(|()| true),
            None => Ok(false),
        }
    }

    /// The task that has been due for the longest time.
    fn first_task_due(&mut self) -> Result<Option<TaskDue>> {
        let mut first: Option<TaskDue> = None;
        for (buffer, kind) in
            Buffer::ALL.into_iter().flat_map(|it| DueKind::ALL.map(|kind| (it, kind)))
        {
            let Some(due) = self.next_task_due(buffer, kind)? else { continue };
            let is_first =
                |other: &TaskDue| (Reverse(due.late), due.id) < (Reverse(other.late), other.id);
            if first.as_ref().is_none_or(is_first) {
                first = Some(due);
            }
        }
        Ok(first)
    }

    /// The first due of a write buffer, if it is due now. Updates the earliest due.
    fn next_task_due(&mut self, of: Buffer, kind: DueKind) -> Result<Option<TaskDue>> {
        let buffer = &mut self.buffers[of];
        if buffer.engine().is_none() {
            kind.cursor(buffer).earliest = NEVER;
        }
        let earliest = kind.cursor(buffer).earliest;
        if earliest == NEVER {
            return Ok(None);
        }
        let now = match kind {
            DueKind::Timeline => self.now.timeline,
            DueKind::Moment => self.wall.at(self.now.timeline),
        };
        if earliest > now {
            return Ok(None);
        }
        loop {
            let from = kind.cursor(buffer).next.clone();
            let Some((key, pointer)) = kind.rows(buffer, Some(from), 1)?.pop() else {
                kind.cursor(buffer).earliest = NEVER;
                return Ok(None);
            };
            let cursor = kind.cursor(buffer);
            let Ok((time, space, id)) = kind.split(&key) else {
                // An unreadable key: `verify` reports it.
                cursor.next = keys::after(&key);
                continue;
            };
            cursor.earliest = time;
            let due = |late| TaskDue { buffer: of, kind, key, pointer, late, time, space, id };
            return Ok(now.checked_sub(time).map(due));
        }
    }

    /// Whether a write buffer has tasks that are due.
    pub(in crate::core) fn has_due(&self, buffer: Buffer) -> bool {
        let buffer = &self.buffers[buffer];
        let moment = buffer.moments.earliest;
        buffer.dues.earliest <= self.now.timeline
            || moment != NEVER && self.clocks().until(moment) == 0
    }

    /// Processes the due of a task and moves the cursor past it. A damaged task stays as it is, and
    /// must not stop the others; `verify` reports it.
    fn process_task_due(&mut self, due: TaskDue) -> Result<()> {
        due.kind.cursor(&mut self.buffers[due.buffer]).next = keys::after(&due.key);
        match self.expire_or_make_ready(due) {
            Err(Error::Corrupt { .. }) => Ok(()),
            done => done,
        }
    }

    fn expire_or_make_ready(&mut self, due: TaskDue) -> Result<()> {
        let TaskDue { kind, pointer, time, space, id, .. } = due;
        // The dues of a dropped or truncated tube are purged with its other rows.
        let Some(number) = self.tubes.of_space(space) else { return Ok(()) };
        let position = Position::from_pointer(id, &pointer)?;
        let Some(found) = self.edit(number, |ledger| ledger.at(&position))? else { return Ok(()) };
        let header = &found.record.header;
        let stored = match kind {
            DueKind::Timeline => header.due(position.shelf),
            DueKind::Moment => header.moment(position.shelf),
        };
        if stored != Some(time) {
            return Ok(());
        }
        let outlives = |found: &Found| found.record.header.expires_at > time;
        match position.shelf {
            Shelf::Delayed => self.end_delay(number, id, &found),
            Shelf::Recurring => self.run_schedule(number, id, &found),
            Shelf::Ready | Shelf::Blocked => self.expire(number, id),
            Shelf::Buried if !outlives(&found) => self.expire(number, id),
            Shelf::Buried | Shelf::Done => {
                let visibility = self.sweep_visibility(number);
                self.forget_one(number, id, &found, visibility)
            }
        }
    }

    /// Makes a task ready whose delay has elapsed, unless its moment is still ahead.
    pub(in crate::core) fn end_delay(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
    ) -> Result<()> {
        let mut header = found.record.header.clone();
        header.ready_at = 0;
        if self.clocks().gate(Shelf::Delayed, &mut header) == Shelf::Delayed {
            return self.wait_for_moment(number, id, found, &header);
        }
        let entry = Entry::new(EventKind::Delay, TaskState::Ready);
        let rules = self.rules(number)?;
        // A task with a moment has been ready since now: its delay was over before.
        let since = Some(found.record.header.ready_at).filter(|time| *time > 0);
        rules.note_ready(Shelf::Ready, &mut header, since.unwrap_or(rules.now).min(rules.now));
        self.move_with_entry(number, id, found, Shelf::Ready, &mut header, entry)?;
        let change = self.change(
            number,
            id,
            EventKind::Delay,
            Some(TaskState::Delayed),
            TaskState::Ready,
            Some(header),
        );
        let visibility = self.sweep_visibility(number);
        self.make_visible(change, visibility);
        Ok(())
    }

    /// Writes that a task waits for its moment now. Nothing else changes, so a crash may forget it.
    fn wait_for_moment(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        header: &Header,
    ) -> Result<()> {
        self.edit(number, |ledger| {
            ledger.rewrite(id, found, header);
            Ok(())
        })?;
        // Its row may be there already, if the clock was set back since it was read.
        let moment = header.moment(Shelf::Delayed).unwrap_or(NEVER);
        let buffer = self.buffer_of(number);
        self.buffers[buffer].include_dues(NEVER, moment);
        Ok(())
    }

    fn fire_timer(&mut self, (due, timer): (u64, Timer)) -> Result<()> {
        self.timers.remove(&(due, timer));
        let ended = match timer {
            Timer::Claim(id) => self.claim_falls_due(id),
            Timer::Grace(session) => self.end_session(session),
            Timer::WaitingTake(_) | Timer::WaitingPut(..) | Timer::Watch(_) => {
                self.time_out(timer);
                Ok(())
            }
            Timer::Idle => {
                self.check_idle();
                Ok(())
            }
            Timer::Flush(buffer) => {
                self.buffers[buffer].flush_by = None;
                self.buffers[buffer].has_waiters = true;
                self.effects.call_writer = true;
                Ok(())
            }
        };
        match ended {
            // A damaged task stays as it is, and `verify` reports it.
            Err(Error::Corrupt { .. }) => Ok(()),
            ended => ended,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Buffer, NEVER};
    use crate::{
        Backoff, Claim, Durability, Ending, Error, FIFO, FIFOTTL, Keep, ManualClock, Put, Store,
        TubeOptions,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A bounded slice bounds the time that the sweeper holds the lock.
    #[test]
    fn sweep_stops_at_its_budget_and_returns_whether_more_is_due() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
        // Three kinds of dues: expired tasks, elapsed delays, expired claims.
        tube.put_many((0..40).map(|_| Put::new("claimed").ttr(SECOND))).unwrap();
        let claims = tube.take_many(40, Duration::ZERO).unwrap();
        tube.put_many((0..40).map(|_| Put::new("expiring").ttl(SECOND))).unwrap();
        tube.put_many((0..40).map(|_| Put::new("delayed").delay(SECOND))).unwrap();
        let done = || {
            let calls = tube.statistics().unwrap().calls;
            calls.ttl + calls.delay + calls.ttr
        };
        store.inner().run(|core| {
            core.now.timeline += 1_000_000;
            core.now.running += 1_000_000;
            assert!(core.sweep(50).unwrap());
        });
        assert_eq!(done(), 50);
        clock.advance(SECOND);
        assert_eq!(done(), 120);
        drop(claims);
    }

    /// At open, after a long time, more outcomes are due than one slice forgets.
    #[test]
    fn kept_tasks_that_are_due_are_forgotten_in_slices() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let keep = TubeOptions::new().keep_done(Keep::new().age(SECOND));
        let tube = store.create_tube("work", keep.driver(FIFO)).unwrap();
        tube.put_many(["x"; 1000]).unwrap();
        let claims = tube.take_many(1000, Duration::ZERO).unwrap();
        assert_eq!(Claim::end_many(claims, |_| crate::Outcome::done()).unwrap().len(), 1000);
        store.inner().run(|core| core.now.timeline += 1_000_000);
        let mut slices = 0;
        while store.inner().run(|core| core.sweep(64)).unwrap() {
            slices += 1;
            store.flush().unwrap();
            assert_eq!(tube.statistics().unwrap().tasks.kept, 1000 - slices * 64);
            assert_eq!(tube.ending(slices * 64), Ok(Some(Ending::Done { result: None })));
        }
        assert_eq!(slices, 1000 / 64);
        store.flush().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    /// A task may have a thousand entries, which go with it.
    #[test]
    fn slice_ends_with_the_rows_of_the_tasks_that_it_removes() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let options = TubeOptions::new().history(1000);
        let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
        for id in 0..20 {
            tube.put(Put::new("x").ttl(SECOND)).unwrap();
            for _ in 0..999 {
                tube.admin().log(id, "entry").unwrap();
            }
        }
        store.flush().unwrap();
        store.inner().run(|core| core.now.timeline += 1_000_000);
        let mut expired = Vec::new();
        while store.inner().run(|core| core.sweep(64)).unwrap() {
            expired.push(tube.statistics().unwrap().calls.ttl);
            store.flush().unwrap();
        }
        assert_eq!(expired, [5, 10, 15, 20]);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    /// The ttl has elapsed, and the sweeper has not seen it yet when the claim ends.
    #[test]
    fn backoff_gives_no_time_to_a_task_whose_ttl_has_elapsed() {
        let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
        let options = TubeOptions::new().backoff(Backoff::constant(SECOND * 60));
        let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
        for ends_by_ttr in [false, true] {
            let id = tube.put(Put::new("x").ttl(SECOND * 2).ttr(SECOND)).unwrap().id;
            let session = store.session("").unwrap();
            let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap().detach();
            assert_eq!(claim.info.id, id);
            store.inner().run(|core| {
                core.now.timeline += 3_000_000;
                if ends_by_ttr {
                    core.now.running += 9_000_000;
                    core.sweep(1).unwrap();
                } else {
                    core.end_session(session.id()).unwrap();
                }
            });
            assert_eq!(tube.query().task(id), Err(Error::NotFound { id }), "by ttr: {ends_by_ttr}");
        }
        let calls = tube.statistics().unwrap().calls;
        assert_eq!((calls.ttr, calls.ttl, calls.release), (2, 2, 0));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    /// The sweeper then waits for its longest interval.
    #[test]
    fn idle_store_has_no_next_due() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
        tube.put(Put::new("one").ttl(SECOND)).unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        clock.advance(SECOND * 10);
        assert_eq!(store.inner().run(|core| core.next_due()), NEVER);
    }

    /// Between any two of many slices, a put, a take and an ack each take the lock once, and find
    /// the rows of no more than a few slices in the write buffer.
    #[test]
    fn calls_proceed_between_the_slices_of_many_dues() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let due = store.create_tube("due", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let live = store.create_tube("live", relaxed.driver(FIFO)).unwrap();
        due.put_many((0..10_000).map(|_| Put::new("x").ttl(SECOND))).unwrap();
        store.inner().run(|core| core.now.timeline += 1_000_000);
        let mut slices = 0;
        while store.inner().run(|core| core.sweep(64)).unwrap() {
            slices += 1;
            assert_eq!(due.statistics().unwrap().calls.ttl, slices * 64);
            live.put("now").unwrap();
            live.try_take().unwrap().unwrap().ack().unwrap();
            let active = store.inner().run(|core| core.buffers[Buffer::File].edits.active.len());
            assert!(active <= 512 + 4 * 64, "{active} active rows");
            store.inner().wait_for_capacity(Buffer::File).unwrap();
        }
        assert_eq!(slices, 10_000 / 64);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}
