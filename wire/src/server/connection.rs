//! One connection: its state under a lock, and its socket.

use std::net::Shutdown;
use std::time::Instant;

use super::attention::Attention;
use super::byte_budget::ByteBudget;
use super::output_budget::OutputBudget;
use super::protocol::Handshake;
use super::service::{OnLost, Reply};
use super::state::{Beats, Call, Misuse, Outcome, Stage, State};
use crate::clock;
use crate::limits::{FREE, Limits};
use crate::os::Token;
use crate::socket::{Socket, Written};
use crate::sync::{Arc, Mutex};
use crate::user_code::{catch_panic, drop_caught};

/// How often a thread writes what others have appended meanwhile, before the reading thread does.
const WRITES: usize = 16;

/// One connection. All threads of the server may use it.
pub(crate) struct Connection {
    pub(crate) token: Token,
    pub(crate) socket: Socket,
    attention: Arc<Attention>,
    budget: Arc<ByteBudget>,
    output: Arc<OutputBudget>,
    limits: Limits,
    state: Mutex<State>,
}

/// What became of a connection.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub(crate) struct Status {
    pub(crate) broken: bool,
    /// No future of a call exists.
    pub(crate) idle: bool,
    /// Everything is written.
    pub(crate) written: bool,
    /// When it is closed if the client reads nothing until then.
    pub(crate) stalled: Option<Instant>,
    /// When it is closed if the client has not read what is unread now, and the output of all is short.
    pub(crate) read_by: Option<Instant>,
    /// Whether the client must not be silent. With all its calls in flight it cannot say anything.
    pub(crate) beats: Beats,
    /// A long call arrives.
    pub(crate) is_long_arriving: bool,
}

impl Connection {
    pub(crate) fn new(
        token: Token,
        socket: Socket,
        attention: Arc<Attention>,
        (budget, output): (Arc<ByteBudget>, Arc<OutputBudget>),
        limits: Limits,
    ) -> Connection {
        Connection { token, socket, attention, budget, output, limits, state: Mutex::default() }
    }

    /// Notes what the client has left unread.
    fn count_unread(&self, state: &mut State) {
        let unsent = state.outbox.unsent();
        if state.unread.set(unsent, &self.output) == 0 {
            state.read_by = None;
        } else if state.read_by.is_none() {
            state.read_by = clock::now().checked_add(self.limits.time_for(unsent));
        }
    }

    /// What a client may leave unread before it is not read either.
    fn most_unsent(&self) -> usize {
        if self.output.is_short() { self.limits.unsent.min(FREE) } else { self.limits.unsent }
    }

    /// Whether the output of all connections is short of room.
    pub(crate) fn is_output_short(&self) -> bool {
        self.output.is_short()
    }

    /// Whether calls of connections wait for bytes.
    pub(crate) fn do_calls_wait(&self) -> bool {
        self.budget.do_calls_wait()
    }

    /// The client has as much time once more for what it has left unread.
    pub(crate) fn extend_reading(&self, now: Instant) {
        let mut state = self.state.lock();
        let unsent = state.outbox.unsent();
        state.read_by = now.checked_add(self.limits.time_for(unsent));
    }

    /// Adds the call that has arrived, whose future exists. `keeps_body`: its bytes count until it ends.
    pub(crate) fn add(&self, task: Arc<dyn Call>, keeps_body: bool) -> Result<(), Misuse> {
        let freed = self.state.lock().add(task, keeps_body)?;
        self.budget.give_back(freed);
        Ok(())
    }

    /// The call with this number, if its future exists.
    pub(crate) fn find(&self, number: u64) -> Option<Arc<dyn Call>> {
        self.state.lock().find(number)
    }

    /// Appends the answer to the call that has arrived, which was there at once. `limit`: what the client takes.
    pub(crate) fn answer(&self, number: u64, reply: Reply, limit: usize) {
        let mut state = self.state.lock();
        let lost = state.answer(number, reply, limit, &self.output);
        self.count_unread(&mut state);
        let freed = state.held.end_arrival();
        drop(state);
        self.budget.give_back(freed);
        lost.into_iter().for_each(call_lost);
    }

    /// Appends the last frame that is written as it is. Records follow.
    pub(crate) fn append_handshake(&self, Handshake { answer, sealer }: Handshake) {
        let mut state = self.state.lock();
        if state.stage != Stage::Closed {
            state.outbox.append_with(|out| out.extend_from_slice(&answer));
            state.outbox.seal_with(sealer);
        }
    }

    /// Appends frames of the hello.
    pub(crate) fn append(&self, put: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state.lock();
        if state.stage != Stage::Closed {
            state.outbox.append_with(put);
        }
    }

    /// Appends an item. An error says that no more are wanted, and that the client knows why.
    pub(crate) fn item(&self, number: u64, item: &[u8], limit: usize) -> Result<(), ()> {
        let mut state = self.state.lock();
        let sent = state.item(number, item, limit);
        self.count_unread(&mut state);
        sent
    }

    /// Whether `task` may be polled. If not, it is woken when it may.
    pub(crate) fn may_poll(&self, task: impl FnOnce() -> Arc<dyn Call>) -> bool {
        self.state.lock().may_poll(task, self.most_unsent())
    }

