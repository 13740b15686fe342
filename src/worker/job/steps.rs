//! Durable steps of a job.

use std::future::Future;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::refusal::StepError;
use super::{Interrupt, Job, JobCore};
use crate::{Error, IntoPut, Result, Step, Tube};

impl<T> Job<T> {
    /// Runs a step of the work, unless an attempt before this one has finished it: then the value
    /// that it has returned is returned again, and `run` is not called. As
    /// [`Claim::step`](crate::Claim::step): the value is stored as JSON, and a step runs at least once.
    ///
    /// # Errors
    /// Those of [`Claim::step`](crate::Claim::step).
    ///
    /// # Example
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{FIFO, Result, Store, TubeOptions};
    ///
    /// fn total(job: &Job<Vec<u64>>) -> Result<()> {
    ///     let sum = job.step("sum", || Ok::<u64, tubewell::Error>(job.value().iter().sum()))?;
    ///     job.step("print", || Ok::<(), tubewell::Error>(println!("{sum}")))
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let lists = store.create_tube("lists", FIFO, TubeOptions::new())?.typed::<Vec<u64>>();
    /// lists.put(&vec![1, 2, 3])?;
    /// assert_eq!(Worker::new(&store).on(&lists, total).run_until_idle()?.done, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "durable execution")]
    #[doc(alias = "workflow")]
    pub fn step<V, E>(&self, name: &str, run: impl FnOnce() -> Result<V, E>) -> Result<V, E>
    where
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let run = || run().map_err(StepError::Own);
        self.core.note_step(self.core.claim.held.step::<V, StepError<E>>(name, run))
    }

    /// As [`step`](Job::step), for a step that is a future, as the step of an
    /// [`AsyncClaim`](crate::AsyncClaim).
    ///
    /// # Errors
    /// Those of [`step`](Job::step).
    pub async fn step_async<V, E, F>(&self, name: &str, run: impl FnOnce() -> F) -> Result<V, E>
    where
        F: Future<Output = Result<V, E>>,
        V: Serialize + DeserializeOwned,
        E: From<Error>,
    {
        let run = async || run().await.map_err(StepError::Own);
        let step = self.core.claim.held.step_async::<V, StepError<E>, _>(name, run);
        self.core.note_step(step.await)
    }
}

impl<T> Job<T> {
    /// Puts a task into a tube, once, as a step of the work. Returns its id. As
    /// [`Claim::spawn`](crate::Claim::spawn).
    ///
    /// # Errors
    /// Those of [`Claim::spawn`](crate::Claim::spawn).
    pub fn spawn<U>(&self, name: &str, tube: &Tube<U>, task: impl IntoPut<U>) -> Result<u64> {
        self.core.note(self.core.claim.spawn(name, tube, task))
    }

    /// As [`spawn`](Job::spawn), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`spawn`](Job::spawn).
    pub async fn spawn_async<U>(
        &self,
        name: &str,
        tube: &Tube<U>,
        task: impl IntoPut<U>,
    ) -> Result<u64> {
        self.core.note(
            self.core.claim.held.spawn_async(name, self.core.claim.held.child(tube, task)).await,
        )
    }

    /// Returns the steps of the task that are stored, by name. As
    /// [`Claim::steps`](crate::Claim::steps).
    ///
    /// # Errors
    /// Those of [`Claim::steps`](crate::Claim::steps).
    pub fn steps(&self) -> Result<Vec<Step>> {
        self.core.claim.steps()
    }

