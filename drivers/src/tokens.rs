//! The tokens of puts: which puts a store remembers, so that they can be made again.
//!
//! A token has two rows of `index`: one by the token, with the task of the put, and one by the time at which it is
//! forgotten, so that those which are over are found first. Invariant: a token has both rows or none. The task may be
//! gone.

use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::keys;
use crate::ledger::Ledger;
use crate::limits::NEVER;
use crate::record_error::RecordError;
use crate::tables::{Reads, Rows, Table, Value};

/// A put that is remembered by its token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "a row")]
pub struct RememberedPut {
    /// Until when it is remembered, on the timeline.
    pub until: u64,
    /// The id of its task, which may be gone.
    pub id: u64,
}

impl RememberedPut {
    /// Returns whether the put is still remembered at this time.
    #[must_use]
    pub fn counts_at(self, now: u64) -> bool {
        self.until > now
    }
}

/// What the removal of old tokens has found.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_structs, reason = "an answer")]
pub struct OldTokens {
    /// When the first token that is left is forgotten; [`NEVER`] for none.
    pub earliest: u64,
    /// All rows by time before this key are removed.
    pub next: Vec<u8>,
}

/// Returns the put with a token in a space, also if it is not remembered any more.
///
/// # Errors
/// The row could not be read or is damaged.
pub fn put_of_token<R: Reads>(
    rows: &mut R,
    space: u32,
    token: &str,
) -> Result<Option<RememberedPut>, R::Error> {
    let key = keys::token(space, token);
    let row = rows.get(Table::Index, &key)?;
    Ok(row.map(|row| decode(&key, &row)).transpose()?)
}

/// Removes up to `limit` tokens that are not remembered at `now`, in the order of their ends. `from` is
/// the first key by time that may exist.
///
/// # Errors
/// A row could not be read. Nothing is removed then.
pub fn remove_old_tokens<R: Rows>(
    rows: &mut R,
    from: &[u8],
    now: u64,
    limit: usize,
) -> Result<OldTokens, R::Error> {
    let from = from.max(&[keys::TOKEN_BY_TIME][..]);
    let found = rows.scan(Table::Index, from, &keys::end_of(&[keys::TOKEN_BY_TIME]), limit + 1)?;
    let mut old = OldTokens { earliest: NEVER, next: from.to_vec() };
    let mut removed = Vec::new();
    for (key, _) in found {
        // A damaged key is left to `verify`.
        let Ok((until, space, token)) = keys::split_token_by_time(&key) else {
            old.next = keys::after(&key);
            continue;
        };
        if until > now || removed.len() == limit {
            old.earliest = until;
            break;
        }
        let by_token = keys::token(space, token);
        let row = rows.get(Table::Index, &by_token)?;
        // A damaged row goes, too: its end is not known.
        let is_its_own = row.is_some_and(|row| {
            decode(&by_token, &row).map_or(true, |remembered| remembered.until == until)
        });
        old.next = keys::after(&key);
        removed.push((is_its_own.then_some(by_token), key));
    }
    for (by_token, by_time) in removed {
        if let Some(by_token) = by_token {
            rows.remove(Table::Index, by_token);
        }
        rows.remove(Table::Index, by_time);
    }
    Ok(old)
}

impl<R: Rows> Ledger<'_, R> {
    /// Remembers the put of a task by its token. `before`: the put of the token so far, as
    /// [`put_of_token`] has returned it.
    pub fn remember_put(&mut self, token: &str, before: Option<RememberedPut>, put: RememberedPut) {
        let key = keys::token(self.space, token);
        let value = encode(&key, put);
        match before {
            None => self.rows.insert(Table::Index, key, value),
            Some(before) => {
                self.rows.replace(Table::Index, key, value);
                let by_time = keys::token_by_time(before.until, self.space, token);
                self.rows.remove(Table::Index, by_time);
            }
        }
        let by_time = keys::token_by_time(put.until, self.space, token);
        self.rows.insert(Table::Index, by_time, Value::default());
    }
}

/// Removes the row by time of a token whose other row a purge removes. A damaged row does not say its
/// end.
pub(crate) fn purge_token<R: Rows>(rows: &mut R, key: &[u8], row: &Value) -> Result<(), R::Error> {
    let (Ok((space, token)), Ok(put)) = (keys::split_token(key), decode(key, row)) else {
        return Ok(());
    };
    let by_time = keys::token_by_time(put.until, space, token);
    if rows.get(Table::Index, &by_time)?.is_some() {
        rows.remove(Table::Index, by_time);
    }
    Ok(())
}

/// The row of a token: the xxh3 of what follows, seeded with that of the key, then end and id.
fn encode(key: &[u8], put: RememberedPut) -> Value {
    let mut row = [0; 24];
    row[8..16].copy_from_slice(&put.until.to_be_bytes());
    row[16..].copy_from_slice(&put.id.to_be_bytes());
    let sum = checksum(key, &row[8..]);
    row[..8].copy_from_slice(&sum);
    row.as_slice().into()
}

pub(crate) fn decode(key: &[u8], row: &[u8]) -> Result<RememberedPut, RecordError> {
    let split = || {
        let (sum, rest) = row.split_first_chunk::<8>()?;
        let (until, id) = rest.split_first_chunk::<8>()?;
        let id = id.try_into().ok().filter(|_| *sum == checksum(key, rest))?;
        Some(RememberedPut { until: u64::from_be_bytes(*until), id: u64::from_be_bytes(id) })
    };
    split().ok_or_else(|| RecordError::new(0, "the row of the token of a put"))
}

fn checksum(key: &[u8], rest: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(rest, xxh3_64(key)).to_be_bytes()
}
