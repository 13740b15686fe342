//! The encoding of tubes, their options, counts and limits.

use tubewell_drivers::DayCounts;

use super::basic::{Wire, put_bytes};
use super::input::{Input, Malformed};
use super::macros::{wire_enum, wire_struct};
use crate::core::state::Buffer;
use crate::options::list::tube_options;
use crate::values::limit::PausedSubQueue;
use crate::values::statistics::CallCounts;
use crate::{
    Backoff, Counting, Durability, Keep, Limit, Rate, Statistics, TaskCounts, TubeInfo, TubeOptions,
};

wire_struct! { Backoff { first, factor, cap, jitter } }
wire_enum! { Counting { 0 => Lazily, 1 => Written, 2 => Flushed } }
wire_enum! { Durability {
    0 => Flush,
    1 => Write { flush_within },
    2 => Relaxed { max_delay },
}}
wire_struct! { Keep { count, age } }
wire_struct! { Rate { count, period } }

wire_struct! { Statistics { tasks, calls } }
wire_struct! { TaskCounts {
    ready, taken, delayed, blocked, buried, total, done, kept, recurring, overdue,
}}
wire_struct! { CallCounts {
    put, take, ack, release, fail, snooze, lost, bury, buried, kick, delete, touch, checkpoint, ttl, ttr,
    delay, block, unblock, resolve, forget, schedule, spawn, advance, moved, arrive, update, log,
    step,
}}

macro_rules! wire_options {
    ($($(#[$docs:meta])* $name:ident($($given:tt)*) -> $in_effect:ty { $($rest:tt)* })*) => {
        // The callback stays where it is: it can only be called in its process.
        wire_struct! { TubeOptions { driver, $($name,)* } without { callback: None } }
        wire_struct! { TubeInfo {
            name, driver, usable, $($name,)* paused, resumes_in, waiting, waiting_puts,
        }}
    };
}

tube_options!(wire_options);

wire_struct! { Limit { name, most, taken } }
wire_struct! { PausedSubQueue { name, resumes_in } }

wire_enum! { Buffer { 0 => File, 1 => Memory } }

/// The row of a day, as the file has it, of no tube and no day.
impl Wire for DayCounts {
    fn put(&self, out: &mut Vec<u8>) {
        put_bytes(&self.to_row(0, 0), out);
    }

    fn get(input: &mut Input<'_>) -> Result<DayCounts, Malformed> {
        let row = DayCounts::from_row(0, 0, input.bytes()?);
        row.map_err(|_| Malformed::Invalid("the numbers of a day are damaged"))
    }
}
