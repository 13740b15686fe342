//! Schedules: tasks that put others, their runs, instead of becoming ready.
//!
//! A schedule is on a shelf of its own, at the same position from its first to its last run. An
//! interval is due by a row of `dues`, on the timeline; a cron expression by a row of the moments of the
//! wall clock. Invariant: a run is put in the commit that moves its schedule to the next moment, so
//! that no crash loses or doubles a run.

mod moments;
mod pages;
mod runs;
mod verbs;

pub(crate) use pages::describe_schedule;
