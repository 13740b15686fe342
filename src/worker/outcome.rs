//! The values that handlers return, and the ends of their tasks.

use std::any::type_name;
use std::error::Error as StdError;
use std::time::Duration;

use super::groups::Groups;
use super::job::disk_full;
use crate::{Error, Failure, Finish, IntoPut, Tube};

/// The end of a task, as its handler wants it.
///
/// A handler returns it, or `()`, which is [`Done`](Outcome::Done), or a `Result` of either. An
/// error fails the attempt; see [`IntoOutcome`].
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::worker::{Job, Outcome, Worker};
/// use tubewell::{FIFOTTL, Failure, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let mails = store.create_tube("mails", FIFOTTL, TubeOptions::new())?;
/// mails.put("to: ann")?;
/// mails.put("nonsense")?;
///
/// fn send(job: &Job) -> Outcome {
///     match job.body().strip_prefix(b"to: ") {
///         None => Outcome::bury(Failure::new("malformed", "the address is missing")),
///         Some(_) if job.attempt() == 1 => Outcome::Snooze(Duration::from_secs(60)), // greylisted
///         Some(_) => Outcome::Done,
///     }
/// }
/// let tally = Worker::new(&store).on(&mails, send).run_until_idle()?;
/// assert_eq!((tally.snoozed, tally.buried), (1, 1));
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub enum Outcome {
    /// The task is done. As [`Claim::ack`](crate::Claim::ack).
    #[default]
    Done,
    /// The task is done, with this result. As [`Claim::ack_with`](crate::Claim::ack_with).
    Result(Vec<u8>),
    /// The task ends or goes on, and further tasks are put, in one commit. As
    /// [`Claim::finish`](crate::Claim::finish).
    Finish(Finish),
    /// The task is ready again after this delay, and the attempt counts. As
    /// [`Claim::release`](crate::Claim::release); in a tube without delays the worker
    /// [holds](super#tubes-without-delays) the task for that time.
    Release(Duration),
    /// The task is ready again after this delay, and the attempt does not count. As
    /// [`Claim::snooze`](crate::Claim::snooze); in a tube without delays the worker
    /// [holds](super#tubes-without-delays) the task for that time.
    Snooze(Duration),
    /// The attempt has failed. As [`Claim::fail`](crate::Claim::fail).
    Fail(Failure),
    /// The attempt has failed, and the next one is not before this delay. As
    /// [`Claim::fail_in`](crate::Claim::fail_in); in a tube without delays the worker
    /// [holds](super#tubes-without-delays) the task for that time.
    FailIn(Duration, Failure),
    /// No attempt can do the task: it is buried. As
    /// [`Claim::bury_with`](crate::Claim::bury_with).
    Bury(Failure),
    /// The worker does nothing: the claim stays with its session. The handler has
    /// [parked](super::Job::park) the claim, has ended it in a transaction of the application, or another
    /// caller will end the task: with the claim that [`Tube::claimed`] returns, or with
    /// [`Tube::delete`]. When the worker ends, its session ends, and a task that it still has is
    /// released.
    Detached,
}

impl Outcome {
    /// The task is done, with this result.
    #[must_use]
    pub fn result(result: impl Into<Vec<u8>>) -> Outcome {
        Outcome::Result(result.into())
    }

    /// The task goes on in the tube `to`, with the body and the options of `task`.
    #[must_use]
    pub fn advance<T>(to: &Tube<T>, task: impl IntoPut<T>) -> Outcome {
        Outcome::Finish(Finish::new().advance(to, task))
    }

    /// The task is ready again after `delay`, and the attempt does not count.
    #[must_use]
    pub fn snooze(delay: Duration) -> Outcome {
        Outcome::Snooze(delay)
    }

    /// No attempt can do the task: it is buried in the group of this failure.
    #[must_use]
    pub fn bury(why: Failure) -> Outcome {
        Outcome::Bury(why)
    }
}

/// A value that a handler may return: `()`, [`Outcome`], or a `Result` of either.
///
/// An `Err` fails the attempt, as [`Claim::fail`](crate::Claim::fail) does: the budget and the
/// backoff of the tube decide what becomes of the task. The error is anything that becomes a
/// `Box<dyn Error + Send + Sync>`: every error type, `anyhow::Error`, `String`. The failure group
/// is that of [`Failure::of`], which tells types and variants apart, or the one that
/// [`Worker::failure_group`](super::Worker::failure_group) gives. The message is its text with those
/// of its sources, cut at 10,000 bytes. A [`Failure`] stays as it is.
///
/// An `Err` does not fail the attempt if the store could not carry out the last call of the
/// [`Job`](super::Job), for instance a step, because its disk is full, its storage has failed or its
/// owner cannot be reached; nor if the error or one of its sources is
/// [`DiskFull`](crate::Error::DiskFull). The task is snoozed for 5 seconds, so that the attempt does
/// not count. In a tube without delays it is ready again immediately, and the worker pauses.
///
/// The trait is sealed.
pub trait IntoOutcome: sealed::IntoOutcome {}

impl IntoOutcome for () {}
impl IntoOutcome for Outcome {}
impl<R: IntoOutcome, E: Into<Box<dyn StdError + Send + Sync>>> IntoOutcome for Result<R, E> {}

/// How a handler has ended. It is moved several times for each job, so it is small.
#[derive(Debug)]
pub enum Handled {
    Done,
    Outcome(Box<Outcome>),
    Failed(Failure),
    /// As `Failed`, because the disk is full.
    DiskFull(Box<Error>),
    Panicked(String),
    /// The handler was not called.
    Undecodable(Error),
    /// The future of the handler was dropped before it had ended.
    Dropped,
}

pub(super) mod sealed {
    pub trait IntoOutcome {
        fn into_handled(self, groups: &super::Groups) -> super::Handled;
    }
}

impl sealed::IntoOutcome for () {
    fn into_handled(self, _: &Groups) -> Handled {
        Handled::Done
    }
}

impl sealed::IntoOutcome for Outcome {
    fn into_handled(self, _: &Groups) -> Handled {
        match self {
            Outcome::Done => Handled::Done,
            other => Handled::Outcome(Box::new(other)),
        }
    }
}

impl<R: IntoOutcome, E: Into<Box<dyn StdError + Send + Sync>>> sealed::IntoOutcome
    for Result<R, E>
{
    fn into_handled(self, groups: &Groups) -> Handled {
        match self {
            Ok(outcome) => outcome.into_handled(groups),
            Err(error) => match error.into().downcast::<Failure>() {
                Ok(failure) => Handled::Failed(*failure),
                Err(error) => match disk_full(&*error) {
                    Some(full) => Handled::DiskFull(Box::new(full)),
                    None => Handled::Failed(groups.failure_of(type_name::<E>(), &*error)),
                },
            },
        }
    }
}
