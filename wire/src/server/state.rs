//! What the threads of a server share of one connection: its calls in flight, its output, and the answers
//! that the client has not confirmed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::task::Task;
use super::{OnLost, Reply};
use crate::frame::Kind;
use crate::outbox::Outbox;
use crate::sync::Arc;

/// The client does not keep to the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse(pub(crate) &'static str);

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// What was written goes out, then it is closed. Calls that are ended get no answer: for the client they
    /// are broken off.
    Draining,
    /// Nothing is written any more.
    Closed,
}

/// The state of a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) outbox: Outbox,
    pub(crate) stage: Stage,
    /// The connection is to be closed, since user code has panicked or the socket is broken.
    pub(crate) broken: bool,
    /// Since when the socket takes nothing.
    pub(crate) stalled: Option<Instant>,
    /// Calls whose future exists.
    calls: HashMap<u64, Arc<Task>>,
    /// Tracked answers that the client has not confirmed, in the order in which they were written.
    unseen: VecDeque<OnLost>,
    /// How many tracked answers the client has confirmed.
    seen: u64,
    /// Calls that are not polled until the client has read.
    starved: Vec<Arc<Task>>,
    /// The reading thread does not read until there is room.
    paused: bool,
}

impl State {
    /// Adds a call whose future exists.
    pub(crate) fn add(&mut self, task: Arc<Task>) -> Result<(), Misuse> {
        if self.calls.contains_key(&task.number) {
            return Err(Misuse("two calls in flight have one number"));
        }
        self.calls.insert(task.number, task);
        Ok(())
    }

    /// The call with this number, if its future exists.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Task>> {
        self.calls.get(&number).cloned()
    }

    /// All calls whose future exists.
    pub(crate) fn all(&self) -> Vec<Arc<Task>> {
        self.calls.values().cloned().collect()
    }

    /// Whether no future of a call exists.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Appends an answer. Returns what to call if it is longer than `limit`, and cannot be sent.
    #[must_use]
    pub(crate) fn answer(&mut self, number: u64, reply: Reply, limit: usize) -> Option<OnLost> {
        let Reply { body, on_lost } = reply;
        if body.len() > limit {
            let why =
                format!("the answer of {} bytes is longer than the limit of {limit}", body.len());
            self.end(number, &why);
            return on_lost;
        }
        if self.stage != Stage::Closed {
            let kind = if on_lost.is_some() { Kind::Tracked } else { Kind::Answer };
            self.outbox.append(kind, number, &body);
        }
        self.unseen.extend(on_lost);
        None
    }

    /// Appends an item. An error says that no more are wanted.
    pub(crate) fn item(&mut self, number: u64, item: &[u8], limit: usize) -> Result<(), ()> {
        if self.stage != Stage::Open {
            return Err(());
        }
        if item.len() > limit {
            let why =
                format!("an item of {} bytes is longer than the limit of {limit}", item.len());
            self.end(number, &why);
            return Err(());
        }
        self.outbox.append(Kind::Item, number, item);
        Ok(())
    }

    /// Appends the end of a call without an answer.
    pub(crate) fn end(&mut self, number: u64, why: &str) {
        if self.stage == Stage::Open {
            self.outbox.append(Kind::End, number, why.as_bytes());
        }
    }

    /// The future of a call was dropped. True: the reading thread must look at the connection.
    pub(crate) fn remove(&mut self, number: u64) -> bool {
        self.calls.remove(&number);
        let finished = self.stage == Stage::Closed && self.calls.is_empty();
        self.broken || finished || std::mem::take(&mut self.paused)
    }

    /// The client has received this many tracked answers. Returns what need not be called any more.
    pub(crate) fn seen(&mut self, count: u64) -> Result<Vec<OnLost>, Misuse> {
        let new = usize::try_from(count.saturating_sub(self.seen)).unwrap_or(usize::MAX);
        if new > self.unseen.len() {
            return Err(Misuse("the client has seen more answers than there were"));
        }
        self.seen = self.seen.max(count);
        Ok(self.unseen.drain(..new).collect())
    }

    /// What is to be called since its answer was not received. The connection is closed and idle.
    pub(crate) fn take_lost(&mut self) -> VecDeque<OnLost> {
        std::mem::take(&mut self.unseen)
    }

    /// Whether the output may grow: the client has left at most `limit` bytes unread.
    fn has_room(&self, limit: usize) -> bool {
        self.outbox.unsent() <= limit
    }

    /// Whether `task` may be polled. If not, it is woken when it may.
    pub(crate) fn may_poll(&mut self, task: &Arc<Task>, limit: usize) -> bool {
        if self.has_room(limit) || self.stage != Stage::Open {
            return true;
        }
        if !self.starved.iter().any(|other| Arc::ptr_eq(other, task)) {
            self.starved.push(task.clone());
        }
        false
    }

    /// Whether the reading thread may take the next frame. If not, it must look again when it may.
    pub(crate) fn may_read(&mut self, is_call: bool, calls: usize, unsent: usize) -> bool {
        self.paused = (is_call && self.calls.len() >= calls) || !self.has_room(unsent);
        !self.paused
    }

    /// Something was written. Returns the tasks to wake, and whether the reading thread may read again.
    #[must_use]
    pub(crate) fn relieved(&mut self, limit: usize) -> (Vec<Arc<Task>>, bool) {
        if self.has_room(limit) {
            (std::mem::take(&mut self.starved), std::mem::take(&mut self.paused))
        } else {
            (Vec::new(), false)
        }
    }

    /// Nothing more is written.
    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
        self.starved.clear();
    }
}
