//! Who reads the answers: the thread of the client, or a caller that waits.
//!
//! An answer that the thread reads costs two changes between threads: the server wakes the thread, and that wakes
//! the caller. If one caller after the other makes a call and waits for it, the thread leaves the reader to
//! them, and each reads its own answer. As soon as other calls are in flight the thread reads again, and when no
//! caller has read for a while, so that the end of the connection is noticed. The idea is that of leader and
//! followers (Schmidt et al., "Leader/Followers", 2000).

use std::time::Duration;

use super::calls::Caller;
use super::connector::{Connector, State};
use super::options::CallKind;
use super::reader::{Reader, Stop, Until};
use super::slot::{Outcome, Slot};
use crate::clock;
use crate::sync::Arc;

/// After so many calls in a row, each alone and with a caller that waits, callers read for themselves.
const CALLS_IN_A_ROW: u32 = if cfg!(feature = "_shuttle") { 1 } else { 16 };
/// The thread reads again when no caller has read for this time.
const LINGER: Duration = Duration::from_millis(100);

/// The turn to read.
#[derive(Default)]
pub(super) struct Turn {
    /// There while no thread reads.
    left: Option<Box<Reader>>,
    /// Why the caller that left it could not read on.
    stop: Option<Stop>,
    /// The thread is to read, or to look at `stop`.
    is_thread_wanted: bool,
    /// The thread sleeps without a time-out: the caller that leaves the turn wakes it.
    is_thread_asleep: bool,
    /// Calls in a row that were alone, each with a caller that waits.
    row: u32,
}

impl State {
    /// A call is about to be made. `waits`: its caller waits for the answer at once.
    pub(super) fn note_call(&mut self, waits: bool) {
        let is_alone = waits && self.calls.is_empty();
        self.turn.row = if is_alone { self.turn.row.saturating_add(1) } else { 0 };
    }

    /// Whether the thread can leave the answers to the callers.
    pub(super) fn callers_can_read(&self) -> bool {
        self.turn.row >= CALLS_IN_A_ROW && self.calls.is_empty() && self.ended.is_none()
    }

    /// The reader, for a caller that waits, if no thread has it.
    fn take_turn(&mut self) -> Option<Box<Reader>> {
        if self.turn.is_thread_wanted { None } else { self.turn.left.take() }
    }
}

impl Connector {
    /// Makes a call and waits for its answer.
    pub(crate) fn call_and_wait(&self, body: Vec<u8>, kind: CallKind) -> Outcome {
        let slot = Arc::new(Slot::default());
        let mut reader = None;
        let caller = Caller::Call(slot.clone());
        self.make(body, kind, (caller, true), |state| reader = state.take_turn())?;
        if let Some(reader) = reader {
            self.read_for(reader, &slot);
        }
        slot.wait()
    }

    /// Reads until the slot has its answer, and leaves the turn.
    fn read_for(&self, mut reader: Box<Reader>, slot: &Slot) {
        let stop = match reader.serve(self, Until::Answered(slot)) {
            Stop::Done => None,
            stop => Some(stop),
        };
        let mut state = self.state.lock();
        let is_wanted = stop.is_some()
            || !state.calls.is_empty()
            || state.ended.is_some()
            || state.turn.is_thread_asleep;
        state.turn.left = Some(reader);
        state.turn.stop = stop;
        if is_wanted {
            self.want_thread(&mut state);
        }
    }

    /// The thread is to read, if no caller does.
    pub(super) fn want_thread(&self, state: &mut State) {
        if state.turn.left.is_some() {
            state.turn.is_thread_wanted = true;
            self.turn.notify_one();
        }
    }

    /// The thread leaves the answers to the callers, until it is wanted. Returns the reader, and why the last
    /// caller could not read on.
    pub(super) fn leave_to_callers(&self, reader: Box<Reader>) -> (Box<Reader>, Option<Stop>) {
        let mut state = self.state.lock();
        if !state.callers_can_read() {
            return (reader, None);
        }
        state.turn.left = Some(reader);
        let mut until = clock::in_time(LINGER);
        loop {
            let is_over = clock::left(until).is_zero();
            if (state.turn.is_thread_wanted || is_over)
                && let Some(reader) = state.turn.left.take()
            {
                state.turn.is_thread_wanted = false;
                return (reader, state.turn.stop.take());
            }
            if is_over {
                // A caller reads, perhaps for hours.
                state.turn.is_thread_asleep = true;
                self.turn.wait(&mut state);
                state.turn.is_thread_asleep = false;
                until = clock::in_time(LINGER);
            } else {
                self.turn.wait_for(&mut state, clock::left(until));
            }
        }
    }
}
