//! Calls of claims that return before their flush.

mod claim;
mod claim_attempts;
mod history;
mod movement;

pub use claim::Refused;
