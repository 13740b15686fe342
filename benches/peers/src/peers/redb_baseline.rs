//! The baseline of the engine: plain redb with a group commit and takes from memory. One table
//! holds the bodies, without any other feature of a queue.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex, MutexGuard};
use redb::backends::FileBackend;
use redb::{Database, StorageBackend, TableDefinition};

use crate::queue::{About, Class, Counters, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs};

const TASKS: TableDefinition<u64, &[u8]> = TableDefinition::new("tasks");
/// The default cache size of tubewell.
const CACHE: usize = 64 << 20;

/// The thread that commits for all waiting callers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CommitBy {
    /// The first caller that waits while no commit is in progress.
    Leader,
    /// A thread with no other work.
    Committer,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [CommitBy::Leader, CommitBy::Committer]
        .into_iter()
        .map(|by| Box::new(RedbBaseline(by)) as Box<dyn Peer>)
}

struct RedbBaseline(CommitBy);

impl Peer for RedbBaseline {
    fn about(&self) -> About {
        let (name, commits) = match self.0 {
            CommitBy::Leader => ("redb/leader", "the first waiting caller commits for all"),
            CommitBy::Committer => ("redb/committer", "a separate thread commits for all"),
        };
        About {
            name: name.into(),
            version: "4.4.0".into(),
            class: Class::Durable,
            loses: Losses::nothing(),
            callers: format!("threads; {commits}"),
            waits: "condition variable".into(),
            note: "not a queue: the baseline of the engine".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        match shape {
            Shape::Callers(n) => [1, 16, 64, 256, 1024].contains(&n),
            Shape::Batches(1000) | Shape::WakeUp => true,
            Shape::Batches(_) | Shape::Tickets(_) => false,
        }
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Threaded(Store::open(&dir.join("baseline.redb"), self.0)?)))
    }
}

enum Edit {
    Put(u64, Vec<u8>),
    Remove(u64),
}

#[derive(Default)]
struct State {
    next_id: u64,
    ready: VecDeque<Task>,
    /// The edits of the next commit.
    edits: Vec<Edit>,
    /// The number of the next commit.
    next_commit: u64,
    /// All commits with a smaller number are finished.
    finished: u64,
    committing: bool,
    closing: bool,
    failed: Option<String>,
}

struct Inner {
    by: CommitBy,
    db: Database,
    counts: Arc<Counts>,
    state: Mutex<State>,
    /// Callers that wait for even and for odd commits. A finished commit wakes only its own
    /// callers.
    committed: [Condvar; 2],
    edits_added: Condvar,
    task_ready: Condvar,
}

struct Store {
    inner: Arc<Inner>,
    committer: Option<std::thread::JoinHandle<()>>,
}

impl Store {
    fn open(path: &Path, by: CommitBy) -> Result<Store> {
        let counts = Arc::new(Counts::default());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let backend = CountingBackend { file: FileBackend::new(file)?, counts: counts.clone() };
        let db = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
        let inner = Arc::new(Inner {
            by,
            db,
            counts,
            state: Mutex::default(),
            committed: Default::default(),
            edits_added: Condvar::new(),
            task_ready: Condvar::new(),
        });
        let committer = (by == CommitBy::Committer).then(|| {
            let inner = inner.clone();
            std::thread::spawn(move || inner.commit_all())
        });
        Ok(Store { inner, committer })
    }
}

impl Verbs for Store {
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        Ok(Handle(self.inner.clone()))
    }

    fn counters(&self) -> Option<Counters> {
        let counts = &self.inner.counts;
        Some(Counters {
            flushes: counts.flushes.load(Ordering::Relaxed),
            bytes_written: counts.bytes.load(Ordering::Relaxed),
        })
    }

    fn close(self) -> Result<()> {
        self.inner.state.lock().closing = true;
        self.inner.edits_added.notify_all();
        let joined = self.committer.map_or(Ok(()), std::thread::JoinHandle::join);
        joined.map_err(|_| "the committer panicked".into())
    }
}

struct Handle(Arc<Inner>);

