//! Tests of the command with real processes, files, pipes, terminals and signals.
#![cfg(unix)]
#![allow(clippy::unwrap_used, reason = "a test may")]

mod attempts;
#[path = "../../../tests/common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
mod claims;
mod commands;
mod completions;
mod copied_attempts;
mod copied_outcomes;
mod copied_parents;
mod copied_steps;
mod copies;
mod days;
mod document;
mod durability;
mod edits;
mod errors;
mod events;
#[path = "../../../tests/common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod gates;
mod help;
mod history;
mod import;
mod keys;
mod killed;
mod labels;
mod limits;
mod list;
mod movement;
mod not_before;
mod outcomes;
mod owner_ends;
mod parents;
mod policies;
mod printed;
mod schedules;
mod served;
#[path = "../../../tests/common/size.rs"]
mod size;
mod support;
mod terminal;
mod texts;
mod top;
mod work;
mod work_attempts;
mod work_options;
