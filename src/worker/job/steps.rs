//! Durable steps of a job.

use std::time::Duration;

use super::{AsyncJob, Interrupt, Job, JobCore};
use crate::{Mode, Result, Tube};

impl<T> Job<T> {
    /// Waits for a time between two steps of the work, without a worker: the task is delayed
    /// meanwhile, and its job is begun again when the time has elapsed.
    ///
    /// The first call of this name stores when the time has elapsed, and returns an error. Pass it on with
    /// `?`: whatever error the handler then returns, the task is snoozed until that moment and the attempt
    /// does not count. In the next attempt, or after a killed process, the steps before it return what they
    /// have stored, and this call returns `Ok` once the time has elapsed. The time goes on while the store is
    /// closed or the machine is suspended. The name is a name of a step, and the call blocks as `step` does.
    /// In a tube without delays the worker [holds](crate::worker#tubes-without-delays) the task meanwhile.
    ///
    /// # Errors
    /// [`Interrupted`](crate::Error::Interrupted): the job is to return now.
    /// Those of [`Claim::step`](crate::Claim::step).
    ///
    /// # Example: a reminder after three days
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{ManualClock, Result, Store};
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
    /// let sign_ups = store.tube("sign-ups")?.typed();
    /// sign_ups.put(&"ann".to_owned())?;
    /// let work_off = || Worker::new(&store).on(&sign_ups, sign_up).run_until_idle();
    /// assert_eq!(work_off()?.suspended, 1);
    /// clock.advance(3 * DAY);
    /// assert_eq!(work_off()?.done, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn sleep(&self, name: &str, time: Duration) -> Result<()> {
        self.core.asleep(self.held.sleep_step(name, time)?)
    }

    /// Waits until these tasks of `tube` are over, without a worker: the task is blocked meanwhile,
    /// and its job is begun again when the last of them is done. Mostly for tasks that it has
    /// [spawned](crate::Claim::spawn).
    ///
    /// If one of them is not over, the wait is stored, the claim ends, and an error is returned. Pass it on
    /// with `?`: whatever the handler then returns, the task waits, as one that was put
    /// [after](crate::Put::after) them, and the attempt does not count.
    /// [`Put::on_parent`](crate::Put::on_parent) decides what becomes of it if one of them is deleted or
    /// buried. In the next attempt this call returns `Ok`. The name is a name of a step, and the call blocks
    /// as `step` does.
    ///
    /// # Errors
    /// [`Interrupted`](crate::Error::Interrupted): the job is to return now; its claim has ended.
    /// [`NotFound`](crate::Error::NotFound): an id was never assigned. [`Cycle`](crate::Error::Cycle): one of
    /// them waits for this task. [`Invalid`](crate::Error::Invalid): the tubes belong to two stores, or
    /// one of them is temporary. Those of [`Claim::step`](crate::Claim::step).
    ///
    /// # Example: a book whose pages are printed by many workers
    /// ```
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Result, Store, Tube};
    ///
    /// fn print(job: &Job, pages: &Tube) -> Result<()> {
    ///     let page = |n| job.spawn(&format!("page {n}"), pages, format!("page {n}"));
    ///     let ids = (1..=3).map(page).collect::<Result<Vec<u64>>>()?;
    ///     job.join("printed", pages, &ids)?;
    ///     job.step("bind", || Ok(println!("bound")))
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let books = store.tube("books")?;
    /// let pages = store.tube("pages")?;
    /// books.put("a book")?;
    /// let to = pages.clone();
    /// let worker = Worker::new(&store).on(&books, move |job: &Job| print(job, &to));
    /// let tally = worker.on(&pages, |_: &Job| ()).run_until_idle()?;
    /// assert_eq!((tally.suspended, tally.done), (1, 4));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn join<U, N: Mode>(&self, name: &str, tube: &Tube<U, N>, ids: &[u64]) -> Result<()> {
        self.core.joined(self.held.join_step(name, tube, ids)?)
    }
}

impl<T> AsyncJob<T> {
    /// Waits for a time between two steps of the work, without a worker. As
    /// [`sleep`](Job::sleep) of a blocking handler, as a future that blocks no thread; it does not
    /// wait for the time.
    ///
    /// # Errors
    /// Those of [`sleep`](Job::sleep).
    pub async fn sleep(&self, name: &str, time: Duration) -> Result<()> {
        self.core.asleep(self.held.sleep_step_async(name, time).await?)
    }

    /// Waits until these tasks of `tube` are over, without a worker. As
    /// [`join`](Job::join) of a blocking handler, as a future that blocks no thread; it does not wait
    /// for the tasks.
    ///
    /// # Errors
    /// Those of [`join`](Job::join).
    pub async fn join<U, N: Mode>(&self, name: &str, tube: &Tube<U, N>, ids: &[u64]) -> Result<()> {
        self.core.joined(self.held.join_step_async(name, tube, ids).await?)
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
        self.leave(Interrupt::Blocked);
        self.interrupted_because("it waits for other tasks, and is begun again afterwards")
    }
}
