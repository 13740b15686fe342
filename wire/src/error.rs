//! Errors.

use std::io;

use crate::address::Address;

/// Why a server or a client could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WireError {
    /// The text is not an address.
    #[error("\"{text}\" is not an address: {why}; write unix:PATH or tcp://HOST:PORT")]
    InvalidAddress {
        /// The text that was given.
        text: String,
        /// What is wrong with it.
        why: String,
    },
    /// This system has no unix sockets.
    #[error("unix sockets are not available on this system; use tcp://127.0.0.1:PORT")]
    UnixUnsupported,
    /// Something accepts connections at this address already.
    #[error("{address} is in use: {why}; use another address, or end that process")]
    AddressInUse {
        /// The address.
        address: Address,
        /// What is there.
        why: String,
    },
    /// A file that is not a socket has this path. It is not replaced.
    #[error("{address} names a file that is not a socket; use another path, or remove the file")]
    NotASocket {
        /// The address.
        address: Address,
    },
    /// TCP needs a secret that both sides know, and none was given. Also: the server of a unix socket
    /// asks for one.
    #[error("{address} needs a secret that server and client share; give both sides the same one")]
    SecretNeeded {
        /// The address.
        address: Address,
    },
    /// The address is not on loopback, and the option `any_interface` was not set.
    #[error("{address} can be reached from other machines; allow any interface if that is meant")]
    NotLoopback {
        /// The address.
        address: Address,
    },
    /// The other side does not know the secret: it has another one, or none. Also: something between the two has changed
    /// their first messages.
    #[error("{address} does not have the same secret; give both sides the same one")]
    WrongSecret {
        /// The address.
        address: Address,
    },
    /// The socket's file belongs to another user, whose server would get all calls.
    #[error(
        "{address} belongs to user {owner}, which is neither this user, root nor a trusted one; check which program serves there"
    )]
    WrongOwner {
        /// The address.
        address: Address,
        /// The user id of the owner.
        owner: u32,
    },
    /// Client and server have no version of the protocol in common.
    #[error(
        "{address} speaks versions {their_lowest} to {their_highest} of the protocol, and this program {our_lowest} to {our_highest}; {} is older: update it",
        older(*their_highest, *our_lowest)
    )]
    Version {
        /// The address.
        address: Address,
        /// The lowest version of the server.
        their_lowest: u8,
        /// The highest version of the server.
        their_highest: u8,
        /// The lowest version of this client.
        our_lowest: u8,
        /// The highest version of this client.
        our_highest: u8,
    },
    /// The server refused the connection, or the client's handler refused the server's welcome.
    #[error("{address} refused the connection: {why}")]
    Refused {
        /// The address.
        address: Address,
        /// The reason, for a person.
        why: String,
        /// Whether the refusal holds only for now, such as one for too many connections.
        temporary: bool,
    },
    /// What answered does not speak this protocol.
    #[error("{address} does not speak this protocol: {why}")]
    Protocol {
        /// The address.
        address: Address,
        /// What was wrong.
        why: String,
    },
    /// The operating system refused.
    #[error("cannot {what} {address}: {source}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// The address.
        address: Address,
        /// The error of the operating system.
        source: io::Error,
    },
}

/// The older one of two sides without a common version.
fn older(their_highest: u8, our_lowest: u8) -> &'static str {
    if their_highest < our_lowest { "the other side" } else { "this program" }
}

impl WireError {
    pub(crate) fn io(what: &'static str, address: &Address) -> impl FnOnce(io::Error) -> WireError {
        let address = address.clone();
        move |source| WireError::Io { what, address, source }
    }

    /// Whether another attempt to connect cannot succeed unless a person changes something. Such an error
    /// ends a [`Client`](crate::Client) that connects again.
    #[must_use]
    pub fn is_final(&self) -> bool {
        match self {
            WireError::Refused { temporary, .. } => !temporary,
            WireError::Io { source, .. } => source.kind() == io::ErrorKind::PermissionDenied,
            WireError::Protocol { .. } => false,
            _ => true,
        }
    }
}

/// Why a call has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CallError {
    /// There was no connection within the time-out. The call had no effect: it was never sent, or it
    /// [changes](crate::CallKind::changes) nothing.
    #[error("not connected: {why}")]
    NotConnected {
        /// Why the last attempt to connect failed.
        why: String,
    },
    /// The call was sent, and the connection broke or was closed before the answer. The call may or may not
    /// have had its effect. Also: it was made again on the next connection and
    /// [refused](crate::Handler::refusal) there.
    #[error("the connection broke before the answer: {why}")]
    Broken {
        /// Why.
        why: String,
    },
    /// The client was closed. The call had no effect: it was never sent, or it
    /// [changes](crate::CallKind::changes) nothing.
    #[error("the client is closed")]
    Closed,
    /// The call is longer than a frame may be. It had no effect.
    #[error("a call of {size} bytes is longer than the limit of {limit}")]
    TooLarge {
        /// The size of the call.
        size: usize,
        /// The limit.
        limit: usize,
    },
    /// This process is a fork of the one that has connected. The call had no effect: a connection is of one
    /// process.
    #[error("the connection is of process {home}, of which this one is a fork")]
    Forked {
        /// The id of the process that has connected.
        home: u32,
    },
    /// The server refused another connection for good. The call had no effect: it was never sent, or it
    /// [changes](crate::CallKind::changes) nothing.
    #[error("the server refused the connection: {why}")]
    Refused {
        /// The reason, for a person.
        why: String,
    },
}
