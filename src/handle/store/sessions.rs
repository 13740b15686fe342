//! Sessions and parked claims of a store.

use std::sync::Arc;

use super::Store;
use crate::handle::session::Session;
use crate::handle::store_handle::SessionGuard;
use crate::handle::take;
use crate::values::owner::check_label;
use crate::{Bytes, Claim, ClaimToken, Error, Mode, SessionId};

impl<M: Mode> Store<M> {
    /// Begins a session, an owner of claims. Its end releases them; see [`Session`]. Does not block.
    ///
    /// The label is what people know the session by: the name of a worker, a host, a client.
    /// [`Query::owner`](crate::Query::owner), events and errors show it. Labels need not be unique, and
    /// the store derives no rights from them. A session with an empty label has none.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid) for a label of more than 255 bytes, and through a
    /// [connection](crate::connect) that has no room for the session: 239 sessions fit with labels of
    /// any length, and 3852 without labels, beside the connection's own one.
    /// [`Closed`](Error::Closed). No session was begun.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let id = jobs.put("work")?.id;
    /// let worker = store.session("worker-3")?;
    /// let claim = worker.tube(&jobs)?.try_take()?.unwrap();
    /// assert_eq!(jobs.query().owner(id)?.unwrap().label.as_deref(), Some("worker-3"));
    /// # drop(claim);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn session(&self, label: impl Into<Arc<str>>) -> M::Answer<Session<M>> {
        let label = label.into();
        let begun = check_label(&label).and_then(|()| {
            let label = Some(label).filter(|label| !label.is_empty());
            let id = SessionId::random();
            self.handle.begin_session(id, label.as_ref())?;
            Ok(Session::new(SessionGuard::new(self.handle.clone(), id)))
        });
        M::answer(begun)
    }

    /// Returns another handle of a session that has handles, or whose last handle was dropped no
    /// longer ago than its grace. The grace is canceled. Writes nothing and does not block.
    ///
    /// # Errors
    /// [`SessionUnknown`](Error::SessionUnknown): the session has ended, and its tasks have been
    /// released. [`Invalid`](Error::Invalid) for the store's own session, which ends with the
    /// store, and through a connection that has no room for the session.
    /// [`NotConnected`](Error::NotConnected), [`OutcomeUnknown`](Error::OutcomeUnknown): the owner does not
    /// answer the connection; there is no handle. [`Closed`](Error::Closed).
    ///
    /// # Example: a client that reconnects
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Store;
    ///
    /// let store = Store::options().session_grace(Duration::from_secs(60)).open_in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("one")?;
    ///
    /// let client = store.session("client")?;
    /// let id = client.id();
    /// let task = client.tube(&jobs)?.try_take()?.unwrap().detach();
    /// drop(client); // the connection broke; the task is still taken
    ///
    /// let client = store.resume_session(id)?;
    /// client.tube(&jobs)?.claimed(task.info.id)?.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn resume_session(&self, id: SessionId) -> M::Answer<Session<M>> {
        if id == self.handle.own_session() {
            let refused = Error::invalid("the store's own session cannot be resumed or ended");
            return M::answer(Err(refused));
        }
        let handle = self.handle.clone();
        M::begin(async move {
            handle.clone().resume_session(id).await?;
            Ok(Session::new(SessionGuard::new(handle, id)))
        })
    }

    /// Takes up a parked claim again, for the store's own session; see
    /// [`Session::resume_claim`] for others. The claim then lasts until the time that
    /// [`park`](Claim::park) gave it, and can be renewed, parked again and ended as any other.
    ///
    /// Changes memory only, and does not block; it reads the body from the file. If the process
    /// dies, the claim is parked again, until the same time.
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the time of the claim has elapsed, it was revoked, its task
    /// was removed or buried, or a session has resumed it. [`TubeNotFound`](Error::TubeNotFound).
    /// [`Corrupt`](Error::Corrupt): the body is damaged, and the task was buried.
    /// [`NotConnected`](Error::NotConnected), [`OutcomeUnknown`](Error::OutcomeUnknown): the owner does not
    /// answer the connection. After the latter, the claim may have ended. [`Closed`](Error::Closed).
    pub fn resume_claim(&self, token: &ClaimToken) -> M::Answer<Claim<Bytes, M>> {
        take::resume_claim::<M>(&self.handle, self.handle.own_session(), None, token)
    }
}
