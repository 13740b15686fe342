//! Owners of stores: this process as one that serves its store, and the connection to another one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

use tubewell::{ConnectOptions, Error, Result, ServeOptions, Served, Store};

/// The owner that this process is connected to. A command opens one store.
static OWNER: OnceLock<String> = OnceLock::new();

/// The address of the owner, if the store is that of another process.
pub fn owner() -> Option<&'static str> {
    OWNER.get().map(String::as_str)
}

/// Connects to the owner at an address.
pub fn connect(url: &str, secret: Option<Vec<u8>>, trusted_user: Option<u32>) -> Result<Store> {
    let options = ConnectOptions::new().label("tubewell");
    let options = trusted_user.into_iter().fold(options, ConnectOptions::trusted_user);
    let store = secret.into_iter().fold(options, ConnectOptions::secret).connect(url)?;
    // It is set once.
    let _ = OWNER.set(url.to_owned());
    Ok(store)
}

/// A store that is served, until it is closed.
pub struct Serving(Served);

impl Serving {
    /// The address to connect to.
    pub fn url(&self) -> &str {
        self.0.url()
    }
}

/// Serves the store at a unix socket.
pub fn serve_unix(store: &Store, socket: &Path) -> Result<Serving> {
    store.admin().serve(ServeOptions::unix(socket)).map(Serving)
}

/// Serves the store at a TCP port.
pub fn serve_tcp(
    store: &Store,
    address: SocketAddr,
    secret: Vec<u8>,
    any_interface: bool,
) -> Result<Serving> {
    let options = ServeOptions::tcp(address).secret(secret).any_interface(any_interface);
    store.admin().serve(options).map(Serving)
}

/// Whether only the process that owns the store can make the call that has failed so.
pub fn is_owner_only(error: &Error) -> bool {
    matches!(error, Error::OwnerOnly { .. })
}
