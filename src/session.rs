//! Sessions: owners of claims.

use std::sync::Arc;
use std::time::Duration;

use crate::core::{FILE, TubeRequest};
use crate::handle::SessionGuard;
use crate::tube::{take_any, take_any_async};
use crate::wait::TakeFuture;
use crate::{Claim, Result, SessionId, Tube, TubeOptions};

/// An owner of claims. Clones are the same session.
///
/// Tubes opened through a session act for it: what they take belongs to it, and ack, release and
/// touch by id need it. When the last handle is gone (sessions, tubes opened through it, claims
/// taken through those), the session ends: what it holds is ready again, at once or after the
/// [grace](crate::StoreOptions::session_grace), during which
/// [`resume_session`](crate::Store::resume_session) brings it back. Sessions live in memory: the
/// end of the process ends them all.
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
pub struct Session(Arc<SessionGuard>);

impl Session {
    pub(crate) fn new(guard: SessionGuard) -> Session {
        Session(Arc::new(guard))
    }

    /// Its name.
    #[must_use]
    pub fn id(&self) -> SessionId {
        self.0.id
    }

    /// Opens a tube for this session: what is taken through the handle belongs to it. Writes nothing
    /// and waits for nobody.
    ///
    /// # Errors
    /// [`TubeNotFound`](Error::TubeNotFound); [`Closed`](Error::Closed).
    pub fn tube(&self, name: &str) -> Result<Tube> {
        let head = self.0.handle.inner().run(|core| core.find_tube(name))?;
        Ok(Tube::new(self.0.handle.clone(), self.0.id, Some(self.0.clone()), head))
    }

    /// Creates a tube and opens it for this session; as [`Store::create_tube`](crate::Store::create_tube).
    ///
    /// # Errors
    /// As [`Store::create_tube`](crate::Store::create_tube).
    pub fn create_tube(&self, name: &str, driver: &str, options: TubeOptions) -> Result<Tube> {
        let request = TubeRequest { name: name.into(), driver: driver.into(), options };
        let head = self.0.handle.inner().call(FILE, |core| core.create_tube(&request))?;
        Ok(Tube::new(self.0.handle.clone(), self.0.id, Some(self.0.clone()), head))
    }

    /// Takes from the first of these tubes that has a task, or waits in all of them, as
    /// [`Store::take_any`](crate::Store::take_any); the claim belongs to this session, whoever the
    /// handles of the tubes act for.
    ///
    /// # Errors
    /// As [`Store::take_any`](crate::Store::take_any).
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
    /// client.end()?; // gives it back
    /// assert_eq!(calls.try_take()?.unwrap().id(), task.info.id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_any(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Option<Claim>> {
        let session = &self.0;
        take_any(&session.handle, tubes, session.id, Some(session.clone()), timeout.into())
    }

    /// As [`take_any`](Session::take_any), as a future of no particular runtime; see
    /// [`Tube::take_async`].
    pub fn take_any_async(
        &self,
        tubes: &[&Tube],
        timeout: impl Into<Option<Duration>>,
    ) -> TakeFuture {
        let session = &self.0;
        take_any_async(&session.handle, tubes, session.id, Some(session.clone()), timeout.into())
    }

    /// Ends the session now, whatever the grace and whoever else has a handle: what it holds is
    /// ready again, its waits end with [`SessionEnded`](Error::SessionEnded), and so do
    /// later takes, acks, releases and touches for it. Puts, and the verbs that are open to all, go on
    /// through its handles. Writes nothing and waits for nobody.
    ///
    /// # Errors
    /// [`Corrupt`](Error::Corrupt): a record could not be read; all the others are ready again.
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
        self.0.handle.inner().run(|core| core.end_session(self.0.id))
    }
}
