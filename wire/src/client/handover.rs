//! Callers that read their answers, and the thread that leaves the answers to them.

use std::time::Duration;

use super::calls::Caller;
use super::connector::Connector;
use super::inbox::{Inbox, Stop};
use super::options::CallKind;
use super::reader::Until;
use super::slot::{Outcome, Slot};
use crate::clock;
use crate::sync::Arc;

/// The thread reads again when no caller has read for this time.
const LINGER: Duration = Duration::from_millis(100);

impl Connector {
    /// Makes a call and waits for its answer.
    pub(crate) fn call_and_wait(&self, body: Vec<u8>, kind: CallKind) -> Outcome {
        let slot = Arc::new(Slot::default());
        let mut inbox = None;
        let caller = Caller::Call(slot.clone());
        self.make(body, kind, (caller, true), |state| inbox = state.turn.take())?;
        if let Some(inbox) = inbox {
            self.read_for(inbox, &slot);
        }
        slot.wait()
    }

    /// Reads until the slot has its answer, and leaves the turn.
    fn read_for(&self, mut inbox: Box<Inbox>, slot: &Slot) {
        let stop = match inbox.serve(self, Until::Answered(slot)) {
            Stop::Done => None,
            stop => Some(stop),
        };
        let mut state = self.state.lock();
        let is_thread_wanted = stop.is_some()
            || !state.calls.is_empty()
            || state.ended.is_some()
            || state.turn.is_thread_asleep;
        state.turn.leave(inbox, stop);
        if is_thread_wanted {
            self.want_thread(&mut state);
        }
    }

    /// The thread leaves the answers to the callers, until it is wanted. Returns the inbox, and why the last caller
    /// could not read on.
    pub(super) fn leave_to_callers(&self, inbox: Box<Inbox>) -> (Box<Inbox>, Option<Stop>) {
        let mut state = self.state.lock();
        if !state.callers_can_read() {
            return (inbox, None);
        }
        state.turn.leave(inbox, None);
        let mut until = clock::in_time(LINGER);
        loop {
            let is_over = clock::left(until).is_zero();
            if let Some(taken) = state.turn.take_back(is_over) {
                return taken;
            }
            let beat = state.beat();
            if beat.is_some_and(|beat| beat.is_due()) {
                drop(state);
                self.beat_if_due();
                state = self.state.lock();
                continue;
            }
            if is_over {
                // A caller reads, perhaps for hours.
                state.turn.is_thread_asleep = true;
                match beat {
                    Some(beat) => {
                        self.thread_wanted.wait_for(&mut state, clock::left(beat.next));
                    }
                    None => self.thread_wanted.wait(&mut state),
                }
                state.turn.is_thread_asleep = false;
                until = clock::in_time(LINGER);
            } else {
                let until = beat.map_or(until, |beat| beat.next.min(until));
                self.thread_wanted.wait_for(&mut state, clock::left(until));
            }
        }
    }
}
