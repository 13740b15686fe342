//! The rows of the table `claims`: claims that are known before or after the process that has them.

use std::sync::Arc;

use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use tubewell_drivers::{Reads, Row, Table, keys};

use crate::Result;
use crate::base::codec::{decode_row, encode_row};
use crate::base::tube_no::TubeNo;
use crate::core::state::{Buffer, ClaimState, Core};

/// A row of the table `claims`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(in crate::core) struct ClaimRow {
    pub(super) epoch: u64,
    /// The takes of the task, this one included.
    pub(super) takes: u32,
    pub(super) session: [u8; 16],
    pub(super) label: Option<Arc<str>>,
    /// When a parked claim ends, on the timeline; `NEVER` without a limit. 0 for a claim that was
    /// counted and not parked: it ends with its process.
    pub(super) until: u64,
    pub(super) taken_on: TakenOn,
}

/// When the task was taken, on the timeline, if its tube keeps a history. Without it the row ends
/// before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::core) struct TakenOn(pub(super) Option<u64>);

impl Encode for TakenOn {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.map_or(Ok(()), |time| time.encode(encoder))
    }
}

impl<C> Decode<C> for TakenOn {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<TakenOn, DecodeError> {
        if decoder.reader().peek_read(1).is_none() {
            return Ok(TakenOn(None));
        }
        u64::decode(decoder).map(|time| TakenOn(Some(time)))
    }
}

bincode::impl_borrow_decode!(TakenOn);

/// A row, with the tube and the task that its key names.
pub(super) struct FoundRow {
    pub(super) number: TubeNo,
    pub(super) id: u64,
    pub(super) row: ClaimRow,
}

impl Core {
    /// Writes the row of a claim. `is_new`: there is none.
    pub(in crate::core) fn write_claim_row(
        &mut self,
        number: TubeNo,
        id: u64,
        row: &ClaimRow,
        is_new: bool,
    ) {
        let Some(tube) = self.tubes.get(number) else { return };
        let key = keys::by_id(tube.definition.space, id);
        let active = &mut self.buffers[tube.buffer].edits.active;
        if is_new {
            active.insert(Table::Claims, key, encode_row(row));
        } else {
            active.replace(Table::Claims, key, encode_row(row));
        }
    }

    /// The row of a claim that counts its take and the takes before it.
    pub(super) fn counting_row(&self, claim: &ClaimState, takes: u32) -> ClaimRow {
        let (epoch, session) = (claim.epoch, claim.session.to_bytes());
        let taken_on = self.taken_on(claim);
        ClaimRow { epoch, takes, session, label: self.label_of(claim), until: 0, taken_on }
    }

    /// When a task was taken, for the row of its claim.
    pub(super) fn taken_on(&self, claim: &ClaimState) -> TakenOn {
        let has_history = self.history_limit(claim.tube) > 0;
        TakenOn(has_history.then_some(claim.taken_on))
    }

    /// The rows of the claims of a tube that has had no history so far, with the times at which the
    /// tasks were taken.
    pub(in crate::core) fn dated_rows(&mut self, number: TubeNo) -> Result<Vec<(u64, ClaimRow)>> {
        let Some(tube) = self.tubes.get(number) else { return Ok(Vec::new()) };
        let (space, buffer) = (tube.definition.space, tube.buffer);
        let has_row = |id: &u64| self.claims.get(*id).is_some_and(ClaimState::has_row);
        let ids: Vec<u64> = tube.taken.iter().map(|(_, id)| *id).filter(has_row).collect();
        let mut rows = Vec::new();
        for id in ids {
            let row = self.buffers[buffer].get(Table::Claims, &keys::by_id(space, id))?;
            let row: Option<ClaimRow> = row.and_then(|row| decode_row(&row));
            if let (Some(row), Some(claim)) = (row, self.claims.get(id)) {
                rows.push((id, ClaimRow { taken_on: TakenOn(Some(claim.taken_on)), ..row }));
            }
        }
        Ok(rows)
    }

    /// Removes the row of a claim that ends.
    pub(super) fn remove_claim_row(&mut self, id: u64, claim: &ClaimState) {
        if !claim.has_row() {
            return;
        }
        self.erase_claim_row(claim.tube, id);
    }

    /// Removes the row of a claim on a task of a tube.
    pub(super) fn erase_claim_row(&mut self, number: TubeNo, id: u64) {
        if let Some(tube) = self.tubes.get(number) {
            let key = keys::by_id(tube.definition.space, id);
            self.buffers[tube.buffer].edits.active.remove(Table::Claims, key);
        }
    }

    /// The label of the session that has a claim.
    pub(in crate::core) fn label_of(&self, claim: &ClaimState) -> Option<Arc<str>> {
        self.label(claim).cloned()
    }

    /// As `label_of`, without a handle of it.
    pub(in crate::core) fn label<'a>(&'a self, claim: &'a ClaimState) -> Option<&'a Arc<str>> {
        match claim.parked.as_deref() {
            Some(parked) if parked.until.is_some() => parked.label.as_ref(),
            _ => self.sessions.label(claim.session),
        }
    }

    /// The rows of the file. A row that cannot be read is left out; `verify` reports it.
    pub(super) fn claim_rows(&mut self) -> Result<Vec<FoundRow>> {
        let rows =
            self.buffers[Buffer::File].scan(Table::Claims, &[], &[u8::MAX; 13], usize::MAX)?;
        Ok(rows.into_iter().filter_map(|row| self.found_row(row)).collect())
    }

    fn found_row(&self, (key, value): Row) -> Option<FoundRow> {
        let (space, id) = keys::split_by_id(&key).ok()?;
        let number = self.tubes.of_space(space)?;
        Some(FoundRow { number, id, row: decode_row(&value)? })
    }
}
