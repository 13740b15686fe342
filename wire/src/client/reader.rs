//! The thread of a client: reads answers, and connects again when the connection breaks.

use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::connector::{Connected, Connector, State, WAKER, fail};
use super::delivery::{Delivery, take_frame};
use super::handler::Handler;
use super::link::{self, Link};
use super::options::ClientOptions;
use crate::address::Address;
use crate::clock;
use crate::error::{CallError, WireError};
use crate::frame::{self, Input, NO_CALL};
use crate::os::{self, Events, Poll, Token, Waker};
use crate::socket::{Socket, is_drained};
use crate::sync::{Arc, Mutex, thread};
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
    let connector = Arc::new(Connector { address, options, handler, registry, waker, state });
    let failed = WireError::io("connect to", &connector.address);
    let reader = Reader::new(connector.clone(), poll, link).map_err(failed)?;
    let failed = WireError::io("connect to", &connector.address);
    let builder = thread::Builder::new().name("tubewell-connect".to_owned());
    builder.spawn(move || reader.run()).map_err(failed)?;
    Ok(connector)
}

/// Why the thread does not go on with a connection.
enum Stop {
    Broken(String),
    /// The client has ended.
    Ended,
}

/// The thread.
struct Reader {
    connector: Arc<Connector>,
    poll: Poll,
    current: Attached,
    scratch: Vec<u8>,
    /// Empty; kept for its memory.
    deliveries: Vec<Delivery>,
}

struct Attached {
    socket: Arc<Socket>,
    token: Token,
    input: Input,
    since: Instant,
}

impl Reader {
    fn new(connector: Arc<Connector>, poll: Poll, link: Link) -> io::Result<Reader> {
        let current = connector.attach(link)?;
        Ok(Reader { connector, poll, current, scratch: vec![0; READ], deliveries: Vec::new() })
    }

    fn run(mut self) {
        let mut pause = *self.connector.options.backoff.start();
        loop {
            let Stop::Broken(why) = self.serve() else { return };
            self.connector.broke(&why);
            if clock::now().duration_since(self.current.since)
                > *self.connector.options.backoff.end()
            {
                pause = *self.connector.options.backoff.start();
            }
            match self.reconnect(why, &mut pause) {
                Some(attached) => self.current = attached,
                None => return,
            }
        }
    }

    /// Reads answers until the connection breaks or the client ends.
    fn serve(&mut self) -> Stop {
        let mut events = Events::with_capacity(16);
        let mut at_end = false;
        // Something may have arrived with the welcome, or since.
        let mut done = self.take_frames().and_then(|()| self.read(at_end));
        loop {
            if let Err(stop) = done {
                return stop;
            }
            if let Err(error) = self.poll.poll(&mut events, None)
                && error.kind() != io::ErrorKind::Interrupted
            {
                return Stop::Broken(error.to_string());
            }
            let (mut readable, mut woken) = (false, false);
            for event in &events {
                if event.token() == self.current.token {
                    at_end |= event.is_read_closed() || event.is_error();
                    readable |= event.is_readable() || at_end;
                    if event.is_writable() {
                        self.connector.writable(&self.current.socket, self.current.token);
                    }
                }
                woken |= event.token() == WAKER;
            }
            done = if readable { self.read(at_end) } else { Ok(()) };
            if woken && done.is_ok() {
                done = match self.connector.check() {
                    // The server may have answered before it closed the connection.
                    Err(Stop::Broken(why)) => self.read(true).and(Err(Stop::Broken(why))),
                    checked => checked,
                };
            }
        }
    }

    /// Reads what is there, and completes calls. `at_end`: the end of the connection was reported, and is not
    /// reported again.
    fn read(&mut self, at_end: bool) -> Result<(), Stop> {
        loop {
            match self.current.socket.read(&mut self.scratch) {
                Ok(0) => {
                    return Err(Stop::Broken("the server has closed the connection".to_owned()));
                }
                Ok(bytes) => {
                    self.current.input.add(self.scratch.get(..bytes).unwrap_or_default());
                    self.take_frames()?;
                    if !at_end && is_drained(bytes, self.scratch.len()) {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(Stop::Broken(error.to_string())),
            }
        }
    }

    fn take_frames(&mut self) -> Result<(), Stop> {
        self.connector.take_frames(&mut self.current.input, &mut self.deliveries)
    }

    /// Connects again. `None`: the client has ended.
    fn reconnect(&mut self, mut why: String, pause: &mut Duration) -> Option<Attached> {
        loop {
            let until = clock::in_time(shortened(*pause));
            *pause = pause
                .saturating_mul(2)
                .max(SHORTEST_PAUSE)
                .min(*self.connector.options.backoff.end());
            self.sleep(until, &why)?;
            let deadline = clock::in_time(self.connector.options.connect_timeout);
            let first = self.connector.state.lock().calls.first_deadline();
            let deadline = first.map_or(deadline, |first| deadline.min(first));
            let connector = &self.connector;
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
    fn sleep(&mut self, until: Instant, why: &str) -> Option<()> {
        let mut events = Events::with_capacity(16);
        loop {
            let mut state = self.connector.state.lock();
            if state.ended.is_some() {
                return None;
            }
            let expired = state.calls.expired(clock::now());
            let next = state.calls.first_deadline().map_or(until, |first| first.min(until));
            drop(state);
            for lost in expired {
                fail(lost, &CallError::NotConnected { why: why.to_owned() });
            }
            if clock::left(until).is_zero() {
                return Some(());
            }
            // An error here would repeat at once; the attempt to connect shows what is wrong.
            match self.poll.poll(&mut events, Some(clock::left(next).min(clock::LONGEST_SLEEP))) {
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
        for (lost, size) in too_large {
            fail(lost, &CallError::TooLarge { size, limit: frame });
        }
        Ok(Attached { socket, token, input, since: clock::now() })
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
        let not_sent = CallError::NotConnected { why: why.to_owned() };
        for lost in lost {
            fail(lost, &not_sent);
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

    /// Takes the frames that have arrived, and gives them to their callers.
    fn take_frames(&self, input: &mut Input, deliveries: &mut Vec<Delivery>) -> Result<(), Stop> {
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
        taken
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
