//! Reads answers, and gives them to their callers.

use std::io;

use super::connector::{Connector, State, WAKER, fail};
use super::delivery::take_frame;
use super::inbox::{Delivery, Inbox, Stop};
use super::slot::{Outcome, Slot};
use crate::clock;
use crate::error::CallError;
use crate::frame::{self, NO_CALL};
use crate::input::Input;
use crate::os::Token;
use crate::socket::{Socket, is_drained};
use crate::user_code::catch_panic;

/// For whom a thread reads.
#[derive(Clone, Copy)]
pub(super) enum Until<'a> {
    /// A caller, until it has its answer.
    Answered(&'a Slot),
    /// The thread of the client, until callers can read for themselves.
    Left,
}

impl Inbox {
    /// Reads answers until it is enough, the connection breaks or the client ends.
    pub(super) fn serve(&mut self, connector: &Connector, until: Until<'_>) -> Stop {
        let mut is_left = false;
        if std::mem::take(&mut self.current.is_new) {
            let read = self.take_frames(connector).and_then(|_| self.read(connector));
            match read {
                Ok(left) => is_left = left,
                Err(stop) => return stop,
            }
        }
        loop {
            let is_enough = match until {
                Until::Answered(slot) => slot.is_done(),
                Until::Left => is_left,
            };
            if is_enough {
                return Stop::Done;
            }
            // A caller leaves the heartbeats to the thread.
            let beat = match until {
                Until::Answered(_) => None,
                Until::Left => connector.state.lock().beat(),
            };
            let timeout = beat.map(|beat| clock::left(beat.next).min(clock::LONGEST_SLEEP));
            if let Err(error) = self.poll.poll(&mut self.events, timeout)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Stop::Broken(error.to_string());
            }
            match self.take_events(connector) {
                Ok(left) => is_left = left,
                Err(stop) => return stop,
            }
            if beat.is_some() {
                connector.beat_if_due();
            }
        }
    }

    /// Does what was reported. Returns whether callers can read for themselves.
    fn take_events(&mut self, connector: &Connector) -> Result<bool, Stop> {
        let (mut readable, mut woken, mut is_left) = (false, false, false);
        for event in &self.events {
            if event.token() == self.current.token {
                self.current.at_end |= event.is_read_closed() || event.is_error();
                readable |= event.is_readable() || self.current.at_end;
                if event.is_writable() {
                    connector.writable(&self.current.socket, self.current.token);
                }
            }
            woken |= event.token() == WAKER;
        }
        if readable {
            is_left = self.read(connector)?;
        }
        if woken && let Err(stop) = connector.check() {
            if let Stop::Broken(_) = stop {
                // The server may have answered before it closed the connection.
                self.current.at_end = true;
                self.read(connector)?;
            }
            return Err(stop);
        }
        Ok(is_left)
    }

    /// Reads what is there, and completes calls. Returns whether callers can read for themselves.
    fn read(&mut self, connector: &Connector) -> Result<bool, Stop> {
        let mut is_left = false;
        loop {
            match self.current.socket.read(&mut self.scratch) {
                Ok(0) => {
                    return Err(Stop::Broken("the server has closed the connection".to_owned()));
                }
                Ok(bytes) => {
                    self.current.input.add(self.scratch.get(..bytes).unwrap_or_default());
                    is_left = self.take_frames(connector)?;
                    if !self.current.at_end && is_drained(bytes, self.scratch.len()) {
                        return Ok(is_left);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(is_left),
                Err(error) => return Err(Stop::Broken(error.to_string())),
            }
        }
    }

    fn take_frames(&mut self, connector: &Connector) -> Result<bool, Stop> {
        connector.take_frames(&mut self.current.input, &mut self.deliveries)
    }
}

impl Connector {
    /// What other threads have made of the connection.
    fn check(&self) -> Result<(), Stop> {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return Err(Stop::Ended);
        }
        if let Some(why) = state.broken.take() {
            return Err(Stop::Broken(why));
        }
        state.is_write_due = false;
        self.flush(state);
        Ok(())
    }

    /// The socket is writable: writes on.
    fn writable(&self, socket: &Socket, token: Token) {
        let mut state = self.state.lock();
        if !state.outbox.is_blocked() {
            return;
        }
        state.outbox.unblock();
        // If this fails, the thread is woken more often than it needs to be.
        let _ = socket.report_writable(&self.registry, token, false);
        self.flush(state);
    }

    /// Takes the frames that have arrived, and gives them to their callers. Returns whether callers can read
    /// for themselves.
    fn take_frames(&self, input: &mut Input, deliveries: &mut Vec<Delivery>) -> Result<bool, Stop> {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return Err(Stop::Ended);
        }
        let taken = loop {
            match input.next(self.options.limits.frame) {
                Ok(None) => break Ok(()),
                Ok(Some(frame)) => {
                    if let Err(why) = take_frame(&mut state, frame, deliveries) {
                        break Err(Stop::Broken(why));
                    }
                }
                Err(malformed) => break Err(Stop::Broken(format!("the server sent {malformed}"))),
            }
        };
        input.discard_taken();
        let State {
            calls, outbox, connected: Some(connected), broken, received, confirmed, ..
        } = &mut *state
        else {
            return Err(Stop::Ended);
        };
        if received != confirmed {
            *confirmed = *received;
            outbox.append_with(|out| frame::put_count(out, NO_CALL, *received));
        }
        let (limit, frame) = (connected.calls, connected.frame);
        let too_large =
            if broken.is_none() { calls.send(outbox, limit, frame) } else { Vec::new() };
        let unsent = outbox.unsent() > 0;
        let is_left = state.callers_can_read();
        drop(state);
        for delivery in deliveries.drain(..) {
            self.deliver(delivery);
        }
        for (lost, size) in too_large {
            fail(lost, &CallError::TooLarge { size, limit: frame });
        }
        if unsent {
            // A caller that has its answer may have written it with its next call.
            self.flush(self.state.lock());
        }
        taken.map(|()| is_left)
    }

    fn deliver(&self, delivery: Delivery) {
        match delivery {
            Delivery::Answer(slot, outcome) => self.complete(&slot, outcome),
            Delivery::AnswerInDoubt(slot, body) => {
                self.complete(&slot, self.outcome_in_doubt(body));
            }
            Delivery::Orphan(body) => {
                self.tell_arrived(&body);
                self.orphan(&body);
            }
            Delivery::Items(buffer) => buffer.wake(),
            Delivery::End(buffer, error) => buffer.end(error),
        }
    }

    fn complete(&self, slot: &Slot, outcome: Outcome) {
        if let Ok(body) = &outcome {
            self.tell_arrived(body);
        }
        if let Some(Ok(body)) = slot.complete(outcome) {
            self.orphan(&body);
        }
    }

    fn tell_arrived(&self, body: &[u8]) {
        // A panic there must harm no call.
        let _ = catch_panic(|| self.handler.arrived(body));
    }

    /// The outcome of a call that an earlier connection may have carried out: a refusal speaks of the last attempt
    /// alone.
    fn outcome_in_doubt(&self, body: Vec<u8>) -> Outcome {
        match catch_panic(|| self.handler.refusal(&body)) {
            Ok(Some(refusal)) => {
                let why = format!("the call was made again, and then refused: {refusal}");
                Err(CallError::Broken { why })
            }
            _ => Ok(body),
        }
    }
}
