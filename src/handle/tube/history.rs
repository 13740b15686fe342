//! The history of a task.

use super::{Admin, Query};
use crate::core::list::{HistoryOf, Log};
use crate::values::history::HistoryEntry;
use crate::{Mode, Receipt};

impl<T, M: Mode> Query<'_, T, M> {
    /// Returns the history of a task, in order: the first entry, and the newest of the others, as many
    /// as the tube [keeps](crate::TubeOptions::history). Empty in a tube that keeps none.
    ///
    /// Each stored change of the task has an entry; see [`HistoryEntry`]. So has the take that is under
    /// way, although it may not be stored yet. The history also has the entries of other tubes from
    /// which the task has come.
    ///
    /// Changes nothing. If a change of the task is still to be flushed, the call blocks for that flush,
    /// so that in a tube with durability flush it returns nothing that a crash could undo. Otherwise it
    /// does not block.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task; in a tube with durability flush no
    /// crash brings it back; [`Corrupt`](crate::Error::Corrupt) if the task or its history is damaged.
    ///
    /// # Example: why a task was buried
    /// ```
    /// use tubewell::{EventKind, Failure, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().history(20).max_attempts(2);
    /// let mails = store.open_tube("mails", options)?;
    /// let id = mails.put("to: ann")?.id;
    /// for code in [421, 550] {
    ///     let mail = mails.try_take()?.unwrap();
    ///     mail.fail(Failure::new("smtp", format!("answer {code}")))?;
    /// }
    /// let history = mails.query().history(id)?;
    /// let failures = history.iter().filter(|entry| entry.what == EventKind::Fail);
    /// let texts: Vec<_> = failures.filter_map(|entry| entry.text.as_deref()).collect();
    /// assert_eq!(texts, ["smtp: answer 421", "smtp: answer 550"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "audit_log")]
    pub fn history(&self, id: u64) -> M::Answer<Vec<HistoryEntry>> {
        self.tube.make(HistoryOf { id })
    }
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Adds an entry with this text, of at most 1024 bytes, to the history of a task, whatever its
    /// state and whichever session has taken it. The holder of a task uses
    /// [`Claim::log`](crate::Claim::log).
    ///
    /// Once this returns, the entry survives a killed process and a power cut. The call blocks for a
    /// flush, and no take gets a ready task before that.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task;
    /// [`Invalid`](crate::Error::Invalid): the text is too long, or the tube keeps no history;
    /// [`NotReady`](crate::Error::NotReady): it is a schedule. Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the entry is there
    /// when the storage works again, or perhaps not if the process ends before that.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.open_tube("mails", TubeOptions::new().history(10))?;
    /// let id = mails.put("to: ann")?.id;
    /// mails.admin().log(id, "ann asked for it by telephone")?;
    /// let last = mails.query().history(id)?.pop().unwrap();
    /// assert_eq!(last.text.as_deref(), Some("ann asked for it by telephone"));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn log(&self, id: u64, text: &str) -> M::Answer<Receipt> {
        self.tube.make(Log { id, text: text.into() })
    }
}
