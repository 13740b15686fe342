//! The history of a task: which entries a change adds to it.
//!
//! Invariants: the edit that changes a record writes the entry of the change, and the record names it.
//! The entry of a take is written with the first record that counts the take. So a take writes
//! nothing, and its entry has the place and the time of the take.

use std::sync::Arc;

use bincode::{Decode, Encode};
use tubewell_drivers::{Header, NewEntries, StoredEntries, Value, check_entry, encode_entry};

use super::state::{ClaimState, Clocks, Core};
use crate::base::codec::{decode_row, encode_row};
use crate::base::moment::{micros_of, system_time};
use crate::base::tube_no::TubeNo;
use crate::values::history::HistoryEntry;
use crate::values::history::cut;
use crate::{Error, EventKind, Result, TaskState};

/// What a change says of itself in the history of its task.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct Entry<'a> {
    pub(in crate::core) kind: EventKind,
    /// The state after the change.
    pub(in crate::core) state: TaskState,
    pub(in crate::core) text: Option<&'a str>,
    /// The label of the session that had the task, if no claim in memory says it.
    pub(in crate::core) owner: Option<&'a str>,
}

/// A take whose claim ended with its process.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) struct LostTake<'a> {
    /// When the task was taken, on the timeline.
    pub(in crate::core) at: u64,
    pub(in crate::core) owner: Option<&'a str>,
}

/// The history of a task that leaves its tube and begins anew in another one, or in the same one.
#[derive(Debug)]
pub(in crate::core) struct Past {
    stored: Option<StoredEntries>,
    rows: NewEntries,
    /// The entry of its last take is not among them.
    took: bool,
}

/// An entry as its row has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct StoredEntry {
    /// On the timeline.
    at: u64,
    /// The name of the event kind.
    what: String,
    /// The character of the state.
    state: u8,
    owner: Option<Arc<str>>,
    text: Option<String>,
    tube: Arc<str>,
}

impl Entry<'_> {
    pub(in crate::core) fn new(kind: EventKind, state: TaskState) -> Entry<'static> {
        Entry { kind, state, text: None, owner: None }
    }
}

impl StoredEntry {
    fn new(at: u64, kind: EventKind, state: TaskState, tube: &Arc<str>) -> StoredEntry {
        let (what, state) = (kind.as_str().to_owned(), state_byte(state));
        StoredEntry { at, what, state, owner: None, text: None, tube: tube.clone() }
    }
}

impl Core {
    /// Adds an entry to the history of a task of this tube, and removes old ones. `before` is the
    /// stored header, `None` for a new task; `header` replaces it. If that counts a take that
    /// `before` does not count, the entry of the take comes first. Returns the rows of the new
    /// entries, which the caller writes with the header.
    #[inline]
    pub(in crate::core) fn add_to_history(
        &mut self,
        number: TubeNo,
        id: u64,
        before: Option<&Header>,
        header: &mut Header,
        entry: Option<Entry<'_>>,
    ) -> NewEntries {
        if !self.keeps_history(number, header)
            && before.is_none_or(|before| before.history().is_none())
        {
            return NewEntries::new();
        }
        let took = before.is_some_and(|before| header.takes > before.takes);
        self.add_entries(number, id, before.and_then(Header::history), took, header, entry)
    }

