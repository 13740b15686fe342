//! What the threads of a server share of one connection: its calls in flight, its output, and the answers
//! that the client has not confirmed. No I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Instant;

use super::byte_budget::HeldBytes;
use super::output_budget::{OutputBudget, UnreadBytes};
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

/// Why a call has no answer.
const NO_ROOM: &str =
    "the answer is not sent, since clients have left too many bytes of other answers unread";

/// The state of a connection.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) outbox: Outbox,
    pub(crate) stage: Stage,
    /// The connection is to be closed, since user code has panicked or the socket is broken.
    pub(crate) broken: bool,
    /// Since when the socket takes nothing.
    pub(crate) stalled: Option<Instant>,
    /// What the client has left unread, and until when it must have read that if the output of all is short.
    pub(crate) unread: UnreadBytes,
    pub(crate) read_by: Option<Instant>,
    /// Calls whose future exists.
    calls: HashMap<u64, InFlight>,
    /// The bytes of calls.
    pub(crate) held: HeldBytes,
    /// Tracked answers that the client has not confirmed, in the order in which they were written.
    unseen: VecDeque<OnLost>,
    /// How many tracked answers the client has confirmed.
    seen: u64,
    /// Calls that are not polled until the client has read.
    starved: Vec<Arc<dyn Call>>,
    /// Why the reading thread does not read.
    paused: Option<Pause>,
    pub(crate) beats: Beats,
}

struct InFlight {
    task: Arc<dyn Call>,
    /// The bytes that it keeps.
    bytes: usize,
}

