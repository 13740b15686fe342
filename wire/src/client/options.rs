//! Options of a client and of a call.

use std::fmt;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::limits::Limits;

/// Options of a [`Client`](crate::Client).
#[derive(Clone)]
pub struct ClientOptions {
    /// What the server must know: needed for TCP, none by default. A server without a secret is refused if the client
    /// has one.
    pub secret: Option<Vec<u8>>,
    /// A user whose process may be the server at a unix socket, besides the own user and root: none by
    /// default.
    pub trusted_user: Option<u32>,
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
            trusted_user: None,
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
            .field("trusted_user", &self.trusted_user)
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
    /// that connection as long as a new call does, and is made even if its [`Pending`](crate::Pending) was dropped and
    /// `cancel` is off. If off, such a call returns [`CallError::Broken`](crate::CallError::Broken).
    pub resend: bool,
    /// Dropping the [`Pending`](crate::Pending) of the call cancels it: it is not sent any more, or the server drops its future.
    /// If off, the call goes on, and its answer goes to [`Handler::orphan`](crate::Handler::orphan).
    pub cancel: bool,
    /// The call changes something at the server. Once it may have been sent, it fails with
    /// [`CallError::Broken`](crate::CallError::Broken) alone: also if the client is closed, or if no further connection is
    /// made on which it could be made again.
    pub changes: bool,
}
