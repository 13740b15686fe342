//! Sessions: owners of claims.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::core::About;
use crate::core::list::DescribeSession;
use crate::core::verb::{Begin, InStore};
use crate::handle::mode::Call;
use crate::handle::store_handle::SessionGuard;
use crate::handle::take;
use crate::handle::tube::take_any;
use crate::{Async, Blocking, Bytes, Claim, ClaimToken, Mode, Result, SessionId, Tube};

/// An owner of claims. Clones are handles of the same session.
///
/// The claims that a tube of the session takes belong to the session. [`Tube::claimed`] finds them by their
/// tasks.
///
/// The session ends when its last handle is dropped. Its handles are those of the session itself, of its
/// tubes, and the claims that these tubes have taken. Its tasks are then ready again, immediately or after
/// the [grace](crate::StoreOptions::session_grace). During the grace
/// [`resume_session`](crate::Store::resume_session) returns a new handle of it. Sessions live in memory and
/// end with the process. [`Store::session`](crate::Store::session) gives a session a label that people know
/// it by.
///
/// # Example
/// ```
/// use tubewell::{Error, Store};
///
/// let store = Store::in_memory()?;
/// let jobs = store.tube("jobs")?;
/// jobs.put("one")?;
/// let (ann, bob) = (store.session("ann")?, store.session("bob")?);
/// let id = ann.tube(&jobs)?.try_take()?.map(|claim| claim.detach().info.id).unwrap();
/// assert_eq!(bob.tube(&jobs)?.claimed(id).err(), Some(Error::NotTaken { id }));
/// ann.tube(&jobs)?.claimed(id)?.ack()?;
/// # Ok::<(), Error>(())
/// ```
#[doc(alias = "consumer")]
#[doc(alias = "worker")]
pub struct Session<M: Mode = Blocking>(Arc<SessionGuard>, PhantomData<fn() -> M>);

/// A session whose calls return a [`Ticket`](crate::Ticket) and block no thread: a session after
/// [`to_async`](Session::to_async).
pub type AsyncSession = Session<Async>;

impl<M: Mode> Clone for Session<M> {
    fn clone(&self) -> Session<M> {
        Session(self.0.clone(), PhantomData)
    }
}

impl<M: Mode> fmt::Debug for Session<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(&self.0).finish()
    }
}

impl<M: Mode> Session<M> {
    pub(crate) fn new(guard: SessionGuard) -> Session<M> {
        Session(Arc::new(guard), PhantomData)
    }

    pub(crate) fn guard(&self) -> &Arc<SessionGuard> {
        &self.0
    }

