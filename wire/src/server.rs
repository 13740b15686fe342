//! The server: accepts connections, and gives the calls of their clients to a [`Service`].

mod attention;
mod byte_budget;
mod connection;
mod entry;
mod executor;
mod listener;
mod output_budget;
mod protocol;
mod queue;
mod reactor;
mod service;
mod state;
mod task;

use std::fmt;

use crate::secure::Key;
use crate::sync::{Arc, Mutex, Ordering, thread};
use crate::{Address, HomeProcess, Limits, WireError};
use listener::Listener;
use queue::Queue;
use reactor::{Reactor, Shared};

pub use service::{Answering, Rejection, Reply, Service};

/// Options of a [`Server`].
#[derive(Clone, Default)]
pub struct ServerOptions {
    /// What a client must know: needed for TCP, none by default. A connection is as safe as it is hard to guess: use 32
    /// random bytes. Who listens on the network, or has a client connect to it, can test guesses without end.
    pub secret: Option<Vec<u8>>,
    /// Limits on what the clients may cost.
    pub limits: Limits,
    /// Allows TCP addresses that other machines can reach; off by default.
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

/// A running server. It stops when it is dropped.
pub struct Server {
    address: Address,
    /// A fork has neither the threads nor the right to remove the socket.
    home: HomeProcess,
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
    /// * [`WireError::AddressInUse`]: a server listens there.
    /// * [`WireError::NotASocket`]: a file that is not a socket has the path.
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
        let key = secret.as_deref().map(Key::of);
        let (listener, bound) = Listener::bind(address, options.any_interface)?;
        let start = WireError::io("listen at", address);
        let queue = Arc::new(Queue::default());
        let reactor =
            Reactor::new(listener, key, options.limits.at_least_one(), service, queue.clone());
        let reactor = reactor.map_err(start)?;
        let shared = reactor.shared();
        let serve = thread::Builder::new().name("tubewell-serve".to_owned());
        let serve =
            serve.spawn(move || reactor.run()).map_err(WireError::io("listen at", address))?;
        let mut server = Server {
            address: bound,
            home: HomeProcess::current(),
            shared,
            ids: vec![serve.thread().id()],
            threads: Mutex::default(),
        };
        server.threads.lock().push(serve);
        let answer = thread::Builder::new().name("tubewell-answer".to_owned());
        // If this fails, dropping `server` stops the first thread.
        let answer = answer
            .spawn(move || executor::run(&queue))
            .map_err(WireError::io("listen at", address))?;
        server.ids.push(answer.thread().id());
        server.threads.lock().push(answer);
        Ok(server)
    }

    /// The address at which the server listens, with the port that was chosen for port 0.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Stops the server: accepts no more connections and calls, drops the futures of calls in flight except
    /// those that were woken, which may have an answer, waits at most [`Limits::stop`] until clients have read
    /// what was written for them, and ends both threads.
    ///
    /// Blocks until then, except on one of the two threads: there it returns at once. Stopping a stopped
    /// server has no effect, nor has it in a fork of the server's process.
    pub fn stop(&self) {
        if !self.home.is_here() {
            return;
        }
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
        if !self.home.is_here() {
            // A handle of a thread that a fork does not have cannot be dropped.
            std::mem::take(self.threads.get_mut()).into_iter().for_each(std::mem::forget);
        }
        self.stop();
    }
}
