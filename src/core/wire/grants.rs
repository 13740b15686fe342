//! The encoding of a taken task.

use tubewell_drivers::{Record, Table, Value, encode};

use super::basic::{Wire, put_bytes};
use super::input::{Input, Malformed};
use crate::core::state::{Grant, Granted};

/// The claim, the record of the task as the file has it, and a body that is not part of the record.
/// The row must have been read. The receiver has the header and the row; it does not know where they
/// are stored, and waits for no count of the take.
impl Wire for Grant {
    fn put(&self, out: &mut Vec<u8>) {
        let Granted { tube, name, id, epoch, session, header, buffer, attempts_left, .. } = &**self;
        tube.put(out);
        name.put(out);
        id.put(out);
        epoch.put(out);
        session.put(out);
        buffer.put(out);
        attempts_left.put(out);
        let row = self.row.as_deref().unwrap_or_default();
        let size = usize::try_from(header.size).unwrap_or(usize::MAX);
        let body = row.get(row.len().saturating_sub(size)..).unwrap_or_default();
        put_bytes(&encode(*id, header, body), out);
        if header.body_checksum.is_some() {
            put_bytes(body, out);
        }
    }

    fn get(input: &mut Input<'_>) -> Result<Grant, Malformed> {
        let (tube, name, id) = (Wire::get(input)?, Wire::get(input)?, u64::get(input)?);
        let (epoch, session) = (Wire::get(input)?, Wire::get(input)?);
        let (buffer, attempts_left) = (Wire::get(input)?, Wire::get(input)?);
        let record = Record::decode(id, input.bytes()?.into());
        let record = record.map_err(|_| Malformed::Invalid("the record of a task is damaged"))?;
        let (header, mut row) = record.into_parts();
        if header.body_checksum.is_some() {
            row = Value::from(input.bytes()?);
            if u64::try_from(row.len()) != Ok(header.size) {
                return Err(Malformed::Invalid("a body has another length"));
            }
        }
        Ok(Grant::from(Granted {
            tube,
            name,
            id,
            epoch,
            session,
            header,
            buffer,
            table: Table::Tasks,
            key: Vec::new(),
            row: Some(row),
            attempts_left,
            counted: None,
        }))
    }
}
