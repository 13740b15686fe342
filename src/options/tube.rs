//! The driver and the callback, which are no options in the list; and the options of a tube that exists.

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

    /// The name of the driver: the order of the tasks, and which options they have. Default:
    /// [`FIFOTTL`](crate::FIFOTTL), or that of a tube that exists. A driver is never altered.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let hosts = store.open_tube("hosts", TubeOptions::new().driver(UTUBE))?;
    /// assert_eq!(hosts.driver(), UTUBE);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn driver(mut self, name: impl AsRef<str>) -> TubeOptions {
        self.driver = Some(name.as_ref().to_owned());
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
    /// The driver and the options of the tube that are not the default, to create another one like it. The
    /// callback and the pause are not among them.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().ttr(Duration::from_secs(60)).max_taken(2);
    /// let info = store.create_tube("films", options)?.info()?;
    /// let series = store.create_tube("series", info.options())?;
    /// assert_eq!(series.info()?.ttr, info.ttr);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn options(&self) -> TubeOptions {
        self.policies().options().driver(&self.driver)
    }

    /// All options of the tube, by name, with the value that is in effect.
    ///
    /// # Example
    /// ```
    /// use tubewell::expert::OptionValue;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.open_tube("films", TubeOptions::new().max_taken(2))?;
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
