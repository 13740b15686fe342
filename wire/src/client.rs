//! The client: calls to a server over one connection, which is made again when it breaks.

mod calls;
mod connector;
mod greeting;
mod items;
mod link;
mod pending;

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::sync::Arc;
use crate::{Address, CallError, Limits, WireError};
use connector::Connector;

pub use items::Items;
pub use pending::Pending;

/// What the application of a [`Client`] says and hears.
///
/// The methods are called on the thread of the client, or on the thread that drops a [`Pending`], and hold
/// up all answers: they must not block. A panic in `hello` or `welcome` ends the client; others are ignored.
pub trait Handler: Send + Sync + 'static {
    /// What the client says of itself, for each connection that it makes: at most 64 KiB.
    fn hello(&self) -> Vec<u8>;

    /// The server's welcome, for each connection.
    ///
    /// # Errors
    ///
    /// The text ends the client for good.
    fn welcome(&self, welcome: &[u8]) -> Result<(), String>;

    /// An answer whose [`Pending`] was dropped before it was taken.
    fn orphan(&self, body: &[u8]);

    /// The connection has broken. The client will make another one.
    fn broken(&self);
}

/// Options of a [`Client`].
#[derive(Clone)]
pub struct ClientOptions {
    /// What the server must know: needed for TCP, none by default.
    pub secret: Option<Vec<u8>>,
    /// Limits on what the server may cost. The server's own limits on calls apply too.
    pub limits: Limits,
    /// How long the first connection may take, and how long calls wait while there is none: 5 seconds by
    /// default.
    pub connect_timeout: Duration,
    /// How long to wait before an attempt to connect again: 10 milliseconds at first, then twice as long each
    /// time, up to 2 seconds, each time shortened at random by up to a half.
    pub backoff: RangeInclusive<Duration>,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            secret: None,
            limits: Limits::default(),
            connect_timeout: Duration::from_secs(5),
            backoff: Duration::from_millis(10)..=Duration::from_secs(2),
        }
    }
}

impl fmt::Debug for ClientOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientOptions")
            .field("secret", &self.secret.as_ref().map(|_| "..."))
            .field("limits", &self.limits)
            .field("connect_timeout", &self.connect_timeout)
            .field("backoff", &self.backoff)
            .finish()
    }
}

/// What may happen to a call besides an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallKind {
    /// The call is made again on the next connection if this one breaks: it must be idempotent. It waits for
    /// that connection as long as a new call does, and is made even if its [`Pending`] was dropped and
    /// `cancel` is off. If off, such a call returns [`CallError::Broken`].
    pub resend: bool,
    /// Dropping the [`Pending`] of the call cancels it: it is not sent any more, or the server drops its future.
    /// If off, the call goes on, and its answer goes to [`Handler::orphan`].
    pub cancel: bool,
}

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
        let connector = Connector::start(address, options, handler)?;
        Ok(Client { connector })
    }

    /// Makes a call. Writes it at once if the socket takes it, and never blocks.
    ///
    /// While there is no connection the call waits for one, up to [`ClientOptions::connect_timeout`]. With
    /// [`Limits::calls`] in flight it waits until one of them ends. Calls are sent in the order in which they
    /// are made.
    pub fn call(&self, body: Vec<u8>, kind: CallKind) -> Pending {
        self.connector.call(body, kind)
    }

    /// Makes a call that is answered with many items. Never blocks.
    ///
    /// The items end when the server ends them, or when the connection breaks. If the server answers with one
    /// answer, that is the only item.
    #[must_use = "dropping it cancels the subscription"]
    pub fn subscribe(&self, body: Vec<u8>) -> Items {
        self.connector.subscribe(body)
    }

    /// The address of the server.
    #[must_use]
    pub fn address(&self) -> &Address {
        self.connector.address()
    }

    /// Closes the connection. Every pending call returns [`CallError::Closed`], and so does every later one; all
    /// items end. Does not block: a method of the handler that runs on another thread may still be running
    /// afterwards.
    pub fn close(&self) {
        self.connector.end(&CallError::Closed);
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.close();
    }
}
