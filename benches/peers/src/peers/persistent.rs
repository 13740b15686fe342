//! persistent-queue on redb: one commit for each push and ack, or one for all waiting pushes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::lock_api::ArcMutexGuard;
use parking_lot::{Mutex, RawMutex};
use persistent_queue::{
    AsyncConsumer, AsyncProducer, Builder, Consumer, Durability, Producer, RedbStore, Reserved,
};
use tokio::runtime::Runtime;

use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs, Worker};

#[derive(Clone, Copy)]
enum Mode {
    Sync,
    Group,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [Mode::Sync, Mode::Group].into_iter().map(|mode| Box::new(Persistent(mode)) as Box<dyn Peer>)
}

struct Persistent(Mode);

impl Peer for Persistent {
    fn about(&self) -> About {
        let (name, note) = match self.0 {
            Mode::Sync => ("persistent-queue/sync", "each push and each ack is a commit"),
            Mode::Group => {
                ("persistent-queue/group", "concurrent pushes share a commit; each ack is a commit")
            }
        };
        About {
            name: name.into(),
            version: "0.2.0 on redb".into(),
            class: Class::Durable,
            loses: Losses::nothing(),
            callers: "threads; a lock is held on its single consumer from reserve to ack".into(),
            waits: "async handle on tokio".into(),
            note: note.into(),
        }
    }

    fn open(&self, dir: &Path, setting: &Setting) -> Result<Box<dyn Queue>> {
        let durability = match self.0 {
            Mode::Sync => Durability::Sync,
            Mode::Group => Durability::Group,
        };
        let store = RedbStore::open(dir.join("queue.redb"))?;
        // With its default capacity, pushes wait at 1024 items.
        let builder = Builder::new(store).capacity(usize::MAX).durability(durability);
        if setting.shape == Shape::WakeUp {
            let runtime = runtime()?;
            let (producer, consumer) = runtime.block_on(builder.open_async())?;
            return Ok(Box::new(Threaded(AsyncStore { producer, consumer: Arc::new(consumer) })));
        }
        let (producer, consumer) = builder.open()?;
        Ok(Box::new(Threaded(Store { producer, consumer: Arc::new(Mutex::new(consumer)) })))
    }
}

type ConsumerGuard = ArcMutexGuard<RawMutex, Consumer<RedbStore>>;

#[derive(Clone)]
struct Store {
    producer: Producer<RedbStore>,
    consumer: Arc<Mutex<Consumer<RedbStore>>>,
}

struct Task {
    reserved: Reserved<RedbStore>,
    /// Without this lock, a reserve concurrent with acks sometimes delivers a task twice.
    _consumer: ConsumerGuard,
}

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        &self.reserved
    }
}

impl Verbs for Store {
    type Caller = Store;

    fn caller(&self) -> Result<Store> {
        Ok(self.clone())
    }

    fn close(self) -> Result<()> {
        self.producer.close();
        Ok(())
    }
}

impl Caller for Store {
    type Task = Task;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        Ok(self.producer.push(body)?)
    }

    fn take(&mut self) -> Result<Option<Task>> {
        let consumer = self.consumer.lock_arc();
        let reserved = consumer.reserve()?;
        Ok(reserved.map(|reserved| Task { reserved, _consumer: consumer }))
    }

    fn wait(&mut self, _: Duration) -> Result<Option<Task>> {
        self.take()
    }

    fn ack(&mut self, task: Task) -> Result<()> {
        Ok(task.reserved.ack()?)
    }
}

/// Its asynchronous handles, which can wait for a task.
struct AsyncStore {
    producer: AsyncProducer<RedbStore>,
    consumer: Arc<AsyncConsumer<RedbStore>>,
}

impl Verbs for AsyncStore {
    type Caller = AsyncHandle;

    fn caller(&self) -> Result<AsyncHandle> {
        let runtime = runtime()?;
        Ok(AsyncHandle {
            runtime,
            producer: self.producer.clone(),
            consumer: self.consumer.clone(),
        })
    }

    fn close(self) -> Result<()> {
        self.producer.close();
        Ok(())
    }
}

struct AsyncHandle {
    runtime: Runtime,
    producer: AsyncProducer<RedbStore>,
    consumer: Arc<AsyncConsumer<RedbStore>>,
}

impl Worker for AsyncHandle {
    fn put(&mut self, body: &[u8]) -> Result<()> {
        Ok(self.runtime.block_on(self.producer.push(body.to_vec()))?)
    }

    fn take_and_ack(&mut self, timeout: Duration, check: &mut dyn FnMut(&[u8])) -> Result<bool> {
        self.runtime.block_on(async {
            let reserved = match tokio::time::timeout(timeout, self.consumer.reserve()).await {
                Ok(reserved) => reserved?,
                Err(_) => None,
            };
            let Some(reserved) = reserved else { return Ok(false) };
            check(&reserved);
            reserved.ack().await?;
            Ok(true)
        })
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        bodies.iter().try_for_each(|body| self.put(body))
    }

    fn take_and_ack_many(&mut self, _: usize, check: &mut dyn FnMut(&[u8])) -> Result<usize> {
        self.take_and_ack(Duration::ZERO, check).map(usize::from)
    }
}

fn runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_time().build()?)
}
