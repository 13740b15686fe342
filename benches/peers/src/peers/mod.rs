//! The peers, one file each.

mod beanstalkd;
mod redb_floor;
mod tarantool;
mod tubewell_store;

use crate::queue::Peer;

/// All peers, in the order of their rows.
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut peers: Vec<Box<dyn Peer>> = Vec::new();
    peers.extend(tubewell_store::peers());
    peers.extend(redb_floor::peers());
    peers.extend(beanstalkd::peers());
    peers.extend(tarantool::peers());
    peers
}
