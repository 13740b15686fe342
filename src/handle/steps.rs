//! Durable steps: parts of the work on a task, each of which is stored when it has finished.

mod waits;

use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::core::PutInto;
use crate::core::list::{ReadStep, Spawn, StepsHeld, WriteStep};
use crate::handle::claim::Held;
use crate::handle::trace::join;
use crate::values::step::Step;
use crate::values::step::named_twice;
use crate::{AsyncClaim, Claim, Error, IntoPut, Mode, Result, Tube};

impl<T> Claim<T> {
    /// Runs a step of the work, unless an attempt before this one has finished it: then the value
    /// that it has returned is returned again, and `run` is not called.
    ///
    /// So a job of several steps goes on where it was: after an error, a release, an expired claim,
    /// a killed process or a power cut, the next worker that takes the task calls the same steps,
    /// and those that have finished return immediately. The steps of a task have different names,
    /// of 1 to 255 bytes. A task has at most 1000.
    ///
    /// Once this returns, the value survives what a put survives. The call blocks for a flush, in a
    /// written tube for a write, unless the step is stored already. The value is stored
    /// as JSON. The step of an [`AsyncClaim`] is a future, and blocks no thread.
    ///
    /// A step runs at least once: if the process dies after the effect of `run` and before the
    /// flush, it runs again, so its effect must be idempotent. A step that has stored its value
    /// never runs again. An error of `run` is returned, and a panic goes on; neither is stored, so the next call
    /// of the step runs it again, in this attempt or in the next one.
    ///
    /// Steps stay with the task while it is released, failed, snoozed, buried, kicked, updated or
    /// moved. They go when it ends, when it is put anew by its key, and when it
    /// [advances](crate::Outcome::advance). [`steps`](Claim::steps) lists them.
    ///
    /// # Errors
    /// Those of `run`. As the error type of `run`:
    /// [`NotTaken`](Error::NotTaken): the claim had ended; nothing is stored. If that was so at the
    /// begin, `run` was not called: a worker that has lost its task stops here.
    /// [`Invalid`](Error::Invalid): the name is used twice in this claim, is too long, or is that
    /// of a step of another kind; the value is larger than a body may be
    /// ([`max_body`](crate::StoreOptions::max_body)); or the task has 1000 steps.
    /// [`Codec`](Error::Codec): the value cannot be encoded, or the stored one not be decoded as
    /// this type. [`DiskFull`](Error::DiskFull). After [`OutcomeUnknown`](Error::OutcomeUnknown)
    /// the step is stored when the storage works again.
    ///
    /// # Example: a film that is split and rendered, and is not split again after a crash
    /// ```
    /// use tubewell::{Claim, Error, Result, Store};
    ///
    /// fn cut(film: &Claim, rendered: &mut Vec<u32>, dies_at: u32) -> Result<()> {
    ///     let parts = film.step("split", || Ok::<u32, Error>(3))?;
    ///     for part in 0..parts {
    ///         film.step(&format!("part {part}"), || {
    ///             if part == dies_at {
    ///                 return Err(Error::Io { what: "no space".into() });
    ///             }
    ///             rendered.push(part);
    ///             Ok(())
    ///         })?;
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// films.put("cat.mp4")?;
    /// let mut rendered = Vec::new();
    /// assert!(cut(&films.try_take()?.unwrap(), &mut rendered, 1).is_err()); // released
    /// let film = films.try_take()?.unwrap();
    /// cut(&film, &mut rendered, 9)?;
    /// film.ack()?;
    /// assert_eq!(rendered, [0, 1, 2]);
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "checkpoint")]
    #[doc(alias = "durable execution")]
    #[doc(alias = "workflow")]
    #[doc(alias = "memoize")]
    pub fn step<V, E>(&self, name: &str, run: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.held.step(name, run)
    }

    /// Puts a task into a tube, once, as a step of the work: if an attempt before this one has put
    /// it, nothing is put. Returns the id of the task in both cases.
    ///
    /// The put and the step are one commit. So the task is there exactly once, whatever dies. It may have
    /// been worked on, or have ended, when a later attempt calls this again. If its [key](crate::Put::key) is
    /// in use, [`Put::on_key`](crate::Put::on_key) decides, and with [`OnKey::Keep`](crate::OnKey::Keep) the
    /// call returns the id of the task that has the key.
    ///
    /// Once this returns, both survive what a put survives. The call blocks until they are flushed,
    /// or written, as the stronger [durability](crate::Durability) of the two tubes says.
    ///
    /// # Errors
    /// Nothing was put, and nothing stored: [`NotTaken`](Error::NotTaken),
    /// [`DiskFull`](Error::DiskFull), and [`Invalid`](Error::Invalid) as in [`step`](Claim::step),
    /// or since the tubes have no common commit: they belong to two stores, or one of them is
    /// temporary; [`Full`](Error::Full), [`Unsupported`](Error::Unsupported),
    /// [`KeyInUse`](Error::KeyInUse), [`TubeDropped`](Error::TubeDropped) and the other errors of
    /// [`Tube::put`], also [`KeyInUse`](Error::KeyInUse) for a put that would replace the task
    /// itself. After [`OutcomeUnknown`](Error::OutcomeUnknown) both are there when the storage
    /// works again.
    ///
    /// # Example: a mail that is put once
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let orders = store.tube("orders")?;
    /// let mails = store.tube("mails")?;
    /// orders.put("7 pencils")?;
    /// let first = orders.try_take()?.unwrap().spawn("confirm", &mails, "to: ann")?; // released
    /// let order = orders.try_take()?.unwrap();
    /// assert_eq!(order.spawn("confirm", &mails, "to: ann")?, first);
    /// assert_eq!(mails.statistics()?.tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "exactly once")]
    #[doc(alias = "child")]
    pub fn spawn<U, N: Mode>(
        &self,
        name: &str,
        tube: &Tube<U, N>,
        task: impl IntoPut<U>,
    ) -> Result<u64> {
        self.held.spawn(name, self.held.child(tube, task))
    }

    /// Returns the steps of the task that are stored, by name. As [`Query::steps`](crate::Query::steps).
    ///
    /// # Errors
    /// [`NotTaken`](Error::NotTaken): the claim had ended; [`Corrupt`](Error::Corrupt) if the task
    /// or a step is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::expert::StepKind;
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("sum")?;
    /// let job = jobs.try_take()?.unwrap();
    /// job.step("one", || Ok::<u8, Error>(1))?;
    /// let step = job.steps()?.pop().unwrap();
    /// assert_eq!((step.name.as_str(), step.kind, &step.value[..]), ("one", StepKind::Value, &b"1"[..]));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn steps(&self) -> Result<Vec<Step>> {
        self.held.steps()
    }
}

