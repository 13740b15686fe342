//! What this crate needs of the operating system, in one place: sockets and what they are ready for, the clock
//! and random numbers.
//!
//! With the feature `_shuttle` it comes from `explored`, a model in memory. The files of unix sockets are the one
//! part without a model: only TCP can be explored.

#[cfg(feature = "_shuttle")]
pub(crate) mod explored;
#[cfg(not(feature = "_shuttle"))]
mod system;
#[cfg(unix)]
pub(crate) mod unix_path;

#[cfg(feature = "_shuttle")]
use explored as chosen;
#[cfg(not(feature = "_shuttle"))]
use system as chosen;

pub(crate) use chosen::{
    Events, Poll, Registry, TcpListener, TcpStream, Waker, blocking, fill_random, keep_alive, now,
};
#[cfg(unix)]
pub(crate) use chosen::{UnixListener, UnixStream, reregister, user_of_peer};
pub(crate) use mio::{Interest, Token};
