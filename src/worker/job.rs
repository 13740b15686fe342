//! A job: a task that a worker has taken, as its handler sees it.

mod steps;
mod waits;

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

pub use waits::Cancelled;

use super::groups::Groups;
use super::how::How;
use crate::base::micros::{duration, limit, micros_ceil};
use crate::base::signal::Signal;
use crate::base::sync::Mutex;
use crate::core::list::{Checkpoint, Park};
#[cfg(feature = "redb")]
use crate::handle::job_notes::EndedInTransaction;
use crate::handle::job_notes::JobNotes;
use crate::values::body::{Coder, Decoded};
use crate::{Async, Blocking, Bytes, Claim, ClaimToken, Error, IntoOutcome, Mode, Receipt, Result};

/// A task that a [`Worker`](super::Worker) has taken, as its handler sees it.
///
/// `T` is the type of the bodies of its tube. A job derefs to the [`Claim`] on its task: it has the
/// calls of a claim that do not consume it, such as [`value`](Claim::value), [`step`](Claim::step),
/// [`spawn`](Claim::spawn), [`progress`](Claim::progress) and [`log`](Claim::log). The claim belongs to
/// the worker: the value that the handler returns ends it. After the handler has returned, or after the
/// claim was lost, the calls of a job that is still there are refused with
/// [`NotTaken`](Error::NotTaken).
///
/// The worker holds the claim, so that a handler needs no heartbeat. [`renew`](Claim::renew) replaces
/// that hold: the claim expires when the time of the last `renew` has elapsed. A handler may end the claim
/// in a [transaction](crate::Store#method.transact) of the application: what it returns after that has no effect.
///
/// The texts describe the calls that block; those of an [`AsyncJob`] block no thread.
///
/// # Example: a loop that can be stopped
/// ```
/// use tubewell::worker::{Job, Worker};
/// use tubewell::{Result, Store};
///
/// fn copy(job: &Job<Vec<String>>) -> Result<()> {
///     let pages = job.value();
///     for (done, page) in (0..).zip(pages) {
///         job.check()?; // an error if the worker stops, or if the task was deleted
///         job.progress(done, pages.len() as u64)?;
///         // ... copy the page
/// #       let _ = page;
///     }
///     Ok(())
/// }
///
/// let store = Store::in_memory()?;
/// let books = store.tube("books")?.typed::<Vec<String>>();
/// books.put(&vec!["one".into(), "two".into()])?;
/// assert_eq!(Worker::new(&store).on(&books, copy).run_until_idle()?.done, 1);
/// # Ok::<(), tubewell::Error>(())
/// ```
pub struct Job<T: 'static = Bytes, M: Mode = Blocking> {
    core: Arc<JobCore>,
    claim: Claim<T, M>,
}

/// A job of a handler that is a future: its calls block no thread. `step`, `spawn`, `steps`, `sleep` and
/// `join` are futures, which begin when they are awaited; the other calls return a
/// [`Ticket`](crate::Ticket). From [`Worker::on_async`](super::Worker::on_async).
pub type AsyncJob<T = Bytes> = Job<T, Async>;

impl<T, M: Mode> Deref for Job<T, M> {
    type Target = Claim<T, M>;

    fn deref(&self) -> &Claim<T, M> {
        &self.claim
    }
}

impl<T, M: Mode> Job<T, M> {
    pub(super) fn new(core: Arc<JobCore>, decoded: Decoded<T>, coder: Coder<T>) -> Job<T, M> {
        let claim = core.claim.shown(decoded, coder, core.notes.clone());
        Job { core, claim }
    }

    pub(super) fn core(&self) -> &JobCore {
        &self.core
    }

    /// Stores a new body of the task, for the next attempt if this one is lost. As
    /// [`Claim::checkpoint`], and the call blocks as that does; but
    /// [`body`](Claim::body) and [`value`](Claim::value) stay as they are.
    ///
    /// # Errors
    /// Those of [`Claim::checkpoint`].
    pub fn checkpoint(&self, value: impl Into<T>) -> M::Answer<Receipt> {
        let body = self.claim.encode(&value.into());
        self.claim.held.change::<M, _>(body.map(|body| Checkpoint { body }))
    }

