//! Limits on what a peer may cost.

use std::time::Duration;

/// How many items of one stream the server sends before the client has taken them.
pub(crate) const WINDOW: u64 = 1024;

/// Bytes of the calls of each connection that are held in any case: short calls wait for no longer ones of other
/// connections.
pub(crate) const FREE: usize = if cfg!(feature = "_shuttle") { 16 } else { 64 * 1024 };

/// The longest hello and the longest welcome of an application, in bytes: what a peer may cost before it
/// is authenticated.
pub const HELLO_BODY: usize = 64 * 1024;

/// Limits of a server or a client on what the peer may cost. A client keeps to `frame`, `calls` and `call_bytes`;
/// the others are those of a server.
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
    /// Bytes of the calls of one connection that a server has read and not answered: 64 MiB by default. Further
    /// calls stay in the socket until some of these have ended. A longer call is read once at most 64 KiB are
    /// held for the connection. A call counts from the moment its length has arrived, and not any more once it is
    /// answered with [`Answering::LaterWithoutBody`](crate::Answering::LaterWithoutBody). At a client, calls wait
    /// their turn likewise.
    pub call_bytes: usize,
    /// The same of all connections of a server: 256 MiB by default. The first 64 KiB of each connection do not
    /// count, so that its short calls wait for no other connection. Connections whose calls wait have their turns
    /// in the order of their arrival. A longer call is read once no others are held.
    pub all_call_bytes: usize,
    /// How fast a call of more than 64 KiB must arrive at a server while other calls wait for its bytes, in each
    /// [`stalled`](Limits::stalled), and how fast a client must read while the output of all connections is at half of
    /// its limit, from [`stalled`](Limits::stalled) on. In bytes a second: 128 KiB by default. A connection that is
    /// slower is closed.
    pub rate: usize,
    /// Connections of a server: 1024 by default. The next one is refused with a text.
    pub connections: usize,
    /// Connections of a server whose client is not authenticated and accepted yet: 64 by default. Further ones wait to
    /// be accepted by the operating system. Meanwhile the oldest one has a thirty-second part of
    /// [`hello`](Limits::hello) for its hello.
    pub strangers: usize,
    /// Output in bytes that a peer has not read yet: 4 MiB by default. A server with more for one peer does
    /// not read from it, and does not poll its streams, until the peer has read.
    pub unsent: usize,
    /// The same of all connections of a server: 256 MiB by default. The first 64 KiB of each connection do not count.
    /// A longer answer for which there is no room is replaced by [`Reply::busy`](crate::Reply::busy). From half of it
    /// on, no connection with more than 64 KiB is read.
    pub all_unsent: usize,
    /// How long a hello may take, from the connection until the client is authenticated: 5 seconds by
    /// default.
    pub hello: Duration,
    /// How long a peer may leave its output unread before it is disconnected: 30 seconds by default. Also how long
    /// it may send nothing in the midst of a call of more than 64 KiB.
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
            call_bytes: 64 * 1024 * 1024,
            all_call_bytes: 256 * 1024 * 1024,
            rate: 128 * 1024,
            connections: 1024,
            strangers: 64,
            unsent: 4 * 1024 * 1024,
            all_unsent: 256 * 1024 * 1024,
            hello: Duration::from_secs(5),
            stalled: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            stop: Duration::from_secs(1),
        }
    }
}

impl Limits {
    /// How many bytes of a long call must arrive in each [`stalled`](Limits::stalled) while others wait for its bytes.
    pub(crate) fn least(&self) -> usize {
        let bytes = self.rate as u128 * self.stalled.as_micros() / 1_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// How long a client may take to read so many bytes.
    pub(crate) fn time_for(&self, bytes: usize) -> Duration {
        let micros = (bytes as u64).saturating_mul(1_000_000) / self.rate.max(1) as u64;
        self.stalled.saturating_add(Duration::from_micros(micros))
    }

    /// The limits with which anything works at all.
    pub(crate) fn at_least_one(self) -> Limits {
        Limits {
            frame: self.frame.min(crate::frame::LONGEST_BODY),
            calls: self.calls.max(1),
            rate: self.rate.max(1),
            connections: self.connections.max(1),
            strangers: self.strangers.max(1),
            ..self
        }
    }
}
