//! The catalog: tubes and drivers, the rows of the table `meta`, and the purge of dropped tubes.

mod alter;
mod infos;
mod limits;
mod purge;
mod rows;
mod similar;
mod store_id;
mod tubes;

pub(crate) use alter::Alter;
pub(crate) use infos::{FindTube, InfoOf, IsTimed, Tubes};
pub(crate) use limits::read_limits;
pub(crate) use purge::purge_closed;
#[cfg(test)]
pub(super) use rows::tube_key;
pub(super) use rows::{
    FORMAT, StoreHeader, check_empty, count_key, decode, decode_counts, encode, limit_key,
    pause_key, paused_names, purge_key, scan_all,
};
pub(crate) use rows::{
    HEADER, check_format, last_commit, read_catalog, read_header, stored_totals,
};
pub(crate) use store_id::StoreId;
pub(crate) use tubes::{CreateTube, DropTube, Truncate, TubeHead};
