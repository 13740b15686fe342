//! Outcomes: how the holder of a task ends it, and what follows from that, with one commit.

mod call;
mod end;
mod into;
mod resolve;

use std::time::Duration;

use serde::Serialize;

use crate::handle::trace::join;
use crate::values::put::Encoded;
use crate::{Error, Failure, IntoPut, Mode, Result, Tube};

pub(crate) use call::EndCall;
pub(crate) use into::HandlerError;
pub use into::IntoOutcome;

/// How a task ends, and what follows from that.
///
/// [`Claim::end`](crate::Claim::end) takes it, a handler of a [worker](crate::worker) returns it, and
/// [`Transaction::end`] ends a task with it in a transaction of the application. [`and_put`](Outcome::and_put) adds tasks that are put. All of it is one commit: after a
/// crash, all of it is there or nothing. So no step of a pipeline is lost or begun twice.
///
/// [`Transaction::end`]: https://docs.rs/tubewell/latest/tubewell/struct.Transaction.html#method.end
///
/// # Example: mails of which some cannot be sent, or not now
/// ```
/// use std::time::Duration;
/// use tubewell::{Failure, Job, Outcome, Store, Worker};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
/// mails.put("to: ann")?;
/// mails.put("nonsense")?;
///
/// fn send(job: &Job) -> Outcome {
///     match job.body().strip_prefix(b"to: ") {
///         None => Outcome::bury(Failure::new("malformed", "the address is missing")),
///         Some(_) if job.attempt() == 1 => Outcome::snooze(Duration::from_secs(60)), // greylisted
///         Some(_) => Outcome::done(),
///     }
/// }
/// let tally = Worker::new(&store).on(&mails, send).run_until_idle()?;
/// assert_eq!((tally.snoozed, tally.buried), (1, 1));
/// # Ok::<(), tubewell::Error>(())
/// ```
///
/// # Example: an upload that leads to a thumbnail and two mails
/// ```
/// use tubewell::{Outcome, Store};
///
/// let store = Store::in_memory()?;
/// let tube = |name| store.tube(name);
/// let (uploads, thumbnails, mail) = (tube("uploads")?, tube("thumbnails")?, tube("mail")?);
/// uploads.put("cat.jpg")?;
/// let upload = uploads.try_take()?.unwrap();
/// // ... store the picture
/// let outcome = Outcome::advance(&thumbnails, "cat.jpg, 200 px")
///     .and_put(&mail, "to: ann")
///     .and_put(&mail, "to: bob");
/// upload.end(outcome)?;
/// assert_eq!(mail.statistics()?.tasks.ready, 2);
/// # assert_eq!(thumbnails.statistics()?.tasks.ready, 1);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing happens until a claim ends with it"]
pub struct Outcome {
    end: End,
    puts: Vec<(Tube, Result<Encoded>)>,
}

/// How the task ends.
#[derive(Clone, Debug)]
enum End {
    Done,
    Result(Result<Vec<u8>>),
    Advance(Tube, Box<Result<Encoded>>),
    AdvanceUnchanged(Tube),
    Release(Duration),
    Snooze(Duration),
    Fail(Option<Duration>, Failure),
    Bury(Option<Failure>),
    Detach,
}

impl Outcome {
    /// The task is done: it is removed, or kept if its tube [keeps](crate::TubeOptions::keep_done) what
    /// is done. As [`Claim::ack`](crate::Claim::ack).
    pub fn done() -> Outcome {
        Outcome::of(End::Done)
    }

