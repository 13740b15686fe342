//! What is no option of a tube, but of its creation; and the options of a tube that exists.

use std::sync::Arc;

use super::declare::{TubeInfo, TubeOptions};
use super::value::OptionValue;
use crate::events::Event;

impl TubeOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> TubeOptions {
        TubeOptions::default()
    }

    /// Whether to succeed if the store already has a tube with this name, driver and options.
    /// Default: no.
    #[must_use]
    pub fn if_not_exists(mut self, if_not_exists: bool) -> TubeOptions {
        self.if_not_exists = if_not_exists;
        self
    }

    /// Whether to [alter](crate::Admin::alter) the tube of this name and driver, if the store already
    /// has one with other options. Default: no. With it, `if_not_exists` is not needed.
    ///
    /// # Example: the options of the program hold from its next start on
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// for limit in [2, 8] {
    ///     let options = TubeOptions::new().max_taken(limit).or_alter(true);
    ///     let films = store.create_tube("films", FIFO, options)?;
    ///     assert_eq!(films.info()?.max_taken, Some(limit));
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn or_alter(mut self, or_alter: bool) -> TubeOptions {
        self.or_alter = or_alter;
        self
    }

    /// A callback for each change of a task of this tube. Default: none. It is not stored; see
    /// [`Tube::on_task_change`](crate::Tube::on_task_change).
    #[must_use]
    pub fn on_task_change(
        mut self,
        callback: impl Fn(&Event) + Send + Sync + 'static,
    ) -> TubeOptions {
        self.callback = Some(Arc::new(callback));
        self
    }
}

impl TubeInfo {
    /// The options of the tube, to create another one like it or to
    /// [alter](crate::Admin::alter) it. The callback and the pause are not among them.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFOTTL, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().ttr(Duration::from_secs(60)).max_taken(2);
    /// let films = store.create_tube("films", FIFOTTL, options)?;
    /// let info = films.info()?;
    /// let series = store.create_tube("series", &info.driver, info.options())?;
    /// assert_eq!(series.info()?.ttr, info.ttr);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> TubeOptions {
        self.policies().options()
    }

    /// All options of the tube, by name, with the value that is in effect.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, OptionValue, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.create_tube("films", FIFO, TubeOptions::new().max_taken(2))?;
    /// let values = films.info()?.option_values();
    /// assert!(values.contains(&("max_taken", OptionValue::Number(2))));
    /// assert!(values.contains(&("rate", OptionValue::Without("unlimited"))));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn option_values(&self) -> Vec<(&'static str, OptionValue)> {
        self.policies().values()
    }
}
