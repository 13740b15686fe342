//! Spans of calls, for the feature `tracing`: of puts, of takes that got a task, and of the ends of claims.
//!
//! A span is made where a handle makes its call, so that a call through a connection has one, too, and the owner's
//! side of it has none. What is known of a verb stands where the verb is declared. Without the feature nothing is
//! left of this.

#[cfg_attr(feature = "tracing", path = "trace/on.rs")]
#[cfg_attr(not(feature = "tracing"), path = "trace/off.rs")]
mod calls;
#[cfg(feature = "tracing")]
mod propagation;

pub(crate) use calls::{CallSpan, Of, join, taken, taken_many};
#[cfg(feature = "tracing")]
pub(crate) use calls::{add_links, failed, is_on, set_parent};
#[cfg(feature = "tracing")]
pub use propagation::{Propagation, set_propagation};