    /// Says how the task ends, whatever the handler returns, also after an error or a panic; not if the store could
    /// not serve a call of the job, which uses up no attempt. For the jobs of a
    /// [batch](super::Worker::on_batch) that end otherwise than the others. Does not block: the task ends once the
    /// handler has returned, and nothing is stored before. A later call replaces an earlier one. A function
    /// [around](super::Worker::around) the handler sees this end as that of the handler.
    ///
    /// # Example: a mail of a batch that its server refuses
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Failure, Outcome, Result, Store};
    ///
    /// fn send(jobs: &[Job<String>]) -> Result<()> {
    ///     for job in jobs {
    ///         if !job.value().contains('@') {
    ///             job.set_outcome(Outcome::bury(Failure::new("address", "it has no @")));
    ///         }
    ///     }
    ///     // ... send the others with one request
    ///     Ok(())
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?.typed::<String>();
    /// mails.put_many(["ann@a.org", "nobody", "bob@b.org"].map(String::from))?;
    /// let worker = Worker::new(&store).on_batch(&mails, 100, Duration::ZERO, send);
    /// let tally = worker.run_until_idle()?;
    /// assert_eq!((tally.done, tally.buried), (2, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn set_outcome(&self, outcome: impl IntoOutcome) {
        self.core.choose(How::returned(outcome, &self.core.groups));
    }

    /// Whether the worker stops: the handler should return soon. Does not block.
    #[must_use]
    pub fn is_stopping(&self) -> bool {
        self.core.stop.is_raised()
    }

    /// Returns an error if the job should return now: its claim is lost, or the worker stops. Meant
    /// for loops, with `?`. Blocks as [`Claim::is_current`] does: only through a connection.
    ///
    /// The job goes on while the owner of the store does not answer the connection: its claim may
    /// stand, and the end of the job is repeated until it is stored.
    ///
    /// If the handler then returns an error, whatever error that is, the attempt does not fail: a
    /// task whose worker stops is snoozed, so that the attempt does not count, and is ready again.
    ///
    /// # Errors
    /// [`Interrupted`](Error::Interrupted).
    pub fn check(&self) -> M::Answer<()> {
        M::either(
            &self.core,
            |core| core.check(core.claim.is_current()),
            |core| {
                let core = core.clone();
                async move { core.check(core.claim.held.is_current_async().await) }
            },
        )
    }

    /// Parks the claim, so that it outlives the job, the worker and the process. As
    /// [`Claim::park`], and the call blocks as that does.
    ///
    /// The job has ended with this, as [`Outcome::detach`](crate::Outcome::detach), whatever the handler
    /// returns. An async handler must await the ticket, which has the token: if the ticket is dropped,
    /// the task stays parked for `hold`, and the job counts as lost.
    ///
    /// # Errors
    /// Those of [`Claim::park`]. The claim is as it was, and the job goes on.
    ///
    /// # Example: a child process that outlives its parent
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Outcome, Result, TaskState, Store};
    ///
    /// fn transcode(job: &Job) -> Result<Outcome> {
    ///     let token = job.park(Duration::from_secs(6 * 3600))?;
    ///     // ... start the child process, and give it the token
    /// #   let _ = token;
    ///     Ok(Outcome::detach())
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// let id = films.put("a film")?.id;
    /// Worker::new(&store).on(&films, transcode).run_until_idle()?;
    /// assert_eq!(films.query().task(id)?.info.state, TaskState::Taken);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn park(&self, hold: Duration) -> M::Answer<ClaimToken> {
        let core = self.core.clone();
        let parked = self.claim.held.change::<M, _>(Ok(Park { hold: micros_ceil(hold) }));
        M::map(parked, move |epoch| {
            core.leave(Interrupt::Parked);
            core.claim.held.token(epoch)
        })
    }
}

