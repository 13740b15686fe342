//! Explores thread schedules: a server and its clients, in every schedule of their threads.
//!
//! With the feature `_shuttle`, the transport takes its locks and threads from a schedule explorer
//! (`src/sync/explored.rs`), and its sockets, time and random numbers from a model of the operating system
//! (`src/os/explored.rs`). Everything above is the real server and the real client. `tests/schedules` of tubewell
//! says how schedules are chosen, and which environment variables choose others.
//!
//! A schedule in which all threads are blocked is a failure: a caller without an answer, a wake-up that is lost, a
//! thread that does not end. Time moves only when a scenario moves it, so that no time-out hides one.
//!
//! ```sh
//! cargo test -p tubewell-wire --features _shuttle --test schedules
//! ```

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod beats;
mod broken;
mod calls;
mod cancel;
#[path = "../../../tests/schedules/explore.rs"]
mod explore;
mod full;
mod left;
#[path = "../../../tests/common/size.rs"]
mod size;
mod stop;
mod streams;
mod support;
mod turns;
mod wakes;

use tubewell_wire::explored::begin;
