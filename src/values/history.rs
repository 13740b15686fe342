//! The history of a task, as callers see it.

use std::time::SystemTime;

use tubewell_drivers::{HISTORY_MAX, HISTORY_TEXT_MAX};

use crate::values::owner::LABEL_MAX;
use crate::{Error, EventKind, Result, TaskState};

/// An entry in the history of a task; from [`Query::history`](crate::Query::history).
///
/// Each stored change of a task adds one, if its tube [keeps a
/// history](crate::TubeOptions::history): its put, its takes, their ends, its moves and so on. A
/// program adds entries of its own with [`Claim::log`](crate::Claim::log) and
/// [`Admin::log`](crate::Admin::log).
///
/// With the feature `serde`, the time is an object with `secs_since_epoch` and `nanos_since_epoch`.
///
/// # Example
/// ```
/// use tubewell::{EventKind, Store, TubeOptions};
///
/// let store = Store::in_memory()?;
/// let films = store.open_tube("films", TubeOptions::new().history(10))?;
/// let id = films.put("cut")?.id;
/// let claim = films.try_take()?.unwrap();
/// claim.log("half of the scenes are cut")?;
/// for entry in films.query().history(id)? {
///     println!("{} {} {}", entry.what, entry.tube, entry.text.unwrap_or_default());
/// }
/// let kinds: Vec<EventKind> = films.query().history(id)?.iter().map(|entry| entry.what).collect();
/// assert_eq!(kinds, [EventKind::Put, EventKind::Take, EventKind::Log]);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The number of the entry. The first one is 0. A gap behind it means that the entries between
    /// were removed, since the history was full.
    pub number: u64,
    /// When it happened, by the wall clock as it is now: the time that has passed since then is
    /// measured, so a clock that is set by a second or more moves all times of a history.
    pub at: SystemTime,
    /// What happened. [`EventKind::Log`] for an entry of the program.
    pub what: EventKind,
    /// The state of the task after it.
    pub state: TaskState,
    /// The label of the session that had the task, if that had one
    /// ([`Store::session`](crate::Store::session)).
    pub owner: Option<String>,
    /// The text of an entry of the program. For a failure, its group and its message, of which the
    /// first 1024 bytes are kept.
    pub text: Option<String>,
    /// The tube in which it happened. For a move, the tube to which the task has moved.
    pub tube: String,
}

impl HistoryEntry {
    /// An entry of a task that is [restored](crate::expert::Restore::history): its number, when and in which
    /// tube it happened, and what. The state is that after it.
    #[must_use]
    pub fn new(
        number: u64,
        at: SystemTime,
        tube: impl Into<String>,
        what: EventKind,
        state: TaskState,
    ) -> HistoryEntry {
        HistoryEntry { number, at, what, state, owner: None, text: None, tube: tube.into() }
    }

    /// The label of the session that had the task. Default none.
    #[must_use]
    pub fn owner(mut self, label: Option<String>) -> HistoryEntry {
        self.owner = label;
        self
    }

    /// Its text. Default none.
    #[must_use]
    pub fn text(mut self, text: Option<String>) -> HistoryEntry {
        self.text = text;
        self
    }

    /// Refuses the history of a task that is restored, if no store can have it.
    pub(crate) fn check_all(entries: &[HistoryEntry]) -> Result<()> {
        if entries.len() > HISTORY_MAX as usize {
            return Err(Error::invalid(format!(
                "a history has at most {HISTORY_MAX} entries; this one has {}",
                entries.len()
            )));
        }
        let is_ordered = entries.windows(2).all(|pair| pair[0].number < pair[1].number);
        if !is_ordered || entries.last().is_some_and(|last| last.number >= NUMBER_MAX) {
            return Err(Error::invalid(format!(
                "the entries of a history have increasing numbers below {NUMBER_MAX}"
            )));
        }
        for HistoryEntry { owner, text, tube, .. } in entries {
            check_text(text.as_deref().unwrap_or_default())?;
            if owner.as_ref().is_some_and(|label| label.len() > LABEL_MAX) {
                return Err(Error::invalid(format!(
                    "the owner of an entry must have at most {LABEL_MAX} bytes"
                )));
            }
            if tube.len() > tubewell_drivers::TUBE_NAME_MAX {
                return Err(Error::invalid(
                    "the tube of an entry has a name that no tube can have",
                ));
            }
        }
        Ok(())
    }

    pub(crate) fn bytes(&self) -> usize {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        of(&self.owner) + of(&self.text) + self.tube.len()
    }
}

/// More entries than a task has.
const NUMBER_MAX: u64 = 1 << 60;

/// Refuses a text that an entry cannot have.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.len() <= HISTORY_TEXT_MAX {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the text of an entry has at most {HISTORY_TEXT_MAX} bytes; this one has {}",
        text.len()
    )))
}

/// The beginning of a text, as long as an entry can have.
pub(crate) fn cut(text: &str) -> &str {
    let mut end = text.len().min(HISTORY_TEXT_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