impl<T> AsyncJob<T> {
    /// The same job with calls that block, for the part of a handler that runs on a thread of its own,
    /// such as one from `tokio::task::spawn_blocking`.
    #[must_use = "the handler calls its methods"]
    pub fn into_blocking(self) -> Job<T> {
        Job { core: self.core, claim: self.claim.into_blocking() }
    }
}

impl<T, M: Mode> fmt::Debug for Job<T, M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("tube", &self.tube())
            .field("id", &self.id())
            .finish_non_exhaustive()
    }
}

/// The part of a job that its worker has, too.
pub(super) struct JobCore {
    claim: Claim,
    /// The place of its tube in the worker.
    place: usize,
    stop: Arc<Signal>,
    groups: Arc<Groups>,
    /// Its tube has delays.
    is_timed: bool,
    /// When its task was taken, on running time.
    taken: u64,
    /// When it has begun, on running time. Empty while it is in a batch that gathers.
    begun: OnceLock<u64>,
    /// How it ends whatever its handler returns.
    chosen: Mutex<Option<How>>,
    interrupt: Mutex<Interrupt>,
    /// Why the store could not carry out the last call of the handler.
    notes: Arc<JobNotes>,
    /// The claim has ended, or is left to the session: dropping it must not release the task.
    is_kept: AtomicBool,
    /// The handler has given it back, and the attempt does not count.
    is_snoozed: AtomicBool,
    /// Its handler has returned.
    is_ending: AtomicBool,
    /// Its limit of time has dropped the handler.
    is_timed_out: AtomicBool,
    /// A stop does not wait for it any longer.
    is_left: AtomicBool,
    /// The signal of the end of the claim, once a caller has waited for it.
    claim_end: Mutex<Option<Arc<Signal>>>,
}

/// A reason for a handler to return before its work is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Interrupt {
    None,
    /// It has seen that the worker stops, or was dropped then.
    Stopping,
    /// It waits for this time: its task is snoozed.
    Asleep(Duration),
    /// It waits for other tasks: its claim has ended.
    Blocked,
    /// It has parked the claim.
    Parked,
    /// It has seen that its claim has ended.
    Lost,
}

impl JobCore {
    pub(super) fn new(
        mut claim: Claim,
        place: usize,
        stop: Arc<Signal>,
        groups: Arc<Groups>,
        is_timed: bool,
    ) -> JobCore {
        let taken = claim.held.handle.running();
        // The body is read. The handler's view of the claim would copy the key of its row.
        claim.held.grant.key = Vec::new();
        JobCore {
            claim,
            place,
            stop,
            groups,
            is_timed,
            is_snoozed: AtomicBool::new(false),
            taken,
            begun: OnceLock::new(),
            chosen: Mutex::new(None),
            interrupt: Mutex::new(Interrupt::None),
            notes: Arc::default(),
            is_kept: AtomicBool::new(false),
            is_ending: AtomicBool::new(false),
            is_timed_out: AtomicBool::new(false),
            is_left: AtomicBool::new(false),
            claim_end: Mutex::new(None),
        }
    }

    pub(super) fn claim(&self) -> &Claim {
        &self.claim
    }

    pub(super) fn place(&self) -> usize {
        self.place
    }

    /// Decodes the body for a handler.
    pub(super) fn decode<T>(&self, coder: &Coder<T>) -> Result<Decoded<T>> {
        coder.decode(self.claim.value().clone()).map_err(|(_, error)| error)
    }

    /// Why the store could not carry out the last call of the handler.
    pub(super) fn refusal(&self) -> Option<Error> {
        self.notes.refusal()
    }

    /// How a transaction of its handler has ended the claim.
    #[cfg(feature = "redb")]
    pub(super) fn ended_in_transaction(&self) -> Option<EndedInTransaction> {
        self.notes.ended_in_transaction()
    }

