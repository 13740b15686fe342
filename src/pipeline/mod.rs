//! From a decision to the file: edits laid over it, batches that share a commit, and who leads it.

mod batch;
mod close;
mod lane;
mod lead;
mod rest;
mod revive;
mod shared;

use batch::Woken;
pub(crate) use batch::{Batch, Leader, Outcome};
pub(crate) use lane::Lane;
pub(crate) use shared::{Patience, Shared};