impl<T> AsyncClaim<T> {
    /// As `step` of a blocking claim, for a step that is a future. The step runs on the caller's executor,
    /// and no thread is blocked.
    ///
    /// Dropping the future before the value is being stored drops the future of the step, too: nothing is
    /// stored, and the step runs again.
    ///
    /// # Errors
    /// Those of `step` of a blocking claim.
    ///
    /// # Example
    /// ```
    /// use tubewell::{AsyncClaim, Result};
    ///
    /// async fn count(page: &AsyncClaim) -> Result<usize> {
    ///     let text: String = page.step("fetch", async || fetch(page.body()).await).await?;
    ///     page.step("count", async || Ok(text.split_whitespace().count())).await
    /// }
    /// # async fn fetch(_: &[u8]) -> Result<String> { Ok(String::new()) }
    /// ```
    pub fn step<V, E, F>(
        &self,
        name: &str,
        run: impl FnOnce() -> F,
    ) -> impl Future<Output = Result<V, E>>
    where
        F: Future<Output = Result<V, E>>,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        self.held.step_async(name, run)
    }

    /// As [`spawn`](Claim::spawn), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`spawn`](Claim::spawn).
    pub fn spawn<U, N: Mode>(
        &self,
        name: &str,
        tube: &Tube<U, N>,
        task: impl IntoPut<U>,
    ) -> impl Future<Output = Result<u64>> {
        self.held.spawn_async(name, self.held.child(tube, task))
    }

    /// As [`steps`](Claim::steps), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`steps`](Claim::steps).
    pub fn steps(&self) -> impl Future<Output = Result<Vec<Step>>> {
        self.held.steps_async()
    }
}

