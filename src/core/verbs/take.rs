//! Takes: the next task of a tube, and the claim on it.
//!
//! A take reads a window in memory. docs/semantics.md says when it edits rows.

use std::sync::Arc;

use tubewell_drivers::{
    Header, NEVER, Position, Reads, Record, Shelf, Table, Value, check_position, keys, position_of,
};

use super::byte_budget::ByteBudget;
use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::catalog::TubeHead;
use crate::core::state::holders::Holders;
use crate::core::state::window::{Rank, ReadUpTo, WindowEntry, WindowSlot};
use crate::core::state::{Buffer, ClaimState, Core, Counted, Definition, Grant, Granted, Timer};
use crate::{Error, EventKind, Result, SessionId, TaskState};

/// The maximum number of tasks that one call takes while it holds the lock.
const TAKE_STEP: usize = 256;

/// The maximum number of expired tasks that a call removes while it holds the lock.
pub(in crate::core) const MAX_EXPIRED_PER_TAKE: usize = 64;

/// The tasks of one step of a `take_many`.
#[derive(Default)]
pub(crate) struct Grants {
    pub(crate) tasks: Vec<Grant>,
    /// The error that ended the step.
    pub(crate) error: Option<Error>,
    /// The write buffer that must have space before more tasks are taken.
    pub(crate) later: Option<Buffer>,
}

/// The result of one step of a take.
pub(in crate::core) enum TakeStep {
    Task(Grant),
    Empty,
    /// The step has removed as many expired tasks as it may: release the lock, then continue.
    BudgetSpent,
}

/// What a search for the next takeable task has found.
pub(in crate::core) enum Next {
    /// It has left the window.
    Task(Rank, WindowEntry),
    Empty,
    BudgetSpent,
}

impl Core {
    /// Takes the next task of a tube for a waiting take, if there is one.
    pub(in crate::core) fn take(
        &mut self,
        number: TubeNo,
        session: SessionId,
    ) -> Result<Option<Grant>> {
        let mut budget = usize::MAX;
        match self.take_within(number, session, &mut budget)? {
            TakeStep::Task(grant) => Ok(Some(grant)),
            TakeStep::Empty | TakeStep::BudgetSpent => Ok(None),
        }
    }

    /// Takes up to `count` tasks of a tube, at most [`TAKE_STEP`], as far as the budget allows.
    pub(in crate::core) fn take_up_to(
        &mut self,
        number: TubeNo,
        session: SessionId,
        count: usize,
        bytes: &mut ByteBudget,
    ) -> Result<Grants> {
        self.check_session(session)?;
        let mut budget = MAX_EXPIRED_PER_TAKE;
        let mut taken = Grants::default();
        while taken.tasks.len() < count.min(TAKE_STEP) {
            match self.next_task(number, &mut budget) {
                Ok(Next::Task(rank, entry)) if !bytes.allows(rank.1, &entry.header) => {
                    self.return_to_window(number, rank, entry);
                    break;
                }
                Ok(Next::Task(rank, entry)) => {
                    bytes.spend(rank.1, &entry.header);
                    taken.tasks.push(self.claim(number, rank.1, entry, session));
                }
                Ok(Next::Empty) => break,
                Ok(Next::BudgetSpent) => {
                    taken.later = Some(self.buffer_of(number));
                    break;
                }
                Err(error) => {
                    taken.error = Some(error);
                    break;
                }
            }
        }
        Ok(taken)
    }

    /// Takes the next task of a tube for a session. Each expired task on the way is removed and
    /// costs one unit of `budget`.
    pub(in crate::core) fn take_within(
        &mut self,
        number: TubeNo,
        session: SessionId,
        budget: &mut usize,
    ) -> Result<TakeStep> {
        Ok(match self.next_task(number, budget)? {
            Next::Task(rank, entry) => TakeStep::Task(self.claim(number, rank.1, entry, session)),
            Next::Empty => TakeStep::Empty,
            Next::BudgetSpent => TakeStep::BudgetSpent,
        })
    }

