//! What a server serves.

use std::fmt;
use std::future::Future;
use std::pin::Pin;

use futures_core::Stream;

use crate::sync::Arc;

/// Called if the answer did not reach the client.
pub(super) type OnLost = Box<dyn FnOnce() + Send>;

/// What a [`Server`](crate::Server) serves.
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
    /// The rejection goes to the client, which ends unless it is temporary.
    fn connect(&self, hello: &[u8]) -> Result<(Self::Peer, Vec<u8>), Rejection>;

    /// Which client says this hello: a number that it has chosen at random, the same for each of its
    /// connections. `None`, the default: unknown.
    ///
    /// The connection before of the same client is ended, and [`disconnect`](Service::disconnect) called, before
    /// [`connect`](Service::connect) is called for the next one: its machine may have vanished without a word.
    fn client(&self, hello: &[u8]) -> Option<u128> {
        let _ = hello;
        None
    }

    /// Answers a call.
    ///
    /// Called on the reading thread, in the order in which the calls arrive on the connection; must not block.
    /// A future or stream that it returns is polled once before the next call.
    fn call(&self, peer: &Arc<Self::Peer>, body: &[u8]) -> Answering;

    /// The connection has ended. Returns whether that takes further calls of this function: others have their turns
    /// in between, so that the end of a connection with much behind it delays none.
    ///
    /// All futures of its calls have been dropped, and `on_lost` of all answers that were not received has been
    /// called. Called on the reading thread; must not block.
    fn disconnect(&self, peer: &Arc<Self::Peer>) -> bool;
}

/// Why a [`Service`] does not accept a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// The reason, for a person.
    pub why: String,
    /// It holds only for now: the client tries again.
    pub temporary: bool,
}

/// A rejection that is not temporary.
impl From<String> for Rejection {
    fn from(why: String) -> Rejection {
        Rejection { why, temporary: false }
    }
}

/// One answer.
#[derive(Default)]
pub struct Reply {
    /// The answer. Longer than [`Limits::frame`](crate::Limits::frame), it is lost: the client gets
    /// [`CallError::Broken`](crate::CallError::Broken).
    pub body: Vec<u8>,
    /// Called if the connection ends before the client has confirmed that it received the answer. The client
    /// may have received it all the same.
    pub on_lost: Option<Box<dyn FnOnce() + Send>>,
    /// What is answered instead, after `on_lost` was called, if the clients have left so much unread that there is no
    /// room for `body`: see [`Limits::all_unsent`](crate::Limits::all_unsent). `None`: the client gets
    /// [`CallError::Broken`](crate::CallError::Broken).
    pub busy: Option<Vec<u8>>,
    /// `Some(true)`: from this answer on, the connection is ended if nothing arrives for
    /// [`Limits::silence`](crate::Limits::silence). `Some(false)`: it may be silent again. `None`: as before.
    pub expect_beats: Option<bool>,
}

impl Reply {
    /// An answer that may be lost.
    #[must_use]
    pub fn new(body: Vec<u8>) -> Reply {
        Reply { body, ..Reply::default() }
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reply")
            .field("body", &self.body.len())
            .field("on_lost", &self.on_lost.is_some())
            .field("busy", &self.busy.is_some())
            .field("expect_beats", &self.expect_beats)
            .finish()
    }
}

/// How a call is answered.
pub enum Answering {
    /// With this answer.
    Now(Reply),
    /// With what this future returns. It is dropped if the client cancels the call or the connection ends.
    /// Until it ends, the call counts for [`Limits::call_bytes`](crate::Limits::call_bytes).
    Later(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// As `Later`, with a future that holds nothing of the body of the call, which counts no longer.
    LaterWithoutBody(Pin<Box<dyn Future<Output = Reply> + Send>>),
    /// With many items, until the stream ends. At most 1024 are sent before the client has taken them; the
    /// stream is not polled meanwhile.
    Many(Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>),
}

impl fmt::Debug for Answering {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answering::Now(reply) => f.debug_tuple("Now").field(reply).finish(),
            Answering::Later(_) => f.write_str("Later"),
            Answering::LaterWithoutBody(_) => f.write_str("LaterWithoutBody"),
            Answering::Many(_) => f.write_str("Many"),
        }
    }
}
