//! Backup: a copy of a store while it is in use.

use std::ops::ControlFlow;
use std::path::Path;

use crate::connection::Request;
use crate::core::{HEADER, stored_totals};
use crate::handle::store::StoreAdmin;
use crate::handle::store_handle::StoreHandle;
use crate::storage::copy_to;
use crate::{Error, Result};

impl StoreAdmin<'_> {
    /// Copies the store into a new file while the store is in use.
    ///
    /// The copy is a store in the state of one moment after the call began. It has everything that
    /// was acknowledged before the call, relaxed changes too. Tasks that are taken are ready in it,
    /// and temporary tubes are empty.
    ///
    /// The file gets its name when it is complete and flushed. A backup that is interrupted leaves
    /// a file `NAME.….partial` in the same directory, which no later backup removes, or nothing.
    ///
    /// While the storage of the store has failed, such as that of a file that was removed or replaced under the
    /// store, the copy has what memory has, as long as the database can be read: also calls whose outcome is
    /// [unknown](crate::Error::OutcomeUnknown).
    ///
    /// The call blocks until the copy is complete. It flushes the store first; after that it blocks
    /// no other call. It needs some 24 MiB of memory, plus twice the size of the largest body.
    /// Until it returns, this store's file reuses no space: it grows by what is written meanwhile.
    ///
    /// # Errors
    /// [`FileExists`](crate::Error::FileExists): a backup overwrites no file.
    /// [`Invalid`](crate::Error::Invalid): the path is that of the store itself, whose file was removed.
    /// Through a connection, [`Invalid`](crate::Error::Invalid): the path must be UTF-8; and
    /// [`OwnerBusy`](crate::Error::OwnerBusy). The owner writes the file, at this path of its machine; a
    /// relative path begins at the working directory of the caller. [`Io`](crate::Error::Io),
    /// [`Corrupt`](crate::Error::Corrupt) and the errors of [`flush`](crate::Store::flush). After an error
    /// there is no file of this name, with one exception: if an `Io` error names the directory, the copy
    /// exists but may be lost in a power cut.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// let store = Store::in_memory()?;
    /// store.tube("mail")?.put("to: ann")?;
    /// store.admin().backup(dir.path().join("monday.tubewell"))?;
    ///
    /// let monday = Store::open(dir.path().join("monday.tubewell"))?;
    /// assert_eq!(monday.tube("mail")?.statistics()?.tasks.ready, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup(&self, path: impl AsRef<Path>) -> Result<()> {
        self.backup_with(path, |_, _| ControlFlow::Continue(())).map(drop)
    }

    /// As [`backup`](StoreAdmin::backup). Calls `progress` after each 4 MiB or so, with the number of tasks copied and the
    /// number of all tasks. `ControlFlow::Break` ends the backup: the call then returns `false`, and leaves no file. It
    /// returns `true` for a copy that is complete. Through a connection `progress` is not called, and the owner ends a
    /// backup when the connection ends.
    ///
    /// # Errors
    /// As [`backup`](StoreAdmin::backup).
    ///
    /// # Example: a backup that a stop of the program ends
    /// ```
    /// use std::ops::ControlFlow;
    /// use std::sync::atomic::{AtomicBool, Ordering};
    ///
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let store = Store::in_memory()?;
    /// # store.tube("mail")?.put("to: ann")?;
    /// let stops = AtomicBool::new(false);
    /// let copy = dir.path().join("monday.tubewell");
    /// let unless_stopped = |_, _| match stops.load(Ordering::Relaxed) {
    ///     true => ControlFlow::Break(()),
    ///     false => ControlFlow::Continue(()),
    /// };
    /// assert!(store.admin().backup_with(&copy, unless_stopped)?);
    ///
    /// stops.store(true, Ordering::Relaxed);
    /// let other = dir.path().join("tuesday.tubewell");
    /// assert!(!store.admin().backup_with(&other, unless_stopped)?);
    /// assert!(copy.exists() && !other.exists());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn backup_with(
        &self,
        path: impl AsRef<Path>,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<bool> {
        let inner = match &self.store.handle {
            StoreHandle::Here(store) => store.inner()?,
            StoreHandle::Remote(owner) => {
                let path = std::path::absolute(path.as_ref()).map_err(|error| Error::Io {
                    what: format!("{}: {error}", path.as_ref().display()),
                })?;
                let path = path.into_os_string().into_string().map_err(|path| {
                    Error::invalid(format!(
                        "the path {} is not UTF-8: a backup through a connection needs a path \
                         that is",
                        path.display()
                    ))
                })?;
                return owner.ask(&Request::Backup(path)).map(|()| true);
            }
        };
        let mut snapshot = inner.rows_to_save(path.as_ref())?;
        let (ledger, _) = stored_totals(&mut snapshot)?;
        let tasks = ledger.iter().map(|ledger| ledger.counts.stored()).sum();
        let nonce = crate::base::random::random_u64();
        let report = &mut |copied: u64| progress(copied.min(tasks), tasks);
        let copied = copy_to(&mut snapshot, path.as_ref(), nonce, HEADER, report)?;
        Ok(copied.is_continue())
    }
}

