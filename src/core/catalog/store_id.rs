//! The id of a store, which tells it apart from another one that is served at the same address.

use tubewell_drivers::{Reads, Table};

use super::rows::encode;
use crate::Result;
use crate::base::codec;
use crate::base::random::random_id;
use crate::core::state::{Buffer, Core, Decided};
use crate::core::wire::{Input, Malformed, Wire};

/// The key of the row of `meta` that stores the id.
const ID: &[u8] = b"id";

/// The id of a store: random, and the same in each run of its file and in copies of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StoreId(pub(crate) [u8; 16]);

impl Wire for StoreId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn get(input: &mut Input<'_>) -> Result<StoreId, Malformed> {
        input.array().map(StoreId)
    }
}

impl Core {
    /// The id of the store. A new file gets one with its first commit; one
    /// whose row is damaged, when it is next served. It is returned once it is flushed.
    pub(crate) fn store_id(&mut self) -> Result<Decided<StoreId>> {
        self.check_open()?;
        let row = self.buffers[Buffer::File].get(Table::Meta, ID)?;
        if let Some(id) = row.as_ref().and_then(|row| codec::decode_row(row)) {
            return Ok(Decided { answer: StoreId(id), wait: None });
        }
        let id = random_id();
        self.buffers[Buffer::File].edits.active.replace(Table::Meta, ID.to_vec(), encode(&id));
        self.buffers[Buffer::File].end_call();
        Ok(Decided { answer: StoreId(id), wait: Some(self.flush_of(Buffer::File)) })
    }
}
