//! Takes: the next task of a tube, and the claim on it.

use std::sync::Arc;

use tubewell_drivers::{NEVER, Position, Reads, Record, Shelf, Table, Value, check_position, keys};

use crate::commit::Visibility;
use crate::core::state::window::{ReadUpTo, WindowEntry, WindowSlot};
use crate::core::state::{ClaimState, Core, FILE, Grant, Timer};
use crate::{EventKind, Result, SessionId, State};

/// How many tasks whose life is over a call may meet and remove under one hold of the lock.
pub(crate) const TAKE_EXPIRES: usize = 64;

/// What a take finds.
pub(crate) enum Next {
    Task(Grant),
    Nothing,
    /// It has met so many tasks whose life is over that others are to have the lock first.
    Later,
}

impl Core {
    /// Takes the next task of a tube for a session who waits, if there is one.
    pub(in crate::core) fn take(
        &mut self,
        number: u32,
        session: SessionId,
    ) -> Result<Option<Grant>> {
        let mut budget = usize::MAX;
        match self.take_within(number, session, &mut budget)? {
            Next::Task(grant) => Ok(Some(grant)),
            Next::Nothing | Next::Later => Ok(None),
        }
    }

    /// Takes the next task of a tube for a session, if it is found before so many whose life is
    /// over have been removed.
    pub(crate) fn take_within(
        &mut self,
        number: u32,
        session: SessionId,
        budget: &mut usize,
    ) -> Result<Next> {
        while let Some((rank, entry)) = self.next(number)? {
            let id = rank.1;
            let known = match entry {
                WindowSlot::Read(known) => known,
                WindowSlot::Unread(sub) => match self.read_ready(number, rank, &sub)? {
                    Some(known) => known,
                    None => continue,
                },
            };
            if known.header.expires_at <= self.now.timeline {
                // The sweeper is about to come for it.
                self.expire(number, id)?;
                *budget -= 1;
                if *budget == 0 {
                    return Ok(Next::Later);
                }
                continue;
            }
            return Ok(Next::Task(self.claim(number, id, known, session)));
        }
        Ok(Next::Nothing)
    }

    /// Removes the best entry from the window, reading on as far as needed.
    fn next(&mut self, number: u32) -> Result<Option<((u64, u64), WindowSlot)>> {
        loop {
            let Some(tube) = self.tubes.get_mut(&number) else { return Ok(None) };
            if let Some(rank) = tube.window.best() {
                return Ok(tube.window.remove(rank).map(|entry| (rank, entry)));
            }
            if tube.window.read_up_to() == ReadUpTo::End {
                return Ok(None);
            }
            self.refill(number)?;
        }
    }

    /// Reads on: the next ready tasks, or the next heads of sub-queues.
    fn refill(&mut self, number: u32) -> Result<()> {
        let Some(tube) = self.tubes.get_mut(&number) else { return Ok(()) };
        let grouped = tube.definition.sub_queued;
        let (table, prefix) = if grouped {
            (Table::Heads, keys::space_prefix(tube.definition.space))
        } else {
            (Table::Tasks, keys::shelf_prefix(tube.definition.space, Shelf::Ready))
        };
        let from = match tube.window.read_up_to() {
            ReadUpTo::At(order, id) => keys::after(&keys::ranked(&prefix, order, id)),
            _ => prefix.clone(),
        };
        let limit = tube.window.next_read();
        let rows = self.buffers[tube.buffer].scan(table, &from, &keys::end_of(&prefix), limit)?;
        let mut read_up_to = ReadUpTo::End;
        let full = rows.len() == limit;
        for (key, value) in rows {
            let rank = keys::order_and_id(&key)?;
            if full {
                read_up_to = ReadUpTo::At(rank.0, rank.1);
            }
            if !grouped {
                self.remember(number, rank, value);
            } else if let Ok(sub) = std::str::from_utf8(&value) {
                self.offer_sub(number, &Arc::from(sub), None)?;
            }
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.advance(read_up_to);
        }
        Ok(())
    }

    /// Puts a ready task that was read into the window, unless it is taken or about to change.
    fn remember(&mut self, number: u32, rank: (u64, u64), record: Value) {
        let id = rank.1;
        if self.invisible.contains_key(&id) || self.claims.contains_key(&id) {
            return;
        }
        // A damaged record is not handed out; `verify` names it.
        let Ok(record) = Record::decode(id, record) else { return };
        if check_position(&record, rank).is_err() {
            return;
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.insert(rank, WindowSlot::Read(record.into()), false);
        }
    }

