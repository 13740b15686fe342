//! Plain redb with a group commit and takes from memory: the least that a queue on this engine
//! costs. One table, no state but the body, nothing that a queue is wanted for.

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

use crate::queue::{About, Class, Counters, Loses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs};

const TASKS: TableDefinition<u64, &[u8]> = TableDefinition::new("tasks");
/// The cache that tubewell opens its engine with.
const CACHE: usize = 64 << 20;

/// Who commits for all that wait.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    /// The first caller that finds nobody at it.
    Leader,
    /// A thread that does nothing else.
    Committer,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [By::Leader, By::Committer].into_iter().map(|by| Box::new(Floor(by)) as Box<dyn Peer>)
}

struct Floor(By);

impl Peer for Floor {
    fn about(&self) -> About {
        let (name, who) = match self.0 {
            By::Leader => ("redb/leader", "the first caller commits for all that wait"),
            By::Committer => ("redb/committer", "one thread commits for all"),
        };
        About {
            name: name.into(),
            version: "4.4.0".into(),
            class: Class::Durable,
            loses: Loses::nothing(),
            callers: format!("threads; {who}"),
            waits: "condition variable".into(),
            note: "not a queue: the floor of the engine".into(),
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
        Ok(Box::new(Threaded(Store::open(&dir.join("floor.redb"), self.0)?)))
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
    /// What waits for the commit that is gathered now.
    edits: Vec<Edit>,
    /// The number of the commit that is gathered now.
    gathering: u64,
    /// Commits so far: those with a smaller number are done.
    done: u64,
    committing: bool,
    closing: bool,
    failed: Option<String>,
}

struct Shared {
    by: By,
    db: Database,
    counts: Arc<Counts>,
    state: Mutex<State>,
    /// Those in even and in odd commits, so that only those are woken that are answered.
    answered: [Condvar; 2],
    gathered: Condvar,
    arrived: Condvar,
}

struct Store {
    shared: Arc<Shared>,
    committer: Option<std::thread::JoinHandle<()>>,
}

impl Store {
    fn open(path: &Path, by: By) -> Result<Store> {
        let counts = Arc::new(Counts::default());
        let file = File::options().read(true).write(true).create(true).truncate(true).open(path)?;
        let backend = Counting { file: FileBackend::new(file)?, counts: counts.clone() };
        let db = Database::builder().set_cache_size(CACHE).create_with_backend(backend)?;
        let shared = Arc::new(Shared {
            by,
            db,
            counts,
            state: Mutex::default(),
            answered: Default::default(),
            gathered: Condvar::new(),
            arrived: Condvar::new(),
        });
        let committer = (by == By::Committer).then(|| {
            let shared = shared.clone();
            std::thread::spawn(move || shared.commit_all())
        });
        Ok(Store { shared, committer })
    }
}

impl Verbs for Store {
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        Ok(Handle(self.shared.clone()))
    }

    fn counters(&self) -> Option<Counters> {
        let counts = &self.shared.counts;
        Some(Counters {
            flushes: counts.flushes.load(Ordering::Relaxed),
            bytes_written: counts.bytes.load(Ordering::Relaxed),
        })
    }

    fn close(self) -> Result<()> {
        self.shared.state.lock().closing = true;
        self.shared.gathered.notify_all();
        let joined = self.committer.map_or(Ok(()), std::thread::JoinHandle::join);
        joined.map_err(|_| "the committer panicked".into())
    }
}

struct Handle(Arc<Shared>);

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
        self.0.settle(state)
    }

    fn take(&mut self) -> Result<Option<Task>> {
        Ok(self.0.state.lock().ready.pop_front())
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Task>> {
        let (end, mut state) = (Instant::now() + timeout, self.0.state.lock());
        while state.ready.is_empty() {
            if self.0.arrived.wait_until(&mut state, end).timed_out() {
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
        self.0.settle(state)
    }

    fn take_many(&mut self, most: usize) -> Result<Vec<Task>> {
        let mut state = self.0.state.lock();
        let count = most.min(state.ready.len());
        Ok(state.ready.drain(..count).collect())
    }

    fn ack_many(&mut self, tasks: Vec<Task>) -> Result<()> {
        let mut state = self.0.state.lock();
        state.edits.extend(tasks.iter().map(|task| Edit::Remove(task.id)));
        self.0.settle(state)
    }
}

impl State {
    fn add(&mut self, body: &[u8]) {
        self.edits.push(Edit::Put(self.next_id, body.to_vec()));
        self.next_id += 1;
    }
}

impl Shared {
    /// Returns when the edits gathered so far are on the disk.
    fn settle<'a>(&'a self, mut state: MutexGuard<'a, State>) -> Result<()> {
        let mine = state.gathering;
        if self.by == By::Committer {
            self.gathered.notify_one();
        }
        while state.done <= mine && state.failed.is_none() {
            if self.by == By::Leader && !state.committing {
                state = self.commit(state);
            } else {
                self.of(mine).wait(&mut state);
            }
        }
        state.failed.clone().map_or(Ok(()), |why| Err(why.into()))
    }

    /// Commits what is gathered, without the lock, and makes it known.
    fn commit<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let edits = std::mem::take(&mut state.edits);
        let number = state.gathering;
        (state.gathering, state.committing) = (number + 1, true);
        let written = MutexGuard::unlocked(&mut state, || self.write(&edits));
        (state.done, state.committing) = (number + 1, false);
        if let Err(why) = written {
            state.failed = Some(why.to_string());
        }
        let before = state.ready.len();
        state.ready.extend(edits.into_iter().filter_map(|edit| match edit {
            Edit::Put(id, body) => Some(Task { id, body }),
            Edit::Remove(_) => None,
        }));
        if state.ready.len() > before {
            self.arrived.notify_all();
        }
        self.of(number).notify_all();
        if self.by == By::Leader {
            self.of(number + 1).notify_one();
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

    /// The committer's loop.
    fn commit_all(&self) {
        let mut state = self.state.lock();
        while !state.closing {
            if state.edits.is_empty() {
                self.gathered.wait(&mut state);
            } else {
                state = self.commit(state);
            }
        }
    }

    fn of(&self, commit: u64) -> &Condvar {
        &self.answered[usize::from(commit % 2 == 1)]
    }
}

/// What went to the file.
#[derive(Debug, Default)]
struct Counts {
    flushes: AtomicU64,
    bytes: AtomicU64,
}

#[derive(Debug)]
struct Counting {
    file: FileBackend,
    counts: Arc<Counts>,
}

impl StorageBackend for Counting {
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
