//! What can be seen of a store: numbers, events, clocks, and whether it is sound.

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell_drivers::verify_rows;

use super::{Store, last_commit};
use crate::core::{Core, FILE, stored_totals};
use crate::events::Subscription;
use crate::micros::duration;
use crate::statistics::Statistics;
use crate::storage::Engine;
use crate::{Error, Result};

/// What has gone to the storage since the store was opened, opening included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// The number of the last commit, over all lives of the store.
    pub commits: u64,
    /// The number of the last commit that the file had when it was opened. If a receipt from an
    /// earlier life has a higher one, the file has lost that commit: it was damaged and the engine
    /// went back to the one before, or it is an old copy.
    pub opened_at: u64,
    /// Rows that these commits of this life wrote or removed, the engine's own books aside.
    pub rows: u64,
    /// Flushes (fsync).
    pub flushes: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes in these writes.
    pub bytes_written: u64,
    /// Reads that the cache did not answer.
    pub reads: u64,
}

/// Two clocks, each as the time since the beginning of 1970, UTC.
///
/// They differ by as much as the wall clock has been set while the store was open, and for as long
/// as it is behind the line or not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClockReport {
    /// The store's own: ttl and delay go by it.
    pub timeline: Duration,
    /// The wall clock, now.
    pub wall: Duration,
    /// What the wall clock showed when the store was opened, if that was too far ahead to be
    /// believed. The line went on from the last commit instead.
    pub untrusted: Option<Duration>,
}

impl Store {
    /// The numbers of every tube, exact for what takers can see. Waits for nothing, and costs the same
    /// however many tasks there are.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
    /// assert_eq!(store.statistics()["jobs"].tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn statistics(&self) -> BTreeMap<String, Statistics> {
        self.inner().run(|core| {
            core.tubes
                .values()
                .map(|tube| (tube.definition.name.to_string(), tube.visible))
                .collect()
        })
    }

    /// A stream of what happens to the tasks of all tubes from now on.
    ///
    /// They are told after the commit that holds the change, in the order of the changes. Up to
    /// `capacity` of them wait in the stream. When it is full, further ones are dropped for this
    /// subscription and counted: a slow listener delays nobody.
    ///
    /// # Example
    /// ```
    /// use tubewell::EventKind;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    ///
    /// let events = store.subscribe(100);
    /// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
    /// let event = events.recv().unwrap();
    /// assert_eq!((&*event.tube, event.kind), ("jobs", EventKind::Put));
    /// assert_eq!(events.dropped(), 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[must_use]
    pub fn subscribe(&self, capacity: usize) -> Subscription {
        self.inner().run(|core| {
            core.has_subscribers = true;
            self.inner().subscribers.subscribe(capacity)
        })
    }

    /// Checks the checksum of every page, and every record against every index and count, and says
    /// in words what is wrong; an empty answer means that all is well. Flushes first. Reads the whole
    /// store: minutes for many millions of tasks, while the queue goes on and the file keeps what it
    /// frees.
    ///
    /// # Errors
    /// The store could not be read or flushed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
    /// for finding in store.verify()? {
    ///     eprintln!("{finding}");
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn verify(&self) -> Result<Vec<String>> {
        self.verify_with(|_, _| {})
    }

    /// As [`verify`](Store::verify); `progress` is told now and then how many tasks of the file
    /// have been checked, and how many there are.
    ///
    /// # Errors
    /// As [`verify`](Store::verify).
    pub fn verify_with(&self, mut progress: impl FnMut(u64, u64)) -> Result<Vec<String>> {
        let inner = self.inner();
        inner.flush()?;
        let pages = inner.with_engine(FILE, Engine::check_pages)?;
        let mut findings = Vec::from_iter(pages);
        let audited = inner.report_failure(self.verify_stored(&mut progress));
        match audited.and_then(|found| Ok((found, inner.run(Core::verify_memory)?))) {
            Ok((rows, memory)) => findings.extend(rows.into_iter().chain(memory)),
            // Damage is what was looked for; it may keep the rest from being looked at.
            Err(Error::Corrupt { what }) => findings.push(what),
            Err(error) => return Err(error),
        }
        Ok(findings)
    }

    fn verify_stored(&self, progress: &mut dyn FnMut(u64, u64)) -> Result<Vec<String>> {
        let mut snapshot = self.inner().with_engine(FILE, Engine::stable_snapshot)?;
        let (ledger, purges) = stored_totals(&mut snapshot)?;
        let tasks = ledger.iter().map(|ledger| ledger.counts.total()).sum();
        verify_rows(&mut snapshot, &ledger, &purges, &mut |checked| progress(checked, tasks))
    }

    /// What has gone to the file since the store was opened.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let (commits, rows) = self.inner().run(|core| (last_commit(core), core.buffers[FILE].rows));
        let opened_at = self.handle.opened_at();
        let read = self.inner().with_engine(FILE, |engine| {
            let io = engine.counters();
            Ok(Counters {
                commits,
                opened_at,
                rows,
                flushes: io.flushes(),
                writes: io.writes(),
                bytes_written: io.bytes_written(),
                reads: io.reads(),
            })
        });
        read.unwrap_or(Counters { commits, opened_at, rows, ..Counters::default() })
    }

    /// How the store's time line stands to the wall clock, and whether that was believed when the
    /// store was opened; see [`StoreOptions::wall_clock_limit`](crate::StoreOptions::wall_clock_limit).
    #[must_use]
    pub fn clock_report(&self) -> ClockReport {
        let (timeline, untrusted) = self.inner().run(|core| (core.now.timeline, core.untrusted));
        ClockReport {
            timeline: duration(timeline),
            wall: duration(self.inner().clock().wall()),
            untrusted: untrusted.map(duration),
        }
    }
}
