//! The claims of a session, by the ids of their tasks.

use super::Tube;
use crate::core::Grant;
use crate::core::list::ClaimOf;
use crate::{Claim, Mode, Result};

impl<T, M: Mode> Tube<T, M> {
    /// The claim that the session of this handle has on a task, by the id of the task: for work whose claim was
    /// [detached](Claim::detach). Reads the record and the body of the task, and waits for no flush; through a
    /// connection it waits for the answer. A ticket begins the read at its first poll.
    ///
    /// A heartbeat should keep the claim, since each call reads the body again. The changes of the claim wait
    /// while the write buffer is full, also if this handle [refuses](Tube::refuse_when_full) its own changes.
    ///
    /// The claim stays the session's: neither a drop of this handle nor a refused call releases the task. An
    /// earlier handle that was not detached still releases the task when it is dropped.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): this session has not taken the task, or the claim has ended.
    /// [`Codec`](crate::Error::Codec): the body is no value of the type of this tube. The task stays taken;
    /// `claimed` of [`to_bytes`](Tube::to_bytes) returns the claim.
    /// [`Corrupt`](crate::Error::Corrupt): the task stays taken until the session ends or
    /// [`revoke`](crate::Admin::revoke) ends the claim.
    /// [`SessionEnded`](crate::Error::SessionEnded), [`TubeDropped`](crate::Error::TubeDropped),
    /// [`Closed`](crate::Error::Closed).
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("work")?;
    /// let id = jobs.take()?.detach().info.id;
    /// // ... in another place, with a handle of the same session
    /// assert_eq!(jobs.claimed(id)?.body(), b"work"); // dropped, and still taken
    /// jobs.claimed(id)?.ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn claimed(&self, id: u64) -> M::Answer<Claim<T, M>> {
        M::either(
            ClaimOf { session: self.session, id },
            |verb| self.found(self.to_blocking().make(verb)?),
            |verb| {
                let tube = self.to_async();
                async move { tube.found(tube.make(verb).await?) }
            },
        )
    }

    fn found<N: Mode>(&self, grant: Grant) -> Result<Claim<T, N>> {
        Claim::found(self.handle.clone(), self.guard(), grant)
            .typed(&self.coder)
            .map(Claim::with_mode)
    }
}