#[derive(Debug)]
struct Task {
    id: u64,
    body: Vec<u8>,
}

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

impl Caller for Handle {
    type Task = Task;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        let mut state = self.0.state.lock();
        state.add(body);
        self.0.wait_for_commit(state)
    }

    fn take(&mut self) -> Result<Option<Task>> {
        Ok(self.0.state.lock().ready.pop_front())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Task>> {
        let (end, mut state) = (Instant::now() + timeout, self.0.state.lock());
        while state.ready.is_empty() {
            if self.0.task_ready.wait_until(&mut state, end).timed_out() {
                break;
            }
        }
        Ok(state.ready.pop_front())
    }

    fn ack(&mut self, task: Task) -> Result<()> {
        self.ack_many(vec![task])
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        let mut state = self.0.state.lock();
        for body in bodies {
            state.add(body);
        }
        self.0.wait_for_commit(state)
    }

    fn take_many(&mut self, max: usize) -> Result<Vec<Task>> {
        let mut state = self.0.state.lock();
        let count = max.min(state.ready.len());
        Ok(state.ready.drain(..count).collect())
    }

    fn ack_many(&mut self, tasks: Vec<Task>) -> Result<()> {
        let mut state = self.0.state.lock();
        state.edits.extend(tasks.iter().map(|task| Edit::Remove(task.id)));
        self.0.wait_for_commit(state)
    }
}

impl State {
    fn add(&mut self, body: &[u8]) {
        self.edits.push(Edit::Put(self.next_id, body.to_vec()));
        self.next_id += 1;
    }
}

impl Inner {
    /// Returns when all edits added so far are flushed.
    fn wait_for_commit<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<()> {
        let mine = state.next_commit;
        if self.by == CommitBy::Committer {
            self.edits_added.notify_one();
        }
        while state.finished <= mine && state.failed.is_none() {
            if self.by == CommitBy::Leader && !state.committing {
                state = self.commit(state);
            } else {
                self.callers_of(mine).wait(&mut state);
            }
        }
        state.failed.clone().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Commits the added edits without the lock, and wakes the callers that wait for them.
    fn commit<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let edits = std::mem::take(&mut state.edits);
        let number = state.next_commit;
        (state.next_commit, state.committing) = (number + 1, true);
        let written = MutexGuard::unlocked(&mut state, || self.write(&edits));
        (state.finished, state.committing) = (number + 1, false);
        if let Err(why) = written {
            state.failed = Some(why.to_string());
        }
        let before = state.ready.len();
        state.ready.extend(edits.into_iter().filter_map(|edit| match edit {
            Edit::Put(id, body) => Some(Task { id, body }),
            Edit::Remove(_) => None,
        }));
        if state.ready.len() > before {
            self.task_ready.notify_all();
        }
        self.callers_of(number).notify_all();
        if self.by == CommitBy::Leader {
            self.callers_of(number + 1).notify_one();
        }
        state
    }

    fn write(&self, edits: &[Edit]) -> Result<()> {
        let transaction = self.db.begin_write()?;
        {
            let mut table = transaction.open_table(TASKS)?;
            for edit in edits {
                match edit {
                    Edit::Put(id, body) => drop(table.insert(id, body.as_slice())?),
                    Edit::Remove(id) => drop(table.remove(id)?),
                }
            }
        }
        Ok(transaction.commit()?)
    }

    /// The loop of the committer thread.
    fn commit_all(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            if state.edits.is_empty() {
                self.edits_added.wait(&mut state);
            } else {
                state = self.commit(state);
            }
        }
    }

    fn callers_of(&self, commit: u64) -> &Condvar {
        &self.committed[usize::from(commit % 2 == 1)]
    }
}

/// Flushes and bytes written to the file.
#[derive(Debug, Default)]
struct Counts {
    flushes: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct CountingBackend {
    file: FileBackend,
    counts: Arc<Counts>,
}

impl StorageBackend for CountingBackend {
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.counts.flushes.fetch_add(1, Ordering::Relaxed);
        self.file.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.counts.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
        self.file.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.file.close()
    }
}
