//! Limits on what a peer may cost.

use std::time::Duration;

/// How many items of one stream the server sends before the client has taken them.
pub(crate) const WINDOW: u64 = 1024;

/// The longest hello and the longest welcome of an application, in bytes: what a peer may cost before it
/// is authenticated.
pub const HELLO_BODY: usize = 64 * 1024;

/// Limits of a server or a client on what the peer may cost. A client keeps to `frame` and `calls`; the
/// others are those of a server.
///
/// ```
/// use tubewell_wire::Limits;
///
/// let limits = Limits { frame: 1024 * 1024, ..Limits::default() };
/// assert_eq!(limits.calls, 4096);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest body of a call, an answer or an item, in bytes: 64 MiB by default. A longer frame of the
    /// peer closes the connection before memory is allocated for it.
    pub frame: usize,
    /// Calls in flight on one connection: 4096 by default. At a server, further calls stay in the socket
    /// until one ends. At a client, further calls wait their turn.
    pub calls: usize,
    /// Connections of a server: 1024 by default. The next one is refused with a text.
    pub connections: usize,
    /// Output in bytes that a peer has not read yet: 4 MiB by default. A server with more for one peer does
    /// not read from it, and does not poll its streams, until the peer has read.
    pub unsent: usize,
    /// How long a hello may take, from the connection until the client is authenticated: 5 seconds by
    /// default.
    pub hello: Duration,
    /// How long a peer may leave its output unread before it is disconnected: 30 seconds by default.
    pub stalled: Duration,
    /// How long a peer may be silent while a server [expects](crate::Reply::expect_beats) to hear from it: 30
    /// seconds by default.
    pub silence: Duration,
    /// How long [`Server::stop`](crate::Server::stop) waits for peers to read what was written for them: 1 second by default.
    pub stop: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            frame: 64 * 1024 * 1024,
            calls: 4096,
            connections: 1024,
            unsent: 4 * 1024 * 1024,
            hello: Duration::from_secs(5),
            stalled: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            stop: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// The limits with which anything works at all.
    pub(crate) fn at_least_one(self) -> Limits {
        Limits {
            frame: self.frame.min(crate::frame::LONGEST_BODY),
            calls: self.calls.max(1),
            connections: self.connections.max(1),
            ..self
        }
    }
}
