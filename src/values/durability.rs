//! When the operations of a tube return.

use std::time::Duration;

/// The default of the longest time until a change that does not wait for its flush is flushed.
const FLUSH_WITHIN: Duration = Duration::from_millis(50);

/// When an operation that changes tasks returns: after its flush (fsync), after its write to the
/// file, or immediately.
///
/// | durability | a killed process loses | a power cut or a crash of the operating system loses |
/// |---|---|---|
/// | [`Flush`](Durability::Flush) (default) | nothing | nothing |
/// | [`Write`](Durability::Write) | nothing; while the storage fails, the newest changes | the newest changes: those since the last flush |
/// | [`Relaxed`](Durability::Relaxed) | the newest changes | the newest changes |
///
/// The text of a durability is `flush`, `write(50ms)` or `relaxed(50ms)`. The time is a whole number
/// with its unit: `s`, `ms`, `us` or `ns`. Parsing also accepts `write` for [`Durability::write`] and
/// `relaxed` for [`Durability::relaxed`].
///
/// # Example: a tube for each
/// ```
/// use std::time::Duration;
/// use tubewell::{Durability, Store, TubeOptions};
///
/// # let store = Store::in_memory()?;
/// let orders = store.tube("orders")?;
/// orders.put("2 teapots")?; // on the disk
///
/// let thumbnails = TubeOptions::new().durability(Durability::write());
/// let thumbnails = store.open_tube("thumbnails", thumbnails)?;
/// thumbnails.put("cat.jpg")?; // survives a kill; on the disk within 50 ms
///
/// let relaxed = Durability::Relaxed { max_delay: Duration::from_millis(10) };
/// let clicks = store.open_tube("clicks", TubeOptions::new().durability(relaxed))?;
/// clicks.put("at 3, 4")?; // on the disk within 10 ms
/// # Ok::<(), tubewell::Error>(())
/// ```
#[doc(alias = "fsync")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(clippy::exhaustive_enums, reason = "another kind would be a new promise")]
pub enum Durability {
    /// The operation returns after the flush of its change. Concurrent calls share one flush. A
    /// killed process, a crash of the operating system and a power cut lose no acknowledged
    /// change.
    #[default]
    Flush,
    /// The operation returns once its change is written to the file: the operating system has it. A
    /// flush follows within `flush_within`, and at close. A killed process loses no acknowledged
    /// change, unless the storage fails. A crash of the operating system and a power cut lose the
    /// changes since the last flush: the newest ones, never one before another that survives, and
    /// never a part of one. If that later flush fails, the store writes and flushes the changes again:
    /// they are lost only if the process or the machine stops before the storage works again.
    ///
    /// The operation waits for a write, which usually takes microseconds, and for no flush. Takers
    /// may get a task before its put returns. A store in memory has no file: there it is as
    /// [`Flush`](Durability::Flush).
    Write {
        /// The longest time from the change to the start of its flush.
        flush_within: Duration,
    },
    /// The operation returns immediately, and its change is visible to takers. A flush follows
    /// within `max_delay`, and at close. A killed process, a crash of the operating system and a
    /// power cut lose the changes since the last flush. They never leave a part of a change.
    Relaxed {
        /// The longest time from the change to the start of its flush.
        max_delay: Duration,
    },
}

impl Durability {
    /// [`Write`](Durability::Write) with a flush within 50 ms.
    #[must_use]
    pub fn write() -> Durability {
        Durability::Write { flush_within: FLUSH_WITHIN }
    }

    /// [`Relaxed`](Durability::Relaxed) with a flush within 50 ms.
    #[must_use]
    pub fn relaxed() -> Durability {
        Durability::Relaxed { max_delay: FLUSH_WITHIN }
    }
}