    /// As `add_to_history`, for a task that had these entries. `took`: the entry of its last take was
    /// not written.
    #[cold]
    pub(in crate::core) fn add_entries(
        &mut self,
        number: TubeNo,
        id: u64,
        before: Option<StoredEntries>,
        took: bool,
        header: &mut Header,
        entry: Option<Entry<'_>>,
    ) -> NewEntries {
        let now = self.now.timeline;
        let tube = self.name_of_tube(number);
        let claim = self.claims.get(id);
        let holder = claim.and_then(|claim| self.label_of(claim));
        let mut new = Vec::new();
        if took {
            let at = claim.map_or(now, |claim| claim.taken_on);
            let tube = claim.map_or(tube.clone(), |claim| self.name_of_tube(claim.tube));
            let take = StoredEntry::new(at, EventKind::Take, TaskState::Taken, &tube);
            new.push(StoredEntry { owner: holder.clone(), ..take });
        }
        if let Some(Entry { kind, state, text, owner }) = entry {
            let text = text.map(|text| cut(text).to_owned());
            let owner = holder.or(owner.map(Arc::from));
            new.push(StoredEntry { owner, text, ..StoredEntry::new(now, kind, state, &tube) });
        }
        self.store_entries(number, id, before, header, &new)
    }

    /// Reads the history of a task, before its rows are removed. `header` is the stored one with the
    /// take of its claim. `None` if it has none and gets none in the tube `to`. A damaged history is
    /// left out; `verify` reports it.
    pub(in crate::core) fn past_of(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &Header,
        to: TubeNo,
    ) -> Result<Option<Past>> {
        let stored = header.history();
        if stored.is_none() && self.history_limit(to) == 0 {
            return Ok(None);
        }
        let found = self.find(number, id)?;
        let took = header.takes > found.record.header.takes;
        let rows = self.edit(number, |ledger| ledger.stored_entries(id, header));
        match rows {
            Err(Error::Corrupt { .. }) => Ok(Some(Past { stored: None, rows: Vec::new(), took })),
            rows => Ok(Some(Past { stored, rows: rows?, took })),
        }
    }

    /// Adds an entry to the history that a task had before. Returns the rows of both.
    pub(in crate::core) fn continue_history(
        &mut self,
        number: TubeNo,
        id: u64,
        past: &Past,
        header: &mut Header,
        entry: Entry<'_>,
    ) -> NewEntries {
        let new = self.add_entries(number, id, past.stored, past.took, header, Some(entry));
        past.rows.iter().cloned().chain(new).collect()
    }

    /// Adds the entry of a take whose claim is not in memory any more.
    pub(in crate::core) fn add_lost_take(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &mut Header,
        lost: LostTake<'_>,
    ) -> NewEntries {
        let tube = self.name_of_tube(number);
        let take = StoredEntry::new(lost.at, EventKind::Take, TaskState::Taken, &tube);
        let take = StoredEntry { owner: lost.owner.map(Arc::from), ..take };
        self.store_entries(number, id, header.history(), header, &[take])
    }

    /// Gives a task that is restored the entries that it had in another store.
    pub(in crate::core) fn restore_entries(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &mut Header,
        entries: &[HistoryEntry],
    ) -> NewEntries {
        let Some(last) = entries.last() else { return NewEntries::new() };
        let total = last.number.saturating_add(1);
        let count = u32::try_from(entries.len()).unwrap_or(u32::MAX);
        let stored = StoredEntries { total, count };
        let after = StoredEntries::after(Some(stored), 0, self.history_limit(number));
        header.edit_more(|more| more.history = after);
        // If some were lost, those before move up to the ones behind.
        let rows = stored.numbers().zip(entries).map(|(number, entry)| {
            let stored = StoredEntry {
                at: self.clocks().time_of(micros_of(entry.at)),
                what: entry.what.as_str().to_owned(),
                state: state_byte(entry.state),
                owner: entry.owner.as_deref().map(Arc::from),
                text: entry.text.clone(),
                tube: Arc::from(entry.tube.as_str()),
            };
            (number, encode_entry(id, number, &encode_row(&stored)))
        });
        rows.collect()
    }

