//! What the threads of a server share of one connection: its calls in flight, its output, and the answers
//! that the client has not confirmed.

use std::collections::{HashMap, VecDeque};
use std::net::Shutdown;
use std::time::Instant;

use mio::{Registry, Token, Waker};

use super::task::{Outcome, Task};
use super::{OnLost, Reply};
use crate::clock;
use crate::frame::Kind;
use crate::limits::Limits;
use crate::outbox::Outbox;
use crate::socket::{Socket, Written};
use crate::sync::{Arc, Mutex};
use crate::user_code::catch_panic;

/// How another thread tells the reading thread to look at a connection.
pub(crate) struct Attention {
    tokens: Mutex<Vec<Token>>,
    waker: Waker,
    registry: Registry,
}

impl Attention {
    pub(crate) fn new(waker: Waker, registry: Registry) -> Attention {
        Attention { tokens: Mutex::default(), waker, registry }
    }

    /// Makes the reading thread look at this connection.
    pub(crate) fn call(&self, token: Token) {
        self.tokens.lock().push(token);
        self.wake();
    }

    /// Wakes the reading thread.
    pub(crate) fn wake(&self) {
        // Without it the thread looks when the next event arrives; there is nobody to tell.
        let _ = self.waker.wake();
    }

    /// Moves the connections to look at to `tokens`.
    pub(crate) fn take(&self, tokens: &mut Vec<Token>) {
        tokens.append(&mut self.tokens.lock());
    }
}

/// One connection.
pub(crate) struct Connection {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
    attention: Arc<Attention>,
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    outbox: Outbox,
    /// Calls whose future exists.
    calls: HashMap<u64, Arc<Task>>,
    /// Tracked answers that the client has not confirmed, in the order in which they were written.
    unseen: VecDeque<OnLost>,
    /// How many tracked answers the client has confirmed.
    seen: u64,
    /// Streams that wait until the client has read.
    starved: Vec<Arc<Task>>,
    /// The reading thread does not read until there is room.
    paused: bool,
    /// The connection is to be closed, since user code has panicked or the socket is broken.
    broken: bool,
    /// Nothing is written any more.
    closed: bool,
    /// Since when the socket takes nothing.
    stalled: Option<Instant>,
}

/// Whether a client keeps to the protocol.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse(pub(crate) &'static str);

/// What the reading thread should know after something has happened elsewhere.
#[derive(Debug, Default)]
pub(crate) struct Status {
    pub(crate) broken: bool,
    /// No future of a call exists.
    pub(crate) idle: bool,
    /// Everything is written.
    pub(crate) written: bool,
    pub(crate) stalled: Option<Instant>,
}

impl Connection {
    pub(crate) fn new(
        token: Token,
        socket: Socket,
        attention: Arc<Attention>,
        limits: Limits,
    ) -> Connection {
        Connection { token, socket, attention, limits, state: Mutex::default() }
    }

    /// Adds a call whose future exists.
    pub(crate) fn add(&self, task: Arc<Task>) -> Result<(), Misuse> {
        let mut state = self.state.lock();
        if state.calls.contains_key(&task.number) {
            return Err(Misuse("two calls have one number"));
        }
        state.calls.insert(task.number, task);
        Ok(())
    }

