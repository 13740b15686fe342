//! A copy of a store that is in use.

use std::path::Path;

use crate::core::{FILE, HEADER, stored_totals};
use crate::storage::{Engine, copy_to};
use crate::{Result, Store};

impl Store {
    /// Copies the store into a new file, while it is in use.
    ///
    /// The copy is a store of its own, as if this one had been killed at one moment after the call
    /// began: with everything acknowledged before the call, and relaxed changes too. Tasks that are
    /// taken are ready in it, temporary tubes are empty. It is complete and flushed once it has its
    /// name: a copy that is cut off leaves a file `NAME.….partial` beside it, or nothing.
    ///
    /// It flushes first and then holds nobody up. It needs some 24 MiB of memory, besides the
    /// largest body twice. Until it is done this store's file keeps what it frees, and grows by as
    /// much as is written meanwhile.
    ///
    /// # Errors
    /// [`FileExists`](crate::Error::FileExists): it is never written over.
    /// [`Io`](crate::Error::Io), [`Corrupt`](crate::Error::Corrupt) and those of
    /// [`flush`](Store::flush). There is no file of this name then, but after an `Io` about the
    /// directory: the copy is there, and may be gone after a power cut.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Store, TubeOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::in_memory()?;
    /// store.create_tube("mail", FIFO, TubeOptions::new())?.put("to: ann")?;
    /// store.backup(dir.path().join("monday.tubewell"))?;
    ///
    /// let monday = Store::open(dir.path().join("monday.tubewell"))?;
    /// assert_eq!(monday.tube("mail")?.statistics()?.tasks.ready, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, |_, _| {})
    }

    /// As [`backup`](Store::backup); `progress` is told now and then how many tasks have been
    /// copied, and how many there are.
    ///
    /// # Errors
    /// As [`backup`](Store::backup).
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64),
    ) -> Result<()> {
        let inner = self.inner();
        inner.flush()?;
        let mut snapshot = inner.with_engine(FILE, Engine::stable_snapshot)?;
        let (ledger, _) = stored_totals(&mut snapshot)?;
        let tasks = ledger.iter().map(|ledger| ledger.counts.total()).sum();
        let nonce = crate::random::random_u64();
        let told = &mut |copied: u64| progress(copied.min(tasks), tasks);
        copy_to(&mut snapshot, path.as_ref(), nonce, HEADER, told)
    }
}