impl Held {
    pub(crate) fn step<V, E>(&self, name: &str, run: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let named = self.name_step(name)?;
        if let Some(stored) = self.make(&ReadStep { name: name.into() })? {
            self.goes_on();
            return named.keep(self.decode_step(name, stored)).map_err(E::from);
        }
        let value = run()?;
        self.make(&WriteStep { name: name.into(), value: encode_step(&value)? })?;
        named.keep(Ok(value))
    }

    pub(crate) async fn step_async<V, E, F>(
        &self,
        name: &str,
        run: impl FnOnce() -> F,
    ) -> Result<V, E>
    where
        F: Future<Output = Result<V, E>>,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let named = self.name_step(name)?;
        if let Some(stored) = self.make_async(&ReadStep { name: name.into() }).await? {
            self.goes_on();
            return named.keep(self.decode_step(name, stored)).map_err(E::from);
        }
        let value = run().await?;
        let write = WriteStep { name: name.into(), value: encode_step(&value)? };
        self.make_async(&write).await?;
        named.keep(Ok(value))
    }

    fn decode_step<V: DeserializeOwned>(&self, name: &str, stored: Vec<u8>) -> Result<V> {
        serde_json::from_slice(&stored).map_err(|error| {
            let id = self.id();
            Error::Codec { what: format!("task {id}: the value of its step {name:?}: {error}") }
        })
    }

    /// A task that a step puts into a tube.
    pub(crate) fn child<U, N: Mode>(
        &self,
        tube: &Tube<U, N>,
        task: impl IntoPut<U>,
    ) -> Result<PutInto> {
        tube.put_into(&self.handle, join(tube.encode(task)))
    }

    fn spawn(&self, name: &str, into: Result<PutInto>) -> Result<u64> {
        let named = self.name_step(name)?;
        named.keep(self.make(&Spawn { name: name.into(), into: into? }))
    }

    pub(crate) async fn spawn_async(&self, name: &str, into: Result<PutInto>) -> Result<u64> {
        let named = self.name_step(name)?;
        named.keep(self.make_async(&Spawn { name: name.into(), into: into? }).await)
    }

    fn steps(&self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.make(&next_steps(&steps))?.add_to(&mut steps) {
                return Ok(steps);
            }
        }
    }

    async fn steps_async(&self) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            if self.make_async(&next_steps(&steps)).await?.add_to(&mut steps) {
                return Ok(steps);
            }
        }
    }

    /// Notes that this claim has a step of this name. Refuses a second one.
    fn name_step<'a>(&'a self, name: &'a str) -> Result<Named<'a>> {
        if self.step_names.lock().insert(name.into()) {
            return Ok(Named { held: self, name, is_kept: false });
        }
        Err(named_twice(name))
    }
}

/// The verb that lists the steps behind those that are known.
fn next_steps(known: &[Step]) -> StepsHeld {
    StepsHeld { after: known.last().map(|last| last.name.as_str().into()) }
}

/// The name of a step that has begun. If the step does not finish, its name may be used again.
struct Named<'a> {
    held: &'a Held,
    name: &'a str,
    is_kept: bool,
}

impl Named<'_> {
    /// The step has finished, unless this is an error.
    fn keep<T, E>(mut self, outcome: Result<T, E>) -> Result<T, E> {
        self.is_kept = outcome.is_ok();
        outcome
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        if !self.is_kept {
            self.held.step_names.lock().remove(self.name);
        }
    }
}

fn encode_step(value: &impl Serialize) -> Result<Vec<u8>> {
    serde_json::to_vec(value).map_err(|error| Error::Codec { what: error.to_string() })
}