    pub(super) fn tube(&self) -> Arc<str> {
        self.claim.held.grant.name.clone()
    }

    /// It begins. One that has waited in a batch says when.
    pub(super) fn begin(&self, at: Option<u64>) {
        let _ = self.begun.set(at.unwrap_or(self.taken));
    }

    /// How long it has run. Zero before it begins.
    pub(super) fn ran(&self) -> Duration {
        self.begun.get().map_or(Duration::ZERO, |begun| self.since(*begun))
    }

    /// How long ago its task was taken.
    pub(super) fn held(&self) -> Duration {
        self.since(self.taken)
    }

    fn since(&self, moment: u64) -> Duration {
        duration(self.claim.held.handle.running().saturating_sub(moment))
    }

    /// It ends like this, whatever its handler returns.
    pub(super) fn choose(&self, how: How) {
        *self.chosen.lock() = Some(how);
    }

    pub(super) fn has_chosen(&self) -> bool {
        self.chosen.lock().is_some()
    }

    /// The end that it has chosen.
    pub(super) fn take_chosen(&self) -> Option<How> {
        self.chosen.lock().take()
    }

    /// How it ends whose handler has ended like this.
    pub(super) fn chosen_or(&self, handled: How) -> How {
        self.take_chosen().unwrap_or(handled)
    }

    /// How long it may run, as its task says; `Duration::MAX` is without a limit.
    pub(super) fn own_limit(&self) -> Option<Duration> {
        self.claim.held.grant.header.own_max_runtime().map(limit)
    }

    /// Its time has elapsed, and its handler is dropped.
    pub(super) fn time_out(&self) {
        self.is_timed_out.store(true, Ordering::SeqCst);
    }

    /// Whether its limit of time has dropped the handler.
    pub(super) fn is_timed_out(&self) -> bool {
        self.is_timed_out.load(Ordering::SeqCst)
    }

    /// Whether its tube has delays.
    pub(super) fn is_timed(&self) -> bool {
        self.is_timed
    }

    pub(super) fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Its attempt does not count from now on, however its claim ends.
    pub(super) fn forgive(&self) {
        self.is_snoozed.store(true, Ordering::SeqCst);
    }

    pub(super) fn interrupted(&self) -> Interrupt {
        *self.interrupt.lock()
    }

    /// Whether an error of its handler does not fail the attempt, or what the handler returns has no effect.
    pub(super) fn is_settled(&self) -> bool {
        #[cfg(feature = "redb")]
        if self.ended_in_transaction().is_some() {
            return true;
        }
        self.interrupted() != Interrupt::None || self.refusal().is_some()
    }

    /// A later interrupt replaces an earlier one, unless the claim has gone with that.
    fn interrupt(&self, why: Interrupt) {
        let mut interrupt = self.interrupt.lock();
        *interrupt = match (*interrupt, why) {
            (gone @ (Interrupt::Parked | Interrupt::Blocked), _) => gone,
            (asleep @ Interrupt::Asleep(_), Interrupt::Stopping) => asleep,
            _ => why,
        };
    }

    /// Its handler was dropped. If the worker stops, that is why.
    pub(super) fn was_dropped(&self) {
        if self.stop.is_raised() {
            self.interrupt(Interrupt::Stopping);
        }
    }

    /// Returns an error if the job should return now. A claim that may stand is not lost.
    fn check(&self, is_current: Result<bool>) -> Result<()> {
        match is_current {
            Ok(false) => return self.lost_because("its claim has ended"),
            Err(Error::Refused { why }) => return self.lost_because(&why),
            _ => {}
        }
        if self.stop.is_raised() {
            self.interrupt(Interrupt::Stopping);
            return self.interrupted_because("the worker stops");
        }
        Ok(())
    }

    fn lost_because(&self, why: &str) -> Result<()> {
        self.interrupt(Interrupt::Lost);
        self.interrupted_because(why)
    }

