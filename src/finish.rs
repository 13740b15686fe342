//! Finish: the end of a task, and what follows from it, with one commit.

use crate::core::list::FinishTask;
use crate::core::{FinishRequest, PutInto, PutRequest};
use crate::handle::StoreHandle;
use crate::put::Encoded;
use crate::{Claim, Error, IntoPut, Mode, Receipt, Result, Tube};

/// What a [`Claim::finish`] does: the task ends with a result, or goes on in another tube, and
/// further tasks are put.
///
/// All of it is one commit: after a crash, all of it is there or nothing.
///
/// # Example: an upload that leads to a thumbnail and two mails
/// ```
/// use tubewell::{FIFO, Finish, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let tube = |name| store.create_tube(name, FIFO, TubeOptions::new());
/// let (uploads, thumbnails, mail) = (tube("uploads")?, tube("thumbnails")?, tube("mail")?);
/// uploads.put("cat.jpg")?;
/// let upload = uploads.try_take()?.unwrap();
/// // ... store the picture
/// let finish = Finish::new()
///     .advance(&thumbnails, "cat.jpg, 200 px")
///     .put(&mail, "to: ann")
///     .put(&mail, "to: bob");
/// upload.finish(finish)?;
/// assert_eq!(mail.statistics()?.tasks.ready, 2);
/// # assert_eq!(thumbnails.statistics()?.tasks.ready, 1);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens until a claim is finished with it"]
pub struct Finish {
    result: Option<Vec<u8>>,
    puts: Vec<(Tube, Result<Encoded>)>,
    advances: Vec<(Tube, Result<Encoded>)>,
}

impl Finish {
    /// An ack of the task, and nothing else.
    pub fn new() -> Finish {
        Finish::default()
    }

    /// The result of the task. Default: none. As in [`Claim::ack_with`]. A task that
    /// [advances](Finish::advance) has no result yet.
    pub fn result(mut self, result: impl Into<Vec<u8>>) -> Finish {
        self.result = Some(result.into());
        self
    }

    /// Adds a new task, which is put into `tube`. Any number of tasks can be added, up to the limits
    /// of [`put_many`](Tube::put_many). A [key](crate::Put::key) in use that is rejected refuses the whole
    /// call.
    pub fn put<T, M: Mode>(mut self, tube: &Tube<T, M>, task: impl IntoPut<T>) -> Finish {
        self.puts.push((tube.to_bytes().to_blocking(), tube.encode(task)));
        self
    }

    /// The task goes on in the tube `to`, with the body and the options of `task`, instead of ending.
    /// Default: it ends. It keeps its [key](crate::Put::key). As in [`Claim::advance`].
    pub fn advance<T, M: Mode>(mut self, to: &Tube<T, M>, task: impl IntoPut<T>) -> Finish {
        self.advances.push((to.to_bytes().to_blocking(), to.encode(task)));
        self
    }

    /// Whether the task goes on in another tube.
    pub(crate) fn advances(&self) -> bool {
        !self.advances.is_empty()
    }

    /// As a call on a task of this store.
    pub(crate) fn into_request(mut self, handle: &StoreHandle) -> Result<FinishRequest> {
        let advance = self.advances.pop();
        if !self.advances.is_empty() {
            return Err(Error::invalid(
                "a task can advance to one tube only; put further tasks into the other tubes",
            ));
        }
        let advance = advance.map(|(tube, put)| put_into(handle, &tube, put?)).transpose()?;
        let puts = self.puts.into_iter().map(|(tube, put)| put_into(handle, &tube, put?));
        FinishRequest::new(self.result, puts.collect::<Result<_>>()?, advance)
    }
}

/// A put into a tube of this store.
pub(crate) fn put_into<T, M: Mode>(
    handle: &StoreHandle,
    tube: &Tube<T, M>,
    put: Encoded,
) -> Result<PutInto> {
    tube.check_store(handle)?;
    let request = PutRequest::new(put, handle.max_body())?;
    Ok(PutInto { tube: tube.number(), name: tube.shared_name(), request })
}

