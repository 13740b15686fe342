//! The connection to a store that another part of the test owns.

use tubewell::Store;

/// A store that is used from outside, for as long as this value lives.
pub struct Connection {
    pub store: Store,
}

/// Stand-in for a connection: the store itself.
pub fn remote(owner: &Store) -> Connection {
    Connection { store: owner.clone() }
}
