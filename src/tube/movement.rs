//! Movement of tasks to another tube.

use std::sync::Arc;

use super::{Admin, Tube};
use crate::call::make;
use crate::core::list::{MoveSome, MoveTo, NextId};
use crate::core::verb::TubeName;
use crate::core::{FILE, MoveStep};
use crate::handle::StoreHandle;
use crate::in_steps::{Steps, begin_steps, run_steps};
use crate::{Error, Mode, Receipt, Result};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Moves a task to another tube of the store, in its state: ready, delayed or buried. A taken
    /// task is ready there; the claim on it has ended, and its attempt does not count.
    ///
    /// It is still the same task: it keeps its id, its body, its age, its attempts, its failure, and
    /// its priority, times and sub-queue. A tube without times gives it the defaults of `to`. Its
    /// place follows from the rules of `to`, and so does how long it stays there if it is buried.
    /// Callers that [wait](Tube::wait_done) for its end go on waiting.
    ///
    /// It is one commit: after a crash the task is in one of the tubes. Once this returns, the move
    /// survives what a put survives, in the stronger [durability](crate::Durability) of the two
    /// tubes. The call blocks for a flush.
    ///
    /// # Errors
    /// Nothing changed. [`NotFound`](Error::NotFound): the task is not in this tube; if that has
    /// durability flush, no crash brings it back. [`NotReady`](Error::NotReady): it is done and kept.
    /// [`HasDependents`](Error::HasDependents): more than 10,000 tasks wait for it.
    /// [`Full`](Error::Full): `to` has no space for it, or puts wait for space there.
    /// [`Unsupported`](Error::Unsupported): it has a priority, a ttl, a ttr, a delay or a sub-queue,
    /// and the driver of `to` does not support that. [`DriverUnknown`](Error::DriverUnknown) of `to`.
    /// [`Invalid`](Error::Invalid): `to` is this tube or a tube of another store, or one of the two
    /// is temporary. [`DiskFull`](Error::DiskFull). After [`OutcomeUnknown`](Error::OutcomeUnknown)
    /// the task is moved when the storage works again.
    ///
    /// # Example: hand a task to a person
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let orders = store.tube("orders")?;
    /// let by_hand = store.tube("by hand")?;
    /// let id = orders.put("order 7")?.id;
    /// orders.admin().move_to(id, &by_hand)?;
    /// assert!(orders.try_take()?.is_none());
    /// assert_eq!(by_hand.try_take()?.unwrap().id(), id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "transfer")]
    pub fn move_to<U, N: Mode>(&self, id: u64, to: &Tube<U, N>) -> M::Answer<Receipt> {
        self.tube.make_checked(self.tube.other(to).map(|to| MoveTo { id, to }))
    }

    /// Moves all ready, taken, delayed and buried tasks to another tube of the store, and returns
    /// how many. As [`move_to`](crate::Admin::move_to), for each of them.
    ///
    /// Tasks move in the order of takes, ready ones first, up to 256 with one commit. Tasks that are
    /// put meanwhile stay, and a task that changes meanwhile may stay. A damaged task stays, and so
    /// do tasks that are done and kept. The call blocks for the flush of each commit.
    ///
    /// # Errors
    /// Those of [`move_to`](crate::Admin::move_to), but for `NotFound` and `NotReady`. The tasks of earlier
    /// commits have moved: if `to` is [`Full`](Error::Full), as many as it has space for.
    ///
    /// # Example: rename a tube
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let old = store.tube("mails")?;
    /// old.put_many(["to: ann", "to: bob"])?;
    /// let new = store.tube("mail")?;
    /// assert_eq!(old.admin().move_all(&new)?, 2);
    /// store.drop_tube("mails")?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "rename")]
    #[doc(alias = "merge")]
    #[doc(alias = "redrive")]
    pub fn move_all<U, N: Mode>(&self, to: &Tube<U, N>) -> M::Answer<u64> {
        M::either(
            self.tube.other(to),
            |to| {
                let below = self.tube.handle.make(FILE, (), &NextId {})?;
                let tube = self.tube.to_blocking();
                run_steps(Moving::new(to?, below), |verb| tube.make(verb))
            },
            |to| {
                let tube = self.tube.to_bytes().to_async();
                async move {
                    let below = make(&tube.handle, FILE, (), &NextId {}).await?;
                    let moving = to.map(|to| Moving::new(to, below));
                    begin_steps(moving, move |verb| tube.make(verb)).await
                }
            },
        )
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// Another tube as the target of a call on this one.
    pub(crate) fn other<U, N: Mode>(&self, to: &Tube<U, N>) -> Result<TubeName> {
        to.check_store(&self.handle)?;
        Ok(TubeName::from(&to.head))
    }

    /// Refuses a tube of another store.
    pub(crate) fn check_store(&self, handle: &StoreHandle) -> Result<()> {
        if self.handle.is_same_store(handle) {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "tube {:?} belongs to another store; name a tube of the store of the task",
            self.name()
        )))
    }

    pub(crate) fn number(&self) -> u32 {
        self.head.number
    }

    pub(crate) fn shared_name(&self) -> Arc<str> {
        self.head.name.clone()
    }
}

/// How far a move of many tasks has come: of those with ids below one.
struct Moving {
    next: Option<MoveSome>,
    moved: u64,
}

impl Moving {
    fn new(to: TubeName, below: u64) -> Moving {
        Moving { next: Some(MoveSome { to, after: None, below }), moved: 0 }
    }
}

impl Steps for Moving {
    type Verb = MoveSome;
    type Done = u64;

    fn next(&mut self) -> Option<MoveSome> {
        self.next.clone()
    }

    fn note(&mut self, step: MoveStep) {
        self.moved += step.moved;
        let more = self.next.take().zip(step.next);
        self.next = more.map(|(verb, after)| MoveSome { after: Some(after), ..verb });
    }

    fn done(self) -> u64 {
        self.moved
    }
}
