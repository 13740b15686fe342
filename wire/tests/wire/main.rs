//! The transport between a server and its clients, both in this process.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod calls;
mod cancel;
mod connect;
mod half_open;
mod hostile;
mod long_calls;
mod lost;
mod panics;
mod raw;
mod reconnect;
mod restarts;
mod secure;
mod stop;
mod streams;
mod support;
