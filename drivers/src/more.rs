//! The fields that plain tasks do not have.
//!
//! A record that is flagged has them behind the other fields of the header: a bitmap (u32) of the
//! fields that are present, then these fields in the order of their bits, each in bincode's
//! standard encoding. A new field gets the next bit, not a new version. Invariant: a record with a
//! bit that this release does not know is refused, and the error names the bit.

use std::sync::Arc;

use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

use crate::limits::{TAG_MAX, TAGS_MAX};
use crate::recur::{Recur, RecurRule};
use crate::stored_entries::StoredEntries;
use crate::traceparent::Traceparent;

const MAX_ATTEMPTS: u32 = 1;
const FORGIVEN: u32 = 1 << 1;
const GROUP: u32 = 1 << 2;
const ENDED: u32 = 1 << 3;
const UNTIL: u32 = 1 << 4;
const NOTES: u32 = 1 << 5;
const KEY: u32 = 1 << 6;
const OPEN_PARENTS: u32 = 1 << 7;
const ON_PARENT: u32 = 1 << 8;
const NOT_BEFORE: u32 = 1 << 9;
const TTL_FROM: u32 = 1 << 10;
const TAGS: u32 = 1 << 11;
const HISTORY: u32 = 1 << 12;
const SINCE: u32 = 1 << 13;
const SPAWNED_BY: u32 = 1 << 14;
const RECUR: u32 = 1 << 15;
const STEPS: u32 = 1 << 16;
const RECUR_MOMENTS: u32 = 1 << 17;
const MAX_RUNTIME: u32 = 1 << 18;
const DONE_PARENTS: u32 = 1 << 19;
const FAILED_PARENTS: u32 = 1 << 20;
const TRACEPARENT: u32 = 1 << 21;
/// The bits of all fields that this release knows.
const FIELDS: u32 = MAX_ATTEMPTS
    | FORGIVEN
    | GROUP
    | ENDED
    | UNTIL
    | NOTES
    | KEY
    | OPEN_PARENTS
    | ON_PARENT
    | NOT_BEFORE
    | TTL_FROM
    | TAGS
    | HISTORY
    | SINCE
    | SPAWNED_BY
    | RECUR
    | STEPS
    | RECUR_MOMENTS
    | MAX_RUNTIME
    | DONE_PARENTS
    | FAILED_PARENTS
    | TRACEPARENT;

/// A header with these fields that is larger than this is refused, and so are larger lengths in it.
pub(crate) const HEADER_WITH_MORE_MAX: usize = 16 << 10;

