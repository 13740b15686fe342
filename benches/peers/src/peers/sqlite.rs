//! A queue in `SQLite` in the style of [goqite](https://github.com/maragudk/goqite): a take sets a
//! timeout and returns the body, an ack deletes the row. It is lighter than goqite: integer keys
//! and times, no trigger, and no index besides the key.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};
use rusqlite::{Connection, OptionalExtension, params};

use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs};

const SCHEMA: &str = "create table queue (
    id integer primary key,
    body blob not null,
    timeout integer not null default 0,
    received integer not null default 0
) strict";
const PUT: &str = "insert into queue (body) values (?)";
const TAKE: &str = "update queue set timeout = ?1, received = received + 1 where id =
    (select id from queue where timeout <= ?2 order by id limit 1) returning id, body";
const TAKE_MANY: &str = "update queue set timeout = ?1, received = received + 1 where id in
    (select id from queue where timeout <= ?2 order by id limit ?3) returning id, body";
const ACK: &str = "delete from queue where id = ?";
/// Time until a task that was taken is ready again, in milliseconds.
const CLAIM_TIME: i64 = 3_600_000;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Synchronous {
    Full,
    Normal,
}

impl Synchronous {
    pub const ALL: [Synchronous; 2] = [Synchronous::Full, Synchronous::Normal];

    pub fn name(self) -> &'static str {
        match self {
            Synchronous::Full => "full",
            Synchronous::Normal => "normal",
        }
    }

    pub fn class(self) -> Class {
        match self {
            Synchronous::Full => Class::Durable,
            Synchronous::Normal => Class::ProcessSafe,
        }
    }

    pub fn loses(self) -> Losses {
        let since = "commits since the last checkpoint";
        match self {
            Synchronous::Full => Losses::nothing(),
            Synchronous::Normal => Losses::new("nothing", since, since),
        }
    }

    /// A connection to a new file in WAL mode.
    ///
    /// # Errors
    /// The file cannot be made.
    pub fn open(self, dir: &Path) -> Result<Connection> {
        let connection = Connection::open(dir.join("queue.sqlite"))?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", self.name())?;
        Ok(connection)
    }
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    Synchronous::ALL.into_iter().map(|mode| Box::new(Sqlite(mode)) as Box<dyn Peer>)
}

struct Sqlite(Synchronous);

impl Peer for Sqlite {
    fn about(&self) -> About {
        About {
            name: format!("sqlite/{}", self.0.name()),
            version: format!("{} in rusqlite 0.39.0", rusqlite::version()),
            class: self.0.class(),
            loses: self.0.loses(),
            callers: "threads that share one connection under a lock".into(),
            waits: "condition variable outside SQLite; across processes it would poll".into(),
            note: "schema in the style of goqite, WAL mode; a take is also a write".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::Batches(1000) | Shape::WakeUp)
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        let connection = self.0.open(dir)?;
        connection.execute(SCHEMA, [])?;
        let inner = Inner { connection: Mutex::new(connection), task_added: Condvar::new() };
        Ok(Box::new(Threaded(Store(Arc::new(inner)))))
    }
}

struct Inner {
    connection: Mutex<Connection>,
    task_added: Condvar,
}

#[derive(Clone)]
struct Store(Arc<Inner>);

struct Task {
    id: i64,
    body: Vec<u8>,
}

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        &self.body
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
    type Task = Task;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        self.0.connection.lock().prepare_cached(PUT)?.execute([body])?;
        self.0.task_added.notify_one();
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Task>> {
        take_one(&self.0.connection.lock())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Task>> {
        let (end, mut connection) = (Instant::now() + timeout, self.0.connection.lock());
        loop {
            let task = take_one(&connection)?;
            if task.is_some() || self.0.task_added.wait_until(&mut connection, end).timed_out() {
                return Ok(task);
            }
        }
    }

    fn ack(&mut self, task: Task) -> Result<()> {
        self.0.connection.lock().prepare_cached(ACK)?.execute([task.id])?;
        Ok(())
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        let mut connection = self.0.connection.lock();
        let transaction = connection.transaction()?;
        for body in bodies {
            transaction.prepare_cached(PUT)?.execute([body])?;
        }
        transaction.commit()?;
        self.0.task_added.notify_all();
        Ok(())
    }

    fn take_many(&mut self, max: usize) -> Result<Vec<Task>> {
        let (now, connection) = (now()?, self.0.connection.lock());
        let mut statement = connection.prepare_cached(TAKE_MANY)?;
        let task = |row: &rusqlite::Row<'_>| Ok(Task { id: row.get(0)?, body: row.get(1)? });
        let tasks =
            statement.query_map(params![now + CLAIM_TIME, now, i64::try_from(max)?], task)?;
        Ok(tasks.collect::<rusqlite::Result<_>>()?)
    }

    fn ack_many(&mut self, tasks: Vec<Task>) -> Result<()> {
        let mut connection = self.0.connection.lock();
        let transaction = connection.transaction()?;
        for task in tasks {
            transaction.prepare_cached(ACK)?.execute([task.id])?;
        }
        Ok(transaction.commit()?)
    }
}

fn take_one(connection: &Connection) -> Result<Option<Task>> {
    let now = now()?;
    let mut statement = connection.prepare_cached(TAKE)?;
    let task = statement.query_row(params![now + CLAIM_TIME, now], |row| {
        Ok(Task { id: row.get(0)?, body: row.get(1)? })
    });
    Ok(task.optional()?)
}

/// Milliseconds since 1970.
///
/// # Errors
/// The clock is before 1970.
pub fn now() -> Result<i64> {
    Ok(i64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?)
}
