//! Taking tasks from a tube.

use std::sync::Arc;
use std::time::Duration;

use super::Tube;
use crate::base::micros::within;
use crate::connection::Request;
use crate::core::verb::TubeName;
use crate::core::{Buffer, ByteBudget, Chosen, Grant, Grants, TubeHead};
use crate::handle::call::{CallFuture, commit, expiry};
use crate::handle::claim::{Collected, Undecodable};
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::handle::take::{
    CountedTake, TakeFuture, counted, read_bodies, read_claim, remote_claims, take, take_request,
};
use crate::handle::trace::{taken, taken_many};
use crate::runtime::open_store::LocalHandle;
use crate::values::body::Coder;
use crate::{Bytes, Claim, Error, Mode, Result, SessionId};

impl<T, M: Mode> Tube<T, M> {
    /// Takes the next ready task for this handle's session, and returns a claim on it. Waits for a task
    /// without a limit.
    ///
    /// Waiting takers are served first come, first served; [`close`](crate::Store::close) ends every wait. A
    /// take writes nothing, unless the attempts of its task are limited ([`Counting`](crate::Counting)), or it meets
    /// tasks that have expired, are due or have no attempt left. The claim lives in memory: if the process dies, the task is ready again. The
    /// body is read from the file. [`take_timeout`](Tube::take_timeout) waits for a time, and
    /// [`try_take`](Tube::try_take) not at all.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Error::SessionEnded);
    /// [`DriverUnknown`](crate::Error::DriverUnknown): nothing was taken.
    /// [`Corrupt`](crate::Error::Corrupt): the body of the task is damaged; the task is buried.
    /// [`Codec`](crate::Error::Codec): the body is no value of the type of this tube; the task is buried,
    /// see [`read`](Tube::read).
    ///
    /// # Example: a worker by hand
    /// ```
    /// # use tubewell::{Error, Store};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put("one")?;
    /// loop {
    ///     let claim = match tube.take() {
    ///         Ok(claim) => claim,
    ///         Err(Error::Closed) => break, // the program ends
    ///         Err(error) => return Err(error),
    ///     };
    ///     println!("{}", claim.value().text());
    ///     claim.ack()?;
    /// #   store.close()?;
    /// }
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "dequeue")]
    #[doc(alias = "pop")]
    #[doc(alias = "receive")]
    #[doc(alias = "reserve")]
    pub fn take(&self) -> M::Answer<Claim<T, M>> {
        M::either(
            (),
            |()| self.take_here(None)?.ok_or_else(no_task),
            |()| {
                let take = self.take_later(None);
                async move { take.await?.inspect(note).map(Claim::with_mode).ok_or_else(no_task) }
            },
        )
    }

    /// Takes the next ready task if there is one now. As [`take`](Tube::take), without a wait.
    ///
    /// # Errors
    /// Those of [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn try_take(&self) -> M::Answer<Option<Claim<T, M>>> {
        self.take_timeout(Duration::ZERO)
    }

    /// Takes the next ready task, as [`take`](Tube::take) does, and returns `None` if there was none for so
    /// long. `Duration::MAX` is no limit.
    ///
    /// # Errors
    /// Those of [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put("one")?;
    /// while let Some(claim) = tube.take_timeout(Duration::from_millis(10))? {
    ///     println!("{}", claim.value().text());
    ///     claim.ack()?;
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_timeout(&self, timeout: Duration) -> M::Answer<Option<Claim<T, M>>> {
        M::either(
            within(timeout),
            |timeout| self.take_here(timeout),
            |timeout| {
                let take = self.take_later(timeout);
                async move { Ok(take.await?.inspect(note).map(Claim::with_mode)) }
            },
        )
    }

    fn take_here<N: Mode>(&self, timeout: Option<Duration>) -> Result<Option<Claim<T, N>>> {
        let tubes = std::slice::from_ref(&self.head);
        match take(&self.handle, tubes, self.session, self.guard.clone(), timeout)? {
            Some(claim) => Ok(Some(claim.decode(&self.coder)?.with_mode()).inspect(note)),
            None => Ok(None),
        }
    }

    /// Takes up to `max` ready tasks, in order. Waits for the first one only, as
    /// [`take_timeout`](Tube::take_timeout) does, and returns no claim when the timeout elapses.
    ///
    /// # Errors
    /// Those of [`take`](Tube::take). Tasks taken before the error are released, and use no attempt.
    ///
    /// # Example: ten tasks, one flush
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Claim, Outcome};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// # tube.put_many(["a", "b", "c"])?;
    /// let claims = tube.take_many(10, Duration::from_secs(1))?;
    /// claims.iter().for_each(|claim| println!("{}", claim.id()));
    /// Claim::end_many(claims, |_| Outcome::done())?;
    /// # assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "batch")]
    pub fn take_many(&self, max: usize, timeout: Duration) -> M::Answer<Vec<Claim<T, M>>> {
        M::either(
            within(timeout),
            |timeout| {
                let taken = self.take_some(max, timeout)?;
                let claims = decode_all(taken, &self.coder)
                    .map_err(|undecodable| undecodable.bury_here())?;
                taken_many(claims.iter().map(|claim| &claim.held.grant));
                Ok(claims.into_iter().map(Claim::with_mode).collect())
            },
            |timeout| {
                let taken = self.to_bytes().take_within(max, ByteBudget::unlimited(), timeout);
                let coder = self.coder.clone();
                async move {
                    let undecodable = match decode_all(Collected::new(taken.await?), &coder) {
                        Ok(claims) => {
                            taken_many(claims.iter().map(|claim| &claim.held.grant));
                            return Ok(claims.into_iter().map(Claim::with_mode).collect());
                        }
                        Err(undecodable) => undecodable,
                    };
                    Err(undecodable.bury().await)
                }
            },
        )
    }

    fn take_later(&self, timeout: Option<Duration>) -> TakeFuture<T> {
        let tubes = Ok(vec![self.head.clone()]);
        let take = TakeFuture::new(&self.handle, tubes, self.session, self.guard(), timeout);
        take.with_coder(self.coder.clone())
    }

    fn take_some(&self, max: usize, timeout: Option<Duration>) -> Result<Collected> {
        let mut claims = Collected::new(Vec::new());
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => {
                let grants = owner.ask_grants(&self.take_many_request(max, timeout))?;
                claims.extend(remote_claims(owner, self.guard(), grants));
                return Ok(claims);
            }
        };
        if max > 0 {
            let tubes = std::slice::from_ref(&self.head);
            claims.extend(take(&self.handle, tubes, self.session, self.guard(), timeout)?);
        }
        if claims.len() > 0 {
            take_more(self, store, max, &mut claims)?;
        }
        Ok(claims)
    }

    /// Takes this task, wherever it stands in the tube.
    ///
    /// The claim is as that of [`take`](Tube::take). It is kept in memory, and nothing is written.
    /// Does not wait for the task to become ready. Blocks for a flush while the last change of the
    /// task is not yet visible, and reads the body from the file. As takes, it sees the changes of
    /// written, relaxed and temporary tubes before they are written. In a tube with sub-queues the
    /// other tasks of its sub-queue wait until the claim ends.
    ///
    /// # Errors
    /// Those of [`take`](Tube::take). [`NotFound`](Error::NotFound).
    /// [`NotReady`](Error::NotReady): the task is taken, delayed or buried, or another task of its
    /// sub-queue is taken; the error says which session has it. Nothing changed. If the flush that
    /// it waits for fails, [`OutcomeUnknown`](Error::OutcomeUnknown) or
    /// [`Unavailable`](Error::Unavailable): the task is not taken.
    ///
    /// # Example: work on a task that a person has chosen
    /// ```
    /// use tubewell::{Error, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let tickets = store.tube("tickets")?;
    /// tickets.put_many(["printer", "login", "backup"])?;
    ///
    /// let claim = tickets.claim(1)?;
    /// assert_eq!(claim.body(), b"login");
    /// let error = tickets.claim(1).unwrap_err();
    /// assert!(matches!(error, Error::NotReady { state: TaskState::Taken, .. }));
    /// claim.ack()?;
    /// assert_eq!(tickets.claim(1).unwrap_err(), Error::NotFound { id: 1 });
    /// # Ok::<(), Error>(())
    /// ```
    pub fn claim(&self, id: u64) -> M::Answer<Claim<T, M>> {
        M::either(
            id,
            |id| {
                let claim = self.claim_chosen(id)?.decode(&self.coder)?.with_mode();
                note(&claim);
                Ok(claim)
            },
            |id| {
                let (claim, coder) = (self.to_bytes().claim_chosen_later(id), self.coder.clone());
                async move {
                    let claim = claim.await?.decode_async(coder).await?.with_mode();
                    note(&claim);
                    Ok(claim)
                }
            },
        )
    }

    fn claim_chosen(&self, id: u64) -> Result<Claim> {
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => {
                let grants = owner.ask_grants(&self.claim_request(id))?;
                return remote_claims(owner, self.guard(), grants)
                    .next()
                    .ok_or(Error::NotTaken { id });
            }
        };
        loop {
            match store.claim(self.as_target(), self.session, id)? {
                Chosen::Task(mut grant) => {
                    if counted(store, &mut grant)? {
                        return self.read_chosen(store, grant);
                    }
                    return Err(Error::NotTaken { id });
                }
                Chosen::NotVisible => {}
            }
        }
    }

    fn claim_request(&self, id: u64) -> Request {
        Request::Claim { tube: TubeName::from(&self.head), session: self.session, id }
    }

    fn take_many_request(&self, max: usize, timeout: Option<Duration>) -> Request {
        take_request(std::slice::from_ref(&self.head), self.session, timeout, Some(max))
    }

    fn read_chosen(&self, store: &LocalHandle, grant: Grant) -> Result<Claim> {
        let id = grant.id;
        // The claim may have ended while the body was read.
        read_claim(store, grant, self.guard.clone())?.ok_or(Error::NotTaken { id })
    }
}

