//! Verbs that anybody may call, whoever holds the task.

use super::Tube;
use crate::core::{Core, Decided, KICK_STEP};
use crate::task::{Cursor, Page, Task};
use crate::{Error, Receipt, Result, State};

impl Tube {
    /// Sets a task aside, whatever its state and whoever holds it: buried, it stays so until it is
    /// kicked or deleted, or its ttl is over. A claim on it has ended.
    ///
    /// Once this returns, it is buried after a killed process and a power cut too. It waits for a
    /// flush; for none if the task is buried already, which changes nothing.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound): there is no such task, and no crash brings one back.
    ///
    /// # Example: a task that only fails
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let id = tube.put("to: nobody")?.id;
    /// tube.bury(id)?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn bury(&self, id: u64) -> Result<Receipt> {
        self.answer_once_visible(id, |core, number| core.bury(number, id))
    }

    /// Makes up to `count` buried tasks ready, the most urgent and oldest first, whenever they were
    /// buried; answers how many there were.
    ///
    /// Each is back in its old place, and its ttl has gone on. Once this returns, they are ready
    /// after a killed process and a power cut too. It waits for a flush, if there was one to kick;
    /// more than 512 are kicked in several commits.
    ///
    /// # Errors
    /// Those of every verb; of more than 512, some may have been kicked.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let id = tube.put("to: nobody")?.id;
    /// tube.bury(id)?;
    /// assert_eq!(tube.kick(u64::MAX)?, 1);
    /// assert_eq!(tube.try_take()?.unwrap().id(), id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn kick(&self, count: u64) -> Result<u64> {
        let mut kicked = 0;
        while kicked < count {
            let step = (count - kicked).min(KICK_STEP);
            let now = self.call(|core, number| core.kick(number, step))?;
            kicked += now;
            if now < step {
                break;
            }
        }
        Ok(kicked)
    }

    /// Kicks one buried task: it is ready again, in its old place in the order.
    ///
    /// Its ttl has gone on while it was buried. Once this returns, the task is ready after a killed
    /// process and a power cut too. Blocks until the flush that holds the change.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound): there is no such task. [`NotBuried`](Error::NotBuried): the
    /// task is ready, taken or delayed. Nothing changed, and no crash makes this untrue.
    ///
    /// # Example: retry one dead letter
    /// ```
    /// use tubewell::{Error, State};
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("to: ann")?.id;
    /// tube.bury(id)?;
    /// assert_eq!(tube.kick_task(id)?.state, State::Ready);
    /// assert_eq!(tube.kick_task(id), Err(Error::NotBuried { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn kick_task(&self, id: u64) -> Result<Receipt> {
        self.answer_once_visible(id, |core, number| core.kick_task(number, id))
    }

    /// Deletes a task, whatever its state and whoever holds it. A claim on it has ended.
    ///
    /// Once this returns, it is gone for good, power cut or not. It waits for a flush.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound): there is no such task, and no crash brings one back.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("a mistake")?.id;
    /// tube.delete(id)?;
    /// assert_eq!(tube.delete(id), Err(Error::NotFound { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn delete(&self, id: u64) -> Result<Receipt> {
        self.answer_once_visible(id, |core, number| core.delete(number, id))
    }

    /// Looks at a task, body included, and changes nothing.
    ///
    /// If the task is just being changed, it waits for the flush, so as not to tell what a crash
    /// could take back; else for nothing.
    ///
    /// # Errors
    /// [`NotFound`](Error::NotFound); [`Corrupt`](Error::Corrupt) if the task is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::State;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    ///
    /// let id = tube.put("work")?.id;
    /// let task = tube.peek(id)?;
    /// assert_eq!((task.info.state, &*task.data), (State::Ready, &b"work"[..]));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn peek(&self, id: u64) -> Result<Task> {
        self.answer_once_visible(id, |core, number| core.peek(number, id))?
    }

    /// Looks at the tasks in one state, in order, a page at a time: up to `limit` of them, and no
    /// more than 10,000, behind the place where the last page ended.
    ///
    /// The order is that of takes; for ready tasks of a sub-queued tube, sub-queue by sub-queue. It
    /// waits for nothing, and so shows changes whose flush is still under way. Tasks that change
    /// between two pages may be seen in none or in both.
    ///
    /// # Errors
    /// Those of every verb.
    ///
    /// # Example: all of them, page by page
    /// ```
    /// # use tubewell::{FIFO, State, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put_many(["a", "b", "c"])?;
    /// let mut place = None;
    /// loop {
    ///     let page = tube.list(State::Ready, place, 2)?;
    ///     page.tasks.iter().for_each(|task| println!("{} {}", task.id, task.size));
    ///     match page.next {
    ///         Some(next) => place = Some(next),
    ///         None => break,
    ///     }
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn list(&self, state: State, after: Option<Cursor>, limit: usize) -> Result<Page> {
        self.inner().run(|core| {
            self.check(core)?;
            core.list(self.head.number, state, after.as_ref(), limit)
        })
    }

    /// Removes all tasks, whatever their state. Claims on them have ended; those who wait for a task
    /// go on waiting, those who wait for room come in; numbers of calls stay, and no events are told.
    ///
    /// Once this returns they are gone for good, power cut or not. It waits for a flush, however many
    /// there were. Their rows are removed later, little by little.
    ///
    /// # Errors
    /// Those of every verb.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// tube.put_many(["a", "b", "c"])?;
    /// tube.truncate()?;
    /// assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn truncate(&self) -> Result<()> {
        self.call(Core::truncate)
    }

    /// As `call`; an answer that a task is missing or not buried waits until no crash can change it.
    fn answer_once_visible<T>(
        &self,
        id: u64,
        decide: impl FnOnce(&mut Core, u32) -> Result<Decided<T>>,
    ) -> Result<T> {
        let answer = self.call(|core, number| match decide(core, number) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(refused @ (Error::NotFound { .. } | Error::NotBuried { .. })) => {
                Ok(core.once_visible(number, id, Err(refused)))
            }
            Err(error) => Err(error),
        });
        answer?
    }
}
