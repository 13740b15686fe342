//! Tests with real threads, most of them on a real file: no task is lost or acked twice, waiters
//! are served in order of arrival, and no call waits forever.
//!
//! No test sleeps. A test waits for a visible state ([`eventually`](support::eventually)), or in a
//! call with a timeout that a correct store never reaches ([`HANGS_AFTER`](support::HANGS_AFTER)), so
//! that a call that would hang fails instead.

use crate::blocking_disk;
use crate::executor;

mod attempts;
mod capacity;
mod claims;
mod close;
mod deferred;
mod delivery;
mod gates;
mod parents;
mod receipts;
mod slow_writes;
mod support;
mod waiting;
