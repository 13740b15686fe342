//! Calls and their answers as bytes, for another process.
//!
//! Both sides speak a common version (`connection/request.rs`). The bytes of a peer are not trusted: they decode
//! totally or not at all, never panic, and allocate no more than a multiple of their length. A verb makes the
//! checks that its handle makes before the call.

mod basic;
mod errors;
mod events;
mod grants;
mod input;
mod macros;
mod requests;
mod scrape;
#[cfg(test)]
pub(in crate::core) mod tests;
mod tubes;
mod values;

pub(crate) use basic::{Wire, from_bytes, to_bytes};
pub(super) use basic::{put_bytes, put_items, text};
pub(crate) use input::{Input, Malformed};
pub(super) use macros::{wire_enum, wire_struct};
