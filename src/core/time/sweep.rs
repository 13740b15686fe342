//! The sweep: expires tasks, ends delays, and fires timers when they fall due.
//!
//! The dues of tasks are rows on the timeline; timers are in memory, on running time.

use tubewell_drivers::{Found, NEVER, Position, Reads, Shelf, Table, Value, keys};

use crate::core::state::{Core, FILE, MEMORY, Timer};
use crate::{Error, EventKind, Result, State};

impl Core {
    /// Processes up to `budget` dues and timers, in order of time. Returns whether more are due.
    pub(crate) fn sweep(&mut self, budget: usize) -> Result<bool> {
        for _ in 0..budget {
            if self.outage.is_some() || self.closed {
                return Ok(false);
            }
            if !self.sweep_one()? {
                return Ok(false);
            }
        }
        Ok(self.next_due() <= self.now.running)
    }

    /// Processes the first due or timer. Returns false if nothing is due.
    fn sweep_one(&mut self) -> Result<bool> {
        match self.end_overdue_parked_claim() {
            Ok(false) => {}
            ended => return ended,
        }
        if self.open_due_gates()? || self.open_next_sub_queues()? {
            return Ok(true);
        }
        let timer = self.timers.first().copied().filter(|(due, _)| *due <= self.now.running);
        let timer_delay = timer.map(|(due, _)| self.now.running - due);
        let mut first = None;
        for buffer in [FILE, MEMORY] {
            if let Some(row) = self.next_task_due(buffer)? {
                let (time, space, id) = keys::split_due(&row.0)?;
                if first
                    .as_ref()
                    .is_none_or(|(_, _, (least, _, least_id))| (time, id) < (*least, *least_id))
                {
                    first = Some((buffer, row, (time, space, id)));
                }
            }
        }
        // A due is on the timeline, a timer on running time: compare how late each of them is.
        if let Some((buffer, row, due)) = first
            && timer_delay.is_none_or(|delay| self.now.timeline - due.0 >= delay)
        {
            return match self.process_task_due(buffer, row, due) {
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

    /// The first due of a write buffer, if it is due now. Updates `earliest_due`.
    fn next_task_due(&mut self, buffer: usize) -> Result<Option<(Vec<u8>, Value)>> {
        let now = self.now.timeline;
        let buffer = &mut self.buffers[buffer];
        if buffer.earliest_due > now || buffer.engine().is_none() {
            if buffer.engine().is_none() {
                buffer.earliest_due = NEVER;
            }
            return Ok(None);
        }
        let first = loop {
            let from = buffer.due_cursor.clone();
            let first = buffer.scan(Table::Dues, &from, &[u8::MAX; 21], 1)?.pop();
            buffer.earliest_due = match first.as_ref().map(|(key, _)| (key, keys::split_due(key))) {
                None => NEVER,
                Some((_, Ok((time, ..)))) => time,
                // An unreadable key: `verify` reports it.
                Some((key, Err(_))) => {
                    buffer.due_cursor = keys::after(key);
                    continue;
                }
            };
            break first;
        };
        Ok(first.filter(|_| buffer.earliest_due <= now))
    }

    /// Processes the due of a task and moves the cursor past it. A damaged task stays as it is, and
    /// must not stop the others; `verify` reports it.
    fn process_task_due(
        &mut self,
        buffer: usize,
        row: (Vec<u8>, Value),
        due: (u64, u32, u64),
    ) -> Result<()> {
        self.buffers[buffer].due_cursor = keys::after(&row.0);
        match self.expire_or_make_ready(row.1, due) {
            Err(Error::Corrupt { .. }) => Ok(()),
            done => done,
        }
    }

    fn expire_or_make_ready(
        &mut self,
        pointer: Value,
        (time, space, id): (u64, u32, u64),
    ) -> Result<()> {
        // The dues of a dropped or truncated tube are purged with its other rows.
        let Some(number) = self.spaces.get(&space).copied() else { return Ok(()) };
        let position = Position::from_pointer(id, &pointer)?;
        let Some(found) = self.edit(number, |ledger| ledger.at(&position))? else { return Ok(()) };
        if found.record.header.due(position.shelf) != Some(time) {
            return Ok(());
        }
        let outlives = |found: &Found| found.record.header.expires_at > time;
        match position.shelf {
            Shelf::Delayed => self.end_delay(number, id, &found),
            Shelf::Ready | Shelf::Blocked => self.expire(number, id),
            Shelf::Buried if !outlives(&found) => self.expire(number, id),
            Shelf::Buried | Shelf::Done => {
                let visibility = self.sweep_visibility(number);
                self.forget_one(number, id, &found, visibility)
            }
        }
    }

    /// Makes a task ready whose delay has elapsed.
    pub(in crate::core) fn end_delay(&mut self, number: u32, id: u64, found: &Found) -> Result<()> {
        let mut header = found.record.header.clone();
        header.ready_at = 0;
        self.edit(number, |ledger| ledger.move_to_shelf(id, found, Shelf::Ready, &header))?;
        let change = self.change(
            number,
            id,
            EventKind::Delay,
            Some(State::Delayed),
            State::Ready,
            Some(header),
        );
        let visibility = self.sweep_visibility(number);
        self.make_visible(change, visibility);
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

    use super::{FILE, NEVER};
    use crate::{
        Claim, Durability, Ending, FIFO, FIFOTTL, Keep, ManualClock, Put, Store, TubeOptions,
    };

    const SECOND: Duration = Duration::from_secs(1);

    /// A bounded slice bounds the time that the sweeper holds the lock.
    #[test]
    fn sweep_stops_at_its_budget_and_returns_whether_more_is_due() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
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
        let tube = store.create_tube("work", FIFO, keep).unwrap();
        tube.put_many(["x"; 1000]).unwrap();
        let claims = tube.take_many(1000, Duration::ZERO).unwrap();
        assert_eq!(Claim::ack_many(claims).unwrap().len(), 1000);
        store.inner().run(|core| core.now.timeline += 1_000_000);
        let mut slices = 0;
        while store.inner().run(|core| core.sweep(64)).unwrap() {
            slices += 1;
            store.flush().unwrap();
            assert_eq!(tube.statistics().unwrap().tasks.kept, 1000 - slices * 64);
            assert_eq!(tube.outcome(slices * 64), Ok(Some(Ending::Done { result: None })));
        }
        assert_eq!(slices, 1000 / 64);
        store.flush().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }

    /// The sweeper then waits for its longest interval.
    #[test]
    fn idle_store_has_no_next_due() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
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
        let due = store.create_tube("due", FIFOTTL, TubeOptions::new()).unwrap();
        let relaxed = TubeOptions::new().durability(Durability::relaxed());
        let live = store.create_tube("live", FIFO, relaxed).unwrap();
        due.put_many((0..10_000).map(|_| Put::new("x").ttl(SECOND))).unwrap();
        store.inner().run(|core| core.now.timeline += 1_000_000);
        let mut slices = 0;
        while store.inner().run(|core| core.sweep(64)).unwrap() {
            slices += 1;
            assert_eq!(due.statistics().unwrap().calls.ttl, slices * 64);
            live.put("now").unwrap();
            live.try_take().unwrap().unwrap().ack().unwrap();
            let active = store.inner().run(|core| core.buffers[FILE].edits.active.len());
            assert!(active <= 512 + 4 * 64, "{active} active rows");
            store.inner().wait_for_capacity(FILE).unwrap();
        }
        assert_eq!(slices, 10_000 / 64);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }
}
