//! What the callers and the thread of a client share: the calls, the output and the socket.

use std::net::Shutdown;
use std::time::Instant;

use mio::{Poll, Registry, Token, Waker};

use super::calls::{Caller, Calls, Found};
use super::items::{Buffer, Items};
use super::link::{self, Link};
use super::pending::{Pending, Slot};
use super::{CallKind, ClientOptions, Handler};
use crate::frame::{self, Frame, Input, Kind, NO_CALL};
use crate::outbox::Outbox;
use crate::socket::{Socket, Written};
use crate::sync::{Arc, Mutex, MutexGuard, thread};
use crate::user_code::catch_panic;
use crate::{Address, CallError, WireError, clock};

mod reader;

/// How often a caller writes what others have appended meanwhile, before the thread does.
const WRITES: usize = 16;

/// A client without its public face.
pub(crate) struct Connector {
    address: Address,
    options: ClientOptions,
    handler: Arc<dyn Handler>,
    registry: Registry,
    waker: Waker,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    calls: Calls,
    outbox: Outbox,
    /// There while there is a connection.
    connected: Option<Connected>,
    /// Counts the connections, for their tokens.
    connections: usize,
    /// A write has failed: the thread ends the connection.
    broken: Option<String>,
    /// Why there will be no further connection.
    ended: Option<CallError>,
    /// Tracked answers received on this connection, and how many the server was told of.
    received: u64,
    confirmed: u64,
}

struct Connected {
    socket: Arc<Socket>,
    token: Token,
    /// How many calls may be in flight, and how long they may be.
    calls: usize,
    frame: usize,
}

/// What the thread does for a caller once the lock is released.
enum Delivery {
    Answer(Arc<Slot>, Result<Vec<u8>, CallError>),
    Orphan(Vec<u8>),
    /// Items have arrived.
    Items(Arc<Buffer>),
    End(Arc<Buffer>, Option<CallError>),
}

impl Connector {
    /// Connects, and starts the thread.
    pub(crate) fn start(
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
            let waker = Waker::new(&registry, reader::WAKER)?;
            Ok((poll, registry, waker))
        });
        let (poll, registry, waker) = parts.map_err(failed)?;
        let (address, state) = (address.clone(), Mutex::default());
        let connector = Arc::new(Connector { address, options, handler, registry, waker, state });
        let failed = WireError::io("connect to", &connector.address);
        let reader = reader::Reader::new(connector.clone(), poll, link).map_err(failed)?;
        let failed = WireError::io("connect to", &connector.address);
        let builder = thread::Builder::new().name("tubewell-connect".to_owned());
        builder.spawn(move || reader.run()).map_err(failed)?;
        Ok(connector)
    }

    pub(crate) fn address(&self) -> &Address {
        &self.address
    }

    pub(crate) fn call(self: &Arc<Self>, body: Vec<u8>, kind: CallKind) -> Pending {
        let slot = Arc::new(Slot::default());
        let made = self.make(body, kind, Caller::Call(slot.clone()));
        let number = made.map_err(|error| slot.complete(Err(error))).ok();
        Pending::new(slot, self.clone(), number)
    }

    pub(crate) fn subscribe(self: &Arc<Self>, body: Vec<u8>) -> Items {
        let buffer = Arc::new(Buffer::default());
        let kind = CallKind { resend: false, cancel: true };
        let made = self.make(body, kind, Caller::Items(buffer.clone()));
        let number = made.map_err(|error| buffer.end(Some(error))).ok();
        Items::new(buffer, self.clone(), number)
    }

    /// Adds a call, and sends it if there is a connection.
    fn make(&self, body: Vec<u8>, kind: CallKind, caller: Caller) -> Result<u64, CallError> {
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
        self.flush(state);
        Ok(number)
    }

    /// The caller of a call has gone.
    pub(crate) fn abandon(&self, number: u64) {
        let mut state = self.state.lock();
        let State { calls, outbox, .. } = &mut *state;
        calls.abandon(number, outbox);
        self.flush(state);
    }

    /// The application has taken this many items of a call.
    pub(crate) fn taken(&self, number: u64, count: u64) {
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
        let mut state = self.state.lock();
        if state.ended.is_some() {
            return;
        }
        state.ended = Some(error.clone());
        let callers = state.calls.take_all();
        let connected = state.connected.take();
        state.outbox.reset();
        drop(state);
        if let Some(connected) = connected {
            connected.socket.shutdown(Shutdown::Both);
        }
        self.wake();
        for caller in callers {
            fail(caller, error);
        }
    }

    /// Makes the thread look at the state.
    fn wake(&self) {
        // Without it the thread looks at the next event; there is nobody to tell.
        let _ = self.waker.wake();
    }

    /// Writes what the socket takes, unless another thread writes.
    fn flush<'a>(&'a self, mut state: MutexGuard<'a, State>) {
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

/// Gives an error to the caller.
fn fail(caller: Caller, error: &CallError) {
    match caller {
        Caller::Call(slot) => drop(slot.complete(Err(error.clone()))),
        Caller::Items(buffer) => buffer.end(Some(error.clone())),
        Caller::Gone => {}
    }
}
