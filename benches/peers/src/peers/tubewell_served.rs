//! tubewell through connections: a store that is served, and one connection for each caller. The owner
//! is this process, and shares the cores with the callers, as a server of its own would.

use std::net::Ipv4Addr;
use std::path::Path;

use tubewell::{ConnectOptions, Durability, FIFO, ServeOptions, Served, Store, TubeOptions};

use super::tubewell_store::Handle;
use crate::queue::{About, Class, Losses, Peer, Queue, Result, Setting, Shape};
use crate::threads::{Threaded, Verbs};

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
        store.create_tube("work", TubeOptions::new().driver(FIFO))?;
        let served = store.admin().serve(match self.socket {
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
    type Caller = Handle;

    fn caller(&self) -> Result<Handle> {
        let options = match self.socket {
            Socket::Unix => ConnectOptions::new(),
            Socket::Tcp => ConnectOptions::new().secret(SECRET),
        };
        Ok(Handle::of_fifo(options.connect(self.served.url())?.tube("work")?))
    }

    fn close(self) -> Result<()> {
        Ok(self.store.close()?)
    }
}
