//! The client: calls to a server over one connection, which is made again when it breaks.

mod beat;
mod buffer;
mod calls;
mod connector;
mod delivery;
mod greeting;
mod handler;
mod handover;
mod inbox;
mod items;
mod link;
mod options;
mod pending;
mod reader;
mod slot;
mod thread;
mod turn;

use std::fmt;
use std::time::Duration;

use crate::sync::Arc;
use crate::{Address, CallError, WireError};
use connector::Connector;

pub use handler::Handler;
pub use items::Items;
pub use options::{CallKind, ClientOptions};
pub use pending::Pending;

/// A client of one server. It is closed when it is dropped.
pub struct Client {
    connector: Arc<Connector>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("address", self.address()).finish_non_exhaustive()
    }
}

impl Client {
    /// Connects to the server at `address`. Makes one attempt, and blocks until it has succeeded or failed, at
    /// most [`ClientOptions::connect_timeout`].
    ///
    /// # Errors
    ///
    /// After an error nothing is left of the client.
    ///
    /// * [`WireError::Io`]: no server is there, or it took too long.
    /// * [`WireError::SecretNeeded`], [`WireError::WrongSecret`]: the secret is missing or is not the server's.
    /// * [`WireError::WrongOwner`]: the unix socket belongs to neither this user nor root.
    /// * [`WireError::Version`]: the server speaks other versions of the protocol.
    /// * [`WireError::Refused`]: the server or the handler refused.
    /// * [`WireError::Protocol`]: what answered is not such a server.
    /// * [`WireError::UnixUnsupported`]: a unix socket on a system without them.
    pub fn connect(
        address: &Address,
        options: ClientOptions,
        handler: Arc<dyn Handler>,
    ) -> Result<Client, WireError> {
        let connector = thread::start(address, options, handler)?;
        Ok(Client { connector })
    }

    /// Makes a call. Never blocks. It is written at once if no other call is in flight; otherwise by the thread of
    /// the client, together with those that are made meanwhile, and at the latest when its [`Pending`] is waited for,
    /// polled or dropped.
    ///
    /// While there is no connection the call waits for one, up to [`ClientOptions::connect_timeout`]. With
    /// [`Limits::calls`](crate::Limits::calls) in flight it waits until one of them ends. Calls are sent in the order in which they
    /// are made.
    pub fn call(&self, body: Vec<u8>, kind: CallKind) -> Pending {
        let (slot, number) = self.connector.call(body, kind);
        Pending::new(slot, self.connector.clone(), number)
    }

    /// Makes a call, and waits for its answer. Blocks until there is one or the call has failed; while there is no
    /// connection, at most [`ClientOptions::connect_timeout`].
    ///
    /// It costs less than [`call`](Client::call) and [`Pending::wait`]: while no other call is in flight, the calling
    /// thread reads the answer itself. It may read those of other threads meanwhile, and wake their tasks.
    ///
    /// # Errors
    ///
    /// See [`CallError`]: it says in each case whether the call may have had its effect.
    pub fn call_and_wait(&self, body: Vec<u8>, kind: CallKind) -> Result<Vec<u8>, CallError> {
        self.connector.call_and_wait(body, kind)
    }

    /// Makes a call that is answered with many items. Never blocks.
    ///
    /// The items end when the server ends them, or when the connection breaks. If the server answers with one
    /// answer, that is the only item.
    #[must_use = "dropping it cancels the subscription"]
    pub fn subscribe(&self, body: Vec<u8>) -> Items {
        let (buffer, number) = self.connector.subscribe(body);
        Items::new(buffer, self.connector.clone(), number)
    }

    /// Begins to call [`Handler::beat`] at these intervals, on the thread of the client, while there is a
    /// connection; the first call comes after one of them, and at once on each further connection. `None` ends
    /// that. Does not block.
    pub fn set_beat(&self, every: Option<Duration>) {
        self.connector.set_beat(every);
    }

    /// Refuses a fork of the process that has connected, before it takes a lock: another thread may have held
    /// it when the process forked.
    ///
    /// # Errors
    ///
    /// [`CallError::Forked`].
    pub fn check_process(&self) -> Result<(), CallError> {
        self.connector.check_process()
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.connector.address()
    }

    /// Closes the connection. Every pending call returns [`CallError::Closed`], or [`CallError::Broken`] if it
    /// was sent and [changes](CallKind::changes) something. Every later one returns [`CallError::Closed`], and all
    /// items end. Does not block: a method of the handler that runs on another thread may still be running
    /// afterwards. In a fork of the process that has connected, nothing happens.
    pub fn close(&self) {
        self.connector.end(&CallError::Closed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}
