//! The connection to a store that another part of the test owns.

use tempfile::TempDir;
use tubewell::{ServeOptions, Served, Store};

/// A store that is used from outside, for as long as this value lives.
pub struct Connection {
    pub store: Store,
    served: Served,
    _folder: TempDir,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.served.stop();
    }
}

/// Serves the store on a socket in a folder of its own, and connects to it.
pub fn remote(owner: &Store) -> Connection {
    let folder = TempDir::new().unwrap();
    let served = owner.admin().serve(ServeOptions::unix(folder.path().join("socket"))).unwrap();
    let store = tubewell::connect(served.url()).unwrap();
    Connection { store, served, _folder: folder }
}
