//! Calls and their answers as bytes, for another process.
//!
//! Both sides must be of one release. The bytes of a peer are not trusted: they decode totally or not
//! at all, never panic, and allocate no more than a multiple of their length. [`check_call`] makes the
//! checks that a handle makes before its call.

mod answers;
mod basic;
mod calls;
mod check;
mod errors;
mod events;
mod grants;
mod input;
mod macros;
mod parts;
mod requests;
#[cfg(test)]
pub(in crate::core) mod tests;
mod tubes;
mod values;
mod verb;

pub(crate) use basic::{Wire, from_bytes, to_bytes};
pub(crate) use calls::{decode_call, encode_call};
pub(crate) use check::check_call;
pub(crate) use input::{Input, Malformed};
pub(super) use macros::wire_struct;
pub(crate) use parts::Parts;
pub(super) use verb::{
    Numbered, get_target, put_in_store, put_in_tube, put_of_claim, put_of_claims,
};
