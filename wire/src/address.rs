//! Addresses of servers.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Where a server listens.
///
/// The text is `unix:PATH` or `tcp://HOST:PORT`. A name of a host is resolved when the text is parsed, which
/// may block; its first address is taken.
///
/// ```
/// use tubewell_wire::Address;
///
/// let address: Address = "unix:/run/app.sock".parse()?;
/// assert_eq!(address, Address::Unix("/run/app.sock".into()));
/// let address: Address = "tcp://127.0.0.1:7711".parse()?;
/// assert_eq!(address.to_string(), "tcp://127.0.0.1:7711");
/// # Ok::<(), tubewell_wire::WireError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Address {
    /// A unix socket at this path.
    Unix(PathBuf),
    /// TCP. As the address of a server, port 0 is a free port.
    Tcp(SocketAddr),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(f, "unix:{}", path.display()),
            Address::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}
