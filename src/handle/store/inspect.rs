//! Statistics, events, clocks and verification of a store.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use tubewell_drivers::verify_rows;

use super::{Store, StoreAdmin, last_commit};
use crate::base::micros::{duration, micros_ceil};
use crate::connection::Request;
use crate::core::list::AllCounts;
use crate::core::{Buffer, Core, stored_totals};
use crate::handle::store_handle::StoreHandle;
use crate::runtime::StoreInner;
use crate::runtime::open_store::LocalHandle;
use crate::storage::Engine;
use crate::values::counters::{ClockReport, Counters};
use crate::values::date::Date;
use crate::values::filter::Filter;
use crate::values::scrape::StoreScrape;
use crate::values::statistics::Statistics;
use crate::{Durability, Error, Events, Mode, Result};

impl<M: Mode> Store<M> {
    /// The counts of tasks and calls of every tube, exact for the changes that takers can see. Does not
    /// block. The cost does not depend on the number of tasks.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](Error::Closed): the connection was closed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// store.tube("jobs")?.put("one")?;
    /// assert_eq!(store.statistics()?["jobs"].tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "metrics")]
    pub fn statistics(&self) -> M::Answer<BTreeMap<String, Statistics>> {
        self.make(AllCounts {})
    }

    /// Subscribes to the events that pass a filter, from now on: one for each change of a task. The
    /// events of all tubes pass an empty filter; [`Filter`] has the conditions.
    ///
    /// An event is delivered after the commit that holds the change, in the order of the changes.
    /// Up to `capacity` events wait in the subscription. While it is full, further events are
    /// dropped for this subscription and counted: a slow subscriber delays no other call. Events do
    /// not survive the process. This call does not block. Through a connection it blocks until the
    /// owner has answered, and the events end when the connection breaks. An async handle asks the owner at
    /// once, and the events begin before its ticket is answered.
    /// [`Events::delivered`] tells a reader when it has seen all events up to some moment.
    ///
    /// The cost of a change whose event no subscription wants does not grow with the number of
    /// subscriptions: the store looks up the subscriptions that want an event, and asks no others. A
    /// dropped subscription costs nothing any more.
    ///
    /// # Errors
    /// [`Invalid`](Error::Invalid): the filter has more than 4096 combinations of tubes, keys, owners
    /// and tags, or a condition that a subscription does not use, which the error names.
    /// [`Closed`](Error::Closed): the store or the connection was closed.
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store
    /// does not answer the connection.
    ///
    /// # Example
    /// ```
    /// use tubewell::{EventKind, Filter};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    ///
    /// let events = store.events(Filter::new(), 100)?;
    /// store.tube("jobs")?.put("one")?;
    /// let event = events.recv().unwrap();
    /// assert_eq!((&*event.tube, event.kind), ("jobs", EventKind::Put));
    /// assert_eq!(events.dropped(), 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "watch")]
    #[doc(alias = "pubsub")]
    pub fn events(&self, filter: impl Into<Filter>, capacity: usize) -> M::Answer<Events<M>> {
        let filter = filter.into();
        if let Err(refused) = filter.check_events() {
            return M::answer(Err(refused));
        }
        match &self.handle {
            StoreHandle::Here(store) => {
                M::answer(store.events_of(filter, capacity, None).map(Events::new))
            }
            StoreHandle::Remote(owner) => {
                let begun = owner.events(filter, capacity);
                M::run(async move { begun.await.map(Events::new) })
            }
        }
    }
}

impl Store {
    /// The day of UTC that the [metrics](crate::TubeOptions::metrics) of tubes count now: that of the
    /// store's timeline, which may be ahead of a wall clock that was set back. Does not block.
    ///
    /// # Errors
    /// Those of [`clock_report`](StoreAdmin::clock_report).
    ///
    /// # Example
    /// ```
    /// # use std::time::UNIX_EPOCH;
    /// use tubewell::expert::Date;
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// assert_eq!(store.today()?, Date::of(UNIX_EPOCH + store.admin().clock_report()?.timeline));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn today(&self) -> Result<Date> {
        Ok(Date::of_micros(micros_ceil(self.admin().clock_report()?.timeline)))
    }
}

