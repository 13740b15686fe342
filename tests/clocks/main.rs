//! Clocks that misbehave: a wall clock that is set, reset or far ahead, suspend, the ends of the
//! timeline, and many tasks that are due at the same time. The tests move all clocks themselves, so
//! they never wait, and every run is the same.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::unchecked_time_subtraction,
    reason = "a test that cannot go on has failed"
)]

mod boundaries;
mod held_due;
mod many_due;
mod set_right;
#[path = "../common/size.rs"]
mod size;
mod support;
mod suspend;
mod wall_clock;