impl<M: Mode> Tube<Bytes, M> {
    async fn claim_chosen_later(self, id: u64) -> Result<Claim> {
        let store = match &self.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => {
                let grants = owner.request_grants(&self.claim_request(id)).await?;
                return remote_claims(owner, self.guard(), grants)
                    .next()
                    .ok_or(Error::NotTaken { id });
            }
        };
        loop {
            let decided = store.defer_claim(self.as_target(), self.session, id)?;
            match commit(decided).await?? {
                Chosen::Task(grant) => {
                    let take = CountedTake::new(store, grant);
                    let grant = take.counted().await?.ok_or(Error::NotTaken { id })?;
                    return self.read_chosen(store, grant);
                }
                Chosen::NotVisible => {}
            }
        }
    }

    /// As [`take_many`](Tube::take_many), as far as the budget allows.
    pub(crate) fn take_within(
        &self,
        max: usize,
        mut bytes: ByteBudget,
        timeout: Option<Duration>,
    ) -> CallFuture<Vec<Claim>> {
        let tube = self.clone();
        CallFuture::new(async move {
            let store = match &tube.handle {
                StoreHandle::Here(store) => store,
                StoreHandle::Remote(owner) => {
                    let grants = owner.request_grants(&tube.take_many_request(max, timeout));
                    return Ok(remote_claims(owner, tube.guard(), grants.await?).collect());
                }
            };
            let mut claims = Collected::new(Vec::new());
            if max > 0 {
                claims.extend(tube.take_later(timeout).await?);
            }
            let Some(first) = claims.first() else { return Ok(Vec::new()) };
            bytes.spend(first.id(), &first.held.grant.header);
            loop {
                let (grants, step) = take_step(&tube, store, max, &mut bytes, claims.len())?;
                let takes = grants.into_iter().map(|grant| CountedTake::new(store, grant));
                let mut takes: Vec<CountedTake> = takes.collect();
                for take in &mut takes {
                    take.wait().await?;
                }
                let grants = takes.into_iter().filter_map(CountedTake::into_grant).collect();
                hand_out(&tube, store, grants, &mut claims)?;
                match step {
                    Step::Done => return Ok(claims.hand_out()),
                    Step::More => {}
                    Step::Later(buffer) => expiry(store, buffer).await?,
                }
            }
        })
    }
}

