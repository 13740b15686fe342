//! What the callers and the thread of a client share: the calls, the output and the socket.

use std::net::Shutdown;
use std::time::Duration;

use super::beat::Beat;
use super::buffer::Buffer;
use super::calls::{Caller, Calls, Lost};
use super::handler::Handler;
use super::options::{CallKind, ClientOptions};
use super::slot::Slot;
use super::turn::Turn;
use crate::address::Address;
use crate::clock;
use crate::error::CallError;
use crate::frame;
use crate::os::{Registry, Token, Waker};
use crate::outbox::Outbox;
use crate::process::HomeProcess;
use crate::socket::{Socket, Written};
use crate::sync::{Arc, Condvar, Mutex, MutexGuard};
use crate::user_code::catch_panic;

/// How often a caller writes what others have appended meanwhile, before the thread does.
const WRITES: usize = 16;

/// Output of calls whose callers do not wait yet is written at once if it is longer than this, in bytes.
const LEFT: usize = 16 * 1024;

/// The token of the waker of the thread.
pub(super) const WAKER: Token = Token(0);

/// A client without its public face and its thread.
pub(crate) struct Connector {
    pub(super) address: Address,
    /// A fork has a copy of the client, and no thread for it. It must not touch the socket or the locks.
    pub(super) home: HomeProcess,
    pub(super) options: ClientOptions,
    pub(super) handler: Arc<dyn Handler>,
    pub(super) registry: Registry,
    pub(super) waker: Waker,
    pub(super) state: Mutex<State>,
    /// Wakes the thread when it is to read.
    pub(super) thread_wanted: Condvar,
}

/// What the lock of a client guards.
#[derive(Default)]
pub(super) struct State {
    pub(super) calls: Calls,
    pub(super) outbox: Outbox,
    /// The thread that reads was woken to write what is in the outbox.
    pub(super) is_write_due: bool,
    /// There while there is a connection.
    pub(super) connected: Option<Connected>,
    /// Counts the connections, for their tokens.
    pub(super) connections: usize,
    /// A write has failed: the thread ends the connection.
    pub(super) broken: Option<String>,
    /// Why there will be no further connection.
    pub(super) ended: Option<CallError>,
    /// Tracked answers received on this connection, and how many the server was told of.
    pub(super) received: u64,
    pub(super) confirmed: u64,
    pub(super) turn: Turn,
    pub(super) beat: Option<Beat>,
}

/// A connection.
pub(super) struct Connected {
    pub(super) socket: Arc<Socket>,
    pub(super) token: Token,
    /// How many calls may be in flight, and how long they may be.
    pub(super) calls: usize,
    pub(super) frame: usize,
}

impl State {
    /// When the handler is to be called. There is nothing to say without a connection.
    pub(super) fn beat(&self) -> Option<Beat> {
        self.beat.filter(|_| self.connected.is_some() && self.ended.is_none())
    }

    /// Whether the thread can leave the answers to the callers.
    pub(super) fn callers_can_read(&self) -> bool {
        self.turn.callers_wait() && self.calls.is_empty() && self.ended.is_none()
    }
}

impl Connector {
    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    /// Refuses what a fork of the client's process wants.
    #[inline]
    pub(crate) fn check_process(&self) -> Result<(), CallError> {
        if self.home.is_here() { Ok(()) } else { Err(CallError::Forked { home: self.home.id() }) }
    }

    /// Makes a call. Without a number it was not made, and the error is in the slot.
    pub(crate) fn call(&self, body: Vec<u8>, kind: CallKind) -> (Arc<Slot>, Option<u64>) {
        let slot = Arc::new(Slot::default());
        let made = self.make_for_later(body, kind, Caller::Call(slot.clone()));
        let number = made.map_err(|error| slot.complete(Err(error))).ok();
        (slot, number)
    }

    /// Makes a call with many items. Without a number it was not made, and the error is in the buffer.
    pub(crate) fn subscribe(&self, body: Vec<u8>) -> (Arc<Buffer>, Option<u64>) {
        let buffer = Arc::new(Buffer::default());
        let kind = CallKind { resend: false, cancel: true, changes: false };
        let made = self.make_for_later(body, kind, Caller::Items(buffer.clone()));
        let number = made.map_err(|error| buffer.end(Some(error))).ok();
        (buffer, number)
    }

    /// Makes a call whose caller does not wait, or not yet: the thread reads its answer.
    fn make_for_later(
        &self,
        body: Vec<u8>,
        kind: CallKind,
        caller: Caller,
    ) -> Result<u64, CallError> {
        self.make(body, kind, (caller, false), |state| self.want_thread(state))
    }

    /// Adds a call, and sends it if there is a connection. `waits`: its caller waits for the answer at once.
    /// `then` decides who reads it.
    pub(super) fn make(
        &self,
        body: Vec<u8>,
        kind: CallKind,
        (caller, waits): (Caller, bool),
        then: impl FnOnce(&mut State),
    ) -> Result<u64, CallError> {
        self.check_process()?;
        let mut state = self.state.lock();
        let state_mut = &mut *state;
        if let Some(error) = &state_mut.ended {
            return Err(error.clone());
        }
        let server = state_mut.connected.as_ref().map_or(usize::MAX, |connected| connected.frame);
        let (size, limit) =
            (body.len(), self.options.limits.frame.min(frame::LONGEST_BODY).min(server));
        if size > limit {
            return Err(CallError::TooLarge { size, limit });
        }
        state_mut.turn.note_call(waits && state_mut.calls.is_empty());
        let Some(connected) = &state_mut.connected else {
            let first = state_mut.calls.first_deadline().is_none();
            let deadline = clock::in_time(self.options.connect_timeout);
            let number = state_mut.calls.add(caller, kind, body, Some(deadline));
            drop(state);
            if first {
                self.wake();
            }
            return Ok(number);
        };
        let number = state_mut.calls.add(caller, kind, body, None);
        let too_large =
            state_mut.calls.send(&mut state_mut.outbox, connected.calls, connected.frame);
        debug_assert!(too_large.is_empty(), "the size was checked");
        then(state_mut);
        if waits || !state_mut.calls.are_several_in_flight() {
            self.flush(state);
        } else {
            self.leave_to_reader(state);
        }
        Ok(number)
    }

