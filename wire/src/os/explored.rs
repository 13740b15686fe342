//! A model of the operating system in memory, for the schedule explorer: TCP between the threads of one
//! scenario, readiness that is reported when it changes, time that the scenario moves, and random numbers of the
//! explorer.
//!
//! Each call is one step of the explorer, which also chooses what a call may do here or there: whether it is
//! interrupted, how much of what was on its way a broken connection delivers, and whether writing to a peer that
//! has gone fails at once.

mod kernel;
mod poll;
mod stream;

use std::io;
use std::sync::OnceLock;
use std::time::Instant;

use shuttle::rand::{RngCore, thread_rng};

pub use kernel::{break_connections, open_sockets, set_pipe_size};
pub(crate) use poll::{Events, Poll, Registry, Waker, reregister};
pub(crate) use stream::{TcpListener, TcpStream, UnixListener, UnixStream};

/// Sockets that block.
pub(crate) mod blocking {
    pub(crate) use super::stream::{TcpStream, UnixStream, from_unix};
}

/// Begins a schedule: at time zero and without any socket. Each schedule calls it first.
pub fn begin() {
    crate::sync::explored::begin();
    kernel::begin();
}

/// The modelled time.
#[expect(clippy::disallowed_methods, reason = "an instant of std can be had from its clock only")]
pub(crate) fn now() -> Instant {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    *ORIGIN.get_or_init(Instant::now) + crate::sync::explored::now()
}

/// Fills `bytes` with random numbers, the same ones for each run of a schedule.
#[expect(clippy::unnecessary_wraps, reason = "as the real one")]
pub(crate) fn fill_random(bytes: &mut [u8]) -> io::Result<()> {
    thread_rng().fill_bytes(bytes);
    Ok(())
}

/// A modelled peer is one of this user.
#[cfg(unix)]
#[expect(clippy::unnecessary_wraps, reason = "as the real one")]
pub(crate) fn user_of_peer(_: &blocking::UnixStream, _: &std::path::Path) -> io::Result<u32> {
    Ok(rustix::process::geteuid().as_raw())
}

/// A modelled peer does not vanish without a word.
#[expect(clippy::unnecessary_wraps, reason = "as the real one")]
pub(crate) fn keep_alive(_: &TcpStream) -> io::Result<()> {
    Ok(())
}
