//! The ends of a claim.

use std::time::Duration;

use super::{EndCall, IntoOutcome, Outcome};
use crate::core::ClaimEnd;
use crate::core::list::{Ack, EndClaims, Release};
use crate::{Claim, Error, Failure, Mode, Receipt, Result, TaskState};

impl<T, M: Mode> Claim<T, M> {
    /// Finishes the task: it is removed. The short form of [`end`](Claim::end) with
    /// [`Outcome::done`].
    ///
    /// In a tube with [`Durability::Flush`](crate::Durability::Flush), the default, the task does
    /// not come back after a killed process or a power cut once this returns. The call blocks for a
    /// flush. In a tube with [`Durability::Write`](crate::Durability::Write) the task does not come
    /// back after a killed process, and the call blocks for a write. In a relaxed or temporary tube
    /// the call does not block; see [what survives a crash](crate::Tube#what-survives-a-crash). An
    /// ack before the claim's deadline is valid, however long the flush takes.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the claim had ended; nothing changed.
    /// [`OutcomeUnknown`](Error::OutcomeUnknown): the flush failed. The ack is applied when
    /// the storage works again. If the process ends before that, the task is removed or ready at
    /// the next open. After any other error the task is released.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// tube.put("work")?;
    /// if let Some(claim) = tube.try_take()? {
    ///     claim.ack()?;
    /// }
    /// assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "acknowledge")]
    #[doc(alias = "complete")]
    pub fn ack(self) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Ack { result: None })
    }

    /// Reports that this attempt has failed. While attempts are left, the task is ready again after
    /// the [backoff](crate::TubeOptions::backoff) of its tube, or immediately without one. After the
    /// last attempt it is buried, in the group of the failure. [`Receipt::state`] says which.
    /// [`Outcome::fail_in`] fails it with a delay of its own.
    ///
    /// The failure is kept until the task ends: [`TaskInfo::failure`](crate::TaskInfo::failure)
    /// shows the last one. In a tube without
    /// [`max_attempts`](crate::TubeOptions::max_attempts) a task is attempted without a limit.
    ///
    /// Once this returns, the failure and what becomes of the task survive what a put survives. The
    /// call blocks for a flush, and in a written tube for a write.
    ///
    /// # Errors
    /// Those of [`ack`](Claim::ack), with the same state after each. [`Invalid`](Error::Invalid):
    /// the failure group has no bytes or more than 255; the task is released.
    ///
    /// # Example: two attempts, a second apart
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Backoff, Failure, ManualClock, TaskState, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let options = TubeOptions::new().max_attempts(2);
    /// let options = options.backoff(Backoff::exponential(Duration::from_secs(1)));
    /// let mails = store.open_tube("mails", options)?;
    /// let id = mails.put("to: ann")?.id;
    ///
    /// let timeout = || Failure::new("timeout", "mail.example.org does not answer");
    /// let receipt = mails.try_take()?.unwrap().fail(timeout())?;
    /// assert_eq!(receipt.state, TaskState::Delayed);
    /// clock.advance(Duration::from_secs(1));
    /// let receipt = mails.try_take()?.unwrap().fail(timeout())?;
    /// assert_eq!(receipt.state, TaskState::Buried);
    /// assert_eq!(mails.query().task(id)?.info.failure.unwrap().group, "timeout");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn fail(self, failure: Failure) -> M::Answer<Receipt> {
        self.end(Outcome::fail(failure))
    }

    /// Gives the task back: ready in its old place. The attempt counts;
    /// [`Outcome::snooze`] gives the task back without counting it.
    ///
    /// Only memory changes and the call does not block: after a crash the task is ready anyway. After
    /// the last attempt the task is buried, and the call blocks as [`fail`](Claim::fail) does; so it does
    /// for a claim that was [parked](Claim::park).
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the claim had ended; nothing changed. After any other error the
    /// task is released, too.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// let id = tube.put("work")?.id;
    /// tube.try_take()?.unwrap().release()?;
    /// assert_eq!(tube.try_take()?.unwrap().id(), id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "nack")]
    #[doc(alias = "retry")]
    pub fn release(self) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Release {})
    }

    /// Gives the task back: ready after `delay` (retry with backoff). The attempt counts.
    ///
    /// The task is delayed and its ttl is extended by `delay`. The call blocks for a flush, and the
    /// delay survives a killed process and a power cut once this returns. Without a delay it is
    /// [`release`](Claim::release).
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the claim had ended; nothing changed.
    /// [`Unsupported`](Error::Unsupported): the driver has no delays; the task is released
    /// without one. [`OutcomeUnknown`](Error::OutcomeUnknown) as in [`ack`](Claim::ack).
    /// After any other error the task is released without a delay.
    ///
    /// # Example: retry in a minute
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::TaskState;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put("work")?;
    ///
    /// let job = tube.try_take()?.unwrap();
    /// assert_eq!(job.release_in(Duration::from_secs(60))?.state, TaskState::Delayed);
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "retry")]
    pub fn release_in(self, delay: Duration) -> M::Answer<Receipt> {
        self.end(Outcome::release_in(delay))
    }

    /// Buries the task (dead letter), in the group of a [`Failure`] or, with `None`, in no group: no take
    /// returns it until it is [kicked](crate::Tube::kick), whatever attempts are left. It is removed if it
    /// is deleted or its ttl elapses.
    ///
    /// Once this returns, the task is buried after a killed process and a power cut too. The call
    /// blocks for a flush as [`ack`](Claim::ack) does.
    ///
    /// # Errors
    /// Those of [`fail`](Claim::fail), with the same state after each.
    ///
    /// # Example: a task that no attempt can do
    /// ```
    /// # use tubewell::Store;
    /// use tubewell::Failure;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// tube.put("resize cat.txt")?;
    /// let job = tube.try_take()?.unwrap();
    /// job.bury(Failure::new("no picture", "cat.txt is a text"))?;
    /// assert_eq!(tube.statistics()?.tasks.buried, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dead letter")]
    #[doc(alias = "discard")]
    pub fn bury(self, why: impl Into<Option<Failure>>) -> M::Answer<Receipt> {
        self.end(Outcome::bury(why))
    }

    /// Ends the claim as the [`Outcome`] says: the task is done, with a result or without, goes back,
    /// is buried, or goes on in another tube, and further tasks are put, all with one commit. Also
    /// takes `()`, which is an [`ack`](Claim::ack), and a `Result`, whose error
    /// [fails](Claim::fail) the attempt: see [`IntoOutcome`].
    ///
    /// So neither a crash nor an error separates the end of a task from what follows from it. The
    /// receipt is that of the task: it says in which state the task is, also in the tube to which it
    /// [advances](Outcome::advance). [`Outcome::detach`] makes no call: the receipt has the commit 0 and
    /// the state `Taken`, also if the claim has ended.
    ///
    /// The call blocks for one flush, if one of the tubes has durability flush; it blocks for a
    /// write if one of them is written, and does not block otherwise. Once it returns, all of it
    /// survives what a put survives. Takers of all tubes see it together. An end that puts nothing
    /// blocks as its short form does.
    ///
    /// # Errors
    /// Nothing of it has happened, and the task is released, except after
    /// [`OutcomeUnknown`](Error::OutcomeUnknown): all of it is applied when the storage works again. The task
    /// of a claim of [`Tube::claimed`](crate::Tube::claimed) stays taken. [`NotTaken`](Error::NotTaken): the
    /// claim had ended. [`Codec`](Error::Codec): a value cannot be encoded. [`Full`](Error::Full),
    /// [`DriverUnknown`](Error::DriverUnknown), [`TubeDropped`](Error::TubeDropped): one of the tubes refuses
    /// its task. In a full tube, a put of this end takes the place of a task that leaves the tube with the
    /// same end. [`Unsupported`](Error::Unsupported): a driver has no delays, or not the options of a put.
    /// [`Invalid`](Error::Invalid): a body or the result is too large, a failure group has no bytes or more
    /// than 255, or the tubes have no common commit: they belong to two stores, or one of them is temporary.
    /// [`DiskFull`](Error::DiskFull). [`KeyInUse`](Error::KeyInUse): a put has a key in use, and rejects
    /// that; a task that is not done keeps its own. [`NotFound`](Error::NotFound),
    /// [`KeyNotFound`](Error::KeyNotFound), [`TubeNotFound`](Error::TubeNotFound): no task has the id or the
    /// key of a parent that a put names, or there is no tube of that name. [`Cycle`](Error::Cycle): a task
    /// would wait for itself. [`NotReady`](Error::NotReady): a put replaces a task that is done, and the
    /// tasks that waited for that are still being freed. [`HasDependents`](Error::HasDependents): more than
    /// 10,000 tasks wait for the task, which advances to another tube, or for one that a put replaces and
    /// moves.
    ///
    /// # Example: the words of a page, and the pages that it names
    /// ```
    /// use tubewell::{Keep, Outcome, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().keep_done(Keep::new().count(1000));
    /// let pages = store.open_tube("pages", options)?;
    /// let id = pages.put("/index")?.id;
    /// let page = pages.try_take()?.unwrap();
    /// page.end(Outcome::value(&412).and_put(&pages, "/about").and_put(&pages, "/news"))?;
    /// assert_eq!(pages.ending(id)?.unwrap().value::<u32>()?, 412);
    /// assert_eq!(pages.statistics()?.tasks.ready, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "finish")]
    #[doc(alias = "pipeline")]
    #[doc(alias = "exactly once")]
    pub fn end(mut self, outcome: impl IntoOutcome) -> M::Answer<Receipt> {
        let outcome = Outcome::from_value(outcome);
        let forgives = outcome.forgives();
        match outcome.into_call(&self.held.handle) {
            Ok(Some(EndCall::Ack(ack))) => self.held.end::<M, _>(ack),
            Ok(Some(EndCall::Release(release))) => self.held.end::<M, _>(release),
            Ok(Some(EndCall::Snooze(snooze))) => self.held.end::<M, _>(snooze),
            Ok(Some(EndCall::End(end))) => self.held.end::<M, _>(*end),
            Ok(None) => {
                let receipt = Receipt { id: self.id(), state: TaskState::Taken, commit: 0 };
                self.held.keep();
                M::answer(Ok(receipt))
            }
            Err(error) => {
                self.held.was_ended(true, forgives);
                M::answer(Err(error))
            }
        }
    }

    /// Ends many claims on tasks of any tubes of one store, with one commit: each with the outcome that
    /// `outcome` returns for it.
    ///
    /// Returns one result for each claim, in their order. A claim that has ended, or whose end the
    /// state of the store refuses, does not affect the others. The task of a refused end is released, but
    /// that of a claim of [`Tube::claimed`](crate::Tube::claimed) stays taken. Once this returns, each end
    /// survives what [`end`](Claim::end) says. The call blocks for one flush.
    ///
    /// # Errors
    /// An error of the whole call: all claims are dropped and their tasks released, except after
    /// [`OutcomeUnknown`](Error::OutcomeUnknown), where all may have ended; see
    /// [`ack`](Claim::ack). If all claims are of [`Tube::claimed`](crate::Tube::claimed), their tasks stay
    /// taken; if some are, their tasks stay taken or are released.
    /// All attempts count then, those of a [snooze](Outcome::snooze), too.
    /// [`Invalid`](Error::Invalid): the claims are of two stores; an outcome is
    /// [`detach`](Outcome::detach), or has a result, a body or a failure group beyond its limit, or a put into
    /// another store; or the outcomes put more tasks than one [`put_many`](crate::Tube::put_many).
    /// [`Codec`](Error::Codec): a value cannot be encoded. The single results have the other errors of
    /// [`end`](Claim::end).
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Claim, Outcome};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put_many(["a", "b"])?;
    ///
    /// let claims = tube.take_many(10, Duration::ZERO)?;
    /// for ended in Claim::end_many(claims, |_| Outcome::done())? {
    ///     println!("task {} is done", ended?.id);
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "ack_many")]
    pub fn end_many(
        mut claims: Vec<Claim<T, M>>,
        mut outcome: impl FnMut(&Claim<T, M>) -> Outcome,
    ) -> M::Answer<Vec<Result<Receipt>>> {
        let Some(first) = claims.first() else { return M::answer(Ok(Vec::new())) };
        let keys = Claim::keys(&claims);
        let verb = Claim::check_one_store(&claims).and_then(|()| {
            let ends = claims.iter().map(|claim| {
                let request =
                    outcome(claim).into_request(&claim.held.handle)?.ok_or_else(|| {
                        Error::invalid(
                            "`end_many` ends all its claims; detach a claim with `Claim::detach`",
                        )
                    })?;
                Ok(ClaimEnd { request, keeps_claim: claim.held.is_found })
            });
            ends.collect::<Result<Vec<ClaimEnd>>>().map(|ends| EndClaims { ends })
        });
        let guards: Vec<_> = claims.iter().filter_map(|claim| claim.held.guard.clone()).collect();
        let keeps_claims = claims.iter().all(|claim| claim.held.is_found);
        let answers = M::make(first.held.call_on(&keys[..], &guards, keeps_claims), verb);
        let is_refused = M::is_refused(&answers);
        for claim in &mut claims {
            claim.held.was_ended(is_refused, false);
        }
        answers
    }
}