/// Takes from the first of these tubes that has a task, or waits in all of them.
pub(crate) fn take_any<M: Mode, N: Mode>(
    handle: &StoreHandle,
    tubes: &[&Tube<Bytes, N>],
    session: SessionId,
    guard: Option<Arc<SessionGuard>>,
    timeout: Duration,
) -> M::Answer<Option<Claim<Bytes, M>>> {
    let timeout = within(timeout);
    M::either(
        (heads(handle, tubes), guard),
        |(heads, guard)| {
            let claim = take(handle, &heads?, session, guard, timeout)?;
            Ok(claim.inspect(note).map(Claim::with_mode))
        },
        |(heads, guard)| {
            let take = TakeFuture::new(handle, heads, session, guard, timeout);
            async move { Ok(take.await?.inspect(note).map(Claim::with_mode)) }
        },
    )
}

/// A take without a limit ends with a task or an error.
#[cold]
fn no_task() -> Error {
    Error::invalid("a take without a limit has ended without a task")
}

/// The span of a take that got this task.
fn note<T, M: Mode>(claim: &Claim<T, M>) {
    taken(&claim.held.grant);
}

/// Takes tasks until there are `max` claims or no ready task is left. Does not wait for tasks.
pub(crate) fn take_more<T, M: Mode>(
    tube: &Tube<T, M>,
    store: &LocalHandle,
    max: usize,
    claims: &mut Collected,
) -> Result<()> {
    let mut bytes = ByteBudget::unlimited();
    loop {
        let (grants, step) = take_step(tube, store, max, &mut bytes, claims.len())?;
        hand_out(tube, store, count_all(tube, store, grants)?, claims)?;
        match step {
            Step::Done => return Ok(()),
            Step::More => {}
            Step::Later(buffer) => store.inner()?.wait_for_capacity(buffer)?,
        }
    }
}

