//! The encoding of events and their filters, and of what a store says of itself.

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::wire_struct;
use crate::events::KindSet;
use crate::{ClockReport, Counters, Event, Filter};

wire_struct! { Event { tube, id, kind, state, key, owner, cause, progress, missed, seq } }
wire_struct! { Filter { tubes, keys, owners, tags, kinds } }

/// A bit for each kind, in the order of their numbers.
impl Wire for KindSet {
    fn put(&self, out: &mut Vec<u8>) {
        self.bits().put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<KindSet, Malformed> {
        u64::get(input).map(KindSet::from_bits)
    }
}

wire_struct! { Counters {
    commits, opened_at, rows, journal_waits, flushes, writes, bytes_written, reads,
}}
wire_struct! { ClockReport { timeline, wall, untrusted } }
