//! Serving a store to other processes: the owner's side of connections.
//!
//! The transport (`tubewell-wire`) moves bytes and calls `service.rs`. The verbs of a peer are given to the
//! core as those of a handle are; all other requests are made on handles of this process. This folder knows
//! no sockets and no frames, and decides nothing about tasks. [`StoreAdmin::serve`] starts it.

mod answers;
mod peer;
mod requests;
mod service;
mod shares;
mod subscriptions;
#[cfg(feature = "_peer")]
pub(crate) mod unserved;
mod verbs;

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use tubewell_wire::{Address, Limits, Server, ServerOptions, WireError};

use crate::connection::{FRAME_MAX, check_secret};
use crate::core::Core;
use crate::handle::store::StoreAdmin;
use crate::runtime::open_store::Servers;
use crate::{Error, Result};
use service::StoreService;

/// How often to hear from a connection that has claims.
const HEARTBEAT: Duration = Duration::from_secs(10);
/// A shorter interval would keep a processor busy.
const HEARTBEAT_MIN: Duration = Duration::from_millis(10);
/// The tubes of a store to which other processes add further ones.
const TUBES: usize = 65_536;
/// A connection ends once it has missed this many heartbeats.
const MISSED: u32 = 3;

/// Where and how a store is served to other processes; for [`StoreAdmin::serve`].
///
/// # Example
/// ```no_run
/// use tubewell::{ServeOptions, Store};
///
/// let store = Store::open("app.tubewell")?;
/// store.admin().serve(ServeOptions::unix("app.tubewell.sock"))?;
/// store.admin().serve(ServeOptions::tcp(([127, 0, 0, 1], 7711)).secret("at least 16 random bytes"))?;
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone)]
#[must_use = "nothing is served until the options are given to a store"]
pub struct ServeOptions {
    address: Address,
    secret: Option<Vec<u8>>,
    any_interface: bool,
    max_connections: Option<usize>,
    max_call_bytes: Option<usize>,
    max_all_call_bytes: Option<usize>,
    max_tubes: usize,
    heartbeat: Option<Duration>,
}

impl fmt::Debug for ServeOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the secret.
        f.debug_struct("ServeOptions").field("address", &self.address).finish_non_exhaustive()
    }
}

impl ServeOptions {
    /// Serves at a unix socket. Its file gets the mode 0600: processes of this user can connect, and
    /// the superuser.
    pub fn unix(path: impl AsRef<Path>) -> ServeOptions {
        ServeOptions::at(Address::Unix(path.as_ref().to_path_buf()))
    }

    /// Serves at a TCP port; port 0 lets the operating system choose one. It needs a
    /// [`secret`](ServeOptions::secret), with which the connections are encrypted.
    pub fn tcp(address: impl Into<SocketAddr>) -> ServeOptions {
        ServeOptions::at(Address::Tcp(address.into()))
    }

    fn at(address: Address) -> ServeOptions {
        let heartbeat = Some(HEARTBEAT);
        ServeOptions {
            address,
            secret: None,
            any_interface: false,
            max_connections: None,
            max_call_bytes: None,
            max_all_call_bytes: None,
            max_tubes: TUBES,
            heartbeat,
        }
    }

    /// The secret that both sides know: at least 16 bytes. Use 32 random ones: whoever reads the network can
    /// test guesses. It is never sent. All that is sent is encrypted and authenticated with keys that are
    /// made from it for each connection (`Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`). A unix socket needs none;
    /// with one, its connections are encrypted too.
    pub fn secret(mut self, secret: impl Into<Vec<u8>>) -> ServeOptions {
        self.secret = Some(secret.into());
        self
    }

    /// Allows an address that other machines can reach. Default: only addresses of this machine.
    pub fn any_interface(mut self, allowed: bool) -> ServeOptions {
        self.any_interface = allowed;
        self
    }

    /// How many connections there may be at a time. Default: 1024. The next one is refused.
    pub fn max_connections(mut self, most: usize) -> ServeOptions {
        self.max_connections = Some(most);
        self
    }