    /// The caller of a call has gone.
    pub(crate) fn abandon(&self, number: u64) {
        if !self.home.is_here() {
            return;
        }
        let mut state = self.state.lock();
        let State { calls, outbox, .. } = &mut *state;
        calls.abandon(number, outbox);
        self.flush(state);
    }

    /// The application has taken this many items of a call.
    pub(crate) fn taken(&self, number: u64, count: u64) {
        if !self.home.is_here() {
            return;
        }
        let mut state = self.state.lock();
        let State { calls, outbox, .. } = &mut *state;
        calls.taken(number, count, outbox);
        self.flush(state);
    }

    /// Gives an answer without a caller to the application.
    pub(crate) fn orphan(&self, body: &[u8]) {
        // A panic there must harm no other call.
        let _ = catch_panic(|| self.handler.orphan(body));
    }

    /// Ends the client: every call fails with `error`.
    pub(crate) fn end(&self, error: &CallError) {
        if !self.home.is_here() {
            return;
        }
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(error.clone());
        let connected = state.connected.take();
        let chunk = state.outbox.take();
        // With the chunk, which is still written.
        let written = state.outbox.may_be_written();
        state.outbox.reset();
        let lost = state.calls.take_all(written);
        self.want_thread(&mut state);
        drop(state);
        if let Some(connected) = connected {
            // Confirmations of answers may be in it. What the socket does not take is lost.
            if let Some(mut chunk) = chunk {
                let _ = connected.socket.write(&mut chunk);
            }
            connected.socket.shutdown(Shutdown::Both);
        }
        self.wake();
        for lost in lost {
            fail(lost, error);
        }
    }

    /// Begins to call the handler at these intervals, or ends that.
    pub(crate) fn set_beat(&self, every: Option<Duration>) {
        if !self.home.is_here() {
            return;
        }
        let mut state = self.state.lock();
        state.beat = every.map(Beat::new);
        let begins = state.beat.is_some();
        drop(state);
        if begins {
            // The thread waits in one of these two ways, without a time.
            self.thread_wanted.notify_one();
            self.wake();
        }
    }

    /// Calls the handler if that is due.
    pub(super) fn beat_if_due(&self) {
        let mut state = self.state.lock();
        if !state.beat().is_some_and(|beat| beat.is_due()) {
            return;
        }
        state.beat.iter_mut().for_each(Beat::advance);
        drop(state);
        // A panic there must not end the thread.
        let _ = catch_panic(|| self.handler.beat());
    }

    /// Makes the thread look at the state.
    fn wake(&self) {
        // Without it the thread looks when the next event arrives.
        let _ = self.waker.wake();
    }

    /// The thread is to read, unless a caller does.
    pub(super) fn want_thread(&self, state: &mut State) {
        if state.turn.want_thread() {
            self.thread_wanted.notify_one();
        }
    }

    /// Lets the thread that reads write: calls that follow each other have a common write then, as have those that
    /// wait for them at the server. A caller that waits for its answer writes before.
    fn leave_to_reader(&self, mut state: MutexGuard<'_, State>) {
        if state.outbox.unsent() > LEFT {
            self.flush(state);
        } else if !std::mem::replace(&mut state.is_write_due, true) {
            drop(state);
            self.wake();
        }
    }

    /// Writes what was left to the thread that reads: a caller waits for an answer.
    pub(super) fn write_left(&self) {
        let state = self.state.lock();
        if state.outbox.unsent() > 0 {
            self.flush(state);
        }
    }

    /// Writes what the socket takes, unless another thread writes.
    pub(super) fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) {
        for _ in 0..WRITES {
            let Some(connected) = &state.connected else { return };
            let (socket, token) = (connected.socket.clone(), connected.token);
            let Some(mut chunk) = state.outbox.take() else { return };
            drop(state);
            let written = socket.write(&mut chunk);
            state = self.state.lock();
            state.outbox.give_back(chunk, !matches!(written, Written::All));
            if state.connected.as_ref().is_none_or(|connected| connected.token != token) {
                return;
            }
            let failed = match written {
                Written::All => continue,
                Written::Blocked => socket.report_writable(&self.registry, token, true).err(),
                Written::Broken(error) => Some(error),
            };
            if let Some(error) = failed {
                state.broken = Some(error.to_string());
                self.wake();
            }
        }
        if state.outbox.unsent() > 0 {
            self.wake();
        }
    }
}

/// Gives an error to the caller: this one, unless the server may have carried out the call.
pub(super) fn fail(lost: Lost, error: &CallError) {
    let error = match error {
        error if !lost.in_doubt => error.clone(),
        CallError::NotConnected { why } | CallError::Refused { why } => {
            CallError::Broken { why: why.clone() }
        }
        error => CallError::Broken { why: error.to_string() },
    };
    match lost.caller {
        Caller::Call(slot) => drop(slot.complete(Err(error))),
        Caller::Items(buffer) => buffer.end(Some(error)),
        Caller::Gone => {}
    }
}
