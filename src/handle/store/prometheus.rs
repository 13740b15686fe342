//! A store as Prometheus reads it: the text of a scrape.

use std::sync::Arc;

use super::Store;
use super::inspect::counters_here;
use crate::base::park::yield_once;
use crate::connection::Request;
use crate::core::Buffer;
use crate::core::list::ScrapeTubes;
use crate::handle::call;
use crate::handle::store_handle::StoreHandle;
use crate::runtime::open_store::LocalHandle;
use crate::storage::Engine;
use crate::text::scrape::exposition;
use crate::values::scrape::{StoreScrape, TubeScrape};
use crate::{Error, Mode, Result};

impl<M: Mode> Store<M> {
    /// The numbers of the store and of its tubes as text in the exposition format of Prometheus, for the
    /// endpoint of an application. Its content type is `text/plain; version=0.0.4`. docs/monitoring.md lists
    /// the families, and the alarms to set.
    ///
    /// The text is made by this call. What is counted for it costs other calls no row, no lock and no allocation. The label `tube` has the name of the tube; no label has a key, a tag or a
    /// sub-queue. Counters begin at 0 when the store is opened, except the number of commits. The
    /// families `tubewell_wait_seconds` and `tubewell_run_seconds` have the tubes with
    /// [`metrics`](crate::TubeOptions::metrics).
    ///
    /// `tubewell_oldest_ready_seconds` looks at the first ready task of each of the first 8 order keys of a
    /// tube (the priorities, unless its driver decides otherwise), and has the time of the one that has been ready
    /// for the longest time. In a tube with sub-queues it looks at the sub-queues from which a task can be taken.
    /// The time counts from the moment at which the task became ready if the tube has metrics, else from
    /// its put. It is 0 if no task is ready, and missing if none of the ready tasks was found with 32 rows.
    ///
    /// The call reads the tubes in steps of at most 256, each under one hold of the store's lock, so the
    /// numbers of two tubes may be of two moments. A step reads some 256 rows at most, and only of
    /// tubes with ready tasks that no take has read yet. The text has some 40 lines a tube. The call does not wait
    /// for other calls, and works while the storage has failed. An async handle makes the text while its ticket is
    /// polled: poll that of a store with thousands of tubes on a thread that may block.
    ///
    /// # Errors
    /// [`Closed`](Error::Closed). Through a connection, [`NotConnected`](Error::NotConnected),
    /// [`Refused`](Error::Refused), [`OwnerBusy`](Error::OwnerBusy).
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// store.tube("mail")?.put("to: ann")?;
    /// let text = store.prometheus()?;
    /// assert!(text.contains("tubewell_tasks{tube=\"mail\",state=\"ready\"} 1\n"));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "metrics")]
    #[doc(alias = "openmetrics")]
    pub fn prometheus(&self) -> M::Answer<String> {
        let handle = self.handle.clone();
        M::run(async move {
            let store = match &handle {
                StoreHandle::Here(store) => scrape_here(store)?,
                StoreHandle::Remote(owner) => owner.request(&Request::ScrapeStore).await?,
            };
            Ok(exposition(&store, &scrape_tubes(&handle, None, usize::MAX).await?))
        })
    }
}

/// The first `limit` tubes by name, behind the tube `after`.
pub(super) async fn scrape_tubes(
    handle: &StoreHandle,
    mut after: Option<Arc<str>>,
    limit: usize,
) -> Result<Vec<TubeScrape>> {
    let mut tubes: Vec<TubeScrape> = Vec::new();
    while tubes.len() < limit {
        let step = call::make(handle, Buffer::File, (), &ScrapeTubes { after }).await?;
        let is_last = step.is_last || step.tubes.is_empty();
        tubes.extend(step.tubes);
        if is_last {
            break;
        }
        after = tubes.last().map(|last| last.name.clone());
        yield_once().await;
    }
    tubes.truncate(limit);
    Ok(tubes)
}

/// A store of this process, without its tubes.
pub(crate) fn scrape_here(store: &LocalHandle) -> Result<StoreScrape> {
    let inner = store.inner()?;
    let id = inner.known_store_id().map(|id| id.to_string()).unwrap_or_default();
    let (has_failed, is_clock_untrusted, durability, flushes, checkpoints) = inner.run(|core| {
        if core.health.is_closed() {
            return Err(Error::Closed);
        }
        let (flushes, checkpoints) = (&core.threads.flushes, &core.threads.checkpoints);
        let is_clock_untrusted = core.wall.untrusted(core.now.timeline).is_some();
        let has_failed = core.health.has_failed();
        let durability = core.config.durability;
        Ok((has_failed, is_clock_untrusted, durability, flushes.read(), checkpoints.read()))
    })?;
    let (counters, file) = counters_here(store, Engine::scrape)?;
    let version = env!("CARGO_PKG_VERSION").to_owned();
    Ok(StoreScrape {
        version,
        id,
        has_failed,
        is_clock_untrusted,
        durability,
        counters,
        file,
        flushes,
        checkpoints,
    })
}
