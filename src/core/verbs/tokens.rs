//! Tokens: a put that is made again with its token puts nothing.
//!
//! A token is remembered with the rows of its task, in the same edits. So a put that is refused, and
//! one that keeps the task which has its key, remembers nothing. Old tokens are removed with the puts
//! of others, and by nothing else: they wake no idle store.

use tubewell_drivers::{Ledger, RememberedPut, Value, put_of_token, remove_old_tokens};

use super::keys::KeyLookUp;
use crate::base::tube_no::TubeNo;
use crate::commit::{DueCursor, WriteBuffer};
use crate::core::state::{Core, Decided, PutRequest};
use crate::{Error, Receipt, Result, TaskState};

/// How many old tokens a put with a token removes: more than it adds.
const REMOVED_PER_PUT: usize = 2;

/// What a put meets.
pub(in crate::core) enum LookUp {
    /// A put with its token, which has put the task with this id.
    Seen(u64),
    /// What it finds under its key.
    Key(KeyLookUp),
}

impl Core {
    /// The id of the task that an earlier put with this token has put; `None` if the put is to be
    /// made.
    pub(in crate::core) fn seen(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
    ) -> Result<Option<u64>> {
        let Some(token) = request.idempotency_key.as_deref() else { return Ok(None) };
        let now = self.now.timeline;
        let put = self.edit(number, |ledger| put_of_token(ledger.rows, ledger.space, token))?;
        Ok(put.filter(|put| put.counts_at(now)).map(|put| put.id))
    }

    /// The answer to a put whose token has been seen; `None` if the put is to be made. Refuses what the
    /// first one would have been refused for.
    #[inline]
    pub(super) fn put_again(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
    ) -> Result<Option<Decided<Receipt>>> {
        if request.idempotency_key.is_none() {
            return Ok(None);
        }
        self.tubes.get(number).ok_or(Error::Closed)?.check_put(request)?;
        let seen = self.seen(number, request)?;
        seen.map(|id| self.answer_seen(number, id)).transpose()
    }

    /// The answer to a put that was made before: its task as it is now. One that has left the tube is
    /// done.
    pub(super) fn answer_seen(&mut self, number: TubeNo, id: u64) -> Result<Decided<Receipt>> {
        let state = match self.find(number, id) {
            Ok(found) => {
                let is_over = found.record.header.is_expired(found.shelf, self.now.timeline);
                if is_over { TaskState::Done } else { self.state_of(id, found.shelf) }
            }
            Err(Error::NotFound { .. }) => TaskState::Done,
            Err(error) => return Err(error),
        };
        let answer = self.memory_receipt(number, id, state);
        Ok(Decided { answer, wait: self.wait_of_last_change(number, id) })
    }

    /// What these puts into tubes meet; `None` for a put that is new and has no key.
    pub(super) fn look_up_puts<'a>(
        &mut self,
        puts: impl Iterator<Item = (TubeNo, &'a PutRequest)>,
    ) -> Result<Vec<Option<LookUp>>> {
        puts.map(|(number, put)| self.look_up_put(number, put)).collect()
    }

    fn look_up_put(&mut self, number: TubeNo, put: &PutRequest) -> Result<Option<LookUp>> {
        if let Some(id) = self.seen(number, put)? {
            return Ok(Some(LookUp::Seen(id)));
        }
        let key = put.key.as_deref().map(|key| self.live_key(key)).transpose()?;
        Ok(key.map(LookUp::Key))
    }

    /// As `look_up_put`, between the edits of a call: removes no expired task.
    pub(super) fn look_up_put_again(
        &mut self,
        number: TubeNo,
        put: &PutRequest,
    ) -> Result<Option<LookUp>> {
        if let Some(id) = self.seen(number, put)? {
            return Ok(Some(LookUp::Seen(id)));
        }
        let key = put.key.as_deref().map(|key| self.look_up_key(key)).transpose()?;
        Ok(key.map(LookUp::Key))
    }

