//! Entries of the holder of a task in its history.

use crate::core::list::LogHeld;
use crate::{Claim, Mode, Receipt};

impl<T, M: Mode> Claim<T, M> {
    /// Adds an entry with this text, of at most 1024 bytes, to the
    /// [history](crate::Query::history) of the task. The claim goes on.
    ///
    /// Once this returns, the entry survives what a put survives. The call blocks for a flush, and in a
    /// written tube for a write.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken): the claim had ended. [`Invalid`](crate::Error::Invalid):
    /// the text is too long, or the tube keeps no [history](crate::TubeOptions::history). Nothing
    /// changed. After [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the entry may be there.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.open_tube("films", TubeOptions::new().history(10))?;
    /// let id = films.put("cut")?.id;
    /// let claim = films.try_take()?.unwrap();
    /// claim.log("scene 3 has no sound")?;
    /// drop(claim); // released
    /// let texts = films.query().history(id)?.into_iter().filter_map(|entry| entry.text);
    /// assert_eq!(texts.collect::<Vec<_>>(), ["scene 3 has no sound"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn log(&self, text: &str) -> M::Answer<Receipt> {
        self.held.change::<M, _>(Ok(LogHeld { text: text.into() }))
    }
}