impl<T, M: Mode> Claim<T, M> {
    /// Passes the task on to another tube: it leaves this one and is put into `to`, with the body
    /// and the options of `task` and the defaults of that tube.
    ///
    /// It is still the same task: it keeps its id and its age, so it comes before younger tasks of
    /// its priority. Its attempts begin anew, and its last failure is forgotten. Callers that
    /// [wait](Tube::wait_done) for its end go on waiting. The statistics of this tube count it as
    /// done, and nothing of it is kept here. Advancing to its own tube is a new begin there.
    ///
    /// Both are one commit. The call blocks until that is flushed, or written, as the stronger
    /// [durability](crate::Durability) of the two tubes says; after a crash the task is in one of
    /// them. With [`finish`](Claim::finish), further tasks are put in the same commit.
    ///
    /// # Errors
    /// Those of [`finish`](Claim::finish), with the same state after each.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let scan = store.create_tube("scan", FIFO, TubeOptions::new())?;
    /// let sort = store.create_tube("sort", FIFO, TubeOptions::new())?;
    /// let id = scan.put("letter 7")?.id;
    /// let receipt = scan.try_take()?.unwrap().advance(&sort, "letter 7, 3 pages")?;
    /// assert_eq!(receipt.id, id);
    /// assert_eq!(sort.try_take()?.unwrap().body(), b"letter 7, 3 pages");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "forward")]
    #[doc(alias = "pipeline")]
    pub fn advance<U, N: Mode>(self, to: &Tube<U, N>, task: impl IntoPut<U>) -> M::Answer<Receipt> {
        let into = to.encode(task).and_then(|put| put_into(&self.held.handle, to, put));
        self.held.end::<M, _>(into.map(|into| FinishTask { request: FinishRequest::advance(into) }))
    }

    /// Finishes the task, and puts further tasks, all with one commit: its result, any number of
    /// puts into any tubes, and its passing on to another tube, as the [`Finish`] says.
    ///
    /// So neither a crash nor an error separates the end of a task from what follows from it: no
    /// step of a pipeline is lost or begun twice. The receipt is that of the task: done, or ready or
    /// delayed in the tube to which it [advances](Finish::advance).
    ///
    /// The call blocks for one flush, if one of the tubes has durability flush; it blocks for a
    /// write if one of them is written, and does not block otherwise. Once it returns, all of it
    /// survives what a put survives. Takers of all tubes see it together.
    ///
    /// # Errors
    /// Nothing of it has happened, and the task is released, except after
    /// [`OutcomeUnknown`](Error::OutcomeUnknown): all of it is applied when the storage works again.
    /// [`NotTaken`](Error::NotTaken): the claim had ended. [`Codec`](Error::Codec): a value cannot be
    /// encoded. [`Full`](Error::Full), [`Unsupported`](Error::Unsupported),
    /// [`DriverUnknown`](Error::DriverUnknown), [`TubeDropped`](Error::TubeDropped): one of the tubes
    /// refuses its task. In a full tube a task can follow one of the same tube, whose place it takes.
    /// [`Invalid`](Error::Invalid): a body or the result is too large, the task would advance with a
    /// result or to two tubes, or the tubes have no common commit: they belong to two stores, or one
    /// of them is temporary. [`DiskFull`](Error::DiskFull).
    /// [`KeyInUse`](Error::KeyInUse): a put has a key in use, and rejects that.
    /// [`NotFound`](Error::NotFound), [`KeyNotFound`](Error::KeyNotFound),
    /// [`TubeNotFound`](Error::TubeNotFound): no task has the id or the key of a parent that a put
    /// names, or there is no tube of that name. [`Cycle`](Error::Cycle): a task would wait for itself.
    /// [`NotReady`](Error::NotReady): a put replaces a task that is done, and the tasks that waited
    /// for that are still being freed. [`HasDependents`](Error::HasDependents): more than 10,000 tasks
    /// wait for the task, which advances to another tube, or for one that a put replaces and moves.
    ///
    /// # Example: the words of a page, and the pages that it names
    /// ```
    /// use tubewell::{Ending, FIFO, Finish, Keep, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().keep_done(Keep::new().count(1000));
    /// let pages = store.create_tube("pages", FIFO, options)?;
    /// let id = pages.put("/index")?.id;
    /// let page = pages.try_take()?.unwrap();
    /// page.finish(Finish::new().result("412 words").put(&pages, "/about").put(&pages, "/news"))?;
    /// assert_eq!(pages.outcome(id)?, Some(Ending::Done { result: Some(b"412 words".to_vec()) }));
    /// assert_eq!(pages.statistics()?.tasks.ready, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "pipeline")]
    #[doc(alias = "chain")]
    #[doc(alias = "exactly once")]
    pub fn finish(self, finish: Finish) -> M::Answer<Receipt> {
        let request = finish.into_request(&self.held.handle);
        self.held.end::<M, _>(request.map(|request| FinishTask { request }))
    }
}
