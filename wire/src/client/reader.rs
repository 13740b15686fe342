//! Reads answers, and connects again when the connection breaks.

use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::calls::Lost;
use super::connector::{Connected, Connector, State, WAKER, fail};
use super::delivery::{Delivery, take_frame};
use super::handler::Handler;
use super::link::{self, Link};
use super::options::ClientOptions;
use super::slot::Slot;
use crate::address::Address;
use crate::clock;
use crate::error::{CallError, WireError};
use crate::frame::{self, Input, NO_CALL};
use crate::os::{self, Events, Poll, Token, Waker};
use crate::socket::{Socket, is_drained};
use crate::sync::{Arc, Condvar, Mutex, thread};
use crate::user_code::catch_panic;

/// Attempts to connect without any pause would keep a processor busy.
const SHORTEST_PAUSE: Duration = Duration::from_millis(1);
/// How much is read at once.
const READ: usize = 64 * 1024;

/// Connects, and starts the thread.
pub(super) fn start(
    address: &Address,
    options: ClientOptions,
    handler: Arc<dyn Handler>,
) -> Result<Arc<Connector>, WireError> {
    let deadline = clock::in_time(options.connect_timeout);
    let link = link::open(address, &options, &*handler, deadline)?;
    let failed = WireError::io("connect to", address);
    let poll = Poll::new();
    let parts = poll.and_then(|poll| {
        let registry = poll.registry().try_clone()?;
        let waker = Waker::new(&registry, WAKER)?;
        Ok((poll, registry, waker))
    });
    let (poll, registry, waker) = parts.map_err(failed)?;
    let (address, state) = (address.clone(), Mutex::default());
    let turn = Condvar::default();
    let connector = Arc::new(Connector { address, options, handler, registry, waker, state, turn });
    let failed = WireError::io("connect to", &connector.address);
    let reader = Box::new(Reader::new(&connector, poll, link).map_err(failed)?);
    let failed = WireError::io("connect to", &connector.address);
    let builder = thread::Builder::new().name("tubewell-connect".to_owned());
    let of_thread = connector.clone();
    builder.spawn(move || run(&of_thread, reader)).map_err(failed)?;
    Ok(connector)
}

/// Why a thread reads no further.
pub(super) enum Stop {
    /// The caller has its answer, or the thread leaves the answers to the callers.
    Done,
    Broken(String),
    /// The client has ended.
    Ended,
}

/// For whom a thread reads.
#[derive(Clone, Copy)]
pub(super) enum Until<'a> {
    /// A caller, until it has its answer.
    Answered(&'a Slot),
    /// The thread of the client, until callers can read for themselves.
    Left,
}

/// Reads answers. One thread at a time has it; see `turn`.
pub(super) struct Reader {
    poll: Poll,
    current: Attached,
    events: Events,
    scratch: Vec<u8>,
    /// Empty; kept for its memory.
    deliveries: Vec<Delivery>,
}

struct Attached {
    socket: Arc<Socket>,
    token: Token,
    input: Input,
    since: Instant,
    /// Something may have arrived that is not reported: with the welcome, or since.
    is_new: bool,
    /// The end of the connection was reported, and is not reported again.
    at_end: bool,
}

/// The thread of a client.
fn run(connector: &Connector, mut reader: Box<Reader>) {
    let mut pause = *connector.options.backoff.start();
    let mut stop = None;
    loop {
        match stop.take().unwrap_or_else(|| reader.serve(connector, Until::Left)) {
            Stop::Done => (reader, stop) = connector.leave_to_callers(reader),
            Stop::Broken(why) => {
                connector.broke(&why);
                let since = reader.current.since;
                if clock::now().duration_since(since) > *connector.options.backoff.end() {
                    pause = *connector.options.backoff.start();
                }
                match reader.reconnect(connector, why, &mut pause) {
                    Some(attached) => reader.current = attached,
                    None => return,
                }
            }
            Stop::Ended => return,
        }
    }
}

