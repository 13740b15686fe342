//! Takes: the next task of a tube, and the claim on it.

use std::sync::Arc;

use tubewell_drivers::{Header, NEVER, Reads, Record, Shelf, Spot, Table, Value, check_spot, keys};

use super::window::{Cursor, Entry};
use super::{ClaimState, Core, FILE, Settle, Timer};
use crate::{EventKind, Result, SessionId, State};

/// A claim, as handed to the one who takes.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) tube: u32,
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) session: SessionId,
    pub(crate) header: Header,
    /// Which lane has the body, and the key of its row.
    pub(crate) lane: usize,
    pub(crate) table: Table,
    pub(crate) key: Vec<u8>,
    /// The row, if it was still in memory.
    pub(crate) row: Option<Value>,
}

impl Core {
    /// Takes the next task of a tube for a session, if there is one.
    pub(crate) fn take(&mut self, number: u32, session: SessionId) -> Result<Option<Grant>> {
        while let Some((rank, entry)) = self.next(number)? {
            let id = rank.1;
            let header = match entry.header {
                Some(header) => header,
                None => match self.read_ready(number, rank, &entry.sub)? {
                    Some(header) => header,
                    None => continue,
                },
            };
            if header.dead <= self.now.line {
                // The sweeper is about to come for it.
                self.expire(number, id)?;
                continue;
            }
            return Ok(Some(self.claim(number, id, header, session)));
        }
        Ok(None)
    }

    /// Removes the best entry from the window, reading on as far as needed.
    fn next(&mut self, number: u32) -> Result<Option<((u64, u64), Entry)>> {
        loop {
            let Some(tube) = self.tubes.get_mut(&number) else { return Ok(None) };
            if let Some(rank) = tube.window.best() {
                return Ok(tube.window.remove(rank).map(|entry| (rank, entry)));
            }
            if tube.window.cursor() == Cursor::End {
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
        let from = match tube.window.cursor() {
            Cursor::At(order, id) => keys::after(&keys::ranked(&prefix, order, id)),
            _ => prefix.clone(),
        };
        let limit = tube.window.next_read();
        let rows = self.lanes[tube.lane].scan(table, &from, &keys::end_of(&prefix), limit)?;
        let mut cursor = Cursor::End;
        let full = rows.len() == limit;
        for (key, value) in rows {
            let rank = keys::order_and_id(&key)?;
            if full {
                cursor = Cursor::At(rank.0, rank.1);
            }
            if !grouped {
                self.remember(number, rank, value);
            } else if let Ok(sub) = std::str::from_utf8(&value) {
                self.offer_sub(number, &Arc::from(sub))?;
            }
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.advance(cursor);
        }
        Ok(())
    }

    /// Puts a ready task that was read into the window, unless it is taken or about to change.
    fn remember(&mut self, number: u32, rank: (u64, u64), record: Value) {
        let id = rank.1;
        if self.unsettled.contains_key(&id) || self.claims.contains_key(&id) {
            return;
        }
        // A damaged record is not handed out; `verify` names it.
        let Ok(record) = Record::decode(id, record) else { return };
        if check_spot(&record, rank).is_err() {
            return;
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            let entry = Entry { sub: record.header.sub.clone(), header: Some(record.header) };
            tube.window.insert(rank, entry, false);
        }
    }

    /// The header of a ready task, unless its record is damaged or gone.
    fn read_ready(
        &mut self,
        number: u32,
        rank: (u64, u64),
        sub: &Arc<str>,
    ) -> Result<Option<Header>> {
        let spot = Spot { shelf: Shelf::Ready, order: rank.0, id: rank.1, sub: sub.clone() };
        match self.edit(number, |books| books.at(&spot)) {
            Ok(found) => Ok(found.map(|found| found.record.header)),
            Err(crate::Error::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn claim(&mut self, number: u32, id: u64, mut header: Header, session: SessionId) -> Grant {
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
            self.change(number, id, EventKind::Take, Some(State::Ready), State::Taken, &header);
        let mut grant = Grant {
            tube: number,
            name: "".into(),
            id,
            epoch: self.epoch,
            session,
            lane: FILE,
            table: Table::Bodies,
            key: Vec::new(),
            row: None,
            header,
        };
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.taken.insert((grant.header.order, id));
            let sub_queued = tube.definition.sub_queued;
            if sub_queued {
                tube.busy.insert(grant.header.sub.clone(), id);
            }
            grant.name = tube.definition.name.clone();
            grant.lane = tube.lane;
            let space = tube.definition.space;
            if grant.header.apart.is_some() {
                grant.key = keys::by_id(space, id);
            } else {
                grant.table = Table::Tasks;
                let spot = tubewell_drivers::spot_of(id, Shelf::Ready, &grant.header);
                grant.key = keys::task(space, sub_queued, &spot);
            }
            grant.row = self.lanes[grant.lane].overlaid(grant.table, &grant.key).flatten().cloned();
        }
        self.settle(change, Settle::Memory);
        grant
    }
}
