//! Sessions: owners of claims.

use std::sync::Arc;
use std::time::Duration;

use crate::core::list::{ClaimOf, CreateTube, DescribeSession, FindTube};
use crate::core::{About, FILE};
use crate::handle::SessionGuard;
use crate::mode::Call;
use crate::take;
use crate::tube::{take_any, take_any_async};
use crate::when_full::WhenFull;
use crate::{
    Async, AsyncClaim, Claim, ClaimToken, Mode, Result, SessionId, Ticket, Tube, TubeOptions,
};

/// An owner of claims. Clones are handles of the same session.
///
/// The claims that a tube of the session takes belong to the session. Ack, release and touch by id
/// check the session.
///
/// The session ends when its last handle is dropped: sessions, tubes opened through it, and claims
/// taken through those. Its tasks are then ready again, immediately or after the
/// [grace](crate::StoreOptions::session_grace). During the grace
/// [`resume_session`](crate::Store::resume_session) returns a new handle of it. Sessions live in
/// memory and end with the process. [`session_named`](crate::Store::session_named) gives a session a
/// label that people know it by.
///
/// # Example
/// ```
/// use tubewell::{Error, FIFO, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
/// let (ann, bob) = (store.session(), store.session());
/// let id = ann.tube("jobs")?.try_take()?.map(|claim| claim.detach().info.id).unwrap();
/// assert_eq!(bob.tube("jobs")?.ack(id), Err(Error::NotTaken { id }));
/// ann.tube("jobs")?.ack(id)?;
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Debug)]
#[doc(alias = "consumer")]
#[doc(alias = "worker")]
pub struct Session(Arc<SessionGuard>);

impl Session {
    pub(crate) fn new(guard: SessionGuard) -> Session {
        Session(Arc::new(guard))
    }

    pub(crate) fn guard(&self) -> &Arc<SessionGuard> {
        &self.0
    }

    /// Refuses a session that was not begun.
    pub(crate) fn begun(&self) -> Result<&Arc<SessionGuard>> {
        self.0.begun().map(|()| &self.0)
    }

    /// Its id, with which it can be resumed.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// Opens a tube for this session: the claims that the handle takes belong to the session.
    /// Writes nothing and does not block.
    ///
    /// # Errors
    /// [`TubeNotFound`](crate::Error::TubeNotFound); [`Closed`](crate::Error::Closed).
    pub fn tube(&self, name: &str) -> Result<Tube> {
        let session = self.begun()?;
        let head = session.handle.make(FILE, (), &FindTube { name: name.into() })?;
        Ok(Tube::new(session.handle.clone(), session.id, Some(session.clone()), head))
    }

    /// Creates a tube and opens it for this session. As
    /// [`Store::create_tube`](crate::Store::create_tube).
    ///
    /// # Errors
    /// Those of [`Store::create_tube`](crate::Store::create_tube).
    pub fn create_tube(&self, name: &str, driver: &str, options: TubeOptions) -> Result<Tube> {
        let session = self.begun()?;
        let create = CreateTube { name: name.into(), driver: driver.into(), options };
        let head = session.handle.make(FILE, (), &create)?;
        Ok(Tube::new(session.handle.clone(), session.id, Some(session.clone()), head))
    }

    /// As [`create_tube`](Session::create_tube), with a [`Ticket`](crate::Ticket): the change is made when this is called.
    ///
    /// # Errors
    /// The future resolves to those of [`Store::create_tube`](crate::Store::create_tube).
    pub fn create_tube_async(
        &self,
        name: &str,
        driver: &str,
        options: TubeOptions,
    ) -> Ticket<Tube> {
        let create = CreateTube { name: name.into(), driver: driver.into(), options };
        let guard = self.0.clone();
        let call = Call {
            handle: &self.0.handle,
            buffer: FILE,
            when_full: WhenFull::Wait,
            on: (),
            guard: None,
        };
        Async::make(call, guard.begun().map(|()| create))
            .map(move |head| Tube::new(guard.handle.clone(), guard.id, Some(guard), head))
    }

