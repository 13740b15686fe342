//! The reports of a worker: the ends of jobs, errors, and counts.

use std::sync::Arc;
use std::time::Duration;

use crate::{Error, Failure, TaskState};

/// A report of a worker to the function that [`Worker::watch`](super::Worker::watch) sets, after
/// it has happened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Report {
    /// A job has ended, and its end is stored as the durability of its tube says.
    #[non_exhaustive]
    Ended {
        /// The tube of the task.
        tube: Arc<str>,
        /// The id of the task.
        id: u64,
        /// Which attempt it was; the first one is 1.
        attempt: u32,
        /// How the job ended.
        end: Ended,
        /// The state of the task now.
        state: TaskState,
        /// Why the attempt failed or the task was buried, if it was.
        failure: Option<Failure>,
        /// How long the job ran, on the running time of the store's clock.
        ran: Duration,
    },
    /// A job has returned after the claim on its task had ended: the claim or the task has expired,
    /// or a caller has deleted, moved or revoked it. The worker ignores what the job returned. The report of
    /// a job that has run for as long as it may is [`TimedOut`](Report::TimedOut). Or the claim had ended before the
    /// [batch](super::Worker::on_batch) of the job began.
    #[non_exhaustive]
    Lost {
        /// The tube of the task.
        tube: Arc<str>,
        /// The id of the task.
        id: u64,
        /// Which attempt it was; the first one is 1.
        attempt: u32,
        /// How long the job ran.
        ran: Duration,
    },
    /// A job has run for as long as it may, and its claim has ended: see
    /// [`max_runtime`](super::Worker::max_runtime). An async handler that had not returned was dropped; what a
    /// handler has returned is ignored.
    #[non_exhaustive]
    TimedOut {
        /// The tube of the task.
        tube: Arc<str>,
        /// The id of the task.
        id: u64,
        /// Which attempt it was; the first one is 1.
        attempt: u32,
        /// How long the job ran.
        ran: Duration,
    },
    /// A job has ended, and its end could not be stored, nor could it be repeated: see
    /// [the module](super#stops-and-errors). The task is released and will be worked on again. After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the end may take effect later.
    #[non_exhaustive]
    NotStored {
        /// The tube of the task.
        tube: Arc<str>,
        /// The id of the task.
        id: u64,
        /// How the job ended.
        end: Ended,
        /// Why its end was not stored.
        error: Error,
    },
    /// A take has failed, or the end of a job could not be stored yet. The worker pauses, and then
    /// goes on if it can: it takes again, and repeats the end of the job. Or the store could not
    /// carry out a call of a job, whose attempt does not count: see
    /// [`IntoOutcome`](crate::IntoOutcome).
    Error(Error),
}

/// How a job has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ended {
    /// The task is done.
    Done,
    /// The task goes on in another tube.
    Advanced,
    /// The task was given back, and the attempt counts.
    Released,
    /// The task was given back, and the attempt does not count.
    Snoozed,
    /// The job waits for a time or for other tasks: it has returned for
    /// [`Job::sleep`](super::Job::sleep) or [`Job::join`](super::Job::join), and is begun again.
    Suspended,
    /// The attempt has failed.
    Failed,
    /// The attempt has failed: the handler panicked.
    Panicked,
    /// The handler has buried the task.
    Buried,
    /// The body is not a value of the type of its tube, or no handler is for its
    /// [kind](crate::Tube::typed_as). No handler was called, and the task is buried.
    Undecodable,
    /// The claim was left to the session of the worker, or was parked. The task is still taken.
    Detached,
}

/// How many jobs of a worker have ended, by how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Tally {
    /// Tasks that are done.
    pub done: u64,
    /// Tasks that went on in another tube.
    pub advanced: u64,
    /// Tasks that were given back, with an attempt that counts.
    pub released: u64,
    /// Tasks that were given back, with an attempt that does not count.
    pub snoozed: u64,
    /// Jobs that wait for a time or for other tasks.
    pub suspended: u64,
    /// Failed attempts, without those that panicked.
    pub failed: u64,
    /// Attempts that panicked.
    pub panicked: u64,
    /// Tasks that their handler has buried.
    pub buried: u64,
    /// Tasks that were buried because no handler could get their bodies.
    pub undecodable: u64,
    /// Tasks whose claim was left to the session, or was parked.
    pub detached: u64,
    /// Jobs that returned after their claim had ended, except jobs that timed out.
    pub lost: u64,
    /// Jobs that ran for as long as they may.
    pub timed_out: u64,
    /// Jobs whose end could not be stored.
    pub not_stored: u64,
    /// Jobs that [`stop`](super::WorkerHandle::stop) or
    /// [`stop_timeout`](super::WorkerFuture::stop_timeout) did not wait for. Their tasks were given back, and the
    /// attempts do not count.
    pub left: u64,
}

impl Tally {
    /// How many jobs have ended.
    #[must_use]
    pub fn jobs(&self) -> u64 {
        let Tally { done, advanced, released, snoozed, suspended, failed, panicked, .. } = self;
        let Tally { buried, undecodable, detached, lost, timed_out, not_stored, left, .. } = self;
        [done, advanced, released, snoozed, suspended, failed, panicked]
            .into_iter()
            .chain([buried, undecodable, detached, lost, timed_out, not_stored, left])
            .sum()
    }

    pub(super) fn count(&mut self, end: Ended) {
        *match end {
            Ended::Done => &mut self.done,
            Ended::Advanced => &mut self.advanced,
            Ended::Released => &mut self.released,
            Ended::Snoozed => &mut self.snoozed,
            Ended::Suspended => &mut self.suspended,
            Ended::Failed => &mut self.failed,
            Ended::Panicked => &mut self.panicked,
            Ended::Buried => &mut self.buried,
            Ended::Undecodable => &mut self.undecodable,
            Ended::Detached => &mut self.detached,
        } += 1;
    }

    pub(super) fn add(&mut self, other: &Tally) {
        self.done += other.done;
        self.advanced += other.advanced;
        self.released += other.released;
        self.snoozed += other.snoozed;
        self.suspended += other.suspended;
        self.failed += other.failed;
        self.panicked += other.panicked;
        self.buried += other.buried;
        self.undecodable += other.undecodable;
        self.detached += other.detached;
        self.lost += other.lost;
        self.timed_out += other.timed_out;
        self.not_stored += other.not_stored;
        self.left += other.left;
    }
}

/// A job that is running, or that was still running when a worker stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Left {
    /// The tube of the task.
    pub tube: Arc<str>,
    /// The id of the task.
    pub id: u64,
    /// How long the job has run, on the running time of the store's clock.
    pub ran: Duration,
}