    /// Writes the rows of a put with `write`, and remembers its token with them.
    #[inline]
    pub(super) fn edit_and_remember(
        &mut self,
        number: TubeNo,
        id: u64,
        request: &PutRequest,
        write: impl FnOnce(&mut Ledger<'_, WriteBuffer>) -> Result<Value>,
    ) -> Result<Value> {
        let Some(token) = request.idempotency_key.as_deref() else {
            return self.edit(number, write);
        };
        let until = self.now.timeline.saturating_add(request.remembered_for());
        let put = RememberedPut { until, id };
        let row = self.edit(number, |ledger| {
            let before = put_of_token(ledger.rows, ledger.space, token)?;
            let row = write(ledger)?;
            ledger.remember_put(token, before, put);
            Ok(row)
        })?;
        self.remove_old_tokens(number, until);
        Ok(row)
    }

    /// Removes the first tokens that are not remembered any more, of all tubes with the same write
    /// buffer. After an error of the storage they stay until a later put. `until`: the end of the one that
    /// was just stored.
    fn remove_old_tokens(&mut self, number: TubeNo, until: u64) {
        let (buffer, now) = (self.buffer_of(number), self.now.timeline);
        let buffer = &mut self.buffers[buffer];
        if buffer.tokens.earliest > now {
            buffer.tokens.earliest = buffer.tokens.earliest.min(until);
            return;
        }
        let from = std::mem::take(&mut buffer.tokens.next);
        if let Ok(old) = remove_old_tokens(buffer, &from, now, REMOVED_PER_PUT) {
            buffer.tokens = DueCursor { earliest: old.earliest, next: old.next };
        }
    }
}

#[cfg(test)]
mod tests {
    use tubewell_drivers::{Reads, Table, keys};

    use super::*;
    use crate::core::state::Buffer;
    use crate::{FIFO, IDEMPOTENCY_KEY_TIME, ManualClock, OnKey, Put, Store, TubeOptions};

    /// How many tokens the file has.
    fn tokens(store: &Store) -> usize {
        let rows = store.inner().run(|core| {
            let end = keys::end_of(&[keys::TOKEN]);
            core.buffers[Buffer::File].scan(Table::Index, &[keys::TOKEN], &end, usize::MAX)
        });
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        rows.unwrap().len()
    }

    #[test]
    fn put_with_a_token_removes_two_old_ones_of_any_tube() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = |name| store.create_tube(name, TubeOptions::new().driver(FIFO)).unwrap();
        let (one, other) = (tube("one"), tube("other"));
        let put = |n: u64| Put::new("x").idempotency_key(format!("t{n}"));
        one.put_many((0..10).map(put)).unwrap();
        clock.advance(IDEMPOTENCY_KEY_TIME / 2);
        other.put_many((10..13).map(put)).unwrap();
        clock.advance(IDEMPOTENCY_KEY_TIME / 2);
        other.put("without").unwrap();
        one.put(put(5).idempotency_key("t10")).unwrap();
        assert_eq!(tokens(&store), 12);
        // One that is there adds and removes nothing.
        other.put(put(11)).unwrap();
        assert_eq!(tokens(&store), 12);
        // An old one that is put again is the youngest one then.
        one.put(put(9)).unwrap();
        assert_eq!(tokens(&store), 10);
        other.put_many((20..24).map(put)).unwrap();
        assert_eq!(tokens(&store), 9);
        other.put(put(24)).unwrap();
        assert_eq!(tokens(&store), 10);
        clock.advance(IDEMPOTENCY_KEY_TIME);
        one.put_many((30..45).map(put)).unwrap();
        assert_eq!(tokens(&store), 15);
    }

    /// Tokens go in the order of their ends, not of their puts, and after an open too.
    #[test]
    fn tokens_with_times_of_their_own_are_removed_when_they_are_over() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let put = |n: u64| Put::new("x").idempotency_key(format!("t{n}"));
        let hour = IDEMPOTENCY_KEY_TIME;
        tube.put_many((0..4).map(|n| put(n).unique_for(100 * hour))).unwrap();
        tube.put_many((4..8).map(|n| put(n).unique_for(hour / 4))).unwrap();
        tube.put(put(8)).unwrap();
        clock.advance(hour / 4);
        tube.put(put(9)).unwrap();
        assert_eq!(tokens(&store), 8);
        tube.put(put(10).unique_for(hour)).unwrap();
        assert_eq!(tokens(&store), 7);
        clock.advance(hour);
        tube.put_many((11..14).map(put)).unwrap();
        assert_eq!(tokens(&store), 7, "of t8 to t10, and of t11 to t13 in their place");
        clock.advance(99 * hour);
        tube.put_many((20..24).map(put)).unwrap();
        assert_eq!(tokens(&store), 4);
    }

    /// The edits of a refused batch are taken back, with the tokens that they have removed.
    #[test]
    fn tokens_that_a_refused_batch_has_removed_are_removed_later() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let put = |n: u64| Put::new("x").idempotency_key(format!("t{n}"));
        tube.put_many((0..8).map(put).chain([Put::new("x").key("k")])).unwrap();
        clock.advance(IDEMPOTENCY_KEY_TIME);
        let refused = [put(10), put(11), put(12).key("k")];
        assert!(matches!(tube.put_many(refused), Err(Error::KeyInUse { .. })));
        assert_eq!(tokens(&store), 8);
        tube.put_many((10..14).map(put)).unwrap();
        assert_eq!(tokens(&store), 4);
        tube.put(put(14).key("k").on_key(OnKey::Replace)).unwrap();
        assert_eq!(tokens(&store), 5);
    }
}
