//! The claims of a session, by the ids of their tasks; and the end of all claims of a tube.

use super::{Admin, Tube};
use crate::core::Grant;
use crate::core::list::{ClaimOf, ReleaseAll};
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

impl<T, M: Mode> Admin<'_, T, M> {
    /// Makes every taken task of the tube ready, whichever session has taken it, and returns how
    /// many. Their claims have ended: later calls of the holders return
    /// [`NotTaken`](crate::Error::NotTaken). The attempts count, as after
    /// [`release`](Claim::release).
    ///
    /// The call does not block. Most claims are in memory only, and end with the process anyway. The
    /// end of a claim that was [parked](crate::Claim::park), and the burial of a task whose last
    /// [attempt](crate::TubeOptions::max_attempts) this was, are flushed within 50 ms, in a written or
    /// relaxed tube within its delay. After a crash before that, the claim is parked again, and the
    /// attempt is lost. [`revoke`](crate::Admin::revoke) blocks until the end of a parked claim is stored.
    ///
    /// The call releases up to 512 tasks under one hold of the lock. Tasks that are taken meanwhile
    /// stay taken.
    ///
    /// # Errors
    /// Those of every call; some tasks may have been released.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("work")?.id;
    /// let hung = tube.try_take()?.unwrap();
    /// assert_eq!(tube.admin().release_all()?, 1);
    /// assert_eq!(hung.ack(), Err(Error::NotTaken { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release_all(&self) -> M::Answer<u64> {
        self.end_all(false)
    }

    /// As [`release_all`](crate::Admin::release_all), and forgives the attempts: for claims that must end
    /// through no fault of the tasks, such as those of workers that are replaced. See
    /// [`revoke`](crate::Admin::revoke).
    ///
    /// # Errors
    /// Those of every call; some claims may have ended.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(1))?;
    /// jobs.put("work")?;
    /// let worker = jobs.try_take()?;
    /// assert_eq!(jobs.admin().revoke_all()?, 1);
    /// assert!(jobs.try_take()?.is_some()); // its only attempt is still there
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn revoke_all(&self) -> M::Answer<u64> {
        self.end_all(true)
    }

    fn end_all(&self, forgive: bool) -> M::Answer<u64> {
        let tube = self.tube.to_bytes().to_async();
        M::run(async move {
            let mut left = tube.statistics().await?.tasks.taken;
            let (mut ended, mut outcome) = (0, Ok(()));
            // In steps, so that other calls get the lock in between.
            while left > 0 {
                let limit = usize::try_from(left).unwrap_or(usize::MAX);
                let (now, step) = tube.make(ReleaseAll { limit, forgive }).await?;
                outcome = outcome.and(step);
                if now == 0 {
                    break;
                }
                ended += now;
                left = left.saturating_sub(now);
            }
            outcome.map(|()| ended)
        })
    }
}