    /// The task is done, with this value as its result, in JSON.
    /// [`Ending::value`](crate::Ending::value) reads it. A value that JSON cannot hold refuses the end
    /// with [`Codec`](Error::Codec).
    ///
    /// Callers that [wait](Tube::wait_done) for the end of the task get the result. In a tube that
    /// [keeps](crate::TubeOptions::keep_done) what is done, the result is stored with the task in the
    /// same commit, and [`Tube::ending`] returns it. Other tubes do not store it. A result is at most
    /// as large as a body ([`max_body`](crate::StoreOptions::max_body)).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Keep, Outcome, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().keep_done(Keep::new().count(1000));
    /// let sums = store.open_tube("sums", options)?;
    /// let id = sums.put("2 + 2")?.id;
    /// sums.try_take()?.unwrap().end(Outcome::value(&4))?;
    /// assert_eq!(sums.ending(id)?.unwrap().value::<i32>()?, 4);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn value<R: Serialize + ?Sized>(value: &R) -> Outcome {
        let encoded = serde_json::to_vec(value);
        Outcome::of(End::Result(encoded.map_err(|error| Error::Codec { what: error.to_string() })))
    }

    /// The task is done, with these bytes as its result. As [`value`](Outcome::value).
    pub fn result(result: impl Into<Vec<u8>>) -> Outcome {
        Outcome::of(End::Result(Ok(result.into())))
    }

    /// The task is ready again at once, and the attempt counts. As
    /// [`Claim::release`](crate::Claim::release).
    pub fn release() -> Outcome {
        Outcome::release_in(Duration::ZERO)
    }

    /// The task is ready again after `delay`, and the attempt counts. As
    /// [`Claim::release_in`](crate::Claim::release_in). A worker [holds](crate::worker#tubes-without-delays)
    /// a task of a tube without delays for that time.
    pub fn release_in(delay: Duration) -> Outcome {
        Outcome::of(End::Release(delay))
    }

    /// The task is ready again after `delay`, and the attempt does not count: its work had to wait,
    /// through no fault of its own. A worker [holds](crate::worker#tubes-without-delays) a task of a tube
    /// without delays for that time.
    ///
    /// Without a delay and without a put only memory changes, and after a crash the attempt may count.
    /// Otherwise it is stored as [`release_in`](Outcome::release_in) is. If the store refuses this end of a
    /// claim, the attempt does not count either. In a worker, the attempt of the job then fails, as after
    /// each refused outcome.
    ///
    /// # Example: the server is under maintenance
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{Outcome, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(3))?;
    /// let id = jobs.put("work")?.id;
    /// jobs.try_take()?.unwrap().end(Outcome::snooze(Duration::from_secs(600)))?;
    /// assert_eq!(jobs.query().task(id)?.info.attempts_left, Some(3));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "reschedule")]
    pub fn snooze(delay: Duration) -> Outcome {
        Outcome::of(End::Snooze(delay))
    }

    /// The attempt has failed. As [`Claim::fail`](crate::Claim::fail).
    pub fn fail(failure: Failure) -> Outcome {
        Outcome::of(End::Fail(None, failure))
    }

    /// The attempt has failed, and the next one is not before this delay, which replaces the
    /// [backoff](crate::TubeOptions::backoff) of the tube: for a server that says when to come back. A
    /// task that is buried, after its last attempt, has no delay. A worker
    /// [holds](crate::worker#tubes-without-delays) a task of a tube without delays for that time.
    #[doc(alias = "retry after")]
    pub fn fail_in(delay: Duration, failure: Failure) -> Outcome {
        Outcome::of(End::Fail(Some(delay), failure))
    }

    /// No attempt can do the task: it is buried, whatever attempts are left. As
    /// [`Claim::bury`](crate::Claim::bury).
    #[doc(alias = "discard")]
    #[doc(alias = "dead letter")]
    pub fn bury(why: impl Into<Option<Failure>>) -> Outcome {
        Outcome::of(End::Bury(why.into()))
    }

    /// The task goes on in the tube `to`: it leaves its own and is put into `to`, with the body and the
    /// options of `task` and the defaults of that tube.
    ///
    /// It is still the same task: it keeps its id, its [key](crate::Put::key) and its age, so it comes
    /// before younger tasks of its priority. Its attempts begin anew, and its last failure is forgotten.
    /// Callers that [wait](Tube::wait_done) for its end go on waiting. The statistics of the tube that
    /// it leaves count it as done, and nothing of it is kept there. Advancing to its own tube is a new
    /// begin there.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Outcome, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let scan = store.tube("scan")?;
    /// let sort = store.tube("sort")?;
    /// let id = scan.put("letter 7")?.id;
    /// let outcome = Outcome::advance(&sort, "letter 7, 3 pages");
    /// assert_eq!(scan.try_take()?.unwrap().end(outcome)?.id, id);
    /// assert_eq!(sort.try_take()?.unwrap().body(), b"letter 7, 3 pages");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "forward")]
    #[doc(alias = "pipeline")]
    pub fn advance<T, M: Mode>(to: &Tube<T, M>, task: impl IntoPut<T>) -> Outcome {
        Outcome::of(End::Advance(to.to_bytes().to_blocking(), Box::new(to.encode(task))))
    }

    /// The task goes on in the tube `to` as it is: with its key, body, priority, sub-queue, tags, ttr and limits, and
    /// what is left of its ttl. As [`advance`](Outcome::advance) otherwise.
    ///
    /// A task of a tube without priorities and times gets those of the tube `to`. The end is refused with
    /// [`Unsupported`](Error::Unsupported) if the task has an option that the driver of `to` does not have.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Outcome, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let scan = store.tube("scan")?;
    /// let sort = store.tube("sort")?;
    /// scan.put(Put::new("letter 7").priority(3))?;
    /// scan.try_take()?.unwrap().end(Outcome::advance_unchanged(&sort))?;
    /// let letter = sort.try_take()?.unwrap();
    /// assert_eq!((letter.body(), letter.priority()), (&b"letter 7"[..], 3));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn advance_unchanged<T, M: Mode>(to: &Tube<T, M>) -> Outcome {
        Outcome::of(End::AdvanceUnchanged(to.to_bytes().to_blocking()))
    }

    /// The worker leaves the claim alone: the session of the worker keeps it. Use it if the handler has
    /// [parked](crate::worker::Job::park) the claim, or if another caller will end the task: with the claim that
    /// [`Tube::claimed`] returns, or with [`Tube::delete`]. When the worker ends, its session ends, and the tasks that the session still has are
    /// released.
    pub fn detach() -> Outcome {
        Outcome::of(End::Detach)
    }

    /// Puts `task` into `tube` with the same commit. Any number of tasks can be added to any outcome but
    /// [`detach`](Outcome::detach), up to the limits of [`put_many`](Tube::put_many). A
    /// [key](crate::Put::key) in use that is rejected refuses the whole end. A task that does not leave
    /// its tube keeps its own key, and its place there.
    ///
    /// Where a worker [holds](crate::worker#tubes-without-delays) the task for a delay, the tasks are put
    /// at the end of that time, with the end of the claim.
    #[doc(alias = "chain")]
    pub fn and_put<T, M: Mode>(mut self, tube: &Tube<T, M>, task: impl IntoPut<T>) -> Outcome {
        self.puts.push((tube.to_bytes().to_blocking(), join(tube.encode(task))));
        self
    }

    /// What a value ends a claim with. An error fails the attempt.
    pub(crate) fn from_value(value: impl IntoOutcome) -> Outcome {
        value.into_outcome().unwrap_or_else(|error| match error.into_failure() {
            Ok(failure) => Outcome::fail(failure),
            Err(HandlerError { type_name, error }) => {
                Outcome::fail(Failure::of_type(type_name, &*error))
            }
        })
    }

    fn of(end: End) -> Outcome {
        Outcome { end, puts: Vec::new() }
    }

    /// Whether the task is done with it.
    pub(crate) fn is_done(&self) -> bool {
        matches!(self.end, End::Done | End::Result(_))
    }

    /// The failure that it reports.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        match &self.end {
            End::Fail(_, failure) | End::Bury(Some(failure)) => Some(failure),
            _ => None,
        }
    }

    /// Whether the attempt does not count.
    pub(crate) fn forgives(&self) -> bool {
        matches!(self.end, End::Snooze(_))
    }

    /// Whether it is an ack, and nothing else.
    pub(crate) fn is_plain_ack(&self) -> bool {
        matches!(self.end, End::Done) && self.puts.is_empty()
    }
}