    fn interrupted_because(&self, why: &str) -> Result<()> {
        Err(Error::Interrupted { id: self.claim.id(), why: why.into() })
    }

    /// The claim is no more the worker's: the job has ended with this.
    fn leave(&self, why: Interrupt) {
        self.interrupt(why);
        self.keep();
    }

    /// Dropping the claim does not release the task from now on.
    pub(super) fn keep(&self) {
        self.is_kept.store(true, Ordering::SeqCst);
    }

    /// Its handler has returned.
    pub(super) fn begin_end(&self) {
        self.is_ending.store(true, Ordering::SeqCst);
    }

    /// Its end is decided: its handler has returned, or has ended the claim in a transaction.
    pub(super) fn is_decided(&self) -> bool {
        #[cfg(feature = "redb")]
        if self.ended_in_transaction().is_some() {
            return true;
        }
        self.is_ending.load(Ordering::SeqCst)
    }

    /// The signal that is raised when the claim ends; `None` if it has ended. All waits of a job
    /// share one, so that a loop that waits again and again asks the owner of the store once.
    pub(super) fn claim_end(&self) -> Option<Arc<Signal>> {
        let known = self.claim_end.lock().clone();
        if known.as_ref().is_some_and(|signal| !signal.is_raised()) {
            return known;
        }
        // The call may run user code, so it is made without the lock.
        let asked = self.claim.held.end_signal().ok();
        self.claim_end.lock().clone_from(&asked);
        asked
    }

    /// Releases the task, unless its claim has ended or is left to the session.
    pub(super) fn release(&self) {
        if !self.is_kept.load(Ordering::SeqCst) {
            let forgive = self.is_snoozed.load(Ordering::SeqCst);
            self.claim.held.drop_claim(forgive);
        }
    }

    /// A stop leaves it: it has ended as far as the worker is concerned.
    pub(super) fn leave_running(&self) {
        self.is_left.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_left(&self) -> bool {
        self.is_left.load(Ordering::SeqCst)
    }
}

impl Drop for JobCore {
    /// The attempt of a task that no handler has begun to work on does not count.
    fn drop(&mut self) {
        let is_kept = self.is_kept.load(Ordering::SeqCst);
        let has_begun = self.begun.get().is_some();
        self.claim.held.release_on_drop = !is_kept && has_begun;
        if !is_kept && !has_begun {
            self.claim.held.drop_claim(true);
        }
    }
}

/// Releases the tasks of jobs whose lane is dropped.
pub(super) struct ReleaseOnDrop<'a>(pub(super) &'a [Arc<JobCore>]);

impl Drop for ReleaseOnDrop<'_> {
    fn drop(&mut self) {
        for job in self.0 {
            job.release();
            job.keep();
        }
    }
}

#[cfg(all(test, unix, not(feature = "_shuttle")))]
mod tests {
    use super::*;
    use crate::{FIFO, ServeOptions, Store, TubeOptions};

    /// Each wait would be a request that the owner keeps until the claim ends.
    #[test]
    fn waits_of_a_job_for_the_end_of_its_claim_share_a_signal() -> Result<()> {
        let folder = tempfile::tempdir().map_err(|error| Error::invalid(error.to_string()))?;
        let owner = Store::in_memory()?;
        owner.create_tube("case", TubeOptions::new().driver(FIFO))?.put("x")?;
        let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket")))?;
        let remote = crate::connect(served.url())?;
        for store in [&owner, &remote] {
            let claim = store.find_tube("case")?.try_take()?.ok_or(Error::Closed)?;
            let job = JobCore::new(claim, 0, Arc::default(), Arc::default(), false);
            let (first, second) = (job.claim_end(), job.claim_end());
            let (first, second) = (first.ok_or(Error::Closed)?, second.ok_or(Error::Closed)?);
            assert!(Arc::ptr_eq(&first, &second));
            drop(job);
        }
        Ok(())
    }
}
