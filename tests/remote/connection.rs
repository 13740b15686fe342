//! The connection to a store that another part of the test owns.

use tempfile::TempDir;
use tubewell::{ServeOptions, Store};

/// A store that is used from outside, for as long as this value lives.
pub struct Connection {
    pub store: Store,
    _folder: TempDir,
}

/// Serves a store on a socket, and connects to it.
pub fn remote(owner: &Store) -> Connection {
    let folder = tempfile::tempdir().unwrap();
    let served = owner.serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
    Connection { store: tubewell::connect(served.url()).unwrap(), _folder: folder }
}