/// The fields of a [`Header`](crate::Header) that plain tasks do not have. Times are microseconds
/// on the store's timeline, except `not_before`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// The task's own limit of attempts, which overrides that of its tube.
    pub max_attempts: Option<u32>,
    /// How many takes do not count as attempts.
    pub forgiven: u32,
    /// The failure group of a buried task. At most
    /// [`FAILURE_GROUP_MAX`](crate::FAILURE_GROUP_MAX) bytes.
    pub group: Option<Arc<str>>,
    /// The time at which the task was buried or done.
    pub ended: Option<u64>,
    /// The time until which the task is kept. [`NEVER`](crate::NEVER) for a buried task that is kept
    /// without a limit of time, in a tube that does not keep all of them.
    pub until: Option<u64>,
    /// The kinds of notes that the task has: a sum of [`FAILURE_NOTE`](More::FAILURE_NOTE) and
    /// [`RESULT_NOTE`](More::RESULT_NOTE). A record with another kind does not decode.
    pub notes: u32,
    /// The key, which no other task of the store has. 1 to [`KEY_MAX`](crate::KEY_MAX) bytes.
    pub key: Option<Arc<str>>,
    /// How many parents must be done before the task can be taken. Each has an edge to it.
    pub open_parents: u32,
    /// How many parents of a task that waits for others are done, or were over when it began to wait.
    pub done_parents: u32,
    /// How many parents it waits for no more since they were buried or removed.
    pub failed_parents: u32,
    /// What happens to the task when a parent is buried or removed: 0, or
    /// [`RELEASE_ON_PARENT`](More::RELEASE_ON_PARENT) or
    /// [`BURY_ON_PARENT`](More::BURY_ON_PARENT). A record with another number does not decode.
    pub on_parent: u32,
    /// The moment before which the task is not ready, in microseconds of the wall clock since 1970
    /// UTC. [`NEVER`](crate::NEVER) for a task that never becomes ready by itself.
    pub not_before: Option<u64>,
    /// The time at which the moment is expected: the ttl counts from there. Present only while the
    /// task waits for its moment, or is blocked or buried, and has a ttl.
    pub ttl_from: Option<u64>,
    /// The tags, in the order in which they were added, each once. At most
    /// [`TAGS_MAX`](crate::TAGS_MAX), each of 1 to [`TAG_MAX`](crate::TAG_MAX) bytes. A record with
    /// others does not decode.
    pub tags: Arc<[Arc<str>]>,
    /// Which entries of the history of the task are stored; `None` for a task without a history.
    pub history: Option<StoredEntries>,
    /// The time since which the task has been ready, in a tube with metrics. `None` if that is the
    /// time at which it was put.
    pub since: Option<u64>,
    /// Of a run: the id of the schedule that has put the task, the number of the run, and its moment.
    pub spawned_by: Option<(u64, u64, u64)>,
    /// The schedule of a recurring task. No other task has one.
    pub recur: Option<Arc<Recur>>,
    /// Whether steps of the task are stored. Their number is that of their rows, so that a further
    /// step does not write the record.
    pub has_steps: bool,
    /// How long a claim of the task may last, in microseconds, which overrides the limit of its tube.
    /// [`NEVER`](crate::NEVER) for no limit.
    pub max_runtime: Option<u64>,
    /// Where the task belongs in a trace.
    pub traceparent: Option<Traceparent>,
}

/// A kind of note.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Note {
    /// The last failure.
    Failure,
    /// The result.
    Result,
}

impl Note {
    /// All kinds.
    pub const ALL: [Note; 2] = [Note::Failure, Note::Result];

    /// Returns the bit of this kind in [`More::notes`].
    #[must_use]
    pub fn bit(self) -> u32 {
        match self {
            Note::Failure => More::FAILURE_NOTE,
            Note::Result => More::RESULT_NOTE,
        }
    }

