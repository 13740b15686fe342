//! The peers, one file each.

#[cfg(feature = "apalis")]
mod apalis;
mod beanstalkd;
mod disk_baseline;
mod effectum;
mod oban;
mod persistent;
mod redb_baseline;
#[cfg(feature = "rustqueue")]
mod rustqueue;
#[cfg(test)]
mod smoke;
mod sqlite;
mod tarantool;
mod tubewell_served;
mod tubewell_store;
mod tubewell_worker;
mod yaque_files;

use crate::queue::Peer;

/// All peers, in the order of their rows.
pub fn all() -> Vec<Box<dyn Peer>> {
    let mut peers: Vec<Box<dyn Peer>> = Vec::new();
    peers.extend(tubewell_store::peers());
    peers.extend(tubewell_worker::peers());
    peers.extend(tubewell_served::peers());
    peers.push(Box::new(disk_baseline::DiskBaseline));
    peers.extend(redb_baseline::peers());
    peers.extend(sqlite::peers());
    peers.extend(oban::peers());
    peers.extend(persistent::peers());
    peers.push(Box::new(yaque_files::Yaque));
    peers.extend(beanstalkd::peers());
    peers.extend(tarantool::peers());
    #[cfg(feature = "rustqueue")]
    peers.extend(rustqueue::peers());
    peers.extend(effectum::peers());
    #[cfg(feature = "apalis")]
    peers.extend(apalis::peers());
    peers
}
