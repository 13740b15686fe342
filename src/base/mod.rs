//! Tools that all other folders use: locks and threads, clocks, durations and moments, random numbers, the
//! encoding of rows, flags that wake waiters, and calls into code of the application.
//!
//! It knows nothing of tasks. Only [`clock`] reads a clock, and only [`sync`] names locks and threads: with
//! the hidden feature `_shuttle` they are those of the schedule explorer.

pub(crate) mod clock;
pub(crate) mod codec;
pub(crate) mod id_map;
pub(crate) mod micros;
pub(crate) mod moment;
pub(crate) mod park;
pub(crate) mod random;
pub(crate) mod signal;
pub(crate) mod sync;
pub(crate) mod tube_no;
pub(crate) mod user_code;
