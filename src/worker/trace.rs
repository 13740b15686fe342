//! The spans of handlers, for the feature `tracing`. Without it nothing is left of this.

#[cfg_attr(feature = "tracing", path = "trace/on.rs")]
#[cfg_attr(not(feature = "tracing"), path = "trace/off.rs")]
mod process;

pub(super) use process::Process;
