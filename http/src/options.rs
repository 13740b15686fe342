//! What a server is given.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, Result};

/// The shortest token that is accepted: one that is guessed needs more calls than a server answers in a year.
const TOKEN_MIN: usize = 16;

/// Where a store is served over HTTP, to whom, and how much of the owner's memory its clients may use.
///
/// # Example
/// ```
/// use tubewell_http::HttpOptions;
///
/// let options = HttpOptions::new("127.0.0.1:11380").read_only(true).max_connections(100);
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use = "options serve nothing by themselves"]
pub struct HttpOptions {
    pub(crate) address: String,
    pub(crate) token: Option<Arc<[u8]>>,
    pub(crate) hosts: Vec<String>,
    pub(crate) read_only: bool,
    pub(crate) max_body: usize,
    pub(crate) max_connections: usize,
    pub(crate) backup_folder: Option<PathBuf>,
    pub(crate) patience: Patience,
}

/// How long clients may take, and how much of their answers is held meanwhile. Tests have less.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    /// For the head of a call, and for a connection without a call.
    pub(crate) head: Duration,
    /// For the content of a call.
    pub(crate) content: Duration,
    /// To read on in an answer, and for the whole of a large one beside the time that its size needs.
    pub(crate) unread: Duration,
    /// The maximum size of all large answers at a time, in bytes.
    pub(crate) answers: usize,
}

impl Default for Patience {
    fn default() -> Patience {
        let seconds = Duration::from_secs;
        Patience {
            head: seconds(30),
            content: seconds(60),
            unread: seconds(30),
            answers: 256 << 20,
        }
    }
}

/// Without the token.
impl std::fmt::Debug for HttpOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpOptions")
            .field("address", &self.address)
            .field("has_token", &self.token.is_some())
            .field("read_only", &self.read_only)
            .finish_non_exhaustive()
    }
}

impl HttpOptions {
    /// At this address, such as `127.0.0.1:11380`. Port 0 is a free one, which
    /// [`HttpServer::address`](crate::HttpServer::address) tells.
    pub fn new(address: impl Into<String>) -> HttpOptions {
        HttpOptions {
            address: address.into(),
            token: None,
            hosts: Vec::new(),
            read_only: false,
            max_body: 16 << 20,
            max_connections: 10_000,
            backup_folder: None,
            patience: Patience::default(),
        }
    }

    /// Each call sends this token, of at least 16 bytes, as `Authorization: Bearer TOKEN`. Default: none, so the address
    /// is one of loopback.
    pub fn token(mut self, token: impl AsRef<[u8]>) -> HttpOptions {
        self.token = Some(token.as_ref().into());
        self
    }

    /// A further name under which clients reach the server, such as that of a proxy: calls without a token are answered
    /// if their `Host` is this name, with or without a port. Default: the address, and `localhost`, both with the port.
    pub fn host(mut self, name: impl Into<String>) -> HttpOptions {
        self.hosts.push(name.into());
        self
    }

    /// Calls that change something are refused. Default: they are made.
    pub fn read_only(mut self, read_only: bool) -> HttpOptions {
        self.read_only = read_only;
        self
    }

    /// The maximum size of the content of a call in bytes. Default: 16 MiB.
    pub fn max_body(mut self, bytes: usize) -> HttpOptions {
        self.max_body = bytes;
        self
    }

    /// The maximum number of connections at a time; further ones wait until one ends. Default: 10,000.
    pub fn max_connections(mut self, connections: usize) -> HttpOptions {
        self.max_connections = connections.max(1);
        self
    }

    /// The folder in which a backup is while a client downloads it (`GET /v1/store/backup`), without a name. Default: the
    /// folder for temporary files of the system, which may be one in memory.
    pub fn backup_folder(mut self, folder: impl Into<PathBuf>) -> HttpOptions {
        self.backup_folder = Some(folder.into());
        self
    }

    /// Refuses an address that is open to others while no token protects it.
    pub(crate) fn check(&self, address: SocketAddr) -> Result<()> {
        match &self.token {
            Some(token) if token.len() < TOKEN_MIN => Err(Error::Invalid {
                what: format!(
                    "the token has {} bytes; give one of at least {TOKEN_MIN}, made at random",
                    token.len()
                ),
            }),
            Some(token) if !token.iter().all(u8::is_ascii_graphic) => Err(Error::Invalid {
                what: "the token has bytes that no header can have; use letters and digits".into(),
            }),
            _ if !self.hosts.iter().all(|host| is_name(host)) => Err(Error::Invalid {
                what: "a further name of the server is none; write it as in queue.example".into(),
            }),
            None if !address.ip().is_loopback() => Err(Error::Invalid {
                what: format!(
                    "{address} can be reached from other machines; give a token, or an address of loopback \
                     such as 127.0.0.1"
                ),
            }),
            _ => Ok(()),
        }
    }
}

/// Whether a call can name it as its host.
fn is_name(host: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    !host.is_empty() && host.bytes().all(is_part)
}