/// What the reading thread waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pause {
    /// The end of a call.
    Call,
    /// The client has read output.
    Output,
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
    /// Adds the call that has arrived, whose future exists. Without `keeps_body`, returns the bytes to give back
    /// to all connections.
    pub(crate) fn add(&mut self, task: Arc<dyn Call>, keeps_body: bool) -> Result<usize, Misuse> {
        let number = task.number();
        if self.calls.contains_key(&number) {
            return Err(Misuse("two calls in flight have one number"));
        }
        let freed = if keeps_body { 0 } else { self.held.end_arrival() };
        let bytes = self.held.keep();
        self.calls.insert(number, InFlight { task, bytes });
        Ok(freed)
    }

    /// The call with this number, if its future exists.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<dyn Call>> {
        self.calls.get(&number).map(|call| call.task.clone())
    }

    /// The calls that wait until the client has read.
    pub(crate) fn take_starved(&mut self) -> Vec<Arc<dyn Call>> {
        std::mem::take(&mut self.starved)
    }

    /// All calls whose future exists, in the order of their numbers.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Call>> {
        let mut calls: Vec<_> = self.calls.values().map(|call| call.task.clone()).collect();
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

    /// Appends an answer. Returns what to call if it is not sent: it is longer than `limit`, or there is no room for
    /// it.
    #[must_use]
    pub(crate) fn answer(
        &mut self,
        number: u64,
        reply: Reply,
        limit: usize,
        output: &OutputBudget,
    ) -> Option<OnLost> {
        let Reply { body, on_lost, busy, expect_beats } = reply;
        if body.len() > limit {
            let why =
                format!("the answer of {} bytes is longer than the limit of {limit}", body.len());
            self.end(number, &why);
            return on_lost;
        }
        if !output.has_room(body.len()) {
            match busy {
                Some(busy) if self.stage != Stage::Closed => {
                    self.outbox.append(Kind::Answer, number, &busy);
                }
                _ => self.end(number, NO_ROOM),
            }
            return on_lost;
        }
        if let Some(expects) = expect_beats {
            self.beats = match self.beats {
                Beats::NotExpected if expects => Beats::Begin,
                before if expects => before,
                _ => Beats::NotExpected,
            };
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

    /// The future of a call was dropped. Returns whether the reading thread must look at the connection, and the
    /// bytes to give back to all connections.
    pub(crate) fn remove(&mut self, number: u64) -> (bool, usize) {
        let bytes = self.calls.remove(&number).map_or(0, |call| call.bytes);
        let freed = self.held.release(bytes);
        let finished = self.stage != Stage::Open && self.calls.is_empty();
        let begin = self.beats == Beats::Begin;
        if begin {
            self.beats = Beats::Expected;
        }
        (self.broken || finished || begin || self.end_pause(Pause::Call), freed)
    }

    /// Ends a pause of this kind. Returns whether there was one.
    fn end_pause(&mut self, kind: Pause) -> bool {
        self.paused.take_if(|paused| *paused == kind).is_some()
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

    /// What is to be called next since its answer was not received. The connection is closed and idle.
    pub(crate) fn next_lost(&mut self) -> Option<OnLost> {
        self.unseen.pop_front()
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
        self.paused = if is_call && self.is_full(calls) {
            Some(Pause::Call)
        } else {
            (!self.has_room(unsent)).then_some(Pause::Output)
        };
        self.paused.is_none()
    }

    /// As `may_read`, whether there are bytes for the next call.
    pub(crate) fn may_hold(
        &mut self,
        call: usize,
        most: usize,
        take: impl FnOnce(usize) -> bool,
    ) -> bool {
        self.paused = (!self.held.may_read(call, most, take)).then_some(Pause::Call);
        self.paused.is_none()
    }

    /// Whether a long call arrives, and the reading thread reads it.
    pub(crate) fn is_long_arriving(&self) -> bool {
        self.held.is_long_arriving() && self.paused.is_none()
    }

    /// Something was written. Returns the tasks to wake, and whether the reading thread may read again.
    #[must_use]
    pub(crate) fn relieved(&mut self, limit: usize) -> (Vec<Arc<dyn Call>>, bool) {
        if self.has_room(limit) {
            (self.take_starved(), self.end_pause(Pause::Output))
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
        self.outbox.reset();
        self.starved.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::EMPTY;
    use crate::limits::FREE;

    fn tracked() -> Reply {
        Reply { body: vec![0; 10], on_lost: Some(Box::new(|| {})), ..Reply::default() }
    }

    fn plenty() -> OutputBudget {
        OutputBudget::new(usize::MAX)
    }

    #[test]
    fn answer_without_room_is_replaced_and_lost() {
        let mut state = State::default();
        let none = OutputBudget::new(0);
        let long = || Reply { body: vec![0; FREE + 1], busy: Some(Vec::new()), ..tracked() };
        assert!(
            state
                .answer(1, Reply { expect_beats: Some(true), ..long() }, FREE + 1, &none)
                .is_some()
        );
        assert_eq!((state.outbox.unsent(), state.beats), (EMPTY, Beats::NotExpected));
        assert!(state.answer(2, Reply { busy: None, ..long() }, FREE + 1, &none).is_some());
        assert_eq!(state.outbox.unsent(), 2 * EMPTY + NO_ROOM.len());
        assert!(state.answer(3, tracked(), 100, &none).is_none(), "a short one");
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
            assert!(state.answer(number, tracked(), 100, &plenty()).is_none());
            assert!(state.answer(number, Reply::new(Vec::new()), 100, &plenty()).is_none());
        }
        assert_eq!(state.seen(2).map(|seen| seen.len()), Ok(2));
        assert_eq!(state.seen(1).map(|seen| seen.len()), Ok(0), "out of date");
        assert!(state.seen(4).is_err());
        assert_eq!(state.unseen.len(), 1);
    }

    #[test]
    fn an_answer_after_the_end_is_lost_and_not_written() {
        let mut state = State::default();
        state.close();
        assert!(state.answer(1, tracked(), 100, &plenty()).is_none());
        assert_eq!((state.outbox.unsent(), state.unseen.len()), (0, 1));
    }

    #[test]
    fn an_answer_above_the_limit_ends_its_call() {
        let mut state = State::default();
        assert!(state.answer(1, tracked(), 9, &plenty()).is_some());
        assert!(state.outbox.unsent() > 14);
        assert_eq!(state.unseen.len(), 0);
    }

    #[test]
    fn reading_pauses_until_the_client_has_read() {
        let mut state = State::default();
        assert!(state.may_read(true, 1, 20));
        assert!(state.answer(1, tracked(), 100, &plenty()).is_none());
        assert!(!state.may_read(false, 1, 20));
        assert!(!state.relieved(20).1, "nothing was written");
        write_all(&mut state);
        assert!(state.relieved(20).1);
        assert!(!state.relieved(20).1, "the thread was told");
        assert!(state.may_read(false, 1, 20));
    }

    /// Otherwise the reading thread, which writes at the end of its turn, would give itself turn after turn.
    #[test]
    fn write_does_not_end_a_pause_until_the_end_of_a_call() {
        let mut state = State::default();
        assert!(!state.may_read(true, 0, 20), "calls are in flight");
        assert!(!state.relieved(20).1);
        assert!(state.remove(1).0);
        assert!(!state.may_hold(1 << 20, 1 << 20, |_| false), "bytes of other connections");
        assert!(!state.relieved(20).1);
        assert!(state.remove(1).0 && !state.remove(1).0);
    }

    #[test]
    fn calls_that_are_broken_off_get_no_end() {
        let mut state = State { stage: Stage::Draining, ..State::default() };
        state.end(1, "");
        assert_eq!(state.outbox.unsent(), 0);
        assert!(state.item(1, b"item", 100).is_err());
        assert!(state.answer(1, tracked(), 100, &plenty()).is_none());
        assert!(state.outbox.unsent() > 0, "what was decided is written");
    }
}
