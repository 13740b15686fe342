//! Functions before the puts of a handle.

use std::sync::Arc;

use super::Tube;
use crate::values::put::BeforePut;
use crate::{Mode, Put, Result};

impl<T, M: Mode> Tube<T, M> {
    /// A handle of the same tube that calls `function` before each put: with the task, its options and its encoded
    /// body. What the function returns is put. An error refuses the put, and the call returns this error.
    ///
    /// The counterpart of [`Worker::around`](crate::Worker::around) for producers: it gives each task the tag of a
    /// tenant or of a trace, a key or a delay, checks a body, or compresses it. A handle may have several functions:
    /// each gets what the one before it has returned, the first one what the caller puts.
    ///
    /// The function is called once for each task that the handle puts, also if the put then puts nothing: by [`put`](Tube::put),
    /// [`put_timeout`](Tube::put_timeout), [`put_many`](Tube::put_many), [`put_and_wait`](Tube::put_and_wait),
    /// [`requeue`](Tube::requeue), [`Claim::spawn`](crate::Claim::spawn), and with this handle as the target of an
    /// [`advance`](crate::Outcome::advance), of an [`and_put`](crate::Outcome::and_put) or of a put of a transaction.
    /// [`schedule`](Tube::schedule) and [`change_task`](crate::Schedules::change_task) call it for the task of all
    /// runs; a run does not. An [`update`](Tube::update), a checkpoint, a move, an
    /// [`advance_unchanged`](crate::Outcome::advance_unchanged) and
    /// [`restore_many`](crate::Admin::restore_many) put no new task, and do not call it. A call with several tasks, such
    /// as `put_many`, puts none of them if the function refuses one. The call checks what the functions return as it
    /// checks what a caller puts: a schedule refuses a key.
    ///
    /// For an outcome, the function runs when the outcome is made. If the handler of a
    /// [batch](crate::Worker::on_batch) returns one outcome for all jobs, the function runs once, and the
    /// task that it returned is put for each job.
    ///
    /// The functions run in the thread of the caller, before the call, without a lock: they may make calls of
    /// the store, but not in the closure of a `transact`, and their panics go to the caller. They are part of
    /// the handle, and are not stored: other handles of the tube, and other processes, put without them.
    /// Handles that are made of this handle have the functions, too: a clone, and the handles from
    /// [`typed`](Tube::typed), [`to_async`](Tube::to_async) and [`Session::tube`](crate::Session::tube).
    ///
    /// # Example: the tag of a tenant, and a limit of the body
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let of_ann = jobs.before_put(|put| Ok(put.tag("tenant ann"))).before_put(|put| {
    ///     match put.get_body().len() {
    ///         0..1000 => Ok(put),
    ///         _ => Err(Error::Invalid { what: "a job has less than 1000 bytes".into() }),
    ///     }
    /// });
    /// let id = of_ann.put("resize cat.jpg")?.id;
    /// assert_eq!(jobs.query().task(id)?.info.tags, ["tenant ann"]);
    /// assert!(of_ann.put(vec![0; 1000]).is_err());
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "middleware")]
    #[doc(alias = "interceptor")]
    #[doc(alias = "around_puts")]
    #[must_use = "the handle itself calls no function"]
    pub fn before_put(
        &self,
        function: impl Fn(Put<Vec<u8>>) -> Result<Put<Vec<u8>>> + Send + Sync + 'static,
    ) -> Tube<T, M> {
        let before_put: BeforePut = match self.before_put.clone() {
            None => Arc::new(function),
            Some(first) => Arc::new(move |put| function(first(put)?)),
        };
        Tube { before_put: Some(before_put), ..self.clone() }
    }
}