/// What remains to be taken.
enum Step {
    Done,
    More,
    /// This write buffer must have space before more tasks are taken.
    Later(Buffer),
}

/// Takes the next tasks under one hold of the lock.
fn take_step<T, M: Mode>(
    tube: &Tube<T, M>,
    store: &LocalHandle,
    max: usize,
    bytes: &mut ByteBudget,
    taken: usize,
) -> Result<(Vec<Grant>, Step)> {
    let count = max.saturating_sub(taken);
    if count == 0 {
        return Ok((Vec::new(), Step::Done));
    }
    let Grants { tasks: grants, error, later } =
        store.take_many(&tube.head, tube.session, count, bytes)?;
    if let Some(error) = error {
        give_back(tube, grants);
        return Err(error);
    }
    let step = match later {
        Some(buffer) => Step::Later(buffer),
        None if grants.is_empty() => Step::Done,
        None => Step::More,
    };
    Ok((grants, step))
}

/// Blocks until the takes of these tasks are counted.
fn count_all<T, M: Mode>(
    tube: &Tube<T, M>,
    store: &LocalHandle,
    grants: Vec<Grant>,
) -> Result<Vec<Grant>> {
    let (mut all, mut grants) = (Vec::with_capacity(grants.len()), grants.into_iter());
    while let Some(mut grant) = grants.next() {
        match counted(store, &mut grant) {
            Ok(true) => all.push(grant),
            Ok(false) => {}
            Err(error) => {
                give_back(tube, all.into_iter().chain(grants));
                return Err(error);
            }
        }
    }
    Ok(all)
}

/// Reads the bodies of taken tasks.
fn hand_out<T, M: Mode>(
    tube: &Tube<T, M>,
    store: &LocalHandle,
    mut grants: Vec<Grant>,
    claims: &mut Collected,
) -> Result<()> {
    read_bodies(store.inner()?, &mut grants);
    let mut grants = grants.into_iter();
    while let Some(grant) = grants.next() {
        match read_claim(store, grant, tube.guard()) {
            Ok(claim) => claims.extend(claim),
            Err(error) => {
                give_back(tube, grants);
                return Err(error);
            }
        }
    }
    Ok(())
}

/// Releases tasks that no caller gets.
fn give_back<T, M: Mode>(tube: &Tube<T, M>, grants: impl IntoIterator<Item = Grant>) {
    for grant in grants {
        tube.handle.drop_claim(grant.key(), true);
    }
}

/// Decodes the bodies. If one cannot be decoded, the other tasks are released.
fn decode_all<T>(
    mut taken: Collected,
    coder: &Coder<T>,
) -> Result<Vec<Claim<T>>, Box<Undecodable>> {
    let mut claims = Collected::new(Vec::with_capacity(taken.len()));
    while let Some(claim) = taken.pop() {
        claims.extend([claim.try_decode(coder)?]);
    }
    Ok(claims.hand_out())
}

fn heads<M: Mode>(handle: &StoreHandle, tubes: &[&Tube<Bytes, M>]) -> Result<Vec<TubeHead>> {
    check_tubes(handle, tubes)?;
    Ok(tubes.iter().map(|tube| tube.head.clone()).collect())
}

fn check_tubes<M: Mode>(handle: &StoreHandle, tubes: &[&Tube<Bytes, M>]) -> Result<()> {
    if tubes.is_empty() {
        return Err(Error::invalid("a take needs at least one tube"));
    }
    if tubes.iter().any(|tube| !tube.handle().is_same_store(handle)) {
        return Err(Error::invalid("the tubes of one take belong to one store"));
    }
    Ok(())
}
