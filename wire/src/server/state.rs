//! What the threads of a server share of one connection: its calls in flight, its output, and the answers
//! that the client has not confirmed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::service::{OnLost, Reply};
use crate::frame::Kind;
use crate::outbox::Outbox;
use crate::sync::Arc;

/// A call whose future exists.
pub(crate) trait Call: Send + Sync {
    fn number(&self) -> u64;

    /// Makes the thread of futures poll it.
    fn wake(self: Arc<Self>);

    /// Drops the future, now or when the thread that polls it has polled it.
    fn cancel(&self);

    /// Drops the future, unless it was woken: then when it was polled, if it has no answer.
    fn finish(&self);

    /// The client has taken this many items so far.
    fn taken(self: Arc<Self>, count: u64);
}

/// How a call ends.
pub(crate) enum Outcome {
    Reply(Reply),
    /// No more items, or cancelled.
    End,
    /// The client knows already that there is no answer.
    Ended,
    /// The application's code has panicked.
    Panicked,
}

impl Outcome {
    /// The drop of the future has panicked too. What the reply holds is not lost by that.
    pub(crate) fn and_panicked(self) -> Outcome {
        match self {
            Outcome::Reply(reply) => Outcome::Reply(reply),
            Outcome::End | Outcome::Ended | Outcome::Panicked => Outcome::Panicked,
        }
    }
}

/// The client does not keep to the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse(pub(crate) &'static str);

/// How far a connection is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    #[default]
    Open,
    /// Answers that are there go out, then it is closed. Other calls get none: for the client they are broken
    /// off.
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
    calls: HashMap<u64, Arc<dyn Call>>,
    /// Tracked answers that the client has not confirmed, in the order in which they were written.
    unseen: VecDeque<OnLost>,
    /// How many tracked answers the client has confirmed.
    seen: u64,
    /// Calls that are not polled until the client has read.
    starved: Vec<Arc<dyn Call>>,
    /// The reading thread does not read until there is room.
    paused: bool,
    pub(crate) beats: Beats,
}

/// Whether the client must not be silent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Beats {
    #[default]
    NotExpected,
    /// It must not from now on: the reading thread does not know that yet.
    Begin,
    Expected,
}

impl State {
    /// Adds a call whose future exists.
    pub(crate) fn add(&mut self, task: Arc<dyn Call>) -> Result<(), Misuse> {
        let number = task.number();
        if self.calls.contains_key(&number) {
            return Err(Misuse("two calls in flight have one number"));
        }
        self.calls.insert(number, task);
        Ok(())
    }

