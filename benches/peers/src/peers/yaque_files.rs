//! yaque: segments of a file, one sender and one receiver.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use yaque::{Receiver, Sender, TryRecvError};

use crate::queue::{About, Class, Loses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Threaded, Verbs, Worker};

pub struct Yaque;

impl Peer for Yaque {
    fn about(&self) -> About {
        let unwritten = "what the system has not written back, some 30 s";
        About {
            name: "yaque".into(),
            version: "0.6.6".into(),
            class: Class::ProcessSafe,
            loses: Loses::all("nothing; up to 250 acked tasks come again", unwritten, unwritten),
            callers: "threads that share its one sender and one receiver, each under a lock".into(),
            waits: "watches the file (inotify)".into(),
            note: "it never flushes; one task is out at a time".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::Batches(1000) | Shape::WakeUp)
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        let (sender, receiver) = yaque::channel(dir.join("queue"))?;
        let shared = Shared { sender: Mutex::new(sender), receiver: Mutex::new(receiver) };
        Ok(Box::new(Threaded(Store(Arc::new(shared)))))
    }
}

struct Shared {
    sender: Mutex<Sender>,
    receiver: Mutex<Receiver>,
}

struct Store(Arc<Shared>);

impl Verbs for Store {
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        let timer = Builder::new_current_thread().enable_time().build()?;
        Ok(Handle { shared: self.0.clone(), timer })
    }

    fn close(self) -> Result<()> {
        Ok(())
    }
}

struct Handle {
    shared: Arc<Shared>,
    timer: Runtime,
}

impl Worker for Handle {
    fn put(&mut self, body: &[u8]) -> Result<()> {
        self.shared.sender.lock().try_send(body).map_err(|error| error.to_string().into())
    }

    fn finish(&mut self, timeout: Duration, look: &mut dyn FnMut(&[u8])) -> Result<bool> {
        let mut receiver = self.shared.receiver.lock();
        if timeout.is_zero() {
            return match receiver.try_recv() {
                Ok(task) => {
                    look(&task);
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
        look(&task);
        task.commit()?;
        Ok(true)
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        let sent = self.shared.sender.lock().try_send_batch(bodies);
        sent.map_err(|error| error.to_string().into())
    }

    fn finish_many(&mut self, most: usize, look: &mut dyn FnMut(&[u8])) -> Result<usize> {
        let mut receiver = self.shared.receiver.lock();
        let tasks = match receiver.try_recv_batch_up_to(most) {
            Ok(tasks) => tasks,
            Err(TryRecvError::QueueEmpty) => return Ok(0),
            Err(TryRecvError::Io(error)) => return Err(error.into()),
        };
        tasks.iter().for_each(|task| look(task));
        let count = tasks.len();
        tasks.commit()?;
        Ok(count)
    }
}
