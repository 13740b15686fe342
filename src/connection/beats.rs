//! Heartbeats of a connection: the owner hears of a process that has claims, so that it notices one that has
//! vanished without a word.
//!
//! Invariant: from the arrival of a task on, a connection says that it is there at each interval, until the
//! owner has answered that it has no claims, and no task has arrived since that was asked. The owner ends a
//! connection that is silent meanwhile.

use std::sync::{Arc, Weak};
use std::time::Duration;

use super::request::Request;
use super::{Connection, GRANTS, RemotePromise, Shared};
use crate::micros::duration;

#[derive(Default)]
pub(super) struct Beats {
    /// How often; `None` for an owner that does not want to hear it.
    every: Option<Duration>,
    is_on: bool,
    /// How many answers with tasks have arrived, and how many had when the last heartbeat was made.
    granted: u64,
    granted_before: u64,
    last: Option<RemotePromise<bool>>,
}

impl Shared {
    /// Another connection was made: its owner wants to hear of claims this often, in microseconds; 0 for
    /// never.
    pub(super) fn set_interval(&self, heartbeat: u64) {
        self.beats.lock().every = (heartbeat > 0).then(|| duration(heartbeat));
    }

    /// Looks for tasks in an answer that has arrived.
    pub(super) fn note_grants(&self, answer: &[u8]) {
        // An answer with tasks, no error, and how many there are.
        if matches!(answer, [GRANTS, 1, count, ..] if *count > 0) {
            self.begin_beats();
        }
    }

    /// The connection has claims, or may have.
    pub(super) fn begin_beats(&self) {
        let Some(connection) = self.connection() else { return };
        let mut beats = self.beats.lock();
        beats.granted += 1;
        if !beats.is_on && beats.every.is_some() {
            beats.is_on = true;
            connection.client.set_beat(beats.every);
        }
    }

    /// Says that this process is there, unless the owner has answered that it has no claims.
    pub(super) fn beat_once(&self) {
        let Some(connection) = self.connection() else { return };
        let mut beats = self.beats.lock();
        let answered = beats.last.take_if(|last| last.is_done()).map(RemotePromise::wait);
        let has_claims =
            !matches!(answered, Some(Ok(false))) || beats.granted > beats.granted_before;
        if has_claims && beats.every.is_some() {
            beats.granted_before = beats.granted;
            beats.last = Some(connection.beat());
        } else {
            beats.is_on = false;
            connection.client.set_beat(None);
        }
    }

    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.get().and_then(Weak::upgrade)
    }
}

impl Connection {
    fn beat(&self) -> RemotePromise<bool> {
        RemotePromise::new(self.post(&Request::Heartbeat, false), super::read_value)
    }
}