#[cfg(test)]
mod tests {
    use tubewell_drivers::{Note, Reads, Shelf, Table};

    use crate::core::Core;
    use crate::handle::salvage::Salvaged;
    use crate::{FIFO, Store, TaskState, Tube, TubeOptions};

    /// Keeps the first task as a done one, and gives the second a failure.
    fn end_two_tasks(core: &mut Core) {
        let number = core.tubes.named("work").unwrap();
        core.edit(number, |ledger| {
            for (id, shelf, note) in
                [(0, Shelf::Done, Note::Result), (1, Shelf::Buried, Note::Failure)]
            {
                let found = ledger.find(id)?.unwrap();
                let mut header = found.record.header.clone();
                header.edit_more(|more| {
                    (more.ended, more.notes) = (Some(900), note.bit());
                    more.group = (shelf == Shelf::Buried).then(|| "timeout".into());
                });
                ledger.move_to_shelf(id, &found, shelf, &header)?;
                ledger.set_note(id, false, note, b"text");
            }
            Ok(())
        })
        .unwrap();
    }

    fn assert_has_ended_tasks(store: &Store) -> Tube {
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let tube = store.find_tube("work").unwrap();
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.total, tasks.ready, tasks.buried, tasks.done), (2, 1, 1, 0));
        assert_eq!(tube.query().task(0).unwrap().info.state, TaskState::Done);
        tube
    }

    #[test]
    fn kept_tasks_notes_and_groups_are_stored_copied_and_purged_as_others() {
        let dir = tempfile::tempdir().unwrap();
        let [path, copy] = ["store", "copy"].map(|name| dir.path().join(name));
        let store = Store::open(&path).unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        for body in ["a", "b", "c"] {
            tube.put(body).unwrap();
        }
        store.inner().run(end_two_tasks);
        store.close().unwrap();

        let store = Store::open(&path).unwrap();
        assert_has_ended_tasks(&store);
        store.admin().backup(&copy).unwrap();
        store.close().unwrap();
        let mut states = Vec::new();
        let salvaged = Store::options().salvage(&copy, |found| {
            if let Salvaged::Task { task, .. } = found {
                states.push((task.info.id, task.info.state));
            }
            Ok(())
        });
        salvaged.unwrap();
        assert_eq!(states, [(0, TaskState::Done), (1, TaskState::Buried), (2, TaskState::Ready)]);

        let store = Store::open(&copy).unwrap();
        let tube = assert_has_ended_tasks(&store);
        tube.admin().truncate().unwrap();
        store.close().unwrap();
        Store::options().compact(&copy, |_, _| {}).unwrap();
        let store = Store::open(&copy).unwrap();
        let mut rows = store.inner().stable_snapshot().unwrap();
        for table in Table::ALL.into_iter().filter(|table| *table != Table::Meta) {
            assert_eq!(rows.scan(table, &[], &[u8::MAX; 600], 9).unwrap(), [], "{table:?}");
        }
    }
}