    /// Removes the next takeable task from the window. Each expired task on the way is removed and
    /// costs one unit of `budget`.
    #[inline]
    pub(in crate::core) fn next_task(
        &mut self,
        number: TubeNo,
        budget: &mut usize,
    ) -> Result<Next> {
        while let Some((rank, slot)) = self.next_slot(number, budget)? {
            let id = rank.1;
            let entry = match slot {
                WindowSlot::Read(entry) => entry,
                WindowSlot::Unread(sub) => match self.read_ready(number, rank, &sub)? {
                    Some(entry) => entry,
                    None => continue,
                },
            };
            if entry.header.expires_at <= self.now.timeline {
                // The sweeper has not removed it yet.
                self.expire(number, id)?;
            } else if self.is_spent(number, &entry.header) {
                self.bury_spent(number, id)?;
            } else {
                return Ok(Next::Task(rank, entry));
            }
            *budget = budget.saturating_sub(1);
            if *budget == 0 {
                break;
            }
        }
        Ok(if *budget == 0 { Next::BudgetSpent } else { Next::Empty })
    }

    /// Gives a task that `next_task` has removed back to the window.
    pub(in crate::core) fn return_to_window(
        &mut self,
        number: TubeNo,
        rank: Rank,
        entry: WindowEntry,
    ) {
        if let Some(tube) = self.tubes.get_mut(number) {
            let sub_queued = tube.definition.sub_queued;
            tube.window.insert(rank, WindowSlot::Read(entry), sub_queued);
        }
    }

    /// Removes the best slot from the window, and reads more rows as needed. `None` if a gate is shut, or
    /// if so many sub-queues have opened that the budget is spent.
    fn next_slot(
        &mut self,
        number: TubeNo,
        budget: &mut usize,
    ) -> Result<Option<((u64, u64), WindowSlot)>> {
        loop {
            if !self.open_gates(number, budget)? {
                return Ok(None);
            }
            let Some(tube) = self.tubes.get_mut(number) else { return Ok(None) };
            if let Some(rank) = tube.window.best() {
                let slot = tube.window.remove(rank);
                // A take in another tube may have reached the limit that both share.
                if tube.has_shared_limits()
                    && let Some(sub) = slot.as_ref().map(|slot| slot.sub().clone())
                {
                    self.visit();
                    if self.is_refused(number, &sub) {
                        continue;
                    }
                }
                return Ok(slot.map(|slot| (rank, slot)));
            }
            if tube.window.read_up_to() == ReadUpTo::End {
                return Ok(None);
            }
            self.refill(number)?;
        }
    }

    /// Opens the gates of a tube that open by themselves now, first for the takes that wait.
    /// Returns false if one is shut, or if so many sub-queues have opened that the budget is spent.
    #[inline]
    pub(super) fn open_gates(&mut self, number: TubeNo, budget: &mut usize) -> Result<bool> {
        loop {
            let Some(tube) = self.tubes.get(number) else { return Ok(false) };
            if tube.alarm_is_due(self.now) {
                self.gate_opens(number)?;
            } else if tube.limits.as_ref().is_some_and(|limits| limits.has_opened(self.now)) {
                if !self.open_sub_queues(number, budget)? {
                    return Ok(false);
                }
            } else {
                return Ok(!tube.is_shut(self.now));
            }
        }
    }

    /// Reads the next rows into the window: ready tasks, or heads of sub-queues.
    pub(in crate::core) fn refill(&mut self, number: TubeNo) -> Result<()> {
        let Some(tube) = self.tubes.get_mut(number) else { return Ok(()) };
        let sub_queued = tube.definition.sub_queued;
        let (table, prefix) = ready_rows(&tube.definition);
        let from = match tube.window.read_up_to() {
            ReadUpTo::At(order, id) => keys::after(&keys::ranked(&prefix, order, id)),
            _ => prefix.clone(),
        };
        let limit = tube.window.begin_read();
        let rows = self.buffers[tube.buffer].scan(table, &from, &keys::end_of(&prefix), limit)?;
        let mut read_up_to = ReadUpTo::End;
        let full = rows.len() == limit;
        for (key, value) in rows {
            let rank = keys::order_and_id(&key)?;
            if full {
                read_up_to = ReadUpTo::At(rank.0, rank.1);
            }
            if !sub_queued {
                self.insert_read_task(number, rank, value);
            } else if let Ok(sub) = std::str::from_utf8(&value) {
                self.offer_sub(number, &Arc::from(sub), None)?;
            }
        }
        if sub_queued {
            self.offer_evicted(number)?;
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.window.advance(read_up_to);
        }
        Ok(())
    }

