//! No spans: the feature `tracing` is off.

#![expect(clippy::unused_self, reason = "as the functions that make spans")]

use std::sync::Arc;

use crate::worker::how::How;
use crate::worker::job::JobCore;

pub(in crate::worker) struct Process;

impl Process {
    #[inline]
    pub(in crate::worker) fn of_job(_: &JobCore) -> Process {
        Process
    }

    #[inline]
    pub(in crate::worker) fn of_batch(_: &[Arc<JobCore>]) -> Process {
        Process
    }

    #[inline]
    pub(in crate::worker) fn run<T>(&self, run: impl FnOnce() -> T) -> T {
        run()
    }

    #[inline]
    pub(in crate::worker) fn around<F: Future>(&self, future: F) -> F {
        future
    }

    #[inline]
    pub(in crate::worker) fn ended(self, _: &JobCore, _: &How) {}

    #[inline]
    pub(in crate::worker) fn ended_batch(self, _: &[Arc<JobCore>], _: &How) {}
}
