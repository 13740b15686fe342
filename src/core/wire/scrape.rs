//! The encoding of what a store says at a scrape.

use super::macros::wire_struct;
use crate::values::histogram::Histogram;
use crate::values::scrape::{FileScrape, StoreScrape, TaskDurations, TubeScrape};

wire_struct! { Histogram { buckets, above, sum } }
wire_struct! { StoreScrape {
    version, id, has_failed, is_clock_untrusted, durability, counters, file, flushes, checkpoints,
}}
wire_struct! { FileScrape { size, journal, reserve, headroom } }
wire_struct! { TubeScrape {
    name, statistics, waiting_takes, waiting_puts, is_paused, capacity, oldest_ready, durations,
}}
wire_struct! { TaskDurations { waits, runs } }
