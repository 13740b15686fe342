//! A server and its clients, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;

mod claims;
mod events;
mod hostile;
mod languages;
mod puts;
mod refused;
mod takes;
mod tubes;
