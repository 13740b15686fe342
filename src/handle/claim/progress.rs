//! Progress reports of the holder of a task.

use super::Claim;
use crate::Mode;
use crate::core::list::{ReportProgress, ReportText};

impl<T, M: Mode> Claim<T, M> {
    /// Reports how far the work is: `done` of `total`, in any unit. A total of 0 is an unknown one.
    ///
    /// The last report is in [`TaskInfo::progress`](crate::TaskInfo::progress) while the task is taken. Each
    /// report causes an event of kind [`Progress`](crate::EventKind::Progress), at most ten a second for each
    /// claim. A report that follows sooner causes no event, and is visible in `TaskInfo` only. The last
    /// report of a claim always has an event, before the event of the claim's end. So a loop may report at
    /// every step.
    ///
    /// Only memory changes. Nothing is written, nothing survives the process, and the claim is not
    /// extended; see [`checkpoint`](Claim::checkpoint) and [`renew`](Claim::renew) for that. The
    /// report is forgotten with the claim. The call does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended. Stop the work: another worker may
    /// have the task. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{EventKind, Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// let reports = store.events(Filter::new().kinds([EventKind::Progress]), 100)?;
    /// films.put("a film")?;
    /// let film = films.try_take()?.unwrap();
    /// film.progress_text("sound")?;
    /// film.progress(30, 120)?;
    ///
    /// let progress = films.query().task(film.id())?.info.progress.unwrap();
    /// assert_eq!(progress.to_string(), "30 of 120: sound");
    /// assert_eq!(progress.fraction(), Some(0.25));
    /// assert_eq!(reports.recv().unwrap().progress.unwrap().text.as_deref(), Some("sound"));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn progress(&self, done: u64, total: u64) -> M::Answer<()> {
        self.held.change::<M, _>(Ok(ReportProgress { done, total }))
    }

    /// Reports what the work is at, in at most 1024 bytes; otherwise as
    /// [`progress`](Claim::progress). The numbers and the text are reported separately, and both
    /// stay until the next report.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) for a longer text; [`NotTaken`](crate::Error::NotTaken).
    /// Nothing changed.
    pub fn progress_text(&self, text: &str) -> M::Answer<()> {
        self.held.change::<M, _>(Ok(ReportText { text: text.into() }))
    }
}
