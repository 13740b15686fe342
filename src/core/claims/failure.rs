//! The stored form of a failure: the note of a task that has failed.

use std::sync::Arc;
use std::time::Duration;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use tubewell_drivers::{Header, Note, Value};

use crate::base::codec::{decode_row, encode_row};
use crate::base::micros::{duration, micros_ceil};
use crate::base::tube_no::TubeNo;
use crate::core::state::Core;
use crate::values::ending::{FailureKind, LastFailure};
use crate::{Error, Failure, Result};

/// A failure as its note has it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct FailureNote {
    group: Arc<str>,
    message: String,
    attempt: u32,
    kind: KindAndOwner,
    /// When it was recorded, on the timeline.
    at: u64,
}

/// How a failure came about, and the label of the session that had the task: one byte, twice the number of the
/// kind plus 1 if there is a label, and the label.
#[derive(Clone, Debug, PartialEq, Eq)]
struct KindAndOwner(FailureKind, Option<Arc<str>>);

impl Encode for KindAndOwner {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        let KindAndOwner(kind, owner) = self;
        (kind.number() << 1 | u8::from(owner.is_some())).encode(encoder)?;
        owner.as_ref().map_or(Ok(()), |owner| owner.encode(encoder))
    }
}

impl<C> Decode<C> for KindAndOwner {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<KindAndOwner, DecodeError> {
        let byte = u8::decode(decoder)?;
        let kind = FailureKind::from_number(byte >> 1);
        let kind = kind.ok_or(DecodeError::Other("an unknown kind of failure"))?;
        let has_owner = byte & 1 == 1;
        let owner = has_owner.then(|| Decode::decode(decoder)).transpose()?;
        Ok(KindAndOwner(kind, owner))
    }
}

bincode::impl_borrow_decode!(KindAndOwner);

/// Encodes the last failure of a task, at a moment of the timeline.
pub(in crate::core) fn encode_failure(failure: &LastFailure, now: u64) -> Vec<u8> {
    let note = FailureNote {
        group: failure.group.as_str().into(),
        message: failure.message.clone(),
        attempt: failure.attempt,
        kind: KindAndOwner(failure.kind, failure.owner.as_deref().map(Arc::from)),
        at: now.saturating_sub(micros_ceil(failure.ago)),
    };
    encode_row(&note).to_vec()
}

/// The failure of the attempt that `header` has counted last, at its moment.
pub(super) fn failure_of(
    (kind, failure): (FailureKind, &Failure),
    header: &Header,
    owner: Option<&str>,
) -> LastFailure {
    LastFailure {
        kind,
        group: failure.group().to_owned(),
        message: failure.message().to_owned(),
        attempt: header.attempts(),
        owner: owner.map(str::to_owned),
        ago: Duration::ZERO,
    }
}

/// Decodes the note of a failure, at a moment of the timeline.
pub(crate) fn decode_failure(id: u64, note: Vec<u8>, now: u64) -> Result<LastFailure> {
    let note: FailureNote = decode_row(&Value::from(note))
        .ok_or_else(|| Error::corrupt(format!("task {id}: its failure cannot be read")))?;
    let KindAndOwner(kind, owner) = note.kind;
    Ok(LastFailure {
        kind,
        group: note.group.to_string(),
        message: note.message,
        attempt: note.attempt,
        owner: owner.map(|owner| owner.to_string()),
        ago: duration(now.saturating_sub(note.at)),
    })
}

impl Core {
    /// The last failure of a task, if one was recorded.
    pub(in crate::core) fn last_failure(
        &mut self,
        number: TubeNo,
        id: u64,
        header: &Header,
    ) -> Result<Option<LastFailure>> {
        if !Note::Failure.is_in(header) {
            return Ok(None);
        }
        let now = self.now.timeline;
        let note = self.edit(number, |ledger| ledger.note(id, header, Note::Failure))?;
        note.map(|note| decode_failure(id, note, now)).transpose()
    }
}
