//! yaque: a queue in segment files, with one sender and one receiver.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use yaque::{Receiver, Sender, TryRecvError};

use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Threaded, Verbs, Worker};

pub struct Yaque;

impl Peer for Yaque {
    fn about(&self) -> About {
        let unwritten = "data that the operating system has not written back, about 30 s";
        About {
            name: "yaque".into(),
            version: "0.6.6".into(),
            class: Class::ProcessSafe,
            loses: Losses::new(
                "nothing; up to 250 acked tasks are delivered again",
                unwritten,
                unwritten,
            ),
            callers: "threads that share its single sender and single receiver, each under a lock"
                .into(),
            waits: "watches the file (inotify)".into(),
            note: "never flushes; at most one task is taken at a time".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::Batches(1000) | Shape::WakeUp)
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        let (sender, receiver) = yaque::channel(dir.join("queue"))?;
        let inner = Inner { sender: Mutex::new(sender), receiver: Mutex::new(receiver) };
        Ok(Box::new(Threaded(Store(Arc::new(inner)))))
    }
}

struct Inner {
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
}

struct Store(Arc<Inner>);

impl Verbs for Store {
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        let timer = Builder::new_current_thread().enable_time().build()?;
        Ok(Handle { inner: self.0.clone(), timer })
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

struct Handle {
    inner: Arc<Inner>,
    timer: Runtime,
}

impl Worker for Handle {
    fn put(&mut self, body: &[u8]) -> Result<()> {
        self.inner.sender.lock().try_send(body).map_err(|error| error.to_string().into())
    }

    fn take_and_ack(&mut self, timeout: Duration, check: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut receiver = self.inner.receiver.lock();
        if timeout.is_zero() {
            return match receiver.try_recv() {
                Ok(task) => {
                    check(&task);
                    task.commit()?;
                    Ok(true)
                }
                Err(TryRecvError::QueueEmpty) => Ok(false),
                Err(TryRecvError::Io(error)) => Err(error.into()),
            };
        }
        let received = async { tokio::time::timeout(timeout, receiver.recv()).await };
        let Ok(task) = self.timer.block_on(received) else { return Ok(false) };
        let task = task?;
        check(&task);
        task.commit()?;
        Ok(true)
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        let sent = self.inner.sender.lock().try_send_batch(bodies);
        sent.map_err(|error| error.to_string().into())
    }

    fn take_and_ack_many(&mut self, max: usize, check: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let mut receiver = self.inner.receiver.lock();
        let tasks = match receiver.try_recv_batch_up_to(max) {
            Ok(tasks) => tasks,
            Err(TryRecvError::QueueEmpty) => return Ok(0),
            Err(TryRecvError::Io(error)) => return Err(error.into()),
        };
        tasks.iter().for_each(|task| check(task));
        let count = tasks.len();
        tasks.commit()?;
        Ok(count)
    }
}
