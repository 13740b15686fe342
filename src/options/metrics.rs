//! The option of a tube to keep its numbers by day.

use crate::TubeOptions;

impl TubeOptions {
    /// How many days the numbers of the tube are kept, the current one included. Default: 0, none.
    /// At most 1000. [`Tube::days`](crate::Tube::days) returns them: how many tasks were put, taken,
    /// acked, failed and lost on each day, and how long they waited and ran.
    ///
    /// The numbers cost memory and no commit: they are counted in memory and written with commits that
    /// happen anyway, at most every 10 seconds, and at close. So a killed process or a power cut forgets
    /// what was counted since they were last written. A truncate leaves them; a drop of the tube removes
    /// them. An alter to fewer days hides the older ones immediately, an alter to 0 removes all.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.create_tube("mail", FIFO, TubeOptions::new().metrics(30))?;
    /// mail.put("to: ann")?;
    /// mail.try_take()?.unwrap().ack()?;
    /// let today = mail.day(store.today()?)?;
    /// assert_eq!((today.puts, today.takes, today.acks), (1, 1, 1));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "statistics")]
    #[must_use]
    pub fn metrics(mut self, days: u32) -> TubeOptions {
        self.metrics = days;
        self
    }
}
