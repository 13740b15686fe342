//! The id of a store, which tells it apart from another one that is served at the same address.

use std::fmt::{self, Display, Formatter};

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

impl Display for StoreId {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl Wire for StoreId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn get(input: &mut Input<'_>) -> Result<StoreId, Malformed> {
        input.array().map(StoreId)
    }
}

impl Core {
    /// The id of the store, if it has one that can be read.
    pub(crate) fn known_store_id(&mut self) -> Result<Option<StoreId>> {
        self.check_open()?;
        let row = self.buffers[Buffer::File].get(Table::Meta, ID)?;
        Ok(row.as_ref().and_then(|row| codec::decode_row(row)).map(StoreId))
    }

    /// The id of the store. A new file gets one with its first commit; one
    /// whose row is damaged, when it is next served. It is returned once it is flushed.
    pub(crate) fn store_id(&mut self) -> Result<Decided<StoreId>> {
        self.check_open()?;
        if let Some(id) = self.known_store_id()? {
            return Ok(Decided { answer: id, wait: None });
        }
        let id = random_id();
        self.buffers[Buffer::File].edits.active.replace(Table::Meta, ID.to_vec(), encode(&id));
        self.buffers[Buffer::File].end_call();
        Ok(Decided { answer: StoreId(id), wait: Some(self.flush_of(Buffer::File)) })
    }
}