impl Reader {
    fn new(connector: &Connector, poll: Poll, link: Link) -> io::Result<Reader> {
        let current = connector.attach(link)?;
        let events = Events::with_capacity(16);
        Ok(Reader { poll, current, events, scratch: vec![0; READ], deliveries: Vec::new() })
    }

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
            if let Err(error) = self.poll.poll(&mut self.events, None)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Stop::Broken(error.to_string());
            }
            match self.take_events(connector) {
                Ok(left) => is_left = left,
                Err(stop) => return stop,
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

    /// Connects again. `None`: the client has ended.
    fn reconnect(
        &mut self,
        connector: &Connector,
        mut why: String,
        pause: &mut Duration,
    ) -> Option<Attached> {
        loop {
            let until = clock::in_time(shortened(*pause));
            *pause =
                pause.saturating_mul(2).max(SHORTEST_PAUSE).min(*connector.options.backoff.end());
            self.sleep(connector, until, &why)?;
            let deadline = clock::in_time(connector.options.connect_timeout);
            let first = connector.state.lock().calls.first_deadline();
            let deadline = first.map_or(deadline, |first| deadline.min(first));
            let link =
                link::open(&connector.address, &connector.options, &*connector.handler, deadline);
            let attached = match link {
                Ok(link) => connector.attach(link).map_err(|error| error.to_string()),
                Err(error) if error.is_final() => {
                    connector.end(&CallError::Refused { why: error.to_string() });
                    return None;
                }
                Err(error) => Err(error.to_string()),
            };
            match attached {
                Ok(attached) => return Some(attached),
                Err(error) => why = error,
            }
        }
    }

    /// Waits until `until`, while calls that have waited too long fail. `None`: the client has ended.
    fn sleep(&mut self, connector: &Connector, until: Instant, why: &str) -> Option<()> {
        loop {
            let mut state = connector.state.lock();
            if state.ended.is_some() {
                return None;
            }
            let expired = state.calls.expired(clock::now());
            let next = state.calls.first_deadline().map_or(until, |first| first.min(until));
            drop(state);
            for caller in expired {
                fail(caller, &CallError::NotConnected { why: why.to_owned() });
            }
            if clock::left(until).is_zero() {
                return Some(());
            }
            let most = clock::left(next).min(clock::LONGEST_SLEEP);
            // An error here would repeat at once; the attempt to connect shows what is wrong.
            match self.poll.poll(&mut self.events, Some(most)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Some(()),
                _ => {}
            }
        }
    }
}

/// Shortens a pause at random, by up to a half: many clients of one server do not connect all at once.
fn shortened(pause: Duration) -> Duration {
    let mut random = [0];
    // Without random numbers the pause is as long as it can be.
    let part = if os::fill_random(&mut random).is_ok() { u32::from(random[0]) } else { 0 };
    pause.saturating_sub(pause.saturating_mul(part) / 512)
}

impl Connector {
    /// Goes on with a new connection: sends all that waits.
    fn attach(&self, link: Link) -> io::Result<Attached> {
        let Link { mut socket, input, calls, frame } = link;
        let mut state = self.state.lock();
        state.connections += 1;
        let token = Token(state.connections);
        socket.register(&self.registry, token)?;
        let socket = Arc::new(socket);
        let state_mut = &mut *state;
        state_mut.outbox.reset();
        state_mut.broken = None;
        (state_mut.received, state_mut.confirmed) = (0, 0);
        let calls = calls.min(self.options.limits.calls).max(1);
        if state_mut.ended.is_none() {
            state_mut.connected = Some(Connected { socket: socket.clone(), token, calls, frame });
        }
        let too_large = state_mut.calls.send(&mut state_mut.outbox, calls, frame);
        self.flush(state);
        for (caller, size) in too_large {
            fail(caller, &CallError::TooLarge { size, limit: frame });
        }
        let since = clock::now();
        Ok(Attached { socket, token, input, since, is_new: true, at_end: false })
    }

    /// The connection has broken.
    fn broke(&self, why: &str) {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            // It was closed on purpose.
            return;
        }
        let written = state.outbox.may_be_written();
        state.outbox.reset();
        if let Some(connected) = state.connected.take() {
            // The server must not wait for what this client does next.
            connected.socket.shutdown(Shutdown::Both);
        }
        let deadline = clock::in_time(self.options.connect_timeout);
        let lost = state.calls.broke(written, deadline);
        drop(state);
        // A panic there must not end the thread.
        let _ = catch_panic(|| self.handler.broken());
        let why = || why.to_owned();
        for Lost { caller, was_sent } in lost {
            let error = if was_sent {
                CallError::Broken { why: why() }
            } else {
                CallError::NotConnected { why: why() }
            };
            fail(caller, &error);
        }
    }

    /// What other threads have made of the connection.
    fn check(&self) -> Result<(), Stop> {
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return Err(Stop::Ended);
        }
        if let Some(why) = state.broken.take() {
            return Err(Stop::Broken(why));
        }
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
        for (caller, size) in too_large {
            fail(caller, &CallError::TooLarge { size, limit: frame });
        }
        if unsent {
            // A caller that has its answer may have written it with its next call.
            self.flush(self.state.lock());
        }
        taken.map(|()| is_left)
    }

    fn deliver(&self, delivery: Delivery) {
        match delivery {
            Delivery::Answer(slot, outcome) => {
                if let Some(Ok(body)) = slot.complete(outcome) {
                    self.orphan(&body);
                }
            }
            Delivery::Orphan(body) => self.orphan(&body),
            Delivery::Items(buffer) => buffer.wake(),
            Delivery::End(buffer, error) => buffer.end(error),
        }
    }
}