    /// The call with this number, if it is in flight.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<Task>> {
        self.state.lock().calls.get(&number).cloned()
    }

    /// Appends an answer that was there at once.
    pub(crate) fn answer(&self, number: u64, reply: Reply) {
        let lost = self.state.lock().answer(number, reply, self.limits.frame);
        call_lost(lost);
    }

    /// Appends frames.
    pub(crate) fn append(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        if !state.closed {
            state.outbox.append_with(put);
        }
    }

    /// Appends an item. False: no more items are wanted.
    pub(crate) fn item(&self, number: u64, item: &[u8]) -> bool {
        let mut state = self.state.lock();
        if state.closed || item.len() > self.limits.frame {
            return false;
        }
        state.outbox.append(Kind::Item, number, item);
        true
    }

    /// Whether the stream `task` may go on. If not, it is woken when it may.
    pub(crate) fn has_room_for(&self, task: &Arc<Task>) -> bool {
        let mut state = self.state.lock();
        if state.outbox.unsent() < self.limits.unsent {
            return true;
        }
        if !state.starved.iter().any(|other| Arc::ptr_eq(other, task)) {
            state.starved.push(task.clone());
        }
        false
    }

    /// A call has ended, and its future was dropped.
    pub(crate) fn complete(&self, number: u64, outcome: Outcome) {
        let mut state = self.state.lock();
        let mut lost = None;
        match outcome {
            Outcome::Reply(reply) => lost = state.answer(number, reply, self.limits.frame),
            Outcome::End if !state.closed => {
                state.outbox.append(Kind::End, number, b"");
            }
            Outcome::End => {}
            Outcome::Panicked => state.broken = true,
        }
        state.calls.remove(&number);
        let look = state.broken
            || (state.closed && state.calls.is_empty())
            || std::mem::take(&mut state.paused);
        drop(state);
        call_lost(lost);
        if look {
            self.attention.call(self.token);
        }
    }

    /// The client has received this many tracked answers.
    pub(crate) fn seen(&self, count: u64) -> Result<(), Misuse> {
        let mut state = self.state.lock();
        let new = count.saturating_sub(state.seen);
        if new > state.unseen.len() as u64 {
            return Err(Misuse("it has seen more answers than there were"));
        }
        state.seen += new;
        let seen = usize::try_from(new).unwrap_or(usize::MAX).min(state.unseen.len());
        let dropped: Vec<OnLost> = state.unseen.drain(..seen).collect();
        drop(state);
        // What the closures hold is the application's: its drop may do anything.
        let _ = catch_panic(|| drop(dropped));
        Ok(())
    }

    /// Writes what the socket takes.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        while let Some(mut chunk) = state.outbox.take() {
            drop(state);
            let before = chunk.rest().len();
            let written = self.socket.write(&mut chunk);
            let progress = chunk.rest().len() < before;
            state = self.state.lock();
            let blocked = !matches!(written, Written::All);
            state.outbox.give_back(chunk, blocked);
            if progress || !blocked {
                state.stalled = None;
            }
            match written {
                Written::All => {}
                Written::Blocked => {
                    state.stalled.get_or_insert_with(clock::now);
                    let report =
                        self.socket.report_writable(&self.attention.registry, self.token, true);
                    state.broken |= report.is_err();
                    self.attention.call(self.token);
                }
                Written::Broken(_) => {
                    state.broken = true;
                    self.attention.call(self.token);
                }
            }
        }
        if state.outbox.unsent() < self.limits.unsent {
            if std::mem::take(&mut state.paused) {
                self.attention.call(self.token);
            }
            let starved = std::mem::take(&mut state.starved);
            drop(state);
            for task in starved {
                std::task::Wake::wake(task);
            }
        }
    }

    /// The socket is writable: writes on.
    pub(crate) fn writable(&self) {
        let mut state = self.state.lock();
        if !state.outbox.is_blocked() {
            return;
        }
        state.outbox.unblock();
        let report = self.socket.report_writable(&self.attention.registry, self.token, false);
        state.broken |= report.is_err();
        drop(state);
        self.flush();
    }

    /// Whether the reading thread may take another frame, a call or another one. If not, it is called when it
    /// may.
    pub(crate) fn may_read(&self, call: bool) -> bool {
        let mut state = self.state.lock();
        state.paused = (call && state.calls.len() >= self.limits.calls)
            || state.outbox.unsent() > self.limits.unsent;
        !state.paused
    }

    /// What became of the connection.
    pub(crate) fn status(&self) -> Status {
        let state = self.state.lock();
        Status {
            broken: state.broken,
            idle: state.calls.is_empty(),
            written: state.outbox.unsent() == 0,
            stalled: state.stalled,
        }
    }

    /// Ends all calls: drops their futures now, or when the thread that polls one has polled it.
    pub(crate) fn cancel_all(&self) {
        let calls: Vec<Arc<Task>> = self.state.lock().calls.values().cloned().collect();
        for task in calls {
            task.cancel();
        }
    }

    /// Closes the socket. Nothing is written from now on.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.starved.clear();
        drop(state);
        self.socket.shutdown(Shutdown::Both);
    }

    /// What is to be called since its answer was not received. The connection is closed and idle.
    pub(crate) fn take_lost(&self) -> VecDeque<OnLost> {
        std::mem::take(&mut self.state.lock().unseen)
    }
}

impl State {
    /// Appends an answer. Returns what to call if it cannot be sent.
    fn answer(&mut self, number: u64, reply: Reply, limit: usize) -> Option<OnLost> {
        let Reply { body, on_lost } = reply;
        if body.len() > limit {
            let text =
                format!("the answer of {} bytes is longer than the limit of {limit}", body.len());
            if !self.closed {
                self.outbox.append(Kind::End, number, text.as_bytes());
            }
            return on_lost;
        }
        if !self.closed {
            let kind = if on_lost.is_some() { Kind::Tracked } else { Kind::Answer };
            self.outbox.append(kind, number, &body);
        }
        self.unseen.extend(on_lost);
        None
    }
}

/// Calls what is to be called when an answer is lost.
pub(crate) fn call_lost(on_lost: Option<OnLost>) {
    if let Some(on_lost) = on_lost {
        // A panic there cannot take anything back.
        let _ = catch_panic(on_lost);
    }
}
