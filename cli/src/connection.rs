//! Owners of stores: this process as one that serves its store, and the connection to another one.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::OnceLock;

use tubewell::{Error, Result, Store};

/// The owner that this process is connected to. A command opens one store.
static OWNER: OnceLock<String> = OnceLock::new();

/// The address of the owner, if the store is that of another process.
pub fn owner() -> Option<&'static str> {
    OWNER.get().map(String::as_str)
}

/// Connects to the owner at an address.
pub fn connect(url: &str, secret: Option<Vec<u8>>) -> Result<Store> {
    let options = stand_in::ConnectOptions::new().label("tubewell");
    let store = secret.into_iter().fold(options, stand_in::ConnectOptions::secret).connect(url)?;
    // It is set once.
    let _ = OWNER.set(url.to_owned());
    Ok(store)
}

/// Where a store is served. It is until the process ends.
pub struct Serving(stand_in::Served);

impl Serving {
    /// The address to connect to.
    pub fn url(&self) -> &str {
        self.0.address()
    }
}

/// Serves the store at a unix socket.
pub fn serve_unix(store: &Store, socket: &Path) -> Result<Serving> {
    stand_in::serve(store, stand_in::ServeOptions::unix(socket)).map(Serving)
}

/// Serves the store at a TCP port.
pub fn serve_tcp(
    store: &Store,
    address: SocketAddr,
    secret: Vec<u8>,
    any_interface: bool,
) -> Result<Serving> {
    let options = stand_in::ServeOptions::tcp(address).secret(secret).any_interface(any_interface);
    stand_in::serve(store, options).map(Serving)
}

/// Whether only the process that owns the store can make the call that has failed so.
pub fn is_owner_only(_error: &Error) -> bool {
    false
}

/// The interface of the library.
mod stand_in {
    use super::{Error, Path, Result, SocketAddr, Store};

    fn not_there<T>() -> Result<T> {
        Err(Error::Invalid { what: "this build neither serves stores nor connects to them".into() })
    }

    pub struct Served(String);

    impl Served {
        pub fn address(&self) -> &str {
            &self.0
        }
    }

    pub struct ServeOptions;

    impl ServeOptions {
        pub fn unix(_: &Path) -> ServeOptions {
            ServeOptions
        }

        pub fn tcp(_: SocketAddr) -> ServeOptions {
            ServeOptions
        }

        pub fn secret(self, _: Vec<u8>) -> ServeOptions {
            self
        }

        pub fn any_interface(self, _: bool) -> ServeOptions {
            self
        }
    }

    pub struct ConnectOptions;

    impl ConnectOptions {
        pub fn new() -> ConnectOptions {
            ConnectOptions
        }

        pub fn label(self, _: &str) -> ConnectOptions {
            self
        }

        pub fn secret(self, _: Vec<u8>) -> ConnectOptions {
            self
        }

        pub fn connect(self, _: &str) -> Result<Store> {
            let ConnectOptions = self;
            not_there()
        }
    }

    pub fn serve(_: &Store, _: ServeOptions) -> Result<Served> {
        not_there().map(Served)
    }
}
