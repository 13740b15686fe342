//! The server: accepts connections, and gives the calls of their clients to a [`Service`].

mod connection;
mod entry;
mod executor;
mod listener;
mod protocol;
mod reactor;
mod state;
mod task;

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

use crate::sync::{Arc, AtomicBool, Mutex, Ordering, thread};
use crate::{Address, Limits, WireError};
use connection::Attention;
use executor::Executor;
use listener::Listener;
use reactor::Reactor;

/// Called if the answer did not reach the client.
type OnLost = Box<dyn FnOnce() + Send>;

/// What a [`Server`] serves.
///
/// A panic in any of these, in a future or in a stream ends the connection of the call, and nothing else.
pub trait Service: Send + Sync + 'static {
    /// What the service keeps for each connection.
    type Peer: Send + Sync + 'static;

    /// Accepts a client, which is authenticated. `hello` is what it says of itself, at most 64 KiB.
    ///
    /// Returns the peer and the welcome for the client, also at most 64 KiB. Called on the reading thread; must
    /// not block.
    ///
    /// # Errors
    ///
    /// The text goes to the client, which does not try again.
    fn connect(&self, hello: &[u8]) -> Result<(Self::Peer, Vec<u8>), String>;

    /// Answers a call.
    ///
    /// Called on the reading thread, in the order in which the calls arrive on the connection; must not block.
    /// A future or stream that it returns is polled once before the next call.
    fn call(&self, peer: &Arc<Self::Peer>, body: &[u8]) -> Answering;

    /// The connection has ended.
    ///
    /// All futures of its calls have been dropped, and `on_lost` of all answers that were not received has been
    /// called. Called on the reading thread; must not block.
    fn disconnect(&self, peer: Arc<Self::Peer>);
}

/// One answer.
pub struct Reply {
    /// The answer. Longer than [`Limits::frame`], it is lost: the client gets
    /// [`CallError::Broken`](crate::CallError::Broken).
    pub body: Vec<u8>,
    /// Called if the connection ends before the client has confirmed that it received the answer. The client
    /// may have received it all the same.
    pub on_lost: Option<Box<dyn FnOnce() + Send>>,
}

impl Reply {
    /// An answer that may be lost.
    #[must_use]
    pub fn new(body: Vec<u8>) -> Reply {
        Reply { body, on_lost: None }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("body", &self.body.len())
            .field("on_lost", &self.on_lost.is_some())
            .finish()
    }
}

/// How a call is answered.
pub enum Answering {
    /// With this answer.
    Now(Reply),
    /// With what this future returns. It is dropped if the client cancels the call or the connection ends.
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// With many items, until the stream ends. At most 1024 are sent before the client has taken them; the
    /// stream is not polled meanwhile.
    Many(Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>),
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answering::Now(reply) => f.debug_tuple("Now").field(reply).finish(),
            Answering::Later(_) => f.write_str("Later"),
            Answering::Many(_) => f.write_str("Many"),
        }
    }
}

/// Options of a [`Server`].
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// What a client must know: needed for TCP, none by default. Use at least 32 random bytes: who can connect
    /// can try to guess it.
    pub secret: Option<Vec<u8>>,
    /// Limits on what the clients may cost.
    pub limits: Limits,
    /// Allows TCP addresses that other machines can reach; off by default. The connections are not
    /// encrypted.
    pub any_interface: bool,
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerOptions")
            .field("secret", &self.secret.as_ref().map(|_| "..."))
            .field("limits", &self.limits)
            .field("any_interface", &self.any_interface)
            .finish()
    }
}

/// What the threads of a server share.
struct Shared {
    stopping: AtomicBool,
    attention: Arc<Attention>,
    executor: Arc<Executor>,
}

/// A running server. It stops when it is dropped.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    threads: Mutex<Vec<thread::JoinHandle<()>>>,
    /// On these, stopping does not wait for itself.
    ids: Vec<thread::ThreadId>,
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Starts to serve `service` at `address`, on two threads of its own.
    ///
    /// A unix socket gets the mode 0600. A stale socket of a server that was killed is replaced.
    ///
    /// # Errors
    ///
    /// After an error nothing listens.
    ///
    /// * [`WireError::AddressInUse`]: a server listens there, or a file is there that is not a socket.
    /// * [`WireError::SecretNeeded`]: TCP without a secret.
    /// * [`WireError::NotLoopback`]: TCP that other machines can reach, without `any_interface`.
    /// * [`WireError::UnixUnsupported`]: a unix socket on a system without them.
    /// * [`WireError::Io`]: the operating system refused.
    pub fn start<S: Service>(
        address: &Address,
        options: ServerOptions,
        service: S,
    ) -> Result<Server, WireError> {
        let secret = options.secret.filter(|secret| !secret.is_empty());
        if matches!(address, Address::Tcp(_)) && secret.is_none() {
            return Err(WireError::SecretNeeded { address: address.clone() });
        }
        let (listener, bound) = Listener::bind(address, options.any_interface)?;
        let start = WireError::io("listen at", address);
        let executor = Arc::new(Executor::default());
        let reactor = Reactor::new(
            listener,
            secret,
            options.limits.at_least_one(),
            service,
            executor.clone(),
        );
        let reactor = reactor.map_err(start)?;
        let shared = reactor.shared();
        let serve = thread::Builder::new().name("tubewell-serve".to_owned());
        let serve =
            serve.spawn(move || reactor.run()).map_err(WireError::io("listen at", address))?;
        let mut server = Server {
            address: bound,
            shared,
            ids: vec![serve.thread().id()],
            threads: Mutex::default(),
        };
        server.threads.lock().push(serve);
        let answer = thread::Builder::new().name("tubewell-answer".to_owned());
        // If this fails, dropping `server` stops the first thread.
        let answer =
            answer.spawn(move || executor.run()).map_err(WireError::io("listen at", address))?;
        server.ids.push(answer.thread().id());
        server.threads.lock().push(answer);
        Ok(server)
    }

    /// The address at which the server listens, with the port that was chosen for port 0.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops the server: accepts no more connections and calls, drops the futures of calls in flight, waits at
    /// most [`Limits::stop`] until clients have read what was written for them, and ends both threads.
    ///
    /// Blocks until then, except on one of the two threads: there it returns at once. Stopping a stopped
    /// server has no effect.
    pub fn stop(&self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.attention.wake();
        if self.ids.contains(&thread::current().id()) {
            return;
        }
        for thread in self.threads.lock().drain(..) {
            // A panic of a thread was reported when it happened.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