    /// The history of a task with this header: that of its rows, and the take that is under way. Its
    /// entry is in memory until a change of the task is stored.
    pub(in crate::core) fn history_of(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &Header,
    ) -> Result<Vec<HistoryEntry>> {
        let mut entries = self.entries_of(number, id, header)?;
        let stored = header.history();
        let is_under_way =
            |claim: &&ClaimState| claim.tube == number && claim.header.takes > header.takes;
        let Some(claim) = self.claims.get(id).filter(is_under_way) else { return Ok(entries) };
        let Some(after) = StoredEntries::after(stored, 1, self.history_limit(number)) else {
            return Ok(entries);
        };
        entries.retain(|entry| after.contains(entry.number));
        let last = stored.map_or(0, |stored| stored.total);
        if after.contains(last) {
            entries.push(HistoryEntry {
                number: last,
                at: system_time(self.clocks().shown(claim.taken_on)),
                what: EventKind::Take,
                state: TaskState::Taken,
                owner: self.label_of(claim).map(|label| label.to_string()),
                text: None,
                tube: self.name_of_tube(number).to_string(),
            });
        }
        Ok(entries)
    }

    /// The history of a task with this header, from its rows.
    pub(in crate::core) fn entries_of(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &Header,
    ) -> Result<Vec<HistoryEntry>> {
        let rows = self.edit(number, |ledger| ledger.stored_entries(id, header))?;
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let clocks = self.clocks();
        rows.iter().map(|(number, row)| decode_entry(id, *number, row, clocks)).collect()
    }

    /// Whether a change of a task with this header adds an entry, or removes some.
    #[inline]
    pub(in crate::core) fn keeps_history(&self, number: TubeNo, header: &Header) -> bool {
        self.history_limit(number) > 0 || header.history().is_some()
    }

    /// How many entries a task of a tube has at most.
    #[inline]
    pub(in crate::core) fn history_limit(&self, number: TubeNo) -> u32 {
        self.tubes.get(number).map_or(0, |tube| tube.definition.policies.history)
    }

    fn store_entries(
        &mut self,
        number: TubeNo,
        id: u64,
        before: Option<StoredEntries>,
        header: &mut Header,
        new: &[StoredEntry],
    ) -> NewEntries {
        let first = before.map_or(0, |stored| stored.total);
        let limit = self.history_limit(number);
        let after = StoredEntries::after(before, new.len() as u64, limit);
        if header.history() != after {
            header.edit_more(|more| more.history = after);
        }
        let Some(after) = after else { return NewEntries::new() };
        let numbered = (first..).zip(new).filter(|(number, _)| after.contains(*number));
        numbered
            .map(|(number, entry)| (number, encode_entry(id, number, &encode_row(entry))))
            .collect()
    }

    fn name_of_tube(&self, number: TubeNo) -> Arc<str> {
        self.tubes.get(number).map(|tube| tube.definition.name.clone()).unwrap_or_default()
    }
}

/// Decodes a row of a history.
pub(crate) fn decode_entry(
    id: u64,
    number: u64,
    row: &Value,
    clocks: Clocks<'_>,
) -> Result<HistoryEntry> {
    let bytes = check_entry(id, number, Some(row))?;
    let unreadable =
        || Error::corrupt(format!("task {id}: entry {number} of its history cannot be read"));
    let stored: StoredEntry = decode_row(bytes).ok_or_else(unreadable)?;
    Ok(HistoryEntry {
        number,
        at: system_time(clocks.shown(stored.at)),
        what: stored.what.parse().map_err(|_| unreadable())?,
        state: state_of_byte(stored.state).ok_or_else(unreadable)?,
        owner: stored.owner.map(|owner| owner.to_string()),
        text: stored.text,
        tube: stored.tube.to_string(),
    })
}

/// The character of a state, which is an ASCII one.
fn state_byte(state: TaskState) -> u8 {
    u8::try_from(state.as_char()).unwrap_or(b'?')
}

fn state_of_byte(byte: u8) -> Option<TaskState> {
    Some(match byte {
        b'r' => TaskState::Ready,
        b't' => TaskState::Taken,
        b'~' => TaskState::Delayed,
        b'#' => TaskState::Blocked,
        b'!' => TaskState::Buried,
        b'-' => TaskState::Done,
        _ => return None,
    })
}