    /// What is in the record of a ready task, unless it is damaged or gone.
    fn read_ready(
        &mut self,
        number: u32,
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

    fn claim(&mut self, number: u32, id: u64, known: WindowEntry, session: SessionId) -> Grant {
        let WindowEntry { mut header, row } = known;
        self.epoch = self.epoch.wrapping_add(1);
        header.takes = header.takes.saturating_add(1);
        let deadline = self.now.running.saturating_add(header.ttr);
        let deadline = if header.ttr == NEVER { NEVER } else { deadline };
        let claim = ClaimState {
            tube: number,
            session,
            epoch: self.epoch,
            deadline,
            header: header.clone(),
        };
        self.claims.insert(id, claim);
        if deadline != NEVER {
            self.timers.insert((deadline, Timer::Claim(id)));
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            session.claims.insert(id);
        }
        let change =
            self.change(number, id, EventKind::Take, Some(State::Ready), State::Taken, None);
        let mut grant = Grant {
            tube: number,
            name: Arc::default(),
            id,
            epoch: self.epoch,
            session,
            buffer: FILE,
            table: Table::Bodies,
            key: Vec::new(),
            row,
            header,
        };
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.taken.insert((grant.header.order, id));
            let sub_queued = tube.definition.sub_queued;
            if sub_queued {
                tube.busy.insert(grant.header.sub.clone(), id);
            }
            grant.name = tube.definition.name.clone();
            grant.buffer = tube.buffer;
            let space = tube.definition.space;
            if grant.row.is_none() {
                if grant.header.body_checksum.is_some() {
                    grant.key = keys::by_id(space, id);
                } else {
                    grant.table = Table::Tasks;
                    let position = tubewell_drivers::position_of(id, Shelf::Ready, &grant.header);
                    grant.key = keys::task(space, sub_queued, &position);
                }
                let buffer = &self.buffers[grant.buffer];
                grant.row = buffer.lookup(grant.table, &grant.key).flatten().cloned();
            }
        }
        self.make_visible(change, Visibility::Memory);
        grant
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};
    use std::time::Duration;

    use super::*;
    use crate::{FIFOTTL, ManualClock, Put, Store, Tube, TubeOptions, UTUBETTL};

    const DEAD: u64 = 5000;

    /// Tasks whose life is over, and one behind them that lives, before the sweeper has come by.
    fn graveyard(driver: &str, check: impl FnOnce(&Store, &Tube)) {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
        tube.put_many((0..DEAD).map(|_| Put::new("dead").ttl(Duration::from_secs(1)))).unwrap();
        tube.put("alive").unwrap();
        store.inner().run(|core| core.now.timeline += 1_000_000);
        check(&store, &tube);
        assert_eq!(tube.statistics().unwrap().calls.ttl, DEAD);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }

    fn own(store: &Store) -> SessionId {
        store.handle.own_session()
    }

    /// A take removed all of them under one hold of the lock, a million if it had to, and laid as
    /// many edits over the file as that takes.
    #[test]
    fn a_take_that_meets_many_dead_tasks_lets_others_go_first_and_the_file_keep_pace() {
        for driver in [FIFOTTL, UTUBETTL] {
            graveyard(driver, |store, tube| {
                let first = store.inner().run(|core| {
                    core.take_or_wait([tube.number()].into_iter(), own(store), Some(0)).unwrap()
                });
                assert!(matches!(first, crate::core::TakeNow::Later(_)));
                assert_eq!(tube.statistics().unwrap().calls.ttl, TAKE_EXPIRES as u64);
                let before = store.counters().commits;
                assert_eq!(tube.try_take().unwrap().unwrap().data(), b"alive");
                let commits = store.counters().commits - before;
                assert!(commits >= DEAD / 512, "{commits} commits");
            });
        }
    }

    #[test]
    fn so_does_a_take_of_many() {
        graveyard(FIFOTTL, |_, tube| {
            let claims = tube.take_many(10, Duration::ZERO).unwrap();
            assert_eq!(claims.len(), 1);
        });
        graveyard(FIFOTTL, |store, tube| {
            let mut claims = Vec::new();
            store.inner().run(|core| core.now.timeline -= 1_000_000);
            claims.extend(tube.try_take().unwrap());
            store.inner().run(|core| core.now.timeline += 1_000_000);
            crate::tube::take_more(tube, 10, &mut claims).unwrap();
            assert_eq!(claims[1].data(), b"alive");
            assert!(claims.remove(0).ack().is_err());
        });
    }

    #[test]
    fn a_future_that_meets_many_dead_tasks_comes_back_for_the_next() {
        graveyard(FIFOTTL, |_, tube| {
            let mut take = pin!(tube.take_async(None));
            let mut polls = 0_u64;
            let claim = loop {
                polls += 1;
                if let Poll::Ready(claim) =
                    take.as_mut().poll(&mut Context::from_waker(Waker::noop()))
                {
                    break claim.unwrap().unwrap();
                }
            };
            assert_eq!(claim.data(), b"alive");
            assert!(polls > DEAD / TAKE_EXPIRES as u64, "{polls} polls");
        });
    }
}
