//! The sessions of workers that name themselves: each is the owner of what it has taken.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use axum::http::StatusCode;
use parking_lot::Mutex;
use tubewell::{AsyncSession, AsyncStore};

use crate::problem::{Answer, Problem};

/// How many names of workers there may be at a time.
const WORKERS_MAX: usize = 1000;
/// The longest name of a worker in bytes.
const NAME_MAX: usize = 128;

/// The sessions by the names of the workers.
pub(crate) struct Workers {
    store: AsyncStore,
    /// The owner of the tasks of clients that do not name themselves, with which the labels of the others begin.
    label: String,
    named: Mutex<HashMap<String, Worker>>,
}

/// A worker that has named itself.
struct Worker {
    session: Arc<AsyncSession>,
    /// How many takes it has begun.
    takes: u64,
}

impl Workers {
    pub(crate) fn new(store: AsyncStore, label: String) -> Workers {
        Workers { store, label, named: Mutex::default() }
    }

    /// The session of the worker with this name, for a take.
    pub(crate) async fn of_take(&self, name: &str) -> Answer<Arc<AsyncSession>> {
        if name.is_empty() || name.len() > NAME_MAX {
            return Err(Problem::invalid(format!("worker: a name has 1 to {NAME_MAX} bytes")));
        }
        if let Some(session) = self.begin_take(name) {
            return Ok(session);
        }
        self.make_room().await?;
        let session = Arc::new(self.store.session(self.label_of(name)).await?);
        // Another take of the same worker may have been quicker, and those of others may have used the room.
        let mut named = self.named.lock();
        if named.len() >= WORKERS_MAX && !named.contains_key(name) {
            return Err(too_many());
        }
        let worker = named.entry(name.to_owned()).or_insert(Worker { session, takes: 0 });
        worker.takes += 1;
        Ok(worker.session.clone())
    }

    fn begin_take(&self, name: &str) -> Option<Arc<AsyncSession>> {
        let mut named = self.named.lock();
        let worker = named.get_mut(name)?;
        worker.takes += 1;
        Some(worker.session.clone())
    }

    /// The session of the worker with this name, if it has one.
    pub(crate) fn of_claim(&self, name: &str) -> Option<Arc<AsyncSession>> {
        self.named.lock().get(name).map(|worker| worker.session.clone())
    }

    /// Whether clients of this server have the tasks of this owner.
    pub(crate) fn has(&self, owner: &str) -> bool {
        let name = owner.strip_prefix(&self.label);
        name.is_some_and(|name| name.is_empty() || name.starts_with('/'))
    }

    fn label_of(&self, name: &str) -> String {
        format!("{}/{name}", self.label)
    }

    /// Ends the sessions that hold no task, if there are too many. The next take of such a worker begins a new one.
    async fn make_room(&self) -> Answer<()> {
        // Those without a take under way. One that begins meanwhile is seen by its number.
        let idle: Vec<(String, u64)> = {
            let named = self.named.lock();
            if named.len() < WORKERS_MAX {
                return Ok(());
            }
            let idle = named.iter().filter(|(_, worker)| worker.is_idle());
            idle.map(|(name, worker)| (name.clone(), worker.takes)).collect()
        };
        let owners = self.store.owners().await?;
        let holders: BTreeSet<_> = owners.into_iter().filter_map(|owner| owner.label).collect();
        // They are dropped without the lock.
        let mut ended = Vec::new();
        {
            let mut named = self.named.lock();
            for (name, takes) in idle {
                let is_as_before = named
                    .get(&name)
                    .is_some_and(|worker| worker.is_idle() && worker.takes == takes);
                if is_as_before && !holders.contains(&*self.label_of(&name)) {
                    ended.extend(named.remove(&name));
                }
            }
            if named.len() < WORKERS_MAX {
                return Ok(());
            }
        }
        Err(too_many())
    }
}

fn too_many() -> Problem {
    let what = format!(
        "{WORKERS_MAX} other workers hold tasks or wait; use a name again, or take without one"
    );
    Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what)
}

impl Worker {
    /// Whether no call of it is under way: such a call has a handle, too.
    fn is_idle(&self) -> bool {
        Arc::strong_count(&self.session) == 1
    }
}

impl fmt::Debug for Workers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workers").field("label", &self.label).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use tubewell::Store;

    use super::*;

    #[test]
    fn worker_that_holds_a_task_keeps_its_session() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let store = Store::in_memory().unwrap();
        let jobs = store.tube("jobs").unwrap();
        jobs.put("x").unwrap();
        let workers = Workers::new(store.to_async(), "http".into());
        runtime.block_on(async {
            let holder = workers.of_take("holder").await.unwrap();
            let tube = holder.tube(&jobs.to_async()).unwrap();
            let _held = tube.try_take().await.unwrap().unwrap().detach();
            drop((tube, holder));
            let waits = workers.of_take("waits").await.unwrap();
            for number in 0..WORKERS_MAX {
                workers.of_take(&format!("worker-{number}")).await.unwrap();
            }
            drop(waits);
        });
        let left = ["holder", "waits", "worker-0"].map(|name| workers.of_claim(name).is_some());
        assert_eq!(left, [true, true, false]);
        assert!(workers.named.lock().len() < 10);
        assert_eq!(jobs.statistics().unwrap().tasks.taken, 1);
    }
}