    /// Adds a ready task that was read to the window, unless it is claimed or has changes that are
    /// not yet visible.
    fn insert_read_task(&mut self, number: TubeNo, rank: (u64, u64), record: Value) {
        let id = rank.1;
        if self.publishing.is_invisible(id) || self.claims.contains(id) {
            return;
        }
        // A damaged record is skipped; `verify` reports it.
        let Ok(record) = Record::decode(id, record) else { return };
        if check_position(&record, Shelf::Ready, rank).is_err() {
            return;
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.window.insert(rank, WindowSlot::Read(record.into()), false);
        }
    }

    /// Reads the record of a ready task. `None` if it is damaged or removed.
    pub(super) fn read_ready(
        &mut self,
        number: TubeNo,
        rank: (u64, u64),
        sub: &str,
    ) -> Result<Option<WindowEntry>> {
        let position = Position { shelf: Shelf::Ready, order: rank.0, id: rank.1, sub };
        match self.edit(number, |ledger| ledger.at(&position)) {
            Ok(found) => Ok(found.map(|found| found.record.into())),
            Err(crate::Error::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Claims a takeable task, which has left the window.
    #[inline]
    pub(in crate::core) fn claim(
        &mut self,
        number: TubeNo,
        id: u64,
        entry: WindowEntry,
        session: SessionId,
    ) -> Grant {
        let WindowEntry { mut header, row } = entry;
        let epoch = self.claims.next_epoch();
        header.takes = header.takes.saturating_add(1);
        let policies = self.tubes.get(number).map(|tube| &tube.definition.policies);
        // `NEVER` stays what it is.
        let after = |time: u64| self.now.running.saturating_add(time);
        let latest = after(ClaimState::longest(&header, policies));
        let deadline = after(header.ttr).min(latest);
        let claim = ClaimState {
            taken_at: self.now.running,
            taken_on: self.now.timeline,
            deadline,
            latest,
            ..ClaimState::new(number, (session, epoch), policies, header.clone())
        };
        self.claims.insert(id, claim);
        if deadline != NEVER {
            self.timers.insert((deadline, Timer::Claim(id)));
        }
        self.sessions.add_claim(session, id, self.now.running);
        let change = self.change(
            number,
            id,
            EventKind::Take,
            Some(TaskState::Ready),
            TaskState::Taken,
            None,
        );
        if self.has_metrics(number) {
            let wait = self.now.timeline.saturating_sub(header.ready_since());
            self.count(number, Counted::Take { wait, is_retry: header.attempts() > 1 });
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.taken.insert((header.order, id));
            if let Some(rate) = &mut tube.gates.rate {
                rate.take(self.now.running);
            }
            if tube.limits.is_some() {
                self.hold_limited(number, &header.sub, id);
            } else if tube.definition.sub_queued {
                tube.busy.insert(header.sub.clone(), Holders::One(id));
            }
        }
        let mut grant = self.grant(number, id, epoch, session, header, row);
        if grant.attempts_left.is_some() {
            grant.counted = self.count_take(id);
        }
        self.make_visible(change, Visibility::Memory);
        grant
    }

    /// What a session gets of its claim on a task. `row` ends with the body, if it is known.
    #[inline]
    pub(in crate::core) fn grant(
        &self,
        number: TubeNo,
        id: u64,
        epoch: u64,
        session: SessionId,
        header: Header,
        row: Option<Value>,
    ) -> Grant {
        let tube = self.tubes.get(number);
        let definition = tube.map(|tube| &tube.definition);
        let most = definition.and_then(|definition| definition.policies.max_attempts);
        let mut granted = Granted {
            tube: number,
            name: definition.map_or_else(Arc::default, |definition| definition.name.clone()),
            id,
            epoch,
            session,
            buffer: tube.map_or(Buffer::File, |tube| tube.buffer),
            table: Table::Bodies,
            key: Vec::new(),
            row,
            attempts_left: definition.and_then(|_| header.attempts_left(most)),
            header,
            counted: None,
        };
        if let (Some(definition), None) = (definition, &granted.row) {
            (granted.table, granted.key) = row_with_body(definition, id, &granted.header);
            let buffer = &self.buffers[granted.buffer];
            granted.row = buffer.edits.get(granted.table, &granted.key).flatten().cloned();
        }
        granted.into()
    }

    /// The row that ends with the body of a task that was taken, as it is stored now: the record
    /// moves with its priority.
    pub(crate) fn taken_row(&mut self, grant: &Grant) -> Result<Option<Value>> {
        let (Some(tube), Some(claim)) = (self.tubes.get(grant.tube), self.claims.get(grant.id))
        else {
            return Ok(None);
        };
        let (table, key) = row_with_body(&tube.definition, grant.id, &claim.header);
        self.buffers[grant.buffer].get(table, &key)
    }
}

/// The table and the prefix of the rows that a window reads: ready tasks, or heads of sub-queues.
pub(super) fn ready_rows(definition: &Definition) -> (Table, Vec<u8>) {
    if definition.sub_queued {
        (Table::Heads, keys::space_prefix(definition.space))
    } else {
        (Table::Tasks, keys::shelf_prefix(definition.space, Shelf::Ready))
    }
}

/// The table and the key of the row that ends with the body of a taken task.
fn row_with_body(definition: &Definition, id: u64, header: &Header) -> (Table, Vec<u8>) {
    if header.body_checksum.is_some() {
        return (Table::Bodies, keys::by_id(definition.space, id));
    }
    let position = position_of(id, Shelf::Ready, header);
    (Table::Tasks, keys::task(definition.space, definition.sub_queued, &position))
}

impl Core {
    /// Takes up to `count` tasks, as far as the budget allows. It is no verb: only the owner knows
    /// how many bytes its answers have.
    pub(crate) fn carry_out_take_many(
        &mut self,
        tube: &TubeHead,
        session: SessionId,
        count: usize,
        bytes: &mut ByteBudget,
    ) -> Result<Grants> {
        self.tube(tube.number, &tube.name)?;
        self.take_up_to(tube.number, session, count, bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::core::TakeAttempt;
    use crate::{FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBETTL};

    const EXPIRED: u64 = 5000;

    /// A tube with expired tasks that the sweeper has not removed, and a live task behind them.
    fn with_expired_tasks(driver: &str, check: impl FnOnce(&Store, &Tube)) {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(driver)).unwrap();
        tube.put_many((0..EXPIRED).map(|_| Put::new("expired").ttl(Duration::from_secs(1))))
            .unwrap();
        tube.put("live").unwrap();
        store.inner().run(|core| core.now.timeline += 1_000_000);
        check(&store, &tube);
        assert_eq!(tube.statistics().unwrap().calls.ttl, EXPIRED);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    fn own(store: &Store) -> SessionId {
        store.handle.own_session()
    }

    /// A take once removed all expired tasks while it held the lock, a million if there were so
    /// many, and kept all their edits in memory.
    #[test]
    fn take_releases_the_lock_and_commits_between_slices_of_expired_tasks() {
        for driver in [FIFOTTL, UTUBETTL] {
            with_expired_tasks(driver, |store, tube| {
                let head = store.inner().run(|core| core.find_tube("work")).unwrap();
                let tubes = std::slice::from_ref(&head);
                let first = store.local().take(tubes, own(store), Some(0)).unwrap();
                assert!(matches!(first, TakeAttempt::Retry(_)));
                assert_eq!(tube.statistics().unwrap().calls.ttl, MAX_EXPIRED_PER_TAKE as u64);
                let before = store.admin().counters().unwrap().commits;
                assert_eq!(tube.try_take().unwrap().unwrap().body(), b"live");
                let commits = store.admin().counters().unwrap().commits - before;
                assert!(commits >= EXPIRED / 512, "{commits} commits");
            });
        }
    }

    #[test]
    fn take_many_skips_expired_tasks() {
        with_expired_tasks(FIFOTTL, |_, tube| {
            let claims = tube.take_many(10, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 1);
        });
        with_expired_tasks(FIFOTTL, |store, tube| {
            let mut claims = crate::handle::claim::Collected::new(Vec::new());
            store.inner().run(|core| core.now.timeline -= 1_000_000);
            claims.extend(tube.try_take().unwrap());
            store.inner().run(|core| core.now.timeline += 1_000_000);
            crate::handle::tube::take_more(tube, store.local(), 10, &mut claims).unwrap();
            let mut claims = claims.hand_out();
            assert_eq!(claims[1].body(), b"live");
            assert!(claims.remove(0).ack().is_err());
        });
    }

    #[test]
    fn take_future_yields_between_slices_of_expired_tasks() {
        with_expired_tasks(FIFOTTL, |_, tube| {
            let mut take = pin!(tube.to_async().take_timeout(Duration::MAX));
            let mut polls = 0_u64;
            let claim = loop {
                polls += 1;
                if let Poll::Ready(claim) =
                    take.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                {
                    break claim.unwrap().unwrap();
                }
            };
            assert_eq!(claim.body(), b"live");
            assert!(polls > EXPIRED / MAX_EXPIRED_PER_TAKE as u64, "{polls} polls");
        });
    }
}
