//! The transport of the [tubewell](https://docs.rs/tubewell) task queue: calls, answers and streams of
//! bytes between a client and a server, over unix sockets and TCP.
//!
//! This crate knows nothing of tubes: a call, an answer and an item of a stream are bytes.
//!
//! * Many calls are in flight on one connection; answers arrive in any order.
//! * A server has two threads and a client one, however many connections, calls and callers there are. They
//!   sleep while nothing happens. A caller that waits reads its answer itself while no other call is in flight
//!   ([`Client::call_and_wait`]).
//! * A client reconnects by itself. A call is made at most once, unless it may be made again
//!   ([`CallKind::resend`]).
//! * Each answer is either received by the client, or the server learns that it may be lost
//!   ([`Reply::on_lost`]).
//! * A peer costs bounded memory ([`Limits`]) and harms no other peer, whatever it sends and however slowly
//!   it reads.
//! * A unix socket is open to its owner only. Over TCP, both sides must know a secret, and all they say is encrypted and
//!   authenticated with keys that are made from it for each connection (the Noise protocol framework).
//!
//! ```
//! use std::sync::Arc;
//! use tubewell_wire::{
//!     Address, Answering, CallKind, Client, ClientOptions, Handler, Rejection, Reply, Server, ServerOptions,
//!     Service,
//! };
//!
//! struct Upper;
//!
//! impl Service for Upper {
//!     type Peer = ();
//!     fn connect(&self, _hello: &[u8]) -> Result<((), Vec<u8>), Rejection> {
//!         Ok(((), Vec::new()))
//!     }
//!     fn call(&self, _peer: &Arc<()>, body: &[u8]) -> Answering {
//!         Answering::Now(Reply::new(body.to_ascii_uppercase()))
//!     }
//!     fn disconnect(&self, _peer: &Arc<()>) -> bool {
//!         false
//!     }
//! }
//!
//! struct Quiet;
//!
//! impl Handler for Quiet {
//!     fn hello(&self) -> Vec<u8> {
//!         Vec::new()
//!     }
//!     fn welcome(&self, _welcome: &[u8]) -> Result<(), String> {
//!         Ok(())
//!     }
//!     fn orphan(&self, _body: &[u8]) {}
//!     fn broken(&self) {}
//! }
//!
//! let secret = Some(b"a secret of 32 random bytes here".to_vec());
//! let options = ServerOptions { secret: secret.clone(), ..ServerOptions::default() };
//! let server = Server::start(&"tcp://127.0.0.1:0".parse()?, options, Upper)?;
//!
//! let options = ClientOptions { secret, ..ClientOptions::default() };
//! let client = Client::connect(server.address(), options, Arc::new(Quiet))?;
//! let answer = client.call(b"hello".to_vec(), CallKind { resend: true, cancel: true, changes: false });
//! assert_eq!(answer.wait()?, b"HELLO");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod address;
mod client;
mod clock;
mod error;
mod frame;
mod hello;
mod input;
mod limits;
mod os;
mod outbox;
mod parse_address;
mod process;
mod secure;
mod server;
mod socket;
mod sync;
mod user_code;

/// The schedule explorer, for `tests/schedules` here and in tubewell.
#[cfg(feature = "_shuttle")]
#[doc(hidden)]
pub mod explored {
    pub use crate::os::explored::{begin, break_connections, open_sockets, set_pipe_size};
    pub use crate::sync::explored::{
        Condvar, Mutex, MutexGuard, RwLock, now, pass, switch_point, thread,
    };
}

pub use address::Address;
pub use client::{CallKind, Client, ClientOptions, Handler, Items, Pending};
pub use error::{CallError, WireError};
pub use limits::{HELLO_BODY, Limits};
#[cfg(unix)]
pub use os::unix_path::is_listening;
pub use process::HomeProcess;
pub use server::{Answering, Rejection, Reply, Server, ServerOptions, Service};