    /// A call has ended, and its future was dropped.
    pub(crate) fn complete(&self, number: u64, outcome: Outcome, limit: usize) {
        let mut state = self.state.lock();
        let mut lost = None;
        match outcome {
            Outcome::Reply(reply) => lost = state.answer(number, reply, limit, &self.output),
            Outcome::End => state.end(number, ""),
            Outcome::Ended => {}
            Outcome::Panicked => state.broken = true,
        }
        self.count_unread(&mut state);
        if lost.is_none() {
            return self.remove(state, number);
        }
        // The connection must not end before this was called.
        drop(state);
        lost.into_iter().for_each(call_lost);
        self.remove(self.state.lock(), number);
    }

    fn remove(&self, mut state: crate::sync::MutexGuard<'_, State>, number: u64) {
        let (look, freed) = state.remove(number);
        drop(state);
        self.budget.give_back(freed);
        if look {
            self.attention.call(self.token);
        }
    }

    /// The client has received this many tracked answers.
    pub(crate) fn seen(&self, count: u64) -> Result<(), Misuse> {
        let seen = self.state.lock().seen(count)?;
        // What the closures hold is the application's: its drop may do anything.
        for on_lost in seen {
            let _ = drop_caught(on_lost);
        }
        Ok(())
    }

    /// Writes what the socket takes, unless another thread writes.
    pub(crate) fn flush(&self) {
        let mut state = self.state.lock();
        let mut writes = 0;
        while let Some(mut chunk) = state.outbox.take() {
            drop(state);
            let written = self.socket.write(&mut chunk);
            let progress = chunk.is_advanced;
            state = self.state.lock();
            let blocked = !matches!(written, Written::All);
            state.outbox.give_back(chunk, blocked);
            self.count_unread(&mut state);
            if progress {
                state.stalled = None;
            }
            writes += 1;
            let look = match written {
                Written::All => writes == WRITES,
                Written::Blocked => {
                    state.stalled.get_or_insert_with(clock::now);
                    let report =
                        self.socket.report_writable(self.attention.registry(), self.token, true);
                    state.broken |= report.is_err();
                    true
                }
                Written::Broken(_) => {
                    state.broken = true;
                    true
                }
            };
            if look {
                self.attention.call(self.token);
                break;
            }
        }
        let (woken, look) = state.relieved(self.most_unsent());
        // The reading thread closes a connection once its last output is written, by whichever thread.
        let look = look || (writes > 0 && state.is_drained());
        drop(state);
        if look {
            self.attention.call(self.token);
        }
        for task in woken {
            task.wake();
        }
    }

    /// The socket is writable: writes on.
    pub(crate) fn writable(&self) {
        let mut state = self.state.lock();
        if !state.outbox.is_blocked() {
            return;
        }
        state.outbox.unblock();
        let report = self.socket.report_writable(self.attention.registry(), self.token, false);
        state.broken |= report.is_err();
        drop(state);
        self.flush();
    }

    /// Whether the reading thread may take the next frame. If not, it is called when it may. `call`: its bytes if
    /// it is a call.
    pub(crate) fn may_read(&self, call: Option<usize>) -> bool {
        let mut state = self.state.lock();
        if !state.may_read(call.is_some(), self.limits.calls, self.most_unsent()) {
            // Other connections must not wait for one that is not read.
            if state.held.end_wait() {
                self.budget.leave(self.token);
            }
            return false;
        }
        call.is_none_or(|call| {
            let take = |bytes| self.budget.take(self.token, bytes);
            state.may_hold(call, self.limits.call_bytes, take)
        })
    }

    /// No call arrives any more.
    fn end_arrivals(&self, state: &mut State) {
        self.budget.give_back(state.held.end_arrival());
        if state.held.end_wait() {
            self.budget.leave(self.token);
        }
    }

    /// What became of the connection.
    pub(crate) fn status(&self) -> Status {
        let state = self.state.lock();
        Status {
            broken: state.broken,
            idle: state.is_idle(),
            written: state.outbox.unsent() == 0,
            stalled: state.stalled.and_then(|since| since.checked_add(self.limits.stalled)),
            read_by: state.read_by,
            beats: if state.is_full(self.limits.calls) { Beats::NotExpected } else { state.beats },
            is_long_arriving: state.is_long_arriving(),
        }
    }

    /// No further call is read. Returns the calls, which the caller finishes: those that have an answer are answered,
    /// the others end without one.
    #[must_use]
    pub(crate) fn drain(&self) -> Vec<Arc<dyn Call>> {
        let mut state = self.state.lock();
        state.stage = state.stage.max(Stage::Draining);
        self.end_arrivals(&mut state);
        let (starved, calls) = (state.take_starved(), state.all());
        drop(state);
        starved.into_iter().for_each(Call::wake);
        calls
    }

    /// Closes the socket. Returns the calls, all of which end without an answer: the caller cancels them, which drops
    /// their futures, or lets the thread that polls one do that.
    #[must_use]
    pub(crate) fn close(&self) -> Vec<Arc<dyn Call>> {
        let mut state = self.state.lock();
        state.close();
        self.count_unread(&mut state);
        self.end_arrivals(&mut state);
        let calls = state.all();
        drop(state);
        self.socket.shutdown(Shutdown::Both);
        calls
    }

    /// What is to be called next since its answer was not received. The connection is closed and idle.
    pub(crate) fn next_lost(&self) -> Option<OnLost> {
        self.state.lock().next_lost()
    }
}

/// Calls what is to be called when an answer is lost.
pub(crate) fn call_lost(on_lost: OnLost) {
    // A panic there cannot take anything back.
    let _ = catch_panic(on_lost);
}