    /// Takes up a parked claim again, for this session. As
    /// [`Store::resume_claim`](crate::Store::resume_claim).
    ///
    /// # Errors
    /// Those of [`Store::resume_claim`](crate::Store::resume_claim);
    /// [`SessionEnded`](crate::Error::SessionEnded).
    pub fn resume_claim(&self, token: &ClaimToken) -> Result<Claim> {
        let session = self.begun()?;
        take::resume_claim(&session.handle, session.id, Some(session.clone()), token)
    }

    /// The claim of this session on a task, by the id of the task: in another place than where it was
    /// taken and [detached](Claim::detach). Blocks for no flush. Only the body may be read from the file.
    ///
    /// The claim stays the session's: neither a drop of this handle nor a refused end releases the task.
    /// Its calls check that the session has the task: if the claim has ended, and the session has taken the
    /// task again, they are calls on that take.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): this session has not taken the task, or the claim has ended.
    /// [`SessionEnded`](crate::Error::SessionEnded), [`Corrupt`](crate::Error::Corrupt),
    /// [`Closed`](crate::Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// jobs.put("work")?;
    /// let session = store.session();
    /// let id = session.tube("jobs")?.try_take()?.unwrap().detach().info.id;
    /// // ... in another place
    /// assert_eq!(session.claimed(id)?.body(), b"work"); // dropped, and still taken
    /// session.claimed(id)?.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn claimed(&self, id: u64) -> Result<Claim> {
        let session = self.begun()?;
        let grant = session.handle.make(FILE, (), &ClaimOf { session: session.id, id })?;
        Ok(Claim::found(session.handle.clone(), session.clone(), grant))
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
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.create_tube("mail", FIFO, TubeOptions::new())?;
    /// let calls = store.create_tube("calls", FIFO, TubeOptions::new())?;
    /// calls.put("ann")?;
    ///
    /// let client = store.session();
    /// let task = client.take_any(&[&mail, &calls], None)?.unwrap().detach();
    /// client.end()?; // releases it
    /// assert_eq!(calls.try_take()?.unwrap().id(), task.info.id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_any(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Claim>> {
        let session = self.begun()?;
        take_any(&session.handle, tubes, session.id, Some(session.clone()), timeout.into())
    }

    /// As [`take_any`](Session::take_any), as a future that blocks no thread; see
    /// [`Tube::take`] of a handle from [`to_async`](Tube::to_async).
    pub fn take_any_async(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> Ticket<Option<AsyncClaim>> {
        let session = &self.0;
        if let Err(refused) = session.begun() {
            return Ticket::known(Err(refused));
        }
        take_any_async(&session.handle, tubes, session.id, Some(session.clone()), timeout.into())
    }

    /// Says what this session is, for [`Store::owners`](crate::Store::owners): a kind, such as
    /// `worker` or `window`, and any text about it, such as its version in JSON. Replaces what it
    /// said before.
    ///
    /// A described session is listed also while it has no claim, until it ends. Only memory
    /// changes, and the call does not block. The label of the session is given by
    /// [`session_named`](crate::Store::session_named).
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the kind may have 255 bytes, the metadata 4096.
    /// [`SessionEnded`](crate::Error::SessionEnded); [`Closed`](crate::Error::Closed). Nothing
    /// changed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let worker = store.session_named("worker-3")?;
    /// worker.describe("encoder", r#"{"version": 7}"#)?;
    /// let owners = store.owners()?;
    /// assert_eq!(owners[0].label.as_deref(), Some("worker-3"));
    /// assert_eq!((owners[0].kind.as_deref(), owners[0].running), (Some("encoder"), 0));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "register")]
    pub fn describe(&self, kind: &str, metadata: &str) -> Result<()> {
        let about = About { kind: kind.into(), metadata: metadata.into() };
        self.begun()?.handle.make(FILE, (), &DescribeSession { id: self.0.id, about })
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
    /// told, and ends the session after its [grace](crate::StoreOptions::session_grace).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// jobs.put("one")?;
    ///
    /// let client = store.session();
    /// let theirs = client.tube("jobs")?;
    /// let claim = theirs.try_take()?.unwrap();
    /// client.end()?;
    /// assert_eq!(claim.ack(), Err(Error::SessionEnded));
    /// assert!(theirs.try_take().is_err());
    /// assert!(jobs.try_take()?.is_some());
    /// # Ok::<(), Error>(())
    /// ```
    pub fn end(self) -> Result<()> {
        self.begun()?.handle.end_session(self.0.id)
    }
}