    /// How many bytes of calls the owner holds for one connection: of those that arrive, and of those that
    /// wait for something with their bodies. Default: 64 MiB.
    ///
    /// These are takes, [`put_timeout`](crate::Tube::put_timeout),
    /// [`put_and_wait`](crate::Tube::put_and_wait), and changes while the write buffer of the store is full.
    /// A change that only waits for its flush does not count. The owner reads no further call of the
    /// connection until there is room, so that none is lost. A single call may be longer than the limit: the
    /// owner reads such a call when it holds at most 64 KiB for the connection.
    pub fn max_call_bytes(mut self, most: usize) -> ServeOptions {
        self.max_call_bytes = Some(most);
        self
    }

    /// How many bytes of calls the owner holds for all connections, as in
    /// [`max_call_bytes`](ServeOptions::max_call_bytes). Default: 256 MiB. The first 64 KiB of each
    /// connection do not count, so that its short calls wait for no other connection.
    pub fn max_all_call_bytes(mut self, most: usize) -> ServeOptions {
        self.max_all_call_bytes = Some(most);
        self
    }

    /// How many tubes the store may have if a process creates a further one through a connection. Default:
    /// 65,536. The next one is refused with [`OwnerBusy`](Error::OwnerBusy). The process of the store has no
    /// such limit.
    pub fn max_tubes(mut self, most: usize) -> ServeOptions {
        self.max_tubes = most;
        self
    }

    /// How often a process must say that it is there while a session of its connection has claims; `None`
    /// for never. Default: 10 seconds. Its connection does so by itself.
    ///
    /// The owner ends a connection that has said nothing for three such intervals, and its sessions end
    /// or begin their [grace](crate::StoreOptions::session_grace). So the tasks of a process whose tunnel
    /// or machine has vanished without a word do not wait for their ttr. A process that is stopped for so
    /// long, such as by a debugger, loses its claims too. Connections without claims are silent.
    pub fn heartbeat(mut self, every: impl Into<Option<Duration>>) -> ServeOptions {
        self.heartbeat = every.into().map(|every: Duration| every.max(HEARTBEAT_MIN));
        self
    }
}

/// A store that is served; from [`StoreAdmin::serve`]. Dropping it changes nothing.
#[derive(Clone, Debug)]
pub struct Served {
    url: String,
    server: Arc<Server>,
    servers: Weak<Servers>,
}

impl Served {
    /// The address that processes [connect](crate::connect) to, such as `unix:app.sock` or
    /// `tcp://127.0.0.1:7711`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Ends the connections, and accepts no further ones. The store stays open. Calls of other
    /// processes that were decided take effect. Blocks until the answers that are there were sent, at
    /// most a second.
    pub fn stop(&self) {
        match self.servers.upgrade() {
            Some(servers) => servers.stop(&self.server),
            // The store was closed, which has stopped it.
            None => self.server.stop(),
        }
    }
}

