//! The encoding of events and their filters, and of what a store says of itself.

use std::time::Duration;

use super::basic::Wire;
use super::input::{Input, Malformed};
use super::macros::{wire_enum, wire_struct};
use crate::events::{Delivered, EventDetails};
use crate::values::counters::{ClockReport, Counters};
use crate::values::kinds::KindSet;
use crate::{Event, Filter};

wire_struct! { Event { tube, id, kind, state, key, owner, cause, progress, details, missed, seq } }
wire_struct! { EventDetails { priority, tags, failure, body } }
wire_struct! { Delivered { seq, missed } }
wire_struct! { Filter {
    tubes, keys, owners, tags, kinds, ids, state, group, sub_queue, limit, newest_first, soonest_first,
    details,
}}

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

/// Why the timeline does not go by the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClockFault {
    None,
    Untrusted(Duration),
    SetBack(Duration),
}

wire_enum! { ClockFault { 0 => None, 1 => Untrusted(wall), 2 => SetBack(by) } }

impl Wire for ClockReport {
    fn put(&self, out: &mut Vec<u8>) {
        let set_back = self.set_back.map_or(ClockFault::None, ClockFault::SetBack);
        let fault = self.untrusted.map_or(set_back, ClockFault::Untrusted);
        (self.timeline, self.wall).put(out);
        fault.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<ClockReport, Malformed> {
        let (timeline, wall) = Wire::get(input)?;
        let (untrusted, set_back) = match Wire::get(input)? {
            ClockFault::None => (None, None),
            ClockFault::Untrusted(wall) => (Some(wall), None),
            ClockFault::SetBack(by) => (None, Some(by)),
        };
        Ok(ClockReport { timeline, wall, untrusted, set_back })
    }
}

#[cfg(test)]
impl super::tests::Sample for ClockReport {
    fn sample(random: &mut super::tests::Random) -> ClockReport {
        let (timeline, wall) = super::tests::Sample::sample(random);
        let (untrusted, set_back) = match super::tests::Sample::sample(random) {
            ClockFault::None => (None, None),
            ClockFault::Untrusted(wall) => (Some(wall), None),
            ClockFault::SetBack(by) => (None, Some(by)),
        };
        ClockReport { timeline, wall, untrusted, set_back }
    }
}
