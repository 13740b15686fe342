//! A server and its clients, over real sockets.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod client;

mod broken_disk;
mod checks;
mod claims;
mod compressed;
mod described;
mod disk;
mod events;
mod generated;
mod hostile;
mod languages;
mod many_tasks;
mod one_task;
mod page;
#[path = "../../../tests/common/patience.rs"]
mod patience;
mod proxies;
mod puts;
mod refused;
mod schedules;
mod takes;
mod tools;
mod tubes;
mod whole_store;
