//! tubewell through connections: a store that is served, and one connection for each caller. The owner
//! is this process, and shares the cores with the callers, as a server of its own would.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;

use tubewell::{
    Claim, ConnectOptions, Durability, FIFO, ServeOptions, Served, Store, Tube, TubeOptions,
};

use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Caller, Threaded, Verbs};

const SECRET: &[u8] = b"a secret of the bench, for loopback";

/// How the callers connect.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Socket {
    Unix,
    Tcp,
}

pub fn peers() -> impl Iterator<Item = Box<dyn Peer>> {
    [(Socket::Unix, true), (Socket::Tcp, true), (Socket::Unix, false)]
        .into_iter()
        .map(|(socket, flushes)| Box::new(ServedStore { socket, flushes }) as Box<dyn Peer>)
}

struct ServedStore {
    socket: Socket,
    flushes: bool,
}

impl Peer for ServedStore {
    fn about(&self) -> About {
        let unflushed = "unflushed changes, up to 50 ms";
        let (name, class, loses) = match (self.flushes, self.socket) {
            (true, Socket::Unix) => ("served-unix", Class::Durable, Losses::nothing()),
            (true, Socket::Tcp) => ("served-tcp", Class::Durable, Losses::nothing()),
            (false, _) => {
                ("served-written", Class::ProcessSafe, Losses::new("nothing", unflushed, unflushed))
            }
        };
        About {
            name: format!("tubewell/{name}"),
            version: "this source".into(),
            class,
            loses,
            callers: "threads, a connection each, one call at a time".into(),
            waits: "a take that the owner answers".into(),
            note: "Each call is a round trip to the owner of the store.".into(),
        }
    }

    fn does(&self, shape: Shape) -> bool {
        matches!(shape, Shape::Callers(1 | 16 | 64) | Shape::Batches(1000) | Shape::WakeUp)
    }

    fn open(&self, dir: &Path, _: &Setting) -> Result<Box<dyn Queue>> {
        let durability = if self.flushes { Durability::Flush } else { Durability::write() };
        let store = Store::options().durability(durability).open(dir.join("queue.tubewell"))?;
        store.create_tube("work", FIFO, TubeOptions::new())?;
        let served = store.serve(match self.socket {
            Socket::Unix => ServeOptions::unix(dir.join("queue.sock")),
            Socket::Tcp => ServeOptions::tcp((Ipv4Addr::LOCALHOST, 0)).secret(SECRET),
        })?;
        Ok(Box::new(Threaded(Open { store, served, socket: self.socket })))
    }
}

struct Open {
    store: Store,
    served: Served,
    socket: Socket,
}

impl Verbs for Open {
    type Caller = Connected;

    fn caller(&self) -> Result<Connected> {
        let options = match self.socket {
            Socket::Unix => ConnectOptions::new(),
            Socket::Tcp => ConnectOptions::new().secret(SECRET),
        };
        Ok(Connected(options.connect(self.served.url())?.tube("work")?))
    }

    fn close(self) -> Result<()> {
        Ok(self.store.close()?)
    }
}

/// A connection of its own.
struct Connected(Tube);

struct Task(Claim);

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        self.0.data()
    }
}

impl Caller for Connected {
    type Task = Task;

    fn put(&mut self, body: &[u8]) -> Result<()> {
        self.0.put(body)?;
        Ok(())
    }

    fn take(&mut self) -> Result<Option<Task>> {
        Ok(self.0.try_take()?.map(Task))
    }

    fn wait(&mut self, timeout: Duration) -> Result<Option<Task>> {
        Ok(self.0.take(timeout)?.map(Task))
    }

    fn ack(&mut self, task: Task) -> Result<()> {
        task.0.ack()?;
        Ok(())
    }

    fn put_many(&mut self, bodies: &[Vec<u8>]) -> Result<()> {
        self.0.put_many(bodies.iter().cloned())?;
        Ok(())
    }

    fn take_many(&mut self, max: usize) -> Result<Vec<Task>> {
        Ok(self.0.take_many(max, Duration::ZERO)?.into_iter().map(Task).collect())
    }

    fn ack_many(&mut self, tasks: Vec<Task>) -> Result<()> {
        let answers = Claim::ack_many(tasks.into_iter().map(|task| task.0).collect())?;
        answers.into_iter().try_for_each(|answer| answer.map(drop).map_err(Into::into))
    }
}