    /// The call with this number, if its future exists.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<dyn Call>> {
        self.calls.get(&number).cloned()
    }

    /// The calls that wait until the client has read.
    pub(crate) fn take_starved(&mut self) -> Vec<Arc<dyn Call>> {
        std::mem::take(&mut self.starved)
    }

    /// All calls whose future exists, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Call>> {
        let mut calls: Vec<_> = self.calls.values().cloned().collect();
        calls.sort_unstable_by_key(|call| call.number());
        calls
    }

    /// Whether so many calls are in flight that the reading thread takes no further one.
    pub(crate) fn is_full(&self, calls: usize) -> bool {
        self.calls.len() >= calls
    }

    /// Whether no future of a call exists.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    /// Appends an answer. Returns what to call if it is longer than `limit`, and cannot be sent.
    #[must_use]
    pub(crate) fn answer(&mut self, number: u64, reply: Reply, limit: usize) -> Option<OnLost> {
        let Reply { body, on_lost, expect_beats } = reply;
        if let Some(expects) = expect_beats {
            self.beats = match self.beats {
                Beats::NotExpected if expects => Beats::Begin,
                before if expects => before,
                _ => Beats::NotExpected,
            };
        }
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
        let finished = self.stage != Stage::Open && self.calls.is_empty();
        let begin = self.beats == Beats::Begin;
        if begin {
            self.beats = Beats::Expected;
        }
        self.broken || finished || begin || std::mem::take(&mut self.paused)
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
    pub(crate) fn may_poll(&mut self, task: impl FnOnce() -> Arc<dyn Call>, limit: usize) -> bool {
        if self.has_room(limit) || self.stage != Stage::Open {
            return true;
        }
        let task = task();
        if !self.starved.iter().any(|other| other.number() == task.number()) {
            self.starved.push(task);
        }
        false
    }

    /// Whether the reading thread may take the next frame. If not, it must look again when it may.
    pub(crate) fn may_read(&mut self, is_call: bool, calls: usize, unsent: usize) -> bool {
        self.paused = (is_call && self.is_full(calls)) || !self.has_room(unsent);
        !self.paused
    }

    /// Something was written. Returns the tasks to wake, and whether the reading thread may read again.
    #[must_use]
    pub(crate) fn relieved(&mut self, limit: usize) -> (Vec<Arc<dyn Call>>, bool) {
        if self.has_room(limit) {
            (self.take_starved(), std::mem::take(&mut self.paused))
        } else {
            (Vec::new(), false)
        }
    }

    /// Whether the last output of a connection that is to be closed is written.
    pub(crate) fn is_drained(&self) -> bool {
        self.stage == Stage::Draining && self.outbox.unsent() == 0
    }

    /// Nothing more is written.
    pub(crate) fn close(&mut self) {
        self.stage = Stage::Closed;
        self.starved.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked() -> Reply {
        Reply { body: vec![0; 10], on_lost: Some(Box::new(|| {})), expect_beats: None }
    }

    fn write_all(state: &mut State) {
        while let Some(mut chunk) = state.outbox.take() {
            chunk.advance(usize::MAX);
            state.outbox.give_back(chunk, false);
        }
    }

    #[test]
    fn confirmations_count_tracked_answers_alone() {
        let mut state = State::default();
        for number in 1..=3 {
            assert!(state.answer(number, tracked(), 100).is_none());
            assert!(state.answer(number, Reply::new(Vec::new()), 100).is_none());
        }
        assert_eq!(state.seen(2).map(|seen| seen.len()), Ok(2));
        assert_eq!(state.seen(1).map(|seen| seen.len()), Ok(0), "out of date");
        assert!(state.seen(4).is_err());
        assert_eq!(state.take_lost().len(), 1);
    }

    #[test]
    fn an_answer_after_the_end_is_lost_and_not_written() {
        let mut state = State::default();
        state.close();
        assert!(state.answer(1, tracked(), 100).is_none());
        assert_eq!((state.outbox.unsent(), state.take_lost().len()), (0, 1));
    }

    #[test]
    fn an_answer_above_the_limit_ends_its_call() {
        let mut state = State::default();
        assert!(state.answer(1, tracked(), 9).is_some());
        assert!(state.outbox.unsent() > 14);
        assert_eq!(state.take_lost().len(), 0);
    }

    #[test]
    fn reading_pauses_until_the_client_has_read() {
        let mut state = State::default();
        assert!(state.may_read(true, 1, 20));
        assert!(state.answer(1, tracked(), 100).is_none());
        assert!(!state.may_read(false, 1, 20));
        assert!(!state.relieved(20).1, "nothing was written");
        write_all(&mut state);
        assert!(state.relieved(20).1);
        assert!(!state.relieved(20).1, "the thread was told");
        assert!(state.may_read(false, 1, 20));
    }

    #[test]
    fn calls_that_are_broken_off_get_no_end() {
        let mut state = State { stage: Stage::Draining, ..State::default() };
        state.end(1, "");
        assert_eq!(state.outbox.unsent(), 0);
        assert!(state.item(1, b"item", 100).is_err());
        assert!(state.answer(1, tracked(), 100).is_none());
        assert!(state.outbox.unsent() > 0, "what was decided is written");
    }
}
