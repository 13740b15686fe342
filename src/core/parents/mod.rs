//! Parents: tasks that wait until others are done.
//!
//! A task with open parents is on the shelf *blocked*, or buried. An ack tells up to
//! [`FREED_AT_ONCE`](ends::FREED_AT_ONCE) children with its own commit. All else is a chore: a row of
//! `meta` marks the parent, and the writer thread tells its children a step at a time, in this run or
//! the next. Invariant: tubes whose tasks have no children look nothing up.

mod chores;
mod counts;
mod edges;
mod ends;
#[cfg(feature = "redb")]
mod in_doubt;
mod join;

pub(crate) use chores::read_ended_parents;
pub(crate) use counts::CountParents;
pub(crate) use edges::{AddParents, Children, Parents, RemoveParents};
pub(crate) use join::Join;
