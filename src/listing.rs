//! Listings: which tasks of a tube are wanted, and the pages of tasks and of tags.

use crate::task::{Cursor, Task, TubeTask};
use crate::{Error, Result, State};

/// Which tasks of a tube [`list_where`](crate::Tube::list_where) lists: those that meet all
/// conditions.
///
/// # Example: the oldest failures of a customer
/// ```
/// use tubewell::{State, Where};
///
/// let failures = Where::new().state(State::Buried).tag("customer 7");
/// # let _ = failures;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[must_use = "nothing is listed until a tube is asked"]
pub struct Where {
    pub(crate) state: Option<State>,
    pub(crate) tag: Option<String>,
    pub(crate) group: Option<String>,
    pub(crate) owner: Option<String>,
    pub(crate) sub_queue: Option<String>,
    pub(crate) newest_first: bool,
    pub(crate) soonest_first: bool,
}

impl Where {
    /// All tasks: the ready and the taken ones first, then those that are delayed, buried, blocked, and
    /// done and kept, and the [schedules](crate::Tube::schedule) last.
    pub fn new() -> Where {
        Where::default()
    }

    /// Tasks in this state. Default: any state, but buried with a [`group`](Where::group), and taken
    /// with an [`owner`](Where::owner).
    pub fn state(mut self, state: State) -> Where {
        self.state = Some(state);
        self
    }

    /// Tasks with this [tag](crate::Put::tag), in the order of their ids. Default: with any tags, or
    /// none.
    #[doc(alias = "label")]
    pub fn tag(mut self, tag: impl Into<String>) -> Where {
        self.tag = Some(tag.into());
        self
    }

    /// Buried tasks of this failure group, in the order of their burials. Default: of any group, and of
    /// none.
    #[doc(alias = "dead letter")]
    pub fn group(mut self, name: impl Into<String>) -> Where {
        self.group = Some(name.into());
        self
    }

    /// Tasks that a session with this label has taken, or has
    /// [parked](crate::Claim::park). Default: of any session, and of none. See
    /// [`Store::session_named`](crate::Store::session_named).
    #[doc(alias = "worker")]
    pub fn owner(mut self, label: impl Into<String>) -> Where {
        self.owner = Some(label.into());
        self
    }

    /// Tasks of this sub-queue. Default: of any sub-queue, and of none. The empty name is that of the
    /// tasks without a sub-queue.
    pub fn sub_queue(mut self, name: impl Into<String>) -> Where {
        self.sub_queue = Some(name.into());
        self
    }

    /// Lists the tasks in the reverse order: the last one of the listing first, so the newest one of
    /// tasks that are done, in a failure group, or have a tag. Default: the first one first.
    pub fn newest_first(mut self) -> Where {
        self.newest_first = true;
        self
    }

    /// Lists delayed tasks in the order in which they become ready: by the end of their delay, or by
    /// their [moment](crate::Put::not_before). Default: in the order in which takes would get them.
    ///
    /// A task with both counts with its delay until that has elapsed, and one that never becomes ready
    /// by itself is not listed. The rows that are looked at are those of all tasks of the store that
    /// wait for a time, a ttl too, so a page may have fewer tasks than others. A cursor stays valid while
    /// tasks come and go: each task that stays is listed once. If the wall clock is set between two
    /// pages, a task that waits for its delay may be in none or in both. Clocks that are less than a
    /// second apart count as the same.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFOTTL, Put, Store, TubeOptions, Where};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.create_tube("mails", FIFOTTL, TubeOptions::new())?;
    /// for minutes in [30, 10, 20] {
    ///     mails.put(Put::new("mail").delay(Duration::from_secs(60 * minutes)))?;
    /// }
    /// let next = mails.list_where(&Where::new().soonest_first(), None, 2)?.tasks;
    /// assert_eq!(next.iter().map(|task| task.id).collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "scheduled")]
    pub fn soonest_first(mut self) -> Where {
        self.soonest_first = true;
        self
    }

    /// The state of the wanted tasks, if all have the same one.
    pub(crate) fn wanted_state(&self) -> Option<State> {
        let of_group = self.group.as_ref().map(|_| State::Buried);
        let of_owner = self.owner.as_ref().map(|_| State::Taken);
        let soonest = self.soonest_first.then_some(State::Delayed);
        self.state.or(of_group).or(of_owner).or(soonest)
    }

    /// Refuses conditions that no task can meet together.
    pub(crate) fn check(&self) -> Result<()> {
        if self.soonest_first && (self.newest_first || self.wanted_state() != Some(State::Delayed))
        {
            return Err(Error::invalid(
                "delayed tasks alone are listed with the soonest one first; leave out other states, the \
                 group, the owner and the other order",
            ));
        }
        match (self.state, &self.group, &self.owner) {
            (_, Some(_), Some(_)) => Err(Error::invalid(
                "a task in a failure group is buried, and one with an owner is taken; leave one of \
                 them out",
            )),
            (Some(state), Some(_), None) if state != State::Buried => Err(Error::invalid(format!(
                "no {state} task is in a failure group, only buried tasks are; leave the state out"
            ))),
            (Some(state), None, Some(_)) if state != State::Taken => Err(Error::invalid(format!(
                "no {state} task has an owner, only taken tasks have; leave the state out"
            ))),
            _ => Ok(()),
        }
    }
}

/// One page of tasks with their bodies; from [`Tube::list_bodies`](crate::Tube::list_bodies).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TaskPage {
    /// The tasks, in order.
    pub tasks: Vec<Task>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// How many tasks were left out, since their rows are damaged.
    /// [`verify`](crate::Store::verify) reports them.
    pub damaged: u64,
}

/// One page of the tasks with a tag, in any tubes; from [`Store::tagged`](crate::Store::tagged).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TaggedPage {
    /// The tasks with their tubes, in the order of their ids.
    pub tasks: Vec<TubeTask>,
    /// The start of the next page; `None` on the last page.
    pub next: Option<Cursor>,
    /// How many tasks were left out, since their records are damaged.
    /// [`verify`](crate::Store::verify) reports them.
    pub damaged: u64,
}

/// A tag, and how many tasks have it; from [`Store::tags`](crate::Store::tags).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TagCount {
    /// The tag.
    pub tag: String,
    /// How many tasks have it, in all tubes. Tasks of a truncated or dropped tube count until their
    /// rows are removed.
    pub tasks: u64,
}