impl StoreAdmin<'_> {
    /// Serves this store to other processes, which [`connect`](crate::connect) to it, until it is
    /// closed or the returned handle [stops](Served::stop).
    ///
    /// Two threads serve all connections, and cost nothing while no call comes in. A process that
    /// connects can do everything that this one can, but for what [`OwnerOnly`](Error::OwnerOnly)
    /// names. The calls are as durable as those of this process. A session of a connection ends with
    /// it, or after the [grace](crate::StoreOptions::session_grace), and its tasks are released. Being
    /// served does not keep the store open.
    ///
    /// Does not block, except for one flush if the id of the store is damaged: it gets another one. By
    /// the id, a connection that is made anew does not take another store at the address for this one.
    /// A socket file that a killed process has left is replaced.
    ///
    /// # Errors
    /// [`AddressInUse`](Error::AddressInUse): another process listens at the address.
    /// [`FileExists`](Error::FileExists): a file that is not a socket has the path.
    /// [`Invalid`](Error::Invalid): a TCP address needs a secret, or is one that other machines can
    /// reach. [`Io`](Error::Io).
    /// [`OwnerOnly`](Error::OwnerOnly): the store is one of another process.
    /// [`Unavailable`](Error::Unavailable), [`DiskFull`](Error::DiskFull): the id cannot be stored
    /// now. Nothing is served.
    ///
    /// # Example
    /// ```
    /// # #[cfg(unix)] {
    /// use tubewell::{ServeOptions, Store};
    ///
    /// # let folder = tempfile::tempdir().unwrap();
    /// # let socket = folder.path().join("app.sock");
    /// let store = Store::in_memory()?;
    /// store.tube("mail")?;
    /// let served = store.admin().serve(ServeOptions::unix(&socket))?;
    ///
    /// // In another process:
    /// let client = tubewell::connect(served.url())?;
    /// client.tube("mail")?.put("to: ann")?;
    /// # client.close()?;
    ///
    /// assert_eq!(store.tube("mail")?.statistics()?.tasks.ready, 1);
    /// # }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "listen")]
    #[doc(alias = "daemon")]
    pub fn serve(&self, options: ServeOptions) -> Result<Served> {
        options.secret.as_deref().map_or(Ok(()), check_secret)?;
        let store = self.store.here("serving a store")?;
        let id = store.inner()?.call(None, Core::store_id)?;
        let limits = limits(&options);
        let ServeOptions { address, secret, any_interface, max_tubes, heartbeat, .. } = options;
        let server_options = ServerOptions { secret, limits, any_interface };
        let server = Server::start(
            &address,
            server_options,
            StoreService::new(store.visitor(), id, max_tubes, heartbeat),
        )
        .map_err(|error| cannot_serve(&address, &error))?;
        let server = Arc::new(server);
        let (url, servers) = (server.address().to_string(), store.add_server(server.clone()));
        Ok(Served { url, server, servers })
    }
}

/// What the peers may cost.
fn limits(options: &ServeOptions) -> Limits {
    let default = Limits::default();
    Limits {
        frame: FRAME_MAX,
        connections: options.max_connections.unwrap_or(default.connections),
        call_bytes: options.max_call_bytes.unwrap_or(default.call_bytes),
        all_call_bytes: options.max_all_call_bytes.unwrap_or(default.all_call_bytes),
        silence: options.heartbeat.map_or(default.silence, |every| every.saturating_mul(MISSED)),
        ..default
    }
}

fn cannot_serve(address: &Address, error: &WireError) -> Error {
    match error {
        WireError::AddressInUse { why, .. } => {
            Error::AddressInUse { address: address.to_string(), why: why.clone() }
        }
        WireError::NotASocket { .. } => Error::FileExists { path: path_of(address) },
        WireError::SecretNeeded { .. } | WireError::NotLoopback { .. } => {
            Error::invalid(error.to_string())
        }
        error => Error::Io { what: error.to_string() },
    }
}

fn path_of(address: &Address) -> String {
    match address {
        Address::Unix(path) => path.display().to_string(),
        address @ Address::Tcp(_) => address.to_string(),
    }
}

/// Whether a process listens at a unix socket, such as the owner of a store at the one
/// [beside](socket_beside) the file. The process may be stopped. Does not block.
#[must_use]
pub fn is_socket_served(socket: impl AsRef<Path>) -> bool {
    #[cfg(unix)]
    return tubewell_wire::is_listening(socket.as_ref());
    #[cfg(not(unix))]
    {
        let _ = socket;
        false
    }
}

/// Where processes look for the owner of a store file: beside it. A symbolic link to the file has the socket of
/// the file, whether it exists or not; a hard link is another path, with another socket.
#[must_use]
pub fn socket_beside(store: impl AsRef<Path>) -> PathBuf {
    let mut name = linked_file(store.as_ref()).into_os_string();
    name.push(".sock");
    PathBuf::from(name)
}

/// The file behind a symbolic link. Other paths stay as they are: those of sockets must be short.
fn linked_file(path: &Path) -> PathBuf {
    /// As many as Linux follows.
    const LINKS: usize = 40;
    let mut file = path.to_owned();
    for _ in 0..LINKS {
        let Ok(target) = std::fs::read_link(&file) else { break };
        file = file.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    file
}
