//! A store and its process: forks, the path of the file, who may open it, and valgrind.

#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/patience.rs"]
mod patience;

mod access;
mod fork;
mod renamed;
mod valgrind;
