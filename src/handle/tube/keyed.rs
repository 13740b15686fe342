//! Tasks that are put anew by their keys.

use super::Tube;
use crate::core::PutRequest;
use crate::core::list::Requeue;
use crate::{IntoPut, Mode, Receipt};

impl<T, M: Mode> Tube<T, M> {
    /// Puts the task anew that has this key: as [`put`](Tube::put) with
    /// [`OnKey::Replace`](crate::OnKey::Replace), but there must be such a task.
    ///
    /// Its id stays. A claim on it ends, and its attempts are forgiven. A task that is done and
    /// [kept](crate::TubeOptions::keep_done) is done again. Once this returns, the task survives what
    /// a put survives. The call blocks for a flush.
    ///
    /// # Errors
    /// [`KeyNotFound`](crate::Error::KeyNotFound): no task has the key; if the task that had it was in
    /// a tube with durability flush, no crash makes this untrue.
    /// [`NotReady`](crate::Error::NotReady): the task is done, and the tasks that waited for it are
    /// still being freed. [`HasDependents`](crate::Error::HasDependents): it is in another
    /// tube, and more than 10,000 tasks wait for it. Those of [`put`](Tube::put);
    /// [`Invalid`](crate::Error::Invalid) for a put with another key. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Keep, Put, TaskState, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let keep = TubeOptions::new().keep_done(Keep::new());
    /// let reports = store.open_tube("reports", keep)?;
    /// reports.put(Put::new("sales of May").key("sales"))?;
    /// reports.try_take()?.unwrap().ack()?;
    /// assert_eq!(reports.requeue("sales", "sales of June")?.state, TaskState::Ready);
    /// let unknown = reports.requeue("stock", "stock of June");
    /// assert!(matches!(unknown, Err(Error::KeyNotFound { .. })));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn requeue(&self, key: &str, task: impl IntoPut<T>) -> M::Answer<Receipt> {
        let request = self.encode(task).and_then(|put| PutRequest::requeue(key, put));
        self.make_checked(request.map(|request| Requeue { request }))
    }
}
