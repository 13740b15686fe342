//! The listening socket.

use std::io;
use std::net::SocketAddr;

use crate::os::{Interest, Registry, TcpListener, Token};
use crate::socket::Socket;
use crate::{Address, WireError};

#[cfg(unix)]
use unix::UnixSocket;

/// A socket that accepts connections.
pub(crate) enum Listener {
    #[cfg(unix)]
    Unix(UnixSocket),
    Tcp(TcpListener),
}

impl Listener {
    /// Listens at `address`. Returns also the address with the port that was chosen.
    pub(crate) fn bind(
        address: &Address,
        any_interface: bool,
    ) -> Result<(Listener, Address), WireError> {
        match address {
            #[cfg(unix)]
            Address::Unix(path) => {
                Ok((Listener::Unix(UnixSocket::bind(path, address)?), address.clone()))
            }
            #[cfg(not(unix))]
            Address::Unix(_) => Err(WireError::UnixUnsupported),
            Address::Tcp(socket) => {
                if !socket.ip().is_loopback() && !any_interface {
                    return Err(WireError::NotLoopback { address: address.clone() });
                }
                let (listener, bound) = bind_tcp(*socket, address)?;
                Ok((Listener::Tcp(listener), Address::Tcp(bound)))
            }
        }
    }

    pub(crate) fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Listener::Unix(socket) => {
                registry.register(&mut socket.listener, token, Interest::READABLE)
            }
            Listener::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
        }
    }

    pub(crate) fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            #[cfg(unix)]
            Listener::Unix(socket) => registry.deregister(&mut socket.listener),
            Listener::Tcp(listener) => registry.deregister(listener),
        }
    }

    /// Accepts one connection.
    pub(crate) fn accept(&self) -> io::Result<Socket> {
        let socket = match self {
            #[cfg(unix)]
            Listener::Unix(socket) => Socket::Unix(socket.listener.accept()?.0),
            Listener::Tcp(listener) => Socket::Tcp(listener.accept()?.0),
        };
        Ok(socket)
    }
}

fn bind_tcp(socket: SocketAddr, address: &Address) -> Result<(TcpListener, SocketAddr), WireError> {
    let listener = TcpListener::bind(socket).map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => WireError::AddressInUse {
            address: address.clone(),
            why: "another process listens there".to_owned(),
        },
        _ => WireError::io("listen at", address)(error),
    })?;
    let bound = listener.local_addr().map_err(WireError::io("listen at", address))?;
    Ok((listener, bound))
}

#[cfg(unix)]
mod unix {
    use std::fs::{self, DirBuilder, Permissions};
    use std::io;
    use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
    use std::path::{Path, PathBuf};

    use crate::os::unix_path::{SocketPath, has_listener};
    use crate::os::{self, UnixListener};
    use crate::{Address, WireError};

    /// A unix socket and its file, which is removed when this is dropped.
    pub(crate) struct UnixSocket {
        pub(super) listener: UnixListener,
        path: PathBuf,
        /// Device and inode of the file: another server may have replaced it.
        file: (u64, u64),
    }

    impl UnixSocket {
        pub(crate) fn bind(path: &Path, address: &Address) -> Result<UnixSocket, WireError> {
            check_free(path, address)?;
            // The working directory may change until the file is removed.
            let path = std::path::absolute(path).map_err(WireError::io("listen at", address))?;
            let folder =
                TemporaryFolder::beside(&path).map_err(WireError::io("listen at", address))?;
            let temporary = folder.0.join("s");
            // No other user can connect before the mode is set: the folder has mode 0700.
            let bound = SocketPath::in_folder(&folder.0, "s")
                .and_then(|temporary| UnixListener::bind(temporary.as_path()));
            let listener = bound.map_err(WireError::io("listen at", address))?;
            let file = publish(&temporary, &path);
            if file.is_err() {
                // The error that matters is the first one.
                let _ = fs::remove_file(&temporary);
            }
            let file = file.map_err(WireError::io("listen at", address))?;
            Ok(UnixSocket { listener, path, file })
        }
    }

    impl Drop for UnixSocket {
        fn drop(&mut self) {
            if fs::symlink_metadata(&self.path)
                .is_ok_and(|file| (file.dev(), file.ino()) == self.file)
            {
                // A file that stays is stale, and the next server replaces it.
                let _ = fs::remove_file(&self.path);
            }
        }
    }

    /// Gives the socket its mode and its name.
    fn publish(temporary: &Path, path: &Path) -> io::Result<(u64, u64)> {
        fs::set_permissions(temporary, Permissions::from_mode(0o600))?;
        let file = fs::symlink_metadata(temporary)?;
        fs::rename(temporary, path)?;
        Ok((file.dev(), file.ino()))
    }

    /// Checks that nothing is at `path`, or a socket without a listener.
    fn check_free(path: &Path, address: &Address) -> Result<(), WireError> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(WireError::io("listen at", address)(error)),
            Ok(file) if !file.file_type().is_socket() => {
                return Err(WireError::NotASocket { address: address.clone() });
            }
            Ok(_) => {}
        }
        if has_listener(path).map_err(WireError::io("listen at", address))? {
            let why = "a server listens there".to_owned();
            return Err(WireError::AddressInUse { address: address.clone(), why });
        }
        Ok(())
    }

    /// A folder of mode 0700, removed when dropped.
    struct TemporaryFolder(PathBuf);

    impl TemporaryFolder {
        fn beside(path: &Path) -> io::Result<TemporaryFolder> {
            let mut random = [0; 4];
            os::fill_random(&mut random)?;
            let name = format!(".{:x}", u32::from_le_bytes(random));
            let folder = path.with_file_name(name);
            DirBuilder::new().mode(0o700).create(&folder)?;
            Ok(TemporaryFolder(folder))
        }
    }

    impl Drop for TemporaryFolder {
        fn drop(&mut self) {
            // It holds nothing; one that stays does no harm.
            let _ = fs::remove_dir(&self.0);
        }
    }
}
