//! Changes of a task that waits.

use std::time::{Duration, SystemTime};

use crate::{Bytes, Result};

/// What [`Tube::update`](crate::Tube::update) changes of a task. What is left out stays as it is.
///
/// # Example
/// ```
/// use std::time::Duration;
/// use tubewell::{Store, TubeOptions, Update};
///
/// let store = Store::in_memory()?;
/// let mails = store.open_tube("mails", TubeOptions::new().priority(5))?;
/// let id = mails.put("to: ann")?.id;
/// let later = Update::new().body("to: ann, bob").delay(Duration::from_secs(3600));
/// mails.update(id, later.priority(1))?;
/// assert_eq!(mails.query().task(id)?.body, b"to: ann, bob");
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "nothing is changed until a tube updates a task"]
pub struct Update<T = Bytes> {
    pub(crate) body: Option<T>,
    pub(crate) priority: Option<u32>,
    pub(crate) delay: Option<Duration>,
    pub(crate) not_before: Option<Option<SystemTime>>,
    pub(crate) tags: Option<Vec<String>>,
}

impl<T> Default for Update<T> {
    fn default() -> Update<T> {
        Update { body: None, priority: None, delay: None, not_before: None, tags: None }
    }
}

impl<T> Update<T> {
    /// An update that changes nothing.
    pub fn new() -> Update<T> {
        Update::default()
    }

    /// A new body. The task stays in its sub-queue, even if the driver has chosen that by the old
    /// body.
    #[doc(alias = "payload")]
    pub fn body(mut self, body: impl Into<T>) -> Update<T> {
        self.body = Some(body.into());
        self
    }

    /// A new priority; 0 is the most urgent. Timed drivers only.
    pub fn priority(mut self, priority: u32) -> Update<T> {
        self.priority = Some(priority);
        self
    }

    /// How long from now on until the task is ready, instead of its delay so far; zero makes it
    /// ready, unless its [moment](Update::not_before) is ahead. Rounded up to microseconds. Timed
    /// drivers only.
    ///
    /// A ttl begins when the delay elapses, as after a put: a task that becomes ready later expires
    /// later. A task whose delay had no end had no ttl either, and gets none.
    #[doc(alias = "schedule")]
    #[doc(alias = "eta")]
    pub fn delay(mut self, delay: Duration) -> Update<T> {
        self.delay = Some(delay);
        self
    }

    /// The tags, instead of those that the task has: up to 32, as in [`Put::tag`](crate::Put::tag).
    /// None removes all. [`Admin::add_tags`](crate::Admin::add_tags) adds some.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store, Update};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put(Put::new("to: ann").tag("draft"))?.id;
    /// mails.update(id, Update::new().tags(["checked", "ann"]))?;
    /// assert_eq!(mails.query().task(id)?.info.tags, ["checked", "ann"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn tags(mut self, tags: impl IntoIterator<Item = impl Into<String>>) -> Update<T> {
        self.tags = Some(tags.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the moment of the wall clock before which the task is not ready. `None` removes the moment of the
    /// task. See [`Put::not_before`](crate::Put::not_before). Timed drivers only.
    ///
    /// The delay of the task stays. A ttl begins when the task is ready, as after a put.
    ///
    /// # Example
    /// ```
    /// use std::time::{Duration, SystemTime};
    /// use tubewell::{Put, TaskState, Store, Update};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let tomorrow = SystemTime::now() + Duration::from_secs(86_400);
    /// let id = mails.put(Put::new("to: ann").not_before(tomorrow))?.id;
    /// assert_eq!(mails.update(id, Update::new().not_before(None))?.state, TaskState::Ready);
    /// assert_eq!(mails.update(id, Update::new().not_before(tomorrow))?.state, TaskState::Delayed);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "schedule")]
    #[doc(alias = "eta")]
    pub fn not_before(mut self, moment: impl Into<Option<SystemTime>>) -> Update<T> {
        self.not_before = Some(moment.into());
        self
    }

    pub(crate) fn try_map<U>(self, with: impl FnOnce(T) -> Result<U>) -> Result<Update<U>> {
        let Update { body, priority, delay, not_before, tags } = self;
        Ok(Update { body: body.map(with).transpose()?, priority, delay, not_before, tags })
    }
}
