//! What bad clocks do to a store: walls that are set, lost or far ahead, machines that sleep, ends
//! of time, and a great many tasks that are due at once. All of it on clocks that the tests move;
//! nothing here waits, and every run is the same.
//!
//! `TUBEWELL_CLOCKS_DUE` is how many tasks are due at once, 20,000 unless it says otherwise.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unchecked_time_subtraction,
    reason = "a test that cannot go on has failed"
)]

mod due;
mod ends;
mod support;
mod suspend;
mod wall;
