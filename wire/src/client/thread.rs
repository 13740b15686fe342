//! The thread of a client: reads answers while no caller does, and connects again when the connection breaks.

use std::io;
use std::net::Shutdown;
use std::time::{Duration, Instant};

use super::beat::Beat;
use super::connector::{Connected, Connector, State, WAKER, fail};
use super::handler::Handler;
use super::inbox::{Attached, Inbox, Stop};
use super::link::{self, Link};
use super::options::ClientOptions;
use super::reader::Until;
use crate::address::Address;
use crate::clock;
use crate::error::{CallError, WireError};
use crate::os::{self, Events, Poll, Token, Waker};
use crate::process::HomeProcess;
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
    let (address, mut state) = (address.clone(), State::default());
    state.calls.most_bytes = Some(options.limits.call_bytes);
    let state = Mutex::new(state);
    let thread_wanted = Condvar::default();
    let home = HomeProcess::current();
    let connector = Arc::new(Connector {
        address,
        home,
        options,
        handler,
        registry,
        waker,
        state,
        thread_wanted,
    });
    let failed = WireError::io("connect to", &connector.address);
    let inbox = Box::new(Inbox::new(&connector, poll, link).map_err(failed)?);
    let failed = WireError::io("connect to", &connector.address);
    let builder = thread::Builder::new().name("tubewell-connect".to_owned());
    let of_thread = connector.clone();
    builder.spawn(move || run(&of_thread, inbox)).map_err(failed)?;
    Ok(connector)
}

/// The thread of a client.
fn run(connector: &Connector, mut inbox: Box<Inbox>) {
    let mut pause = *connector.options.backoff.start();
    let mut stop = None;
    loop {
        match stop.take().unwrap_or_else(|| inbox.serve(connector, Until::Left)) {
            Stop::Done => (inbox, stop) = connector.leave_to_callers(inbox),
            Stop::Broken(why) => {
                connector.broke(&why);
                let since = inbox.current.since;
                if clock::now().duration_since(since) > *connector.options.backoff.end() {
                    pause = *connector.options.backoff.start();
                }
                match inbox.reconnect(connector, why, &mut pause) {
                    Some(attached) => inbox.current = attached,
                    None => return,
                }
            }
            Stop::Ended => return,
        }
    }
}

impl Inbox {
    fn new(connector: &Connector, poll: Poll, link: Link) -> io::Result<Inbox> {
        let current = connector.attach(link)?;
        let events = Events::with_capacity(16);
        Ok(Inbox { poll, current, events, scratch: vec![0; READ], deliveries: Vec::new() })
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
            for lost in expired {
                fail(lost, &CallError::NotConnected { why: why.to_owned() });
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
        let Link { mut socket, input, sealer, calls, frame } = link;
        let mut state = self.state.lock();
        state.connections += 1;
        let token = Token(state.connections);
        socket.register(&self.registry, token)?;
        let socket = Arc::new(socket);
        let state_mut = &mut *state;
        state_mut.outbox.reset();
        if let Some(sealer) = sealer {
            state_mut.outbox.seal_with(sealer);
        }
        (state_mut.broken, state_mut.is_write_due) = (None, false);
        (state_mut.received, state_mut.confirmed) = (0, 0);
        let calls = calls.min(self.options.limits.calls).max(1);
        if state_mut.ended.is_none() {
            state_mut.connected = Some(Connected { socket: socket.clone(), token, calls, frame });
        }
        state_mut.beat.iter_mut().for_each(Beat::hurry);
        let too_large = state_mut.calls.send(&mut state_mut.outbox, calls, frame);
        self.flush(state);
        for (lost, size) in too_large {
            fail(lost, &CallError::TooLarge { size, limit: frame });
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
        let not_sent = CallError::NotConnected { why: why.to_owned() };
        for lost in lost {
            fail(lost, &not_sent);
        }
    }
}
