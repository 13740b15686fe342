//! Heartbeats of a connection: the owner hears of a process that has claims, so that it notices one that has
//! vanished without a word.
//!
//! Invariant: from the arrival of a task on, a connection says that it is there at each interval, until the
//! owner has answered that it has no claims, and no task has arrived since that was asked. The owner ends a
//! connection that is silent meanwhile.

use std::time::Duration;

use tubewell_wire::Pending;

use super::request::{has_grants, read_value};
use crate::base::micros::duration;

#[derive(Default)]
pub(super) struct Beats {
    /// How often; `None` for an owner that does not want to hear it.
    every: Option<Duration>,
    is_on: bool,
    /// How many answers with tasks have arrived, and how many had when the last heartbeat was made.
    granted: u64,
    granted_before: u64,
    last: Option<Pending>,
}

impl Beats {
    /// Another connection was made: its owner wants to hear of claims this often, in microseconds; 0 for
    /// never.
    pub(super) fn set_interval(&mut self, heartbeat: u64) {
        self.every = (heartbeat > 0).then(|| duration(heartbeat));
    }

    /// Whether an answer that has arrived has tasks.
    pub(super) fn are_needed_for(answer: &[u8]) -> bool {
        has_grants(answer)
    }

    /// The connection has claims, or may have. Returns the interval if heartbeats begin.
    pub(super) fn begin(&mut self) -> Option<Duration> {
        self.granted += 1;
        let begins = !self.is_on && self.every.is_some();
        self.is_on |= begins;
        self.every.filter(|_| begins)
    }

    /// Whether another heartbeat is to be made. The owner may have answered that there are no claims.
    pub(super) fn go_on(&mut self) -> bool {
        let last = self.last.take_if(|last| last.is_done());
        let answer = last.and_then(|last| last.wait().ok());
        let has_claims = answer.and_then(|answer| read_value::<bool>(&answer).ok()).unwrap_or(true);
        self.is_on = self.every.is_some() && (has_claims || self.granted > self.granted_before);
        self.is_on
    }

    /// A heartbeat was made.
    pub(super) fn made(&mut self, heartbeat: Pending) {
        self.granted_before = self.granted;
        self.last = Some(heartbeat);
    }
}
