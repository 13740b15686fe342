//! How a run of the store begins, and how it goes on after its storage failed.

mod open;
mod outage;