    /// Returns the byte of this kind in the key of its row.
    #[must_use]
    pub fn byte(self) -> u8 {
        match self {
            Note::Failure => b'f',
            Note::Result => b'r',
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<Note> {
        Note::ALL.into_iter().find(|note| note.byte() == byte)
    }
}

/// Why the fields cannot be decoded.
pub(crate) enum MoreError {
    /// The bytes are not the fields.
    Damaged,
    /// A newer release has written this.
    Newer(String),
}

impl More {
    /// The kind of note that contains the last failure.
    pub const FAILURE_NOTE: u32 = 1;
    /// The kind of note that contains the result.
    pub const RESULT_NOTE: u32 = 1 << 1;
    /// The task does not wait for a parent that is buried or removed.
    pub const RELEASE_ON_PARENT: u32 = 1;
    /// The task is buried when a parent is buried or removed.
    pub const BURY_ON_PARENT: u32 = 2;
    const ALL_NOTES: u32 = More::FAILURE_NOTE | More::RESULT_NOTE;

    /// Whether no field is present. The task is then a plain one.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.present() == 0
    }

    /// The bits of the fields that are present.
    fn present(&self) -> u32 {
        let bit = |bit: u32, is_present: bool| if is_present { bit } else { 0 };
        bit(MAX_ATTEMPTS, self.max_attempts.is_some())
            | bit(FORGIVEN, self.forgiven != 0)
            | bit(GROUP, self.group.is_some())
            | bit(ENDED, self.ended.is_some())
            | bit(UNTIL, self.until.is_some())
            | bit(NOTES, self.notes != 0)
            | bit(KEY, self.key.is_some())
            | bit(OPEN_PARENTS, self.open_parents != 0)
            | bit(ON_PARENT, self.on_parent != 0)
            | bit(NOT_BEFORE, self.not_before.is_some())
            | bit(TTL_FROM, self.ttl_from.is_some())
            | bit(TAGS, !self.tags.is_empty())
            | bit(HISTORY, self.history.is_some())
            | bit(SINCE, self.since.is_some())
            | bit(SPAWNED_BY, self.spawned_by.is_some())
            | bit(RECUR, self.recur.is_some())
            | bit(STEPS, self.has_steps)
            | bit(RECUR_MOMENTS, self.recur_moments() != (None, None))
            | bit(MAX_RUNTIME, self.max_runtime.is_some())
            | bit(DONE_PARENTS, self.done_parents != 0)
            | bit(FAILED_PARENTS, self.failed_parents != 0)
            | bit(TRACEPARENT, self.traceparent.is_some())
    }

    /// The moments of a schedule that are a field of their own.
    fn recur_moments(&self) -> (Option<u64>, Option<u64>) {
        self.recur.as_ref().map_or((None, None), |recur| (recur.starting, recur.covered))
    }

    /// Decodes the fields at the beginning of `bytes`. Returns the number of bytes read, too.
    pub(crate) fn decode(bytes: &[u8]) -> Result<(More, usize), MoreError> {
        let mut reader = Reader { present: 0, rest: bytes };
        reader.present = reader.next()?;
        refuse_unknown("field", reader.present, FIELDS)?;
        let mut more = More {
            max_attempts: reader.field(MAX_ATTEMPTS)?,
            forgiven: reader.field(FORGIVEN)?.unwrap_or_default(),
            group: reader.field(GROUP)?,
            ended: reader.field(ENDED)?,
            until: reader.field(UNTIL)?,
            notes: reader.field(NOTES)?.unwrap_or_default(),
            key: reader.field(KEY)?,
            open_parents: reader.field(OPEN_PARENTS)?.unwrap_or_default(),
            on_parent: reader.field(ON_PARENT)?.unwrap_or_default(),
            not_before: reader.field(NOT_BEFORE)?,
            ttl_from: reader.field(TTL_FROM)?,
            tags: reader.field(TAGS)?.unwrap_or_default(),
            history: reader.field(HISTORY)?,
            since: reader.field(SINCE)?,
            spawned_by: reader.field(SPAWNED_BY)?,
            recur: reader.field(RECUR)?,
            // The bit says all.
            has_steps: reader.present & STEPS != 0,
            // These are behind the next field.
            max_runtime: None,
            done_parents: 0,
            failed_parents: 0,
            traceparent: None,
        };
        if let Some((starting, covered)) = reader.field(RECUR_MOMENTS)? {
            let recur = more.recur.as_mut().and_then(Arc::get_mut).ok_or(MoreError::Damaged)?;
            (recur.starting, recur.covered) = (starting, covered);
        }
        more.max_runtime = reader.field(MAX_RUNTIME)?;
        more.done_parents = reader.field(DONE_PARENTS)?.unwrap_or_default();
        more.failed_parents = reader.field(FAILED_PARENTS)?.unwrap_or_default();
        more.traceparent = reader.field(TRACEPARENT)?;
        if more.history.is_some_and(|history| !history.is_valid()) {
            return Err(MoreError::Damaged);
        }
        refuse_unknown("note kind", more.notes, More::ALL_NOTES)?;
        if more.on_parent > More::BURY_ON_PARENT {
            return Err(MoreError::Newer(format!("rule {} for parents", more.on_parent)));
        }
        let of_runs = more.recur.as_ref().map_or(&[][..], |recur| &recur.tags);
        if !are_tags(&more.tags) || !are_tags(of_runs) {
            return Err(MoreError::Damaged);
        }
        if more.recur.as_ref().is_some_and(|recur| recur.rule == RecurRule::Every(0)) {
            // Its runs would never end.
            return Err(MoreError::Damaged);
        }
        Ok((more, bytes.len() - reader.rest.len()))
    }
}

impl Encode for More {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let present = self.present();
        present.encode(encoder)?;
        if let Some(limit) = self.max_attempts {
            limit.encode(encoder)?;
        }
        if present & FORGIVEN != 0 {
            self.forgiven.encode(encoder)?;
        }
        if let Some(group) = &self.group {
            group.encode(encoder)?;
        }
        if let Some(time) = self.ended {
            time.encode(encoder)?;
        }
        if let Some(time) = self.until {
            time.encode(encoder)?;
        }
        if present & NOTES != 0 {
            self.notes.encode(encoder)?;
        }
        if let Some(key) = &self.key {
            key.encode(encoder)?;
        }
        if present & OPEN_PARENTS != 0 {
            self.open_parents.encode(encoder)?;
        }
        if present & ON_PARENT != 0 {
            self.on_parent.encode(encoder)?;
        }
        if let Some(moment) = self.not_before {
            moment.encode(encoder)?;
        }
        if let Some(time) = self.ttl_from {
            time.encode(encoder)?;
        }
        if present & TAGS != 0 {
            self.tags.encode(encoder)?;
        }
        if let Some(history) = self.history {
            history.encode(encoder)?;
        }
        if let Some(time) = self.since {
            time.encode(encoder)?;
        }
        if let Some(spawned_by) = self.spawned_by {
            spawned_by.encode(encoder)?;
        }
        if let Some(recur) = &self.recur {
            recur.encode(encoder)?;
        }
        if present & RECUR_MOMENTS != 0 {
            self.recur_moments().encode(encoder)?;
        }
        if let Some(limit) = self.max_runtime {
            limit.encode(encoder)?;
        }
        if present & DONE_PARENTS != 0 {
            self.done_parents.encode(encoder)?;
        }
        if present & FAILED_PARENTS != 0 {
            self.failed_parents.encode(encoder)?;
        }
        if let Some(traceparent) = self.traceparent {
            traceparent.encode(encoder)?;
        }
        Ok(())
    }
}

