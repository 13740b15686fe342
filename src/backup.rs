//! Backup: a copy of a store while it is in use.

use std::path::Path;

use crate::core::{HEADER, stored_totals};
use crate::storage::copy_to;
use crate::{Result, Store};

impl Store {
    /// Copies the store into a new file while the store is in use.
    ///
    /// The copy is a store in the state of one moment after the call began. It has everything that
    /// was acknowledged before the call, relaxed changes too. Tasks that are taken are ready in it,
    /// and temporary tubes are empty.
    ///
    /// The file gets its name when it is complete and flushed. A backup that is interrupted leaves
    /// a file `NAME.….partial` in the same directory, or nothing.
    ///
    /// The call blocks until the copy is complete. It flushes the store first; after that it blocks
    /// no other call. It needs some 24 MiB of memory, plus twice the size of the largest body.
    /// Until it returns, this store's file reuses no space: it grows by what is written meanwhile.
    ///
    /// # Errors
    /// [`FileExists`](crate::Error::FileExists): a backup overwrites no file.
    /// [`Io`](crate::Error::Io), [`Corrupt`](crate::Error::Corrupt) and the errors of
    /// [`flush`](Store::flush). After an error there is no file of this name, with one exception:
    /// if an `Io` error names the directory, the copy exists but may be lost in a power cut.
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

    /// As [`backup`](Store::backup), with progress: now and then `progress` is called with the
    /// number of tasks copied and the number of all tasks.
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
        let mut snapshot = inner.stable_snapshot()?;
        let (ledger, _) = stored_totals(&mut snapshot)?;
        let tasks = ledger.iter().map(|ledger| ledger.counts.stored()).sum();
        let nonce = crate::random::random_u64();
        let report = &mut |copied: u64| progress(copied.min(tasks), tasks);
        copy_to(&mut snapshot, path.as_ref(), nonce, HEADER, report)
    }
}
