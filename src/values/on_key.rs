//! What a put does if a task has its key.

/// What a put does if another task of the store has its [`key`](crate::Put::key).
///
/// A key is in use as long as its task is stored: ready, taken, delayed, buried, or done and
/// [kept](crate::TubeOptions::keep_done). So the time for which a tube keeps what is done is the
/// window of deduplication.
///
/// Its text is `reject`, `keep` or `replace`.
///
/// # Example: deduplication
/// ```
/// use tubewell::{Error, OnKey, Put, Store};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?;
/// let welcome = || Put::new("to: ann").key("welcome ann");
/// let first = mails.put(welcome())?;
/// assert!(matches!(mails.put(welcome()), Err(Error::KeyInUse { id, .. }) if id == first.id));
///
/// let same = mails.put(welcome().on_key(OnKey::Keep))?;
/// assert_eq!(same.id, first.id);
///
/// let changed = mails.put(Put::new("to: ann, bob").key("welcome ann").on_key(OnKey::Replace))?;
/// assert_eq!(changed.id, first.id);
/// assert_eq!(mails.try_take()?.unwrap().body(), b"to: ann, bob");
/// # Ok::<(), Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[doc(alias = "idempotent")]
#[doc(alias = "deduplication")]
#[non_exhaustive]
pub enum OnKey {
    /// It returns [`KeyInUse`](crate::Error::KeyInUse), which names the task, and puts nothing.
    #[default]
    Reject,
    /// It puts nothing, and returns a receipt of the task that has the key: its id and its state. A
    /// caller that must know whether its task is new uses [`Reject`](OnKey::Reject).
    Keep,
    /// The task that has the key begins anew, with the new body and its old id. It is ready or
    /// delayed, as the put says, and in its old place among tasks of the same priority. Its
    /// priority, sub-queue, ttr and limit of attempts stay if the new put leaves them out; its delay
    /// and its ttl begin anew. Its attempts are forgiven. Its last failure stays, unless the task
    /// was done. A claim on it ends, which an event [`Lost`](crate::EventKind::Lost) reports, and
    /// callers that wait for its end go on waiting.
    ///
    /// The put returns [`NotReady`](crate::Error::NotReady) if the task is done and tasks that waited
    /// for it are still being freed, and [`HasDependents`](crate::Error::HasDependents) if it is in
    /// another tube and more than 10,000 tasks wait for it.
    Replace,
}
