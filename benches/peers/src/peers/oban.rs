//! Jobs in `SQLite`, with a table and statements in the style of
//! [Oban](https://github.com/oban-bg/oban) and its engine for `SQLite`, `Lite`: states, attempts,
//! errors as JSON. A take is an update that counts the attempt. It is lighter than Oban: it has the
//! columns and the index that the work needs, integer times, and no uniqueness, notifications and
//! plugins. Three things differ: a failed job is available at once, instead of retryable until the
//! stager makes it available; results are stored, which is a part of Oban Pro; and results are
//! removed by count, not by age.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::sqlite::{Synchronous, now};
use crate::queue::{
    ATTEMPTS, About, FAILURE, Peer, Queue, RESULT, RESULTS_KEPT, Result, Setting, Shape,
};
use crate::threads::{Caller, Threaded, Verbs};

const SCHEMA: &str = "
    create table jobs (
        id integer primary key autoincrement,
        state text not null default 'available',
        queue text not null default 'default',
        args blob not null,
        errors text not null default '[]',
        result text,
        attempt integer not null default 0,
        max_attempts integer not null,
        priority integer not null default 0,
        inserted_at integer not null,
        scheduled_at integer not null,
        attempted_at integer,
        completed_at integer,
        discarded_at integer
    ) strict;
    create index jobs_state on jobs (state, queue, priority, scheduled_at, id);";
const PUT: &str = "insert into jobs (args, max_attempts, inserted_at, scheduled_at)
    values (?1, ?2, ?3, ?3)";
const TAKE: &str = "update jobs set state = 'executing', attempted_at = ?1, attempt = attempt + 1
    where id = (select id from jobs where state = 'available' and queue = 'default'
        and attempt < max_attempts order by priority, scheduled_at, id limit 1)
    returning id, args, attempt";
const FAIL: &str = "update jobs set
        state = iif(attempt < max_attempts, 'available', 'discarded'),
        scheduled_at = ?1,
        discarded_at = iif(attempt < max_attempts, null, ?1),
        errors = json_insert(errors, '$[#]',
            json_object('at', ?1, 'attempt', attempt, 'error', ?2))
    where id = ?3 and state = 'executing'";
const ACK: &str = "update jobs set state = 'completed', completed_at = ?1, result = ?2
    where id = ?3 and state = 'executing'";
/// Removes the oldest completed jobs.
const PRUNE: &str = "delete from jobs where id in (select id from jobs
    where state = 'completed' and queue = 'default' order by priority, scheduled_at, id limit ?1)";
/// How many jobs are completed from one removal of results to the next.
const PRUNE_EVERY: u32 = 1000;

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    Synchronous::ALL.into_iter().map(|mode| Box::new(ObanSql(mode)) as Box<dyn Peer>)
}

struct ObanSql(Synchronous);

impl Peer for ObanSql {
    fn about(&self) -> About {
        About {
            name: format!("oban-sql/{}", self.0.name()),
            version: format!("SQLite {} in rusqlite 0.39.0", rusqlite::version()),
            class: self.0.class(),
            loses: self.0.loses(),
            callers: "threads that share one connection under a lock".into(),
            waits: "condition variable outside SQLite; Oban polls or is notified".into(),
            note: "jobs only: the table and the statements of Oban's engine for SQLite, WAL mode; \
                   each call is a transaction; a failed job is available at once, without Oban's \
                   stager; results are stored as in Oban Pro; every 1000 jobs a transaction removes \
                   all but the newest 10,000 results"
                .into(),
        }
    }

    fn does(&self, _: Shape) -> bool {
        false
    }

    fn does_jobs(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64))
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Threaded(Store::new(self.0.open(dir)?)?)))
    }
}

#[derive(Clone)]
struct Store(Arc<Inner>);

struct Inner {
    connection: Mutex<Connection>,
    job_available: Condvar,
    /// Completed jobs in the table.
    completed: AtomicU32,
}

struct Job {
    id: i64,
    body: Vec<u8>,
    attempt: u32,
}

impl AsRef<[u8]> for Job {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Store {
    fn new(connection: Connection) -> Result<Store> {
        connection.execute_batch(SCHEMA)?;
        Ok(Store(Arc::new(Inner {
            connection: Mutex::new(connection),
            job_available: Condvar::new(),
            completed: AtomicU32::new(0),
        })))
    }

