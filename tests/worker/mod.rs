//! Workers: the ends of tasks when their handlers return, and when a worker stops.
//!
//! Most tests run in three forms: on threads, as a future that polls its handlers, and as a future
//! that hands them to threads. The first line above a test names the cases of the other job systems
//! that it covers, as in `tests/jobs`. All stores have a clock that only the test moves, except
//! those of `killed`, whose child processes have the clock of the machine.

#[path = "../full_disk/disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod small_disk;
mod support;

use crate::blocking_disk;
use crate::executor;
#[cfg(unix)]
use crate::process;
use crate::rng;

mod around;
mod batches;
mod catalogue_ends;
mod catalogue_lost;
mod catalogue_orders;
mod catalogue_parked;
mod catalogue_stops;
mod errors;
mod full_disk;
mod futures;
mod futures_stop;
mod gate;
mod idle;
mod invariants;
#[cfg(unix)]
pub mod killed;
mod kinds;
mod limits;
mod order;
mod refused;
mod repeated_ends;
mod retries;
mod returns;
mod safe_defaults;
mod steps;
mod stop;
mod timeouts;
mod untimed;
mod waits;
