//! The public handles: stores, tubes, claims, sessions, transactions, and how a task ends. Most methods
//! make one verb of the core and return its answer.
//!
//! A handle holds no state of the queue. [`store_handle`] passes calls on, to a store of this process or
//! through a connection. [`mode`] makes a call for a result or for a [`ticket`], so that a verb has one
//! method; [`call`] has calls as futures. The server and the workers stand above.
#![expect(clippy::must_use_candidate, reason = "both kinds of answers must be used")]

pub(crate) mod backup;
pub(crate) mod call;
pub(crate) mod claim;
pub(crate) mod in_steps;
pub(crate) mod job_notes;
pub(crate) mod mode;
pub(crate) mod outcome;
pub(crate) mod salvage;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod store;
pub(crate) mod store_handle;
pub(crate) mod subscription;
pub(crate) mod take;
pub(crate) mod ticket;
pub(crate) mod trace;
#[cfg(feature = "redb")]
pub(crate) mod transact;
pub(crate) mod tube;