    /// Counts a completed job. Removes the oldest results from time to time.
    fn prune(&self, connection: &Connection) -> Result<()> {
        let completed = self.0.completed.fetch_add(1, Ordering::Relaxed) + 1;
        if completed >= RESULTS_KEPT + PRUNE_EVERY {
            connection.prepare_cached(PRUNE)?.execute([completed - RESULTS_KEPT])?;
            self.0.completed.store(RESULTS_KEPT, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl Verbs for Store {
    type Caller = Store;

    fn caller(&self) -> Result<Store> {
        Ok(self.clone())
    }

    fn close(self) -> Result<()> {
        let inner = Arc::into_inner(self.0).ok_or("the queue is still in use")?;
        inner.connection.into_inner().close().map_err(|(_, error)| error.into())
    }
}

impl Caller for Store {
    type Task = Job;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let connection = self.0.connection.lock();
        connection.prepare_cached(PUT)?.execute(params![body, ATTEMPTS, now()?])?;
        self.0.job_available.notify_one();
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Job>> {
        take_one(&self.0.connection.lock())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Job>> {
        let (end, mut connection) = (Instant::now() + timeout, self.0.connection.lock());
        loop {
            let job = take_one(&connection)?;
            if job.is_some() || self.0.job_available.wait_until(&mut connection, end).timed_out() {
                return Ok(job);
            }
        }
    }

    fn ack(&mut self, job: Job) -> Result<()> {
        self.ack_with_result(job)
    }

    fn attempt(&self, job: &Job) -> Option<u32> {
        Some(job.attempt)
    }

    fn fail(&mut self, job: Job) -> Result<()> {
        let connection = self.0.connection.lock();
        let changed = connection.prepare_cached(FAIL)?.execute(params![now()?, FAILURE, job.id])?;
        self.0.job_available.notify_one();
        only_one(changed)
    }

    fn ack_with_result(&mut self, job: Job) -> Result<()> {
        let connection = self.0.connection.lock();
        only_one(connection.prepare_cached(ACK)?.execute(params![now()?, RESULT, job.id])?)?;
        self.prune(&connection)
    }
}

fn take_one(connection: &Connection) -> Result<Option<Job>> {
    let job = |row: &Row<'_>| Ok(Job { id: row.get(0)?, body: row.get(1)?, attempt: row.get(2)? });
    Ok(connection.prepare_cached(TAKE)?.query_row([now()?], job).optional()?)
}

fn only_one(changed: usize) -> Result<()> {
    if changed == 1 { Ok(()) } else { Err("the job is not executing".into()) }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{PRUNE_EVERY, Store};
    use crate::queue::{FAILURE, RESULT, RESULTS_KEPT, Result};
    use crate::threads::Caller;

    #[test]
    fn job_that_has_used_its_attempts_is_discarded_with_its_errors() -> Result<()> {
        let mut store = Store::new(Connection::open_in_memory()?)?;
        Caller::put(&mut store, b"job")?;
        for attempt in 1..=3 {
            let job = store.take()?.ok_or("no job")?;
            assert_eq!(store.attempt(&job), Some(attempt));
            store.fail(job)?;
        }
        assert!(store.take()?.is_none());
        let query = "select state, errors ->> '$[2].attempt', errors ->> '$[2].error' from jobs";
        let row = store.0.connection.lock().query_row(query, [], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, u32>(1)?, row.get::<_, String>(2)?))
        })?;
        assert_eq!(row, ("discarded".into(), 3, FAILURE.into()));
        Ok(())
    }

    #[test]
    fn newest_results_are_kept() -> Result<()> {
        let mut store = Store::new(Connection::open_in_memory()?)?;
        for _ in 0..RESULTS_KEPT + PRUNE_EVERY {
            Caller::put(&mut store, b"job")?;
            let job = store.take()?.ok_or("no job")?;
            store.ack_with_result(job)?;
        }
        let query = "select count(*), min(id), min(result) from jobs where state = 'completed'";
        let row = store.0.connection.lock().query_row(query, [], |row| {
            Ok((row.get::<_, u32>(0)?, row.get::<_, u32>(1)?, row.get::<_, String>(2)?))
        })?;
        assert_eq!(row, (RESULTS_KEPT, PRUNE_EVERY + 1, RESULT.into()));
        Ok(())
    }
}