    /// Its id, with which it can be resumed.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// A handle of the same tube for this session: the claims that it takes belong to the session. Makes no
    /// call, writes nothing and does not block.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the tube belongs to another store or connection.
    /// [`Forked`](crate::Error::Forked).
    pub fn tube<T: 'static, N: Mode>(&self, tube: &Tube<T, N>) -> Result<Tube<T, M>> {
        tube.of_session(&self.0)
    }

    /// Takes the next task of the first of these tubes that has one, or waits in all of them. As
    /// [`Store::take_any`](crate::Store::take_any), but the claim belongs to this session,
    /// whichever session the handles of the tubes belong to.
    ///
    /// # Errors
    /// Those of [`Store::take_any`](crate::Store::take_any).
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.tube("mail")?;
    /// let calls = store.tube("calls")?;
    /// calls.put("ann")?;
    ///
    /// let client = store.session("client")?;
    /// let task = client.take_any(&[&mail, &calls], Duration::MAX)?.unwrap().detach();
    /// client.end()?; // releases it
    /// assert_eq!(calls.try_take()?.unwrap().id(), task.info.id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_any<N: Mode>(
        &self,
        tubes: &[&Tube<Bytes, N>],
        timeout: Duration,
    ) -> M::Answer<Option<Claim<Bytes, M>>> {
        let Session(session, _) = self;
        take_any::<M, N>(&session.handle, tubes, session.id, Some(session.clone()), timeout)
    }

    /// Says what this session is, for [`Store::owners`](crate::Store::owners): a kind, such as
    /// `worker` or `window`, and any text about it, such as its version in JSON. Replaces what it
    /// said before.
    ///
    /// A described session is listed also while it has no claim, until it ends or
    /// [withdraws](Session::undescribe) its description. Only memory
    /// changes, and the call does not block. The label of the session is given by
    /// [`Store::session`](crate::Store::session).
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the kind may have 255 bytes, the metadata 4096.
    /// [`SessionEnded`](crate::Error::SessionEnded); [`Closed`](crate::Error::Closed). Nothing
    /// changed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let worker = store.session("worker-3")?;
    /// worker.describe("encoder", r#"{"version": 7}"#)?;
    /// let owners = store.owners()?;
    /// assert_eq!(owners[0].label.as_deref(), Some("worker-3"));
    /// assert_eq!((owners[0].kind.as_deref(), owners[0].running), (Some("encoder"), 0));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "register")]
    pub fn describe(&self, kind: &str, metadata: &str) -> M::Answer<()> {
        let about = Some(About { kind: kind.into(), metadata: metadata.into() });
        self.make(DescribeSession { id: self.0.id, about })
    }

    /// Withdraws what this session has said of itself, as if it had never called
    /// [`describe`](Session::describe): it is listed by [`Store::owners`](crate::Store::owners) only while it
    /// has claims, without kind and metadata. Its label, its claims and its waits stay. Does nothing if the
    /// session has no description.
    ///
    /// Only memory changes, and the call does not block.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Error::SessionEnded); [`Closed`](crate::Error::Closed). Nothing
    /// changed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let window = store.session("editor")?;
    /// window.describe("window", "")?;
    /// assert_eq!(store.owners()?.len(), 1);
    /// window.undescribe()?; // it works on nothing any more, and stays open
    /// assert_eq!(store.owners()?, []);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "unregister")]
    #[doc(alias = "withdraw")]
    pub fn undescribe(&self) -> M::Answer<()> {
        self.make(DescribeSession { id: self.0.id, about: None })
    }

    /// A handle of the same session whose calls return a [`Ticket`](crate::Ticket) and block no thread, as do
    /// those of the tubes and claims that it returns.
    #[must_use]
    pub fn to_async(&self) -> Session<Async> {
        Session(self.0.clone(), PhantomData)
    }

    /// A handle of the same session whose calls block.
    #[must_use]
    pub fn to_blocking(&self) -> Session<Blocking> {
        Session(self.0.clone(), PhantomData)
    }

    /// Takes up a parked claim again, for this session. As
    /// [`Store::resume_claim`](crate::Store::resume_claim).
    ///
    /// # Errors
    /// Those of [`Store::resume_claim`](crate::Store::resume_claim);
    /// [`SessionEnded`](crate::Error::SessionEnded).
    pub fn resume_claim(&self, token: &ClaimToken) -> M::Answer<Claim<Bytes, M>> {
        let Session(session, _) = self;
        take::resume_claim::<M>(&session.handle, session.id, Some(session.clone()), token)
    }

    /// Ends the session now, without a grace, even if it has other handles.
    ///
    /// Its tasks are ready again; 512 of them at a time, so that other calls proceed in between. Its
    /// waits end with [`SessionEnded`](crate::Error::SessionEnded),
    /// which later takes, acks, releases and touches of its handles return too. Puts and the calls
    /// that any session may make still work. Only memory changes, and the call does not block.
    ///
    /// A [connection](crate::connect) that is made again does not begin the session again.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Error::Corrupt): a record could not be read; all other tasks are ready
    /// again. Through a connection, [`NotConnected`](crate::Error::NotConnected): the owner was not
    /// told, and ends the session after its [grace](crate::StoreOptions::session_grace);
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): it was told, or ends the session after the grace.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("one")?;
    ///
    /// let client = store.session("client")?;
    /// let theirs = client.tube(&jobs)?;
    /// let claim = theirs.try_take()?.unwrap();
    /// client.end()?;
    /// assert_eq!(claim.ack(), Err(Error::SessionEnded));
    /// assert!(theirs.try_take().is_err());
    /// assert!(jobs.try_take()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn end(self) -> M::Answer<()> {
        let ended = self.0.handle.clone().end_session(self.0.id);
        M::begin(async move {
            let answer = ended.await;
            drop(self);
            answer
        })
    }

    fn make<V: Begin<On = InStore>>(&self, verb: V) -> M::Answer<V::Answer> {
        M::make(Call::on_store(&self.0.handle), Ok(verb))
    }
}
