//! The state of a task.

use tubewell_drivers::Shelf;

/// The state of a task.
///
/// Its text is the name of the state: `ready`, `taken`, `delayed`, `blocked`, `buried`, `done` or
/// `recurring`.
///
/// # Example
/// ```
/// use tubewell::TaskState;
///
/// assert_eq!(TaskState::Buried.to_string(), "buried");
/// assert_eq!("buried".parse(), Ok(TaskState::Buried));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(clippy::exhaustive_enums, reason = "the states of the reference, all of them")]
pub enum TaskState {
    /// May be taken.
    Ready,
    /// Claimed by a session.
    Taken,
    /// Becomes ready by itself when its delay elapses.
    Delayed,
    /// Waits for its parents: it becomes ready, or delayed, when the last of them is done.
    #[doc(alias = "dependency")]
    Blocked,
    /// Set aside, as in a dead letter queue, until it is kicked or deleted, or its ttl elapses.
    #[doc(alias = "dead letter")]
    Buried,
    /// A schedule: it puts tasks, its runs, and is never taken itself. See
    /// [`Tube::schedule`](crate::Tube::schedule).
    #[doc(alias = "cron")]
    Recurring,
    /// Over: acked, deleted or expired. A stored task has this state only in a tube that
    /// [keeps](crate::TubeOptions::keep_done) what is done.
    Done,
}

impl TaskState {
    /// The state of a stored task that is not taken.
    pub(crate) fn on_shelf(shelf: Shelf) -> TaskState {
        match shelf {
            Shelf::Ready => TaskState::Ready,
            Shelf::Delayed => TaskState::Delayed,
            Shelf::Buried => TaskState::Buried,
            Shelf::Blocked => TaskState::Blocked,
            Shelf::Done => TaskState::Done,
            Shelf::Recurring => TaskState::Recurring,
        }
    }

    /// The part of its tube in which the row of such a task is. A taken task's row stays where it
    /// was.
    pub(crate) fn shelf(self) -> Shelf {
        match self {
            TaskState::Ready | TaskState::Taken => Shelf::Ready,
            TaskState::Delayed => Shelf::Delayed,
            TaskState::Buried => Shelf::Buried,
            TaskState::Blocked => Shelf::Blocked,
            TaskState::Done => Shelf::Done,
            TaskState::Recurring => Shelf::Recurring,
        }
    }

    /// The state as one character, as in Tarantool's queue; `#` for a blocked task and `*` for a
    /// schedule, which it does not have.
    #[must_use]
    pub fn as_char(self) -> char {
        match self {
            TaskState::Ready => 'r',
            TaskState::Taken => 't',
            TaskState::Delayed => '~',
            TaskState::Blocked => '#',
            TaskState::Buried => '!',
            TaskState::Done => '-',
            TaskState::Recurring => '*',
        }
    }
}
