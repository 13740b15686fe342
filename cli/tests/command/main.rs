//! The command as its users type it: real processes, files, pipes, terminals and signals.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod commands;
mod copies;
mod errors;
mod help;
mod import;
mod killed;
mod support;
mod terminal;
mod work;
