//! The statistics of a tube.

use crate::TaskState;

/// The statistics of one tube, exact at the moment when they are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Statistics {
    /// The number of tasks in each state.
    pub tasks: TaskCounts,
    /// The number of changes of tasks since the store was opened.
    pub calls: CallCounts,
}

/// The number of tasks in each state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct TaskCounts {
    /// Tasks that may be taken.
    pub ready: u64,
    /// Tasks that sessions have claimed.
    pub taken: u64,
    /// Tasks whose delay has not elapsed.
    pub delayed: u64,
    /// Tasks that wait for their parents.
    #[cfg_attr(feature = "serde", serde(default))]
    pub blocked: u64,
    /// Tasks that are set aside, as in a dead letter queue.
    #[doc(alias = "dead letter")]
    pub buried: u64,
    /// The sum of the five above.
    pub total: u64,
    /// Tasks that have left the tube since the store was opened: acked, resolved, deleted, expired,
    /// forgotten, or passed on to another tube.
    pub done: u64,
    /// Tasks that are done and kept, as [`TubeOptions::keep_done`](crate::TubeOptions::keep_done)
    /// says.
    #[cfg_attr(feature = "serde", serde(default))]
    pub kept: u64,
    /// Schedules. They are not in the total, and take no place of a capacity.
    #[cfg_attr(feature = "serde", serde(default))]
    pub recurring: u64,
    /// Those of the taken tasks whose claims are overdue: the ttr has elapsed, and the
    /// [reclaim delay](crate::TubeOptions::reclaim_delay) has not. Counted when a claim becomes overdue,
    /// is renewed or ends.
    #[cfg_attr(feature = "serde", serde(default))]
    pub overdue: u64,
}

impl TaskCounts {
    /// How many tasks are in this state: those that are [kept](TaskCounts::kept) if it is done.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("one")?;
    /// assert_eq!(jobs.statistics()?.tasks.of(TaskState::Ready), 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn of(&self, state: TaskState) -> u64 {
        match state {
            TaskState::Ready => self.ready,
            TaskState::Taken => self.taken,
            TaskState::Delayed => self.delayed,
            TaskState::Blocked => self.blocked,
            TaskState::Buried => self.buried,
            TaskState::Done => self.kept,
            TaskState::Recurring => self.recurring,
        }
    }
}

/// The number of changes of tasks since the store was opened. A call counts once for each task that
/// it changed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct CallCounts {
    /// Tasks put.
    pub put: u64,
    /// Tasks taken.
    pub take: u64,
    /// Tasks acked.
    pub ack: u64,
    /// Tasks released, by a caller or by the end of a session.
    pub release: u64,
    /// Attempts that workers reported as failed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub fail: u64,
    /// Tasks snoozed: released with their attempt forgiven.
    #[cfg_attr(feature = "serde", serde(default))]
    pub snooze: u64,
    /// Events [`Lost`](crate::EventKind::Lost): the process of a worker ended, or a claim became
    /// overdue. [`Day::lost`](crate::expert::Day::lost) counts the ends of claims.
    #[cfg_attr(feature = "serde", serde(default))]
    pub lost: u64,
    /// Events [`Bury`](crate::EventKind::Bury): tasks buried by a call, because of a parent, or because they had no
    /// attempt left when they were to be handed out.
    pub bury: u64,
    /// Tasks that have become buried in this tube, for any reason; not those that were moved or restored as buried.
    #[cfg_attr(feature = "serde", serde(default))]
    pub buried: u64,
    /// Tasks kicked.
    pub kick: u64,
    /// Tasks deleted, including tasks whose ttl elapsed.
    pub delete: u64,
    /// Claims extended by touch.
    pub touch: u64,
    /// Bodies of taken tasks replaced.
    #[cfg_attr(feature = "serde", serde(default))]
    pub checkpoint: u64,
    /// Tasks whose ttl elapsed.
    pub ttl: u64,
    /// Claims that expired because the ttr elapsed.
    #[doc(alias = "visibility timeout")]
    pub ttr: u64,
    /// Delays that elapsed.
    pub delay: u64,
    /// Tasks that were blocked after their put, or got further parents.
    #[cfg_attr(feature = "serde", serde(default))]
    pub block: u64,
    /// Tasks whose last parent was done, or that have lost parents.
    #[cfg_attr(feature = "serde", serde(default))]
    pub unblock: u64,
    /// Tasks resolved.
    #[cfg_attr(feature = "serde", serde(default))]
    pub resolve: u64,
    /// Kept and buried tasks forgotten, by a caller or by their retention.
    #[cfg_attr(feature = "serde", serde(default))]
    pub forget: u64,
    /// Schedules stored or changed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub schedule: u64,
    /// Tasks that schedules have put.
    #[cfg_attr(feature = "serde", serde(default))]
    pub spawn: u64,
    /// Tasks that their holders passed on to another tube.
    #[cfg_attr(feature = "serde", serde(default))]
    pub advance: u64,
    /// Tasks that a caller moved to another tube.
    #[cfg_attr(feature = "serde", serde(default))]
    pub moved: u64,
    /// Tasks that came from other tubes.
    #[cfg_attr(feature = "serde", serde(default))]
    pub arrive: u64,
    /// Tasks whose priority, body or delay was changed.
    #[cfg_attr(feature = "serde", serde(default))]
    pub update: u64,
    /// Entries that were added to histories by [`Admin::log`](crate::Admin::log) and
    /// [`Claim::log`](crate::Claim::log).
    #[cfg_attr(feature = "serde", serde(default))]
    pub log: u64,
    /// Steps that holders have stored; see [`Claim::step`](crate::Claim::step).
    #[cfg_attr(feature = "serde", serde(default))]
    pub step: u64,
}

/// A change that is added and is missing in the list does not compile.
macro_rules! named_calls {
    ($($name:ident),* $(,)?) => {
        impl CallCounts {
            /// The names of the changes, as those of the fields, and their numbers.
            pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                let CallCounts { $($name),* } = *self;
                [$((stringify!($name), $name)),*].into_iter()
            }
        }
    };
}

named_calls! {
    put, take, ack, release, fail, snooze, lost, bury, buried, kick, delete, touch, checkpoint, ttl, ttr, delay,
    block, unblock, resolve, forget, schedule, spawn, advance, moved, arrive, update, log, step,
}