impl StoreAdmin<'_> {
    /// Checks the checksum of every page, and every record against every index and count. Returns
    /// one sentence for each finding; none means that the store is sound.
    ///
    /// The call flushes first, and then blocks while it reads the whole store: minutes for many
    /// millions of tasks. Call it on a blocking thread of an async runtime. Other calls go on
    /// meanwhile. Space that they free in the file is not used again before the check ends.
    ///
    /// A finding names what is damaged. Then keep the file as it is, make a [backup](StoreAdmin::backup) to
    /// another disk, and put nothing more into the store: docs/reliability.md says what is still sound.
    ///
    /// # Errors
    /// [`Unavailable`](crate::Error::Unavailable), [`Io`](crate::Error::Io): the file cannot be flushed or
    /// read. [`Closed`](crate::Error::Closed). Through a connection, [`OwnerBusy`](crate::Error::OwnerBusy).
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # store.tube("jobs")?.put("one")?;
    /// for finding in store.admin().verify()? {
    ///     eprintln!("{finding}");
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn verify(&self) -> Result<Vec<String>> {
        self.verify_with(|_, _| ControlFlow::Continue(()))
    }

    /// As [`verify`](StoreAdmin::verify). Calls `progress` from time to time with the number of checked
    /// tasks and the number of all tasks. `ControlFlow::Break` ends the check, whose answer is then what was found up
    /// to there; the pages of the file are checked first, and this is not ended. Through a connection `progress` is not called, and the owner ends a check when the connection ends.
    ///
    /// # Errors
    /// Those of [`verify`](StoreAdmin::verify).
    ///
    /// # Example
    /// ```
    /// # use std::ops::ControlFlow;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// let findings = store.admin().verify_with(|checked, all| {
    ///     eprintln!("{checked} of {all}");
    ///     ControlFlow::Continue(())
    /// })?;
    /// assert!(findings.is_empty());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn verify_with(
        &self,
        mut progress: impl FnMut(u64, u64) -> ControlFlow<()>,
    ) -> Result<Vec<String>> {
        let store = match &self.store.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => return owner.ask(&Request::Verify),
        };
        let inner = store.inner()?;
        inner.flush()?;
        let pages = inner.with_engine(Buffer::File, Engine::check_pages)?;
        let mut findings = Vec::from_iter(pages);
        let mut is_ended = false;
        let stored = verify_stored(inner, &mut |checked, of| {
            let goes_on = progress(checked, of);
            is_ended = goes_on.is_break();
            goes_on
        });
        let in_memory =
            |core: &mut Core| if is_ended { Ok(Vec::new()) } else { core.verify_memory() };
        match inner.report_failure(stored).and_then(|found| Ok((found, inner.run(in_memory)?))) {
            Ok((rows, memory)) => findings.extend(rows.into_iter().chain(memory)),
            // Damage is a finding. It may prevent further checks.
            Err(Error::Corrupt { what }) => findings.push(what),
            Err(error) => return Err(error),
        }
        Ok(findings)
    }

    /// The reads, writes and flushes of the file since the store was opened, and the numbers of its commits
    /// then and now. All except the numbers of commits are zero at each open. Does not block.
    ///
    /// While the storage has failed, and after a close, the reads, writes and flushes are 0: they are those
    /// of the open file.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](Error::Closed): the connection was closed.
    ///
    /// # Example: how many callers share a flush
    /// ```
    /// use tubewell::Store;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let store = Store::open(dir.path().join("jobs"))?;
    /// store.tube("jobs")?.put("one")?;
    /// let counters = store.admin().counters()?;
    /// println!("{} commits, {} flushes", counters.commits - counters.opened_at, counters.flushes);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn counters(&self) -> Result<Counters> {
        let store = match &self.store.handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => return owner.ask(&Request::Counters),
        };
        counters_here(store, |_| ()).map(|(counters, _)| counters)
    }

    /// The durability of tubes without one of their own, which
    /// [`StoreOptions::durability`](crate::StoreOptions::durability) sets. Does not block.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](Error::Closed): the connection was closed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Durability, Store};
    ///
    /// let store = Store::options().durability(Durability::write()).open_in_memory()?;
    /// assert_eq!(store.admin().durability()?, Durability::write());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn durability(&self) -> Result<Durability> {
        match &self.store.handle {
            StoreHandle::Here(store) => Ok(store.inner()?.run(|core| core.config.durability)),
            StoreHandle::Remote(owner) => {
                let store: StoreScrape = owner.ask(&Request::ScrapeStore)?;
                Ok(store.durability)
            }
        }
    }

    /// The store's timeline and the wall clock, and whether the wall clock is trusted; see
    /// [`StoreOptions::wall_clock_limit`](crate::StoreOptions::wall_clock_limit). Does not block.
    ///
    /// # Errors
    /// [`NotConnected`](Error::NotConnected), [`Refused`](Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](Error::Closed): the connection was closed.
    pub fn clock_report(&self) -> Result<ClockReport> {
        let store = match &self.store.handle {
            StoreHandle::Here(store) => store.inner()?,
            StoreHandle::Remote(owner) => return owner.ask(&Request::Clock),
        };
        let (timeline, untrusted, set_back) = store.run(|core| {
            let timeline = core.now.timeline;
            (timeline, core.wall.untrusted(timeline), core.wall.set_back())
        });
        Ok(ClockReport {
            timeline: duration(timeline),
            wall: duration(store.clock().wall()),
            untrusted: untrusted.map(duration),
            set_back: set_back.filter(|_| untrusted.is_none()).map(duration),
        })
    }
}

/// The counters of a store of this process, and what `also` reads of its open file.
pub(super) fn counters_here<T>(
    store: &LocalHandle,
    also: impl FnOnce(&Engine) -> T,
) -> Result<(Counters, Option<T>)> {
    let inner = store.inner()?;
    let counters = inner.run(|core| Counters {
        commits: last_commit(core),
        opened_at: store.open_store().opened_at,
        rows: core.buffers[Buffer::File].edits.rows(),
        journal_waits: core.threads.journal_waits,
        ..Counters::default()
    });
    let of_file = inner.with_engine(Buffer::File, |engine| {
        let io = engine.counters();
        let counters = Counters {
            flushes: io.flushes(),
            writes: io.writes(),
            bytes_written: io.bytes_written(),
            reads: io.reads(),
            ..counters
        };
        Ok((counters, Some(also(engine))))
    });
    Ok(of_file.unwrap_or((counters, None)))
}

fn verify_stored(
    store: &StoreInner,
    progress: &mut dyn FnMut(u64, u64) -> ControlFlow<()>,
) -> Result<Vec<String>> {
    let mut snapshot = store.stable_snapshot()?;
    let (ledger, purges) = stored_totals(&mut snapshot)?;
    let tasks = ledger.iter().map(|ledger| ledger.counts.stored()).sum();
    verify_rows(&mut snapshot, &ledger, &purges, &mut |checked| progress(checked, tasks))
}