impl From<DecodeError> for MoreError {
    fn from(_: DecodeError) -> MoreError {
        MoreError::Damaged
    }
}

struct Reader<'a> {
    present: u32,
    rest: &'a [u8],
}

impl Reader<'_> {
    fn field<T: Decode<()>>(&mut self, bit: u32) -> Result<Option<T>, MoreError> {
        if self.present & bit == 0 { Ok(None) } else { self.next().map(Some) }
    }

    fn next<T: Decode<()>>(&mut self) -> Result<T, MoreError> {
        let config = bincode::config::standard().with_limit::<HEADER_WITH_MORE_MAX>();
        let (value, read) = bincode::decode_from_slice(self.rest, config)?;
        self.rest = &self.rest[read..];
        Ok(value)
    }
}

/// Whether these may be the tags of a task. The rows of one that is there twice would have one key.
fn are_tags(tags: &[Arc<str>]) -> bool {
    let is_tag = |(at, tag): (usize, &Arc<str>)| {
        (1..=TAG_MAX).contains(&tag.len()) && !tags[..at].contains(tag)
    };
    tags.len() <= TAGS_MAX && tags.iter().enumerate().all(is_tag)
}

/// Refuses a bit that is not in `known`, by its number.
fn refuse_unknown(what: &str, bits: u32, known: u32) -> Result<(), MoreError> {
    match bits & !known {
        0 => Ok(()),
        unknown => Err(MoreError::Newer(format!("{what} {}", unknown.trailing_zeros()))),
    }
}