    /// Waits for a time between two steps of the work, without a worker: the task is delayed
    /// meanwhile, and its job is begun again when the time has elapsed.
    ///
    /// The first call of this name stores when the time has elapsed, and returns an error. Pass it
    /// on with `?`: whatever error the handler then returns, the task is snoozed until that moment
    /// and the attempt does not count. In the next attempt, or after a killed process, the steps
    /// before it return what they have stored, and this call returns `Ok` once the time has
    /// elapsed. The time goes on while the store is closed or the machine is suspended. The name is
    /// that of a step, and the call blocks as that of a step does. In a tube without delays the worker
    /// [holds](crate::worker#tubes-without-delays) the task meanwhile.
    ///
    /// # Errors
    /// [`Interrupted`](Error::Interrupted): the job is to return now.
    /// Those of [`Claim::step`](crate::Claim::step).
    ///
    /// # Example: a reminder after three days
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{FIFOTTL, ManualClock, Result, Store, TubeOptions};
    ///
    /// const DAY: Duration = Duration::from_secs(86_400);
    ///
    /// fn sign_up(job: &Job<String>) -> Result<()> {
    ///     job.step("welcome", || send(job.value(), "welcome"))?;
    ///     job.sleep("three days", 3 * DAY)?;
    ///     job.step("remind", || send(job.value(), "still there?"))
    /// }
    /// # fn send(_: &str, _: &str) -> Result<()> { Ok(()) }
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let sign_ups = store.create_tube("sign-ups", FIFOTTL, TubeOptions::new())?.typed();
    /// sign_ups.put(&"ann".to_owned())?;
    /// let work_off = || Worker::new(&store).on(&sign_ups, sign_up).run_until_idle();
    /// assert_eq!(work_off()?.suspended, 1);
    /// clock.advance(3 * DAY);
    /// assert_eq!(work_off()?.done, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn sleep(&self, name: &str, time: Duration) -> Result<()> {
        self.core.asleep(self.core.note(self.core.claim.held.sleep_step(name, time))?)
    }

    /// As [`sleep`](Job::sleep), as a future that blocks no thread. It does not wait for the time.
    ///
    /// # Errors
    /// Those of [`sleep`](Job::sleep).
    pub async fn sleep_async(&self, name: &str, time: Duration) -> Result<()> {
        self.core.asleep(self.core.note(self.core.claim.held.sleep_step_async(name, time).await)?)
    }

    /// Waits until these tasks of `tube` are over, without a worker: the task is blocked meanwhile,
    /// and its job is begun again when the last of them is done. Mostly for tasks that it has
    /// [spawned](Job::spawn).
    ///
    /// If one of them is not over, the wait is stored, the claim ends, and an error is returned.
    /// Pass it on with `?`: whatever the handler then returns, the task waits, as one that was put
    /// [after](crate::Put::after) them, and the attempt does not count.
    /// [`Put::on_parent`](crate::Put::on_parent) decides what becomes of it if one of them is deleted or
    /// buried. In the next attempt this call returns `Ok`. The name is that of a step, and the call
    /// blocks as that of a step does.
    ///
    /// # Errors
    /// [`Interrupted`](Error::Interrupted): the job is to return now; its claim has ended.
    /// [`NotFound`](Error::NotFound): an id was never assigned. [`Cycle`](Error::Cycle): one of
    /// them waits for this task. [`Invalid`](Error::Invalid): the tubes belong to two stores, or
    /// one of them is temporary. Those of [`Claim::step`](crate::Claim::step).
    ///
    /// # Example: a book whose pages are printed by many workers
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{FIFO, Result, Store, Tube, TubeOptions};
    ///
    /// fn print(job: &Job, pages: &Tube) -> Result<()> {
    ///     let page = |n| job.spawn(&format!("page {n}"), pages, format!("page {n}"));
    ///     let ids = (1..=3).map(page).collect::<Result<Vec<u64>>>()?;
    ///     job.join("printed", pages, &ids)?;
    ///     job.step("bind", || Ok(println!("bound")))
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let books = store.create_tube("books", FIFO, TubeOptions::new())?;
    /// let pages = store.create_tube("pages", FIFO, TubeOptions::new())?;
    /// books.put("a book")?;
    /// let to = pages.clone();
    /// let worker = Worker::new(&store).on(&books, move |job: &Job| print(job, &to));
    /// let tally = worker.on(&pages, |_: &Job| ()).run_until_idle()?;
    /// assert_eq!((tally.suspended, tally.done), (1, 4));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn join<U>(&self, name: &str, tube: &Tube<U>, ids: &[u64]) -> Result<()> {
        self.core.joined(self.core.note(self.core.claim.held.join_step(name, tube, ids))?)
    }

    /// As [`join`](Job::join), as a future that blocks no thread. It does not wait for the tasks.
    ///
    /// # Errors
    /// Those of [`join`](Job::join).
    pub async fn join_async<U>(&self, name: &str, tube: &Tube<U>, ids: &[u64]) -> Result<()> {
        let joined = self.core.claim.held.join_step_async(name, tube, ids).await;
        self.core.joined(self.core.note(joined)?)
    }
}

impl JobCore {
    /// Goes on if no time is left, and interrupts the job otherwise.
    fn asleep(&self, left: Duration) -> Result<()> {
        if left.is_zero() {
            return Ok(());
        }
        self.interrupt(Interrupt::Asleep(left));
        self.interrupted_because("it sleeps, and is begun again afterwards")
    }

    /// Goes on if the tasks are over. Otherwise the claim has ended.
    fn joined(&self, is_over: bool) -> Result<()> {
        if is_over {
            return Ok(());
        }
        self.interrupt(Interrupt::Blocked);
        self.keep();
        self.interrupted_because("it waits for other tasks, and is begun again afterwards")
    }
}
