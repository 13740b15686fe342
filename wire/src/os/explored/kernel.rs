//! The state behind the calls: connections, listening sockets, and who is told what they are ready for.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{Shutdown, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use mio::{Interest, Token};
use shuttle::rand::{Rng, thread_rng};

use crate::sync::explored::{Condvar, Mutex, now};

/// The number of a socket, a poller or a waker.
pub(super) type Id = u64;

/// The bytes of one direction of a connection that are not read, at most, unless the scenario says otherwise.
const PIPE: usize = 4096;

/// All modelled sockets.
pub(super) struct Kernel {
    state: Mutex<State>,
    changed: Condvar,
}

thread_local! {
    /// That of the schedule that runs; all explored threads run on one real thread.
    static KERNEL: RefCell<Option<Arc<Kernel>>> = const { RefCell::new(None) };
}

/// Begins without any socket.
pub(super) fn begin() {
    let state = State { pipe: PIPE, ..State::default() };
    let kernel = Kernel { state: Mutex::new(state), changed: Condvar::new() };
    KERNEL.set(Some(Arc::new(kernel)));
}

/// Breaks all connections: each side gets an error, behind as much of what was on its way as the explorer wants.
pub fn break_connections() {
    Kernel::current().call(State::break_connections);
}

/// How many sockets exist, those in the queue of a listening socket included.
#[must_use]
pub fn open_sockets() -> usize {
    Kernel::current().call(|state| state.ends.len() + state.listeners.len())
}

/// How many bytes each direction of a connection holds, from now on.
pub fn set_pipe_size(bytes: usize) {
    Kernel::current().call(|state| state.pipe = bytes);
}

impl Kernel {
    pub(super) fn current() -> Arc<Kernel> {
        let kernel = KERNEL.with_borrow(Clone::clone);
        let Some(kernel) = kernel else { unreachable!("a schedule calls `begin` first") };
        kernel
    }

    /// Makes a call that does not block.
    pub(super) fn call<T>(&self, call: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        let answer = call(&mut state);
        let changed = std::mem::take(&mut state.changed);
        drop(state);
        if changed {
            self.changed.notify_all();
        }
        answer
    }

    /// Makes a call that blocks while it returns `None`, at most for `most`.
    pub(super) fn wait<T>(
        &self,
        most: Option<Duration>,
        mut call: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let until = most.map(|most| now().saturating_add(most));
        let mut state = self.state.lock();
        loop {
            let answer = call(&mut state);
            let left = until.map(|until| until.saturating_sub(now()));
            let is_over = answer.is_some() || left.is_some_and(|left| left.is_zero());
            if std::mem::take(&mut state.changed) {
                self.changed.notify_all();
            }
            if is_over {
                return answer;
            }
            match left {
                Some(left) => self.changed.wait_for(&mut state, left),
                None => self.changed.wait(&mut state),
            }
        }
    }
}

/// Whether the explorer wants something to happen that happens seldom.
pub(super) fn seldom() -> bool {
    thread_rng().gen_ratio(1, 16)
}

#[derive(Default)]
pub(super) struct State {
    pipe: usize,
    last: Id,
    ends: BTreeMap<Id, End>,
    listeners: BTreeMap<Id, Listening>,
    watches: BTreeMap<Id, Watch>,
    /// Of each poller, the sockets of which something is to be reported.
    reports: BTreeMap<Id, VecDeque<Id>>,
    /// Threads that block must look again.
    changed: bool,
}

/// One end of a connection.
struct End {
    peer: Id,
    arrived: VecDeque<u8>,
    /// Nothing arrives behind that.
    is_last: bool,
    /// The next read behind that is an error.
    is_reset: bool,
    writing: Writing,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Writing {
    Open,
    /// The peer has gone, and what is written is lost. At some time writing fails.
    Lost,
    Fails,
}

struct Listening {
    address: SocketAddr,
    /// Connections that are not accepted yet.
    queue: VecDeque<Id>,
}

/// What a poller is told of a socket.
struct Watch {
    poller: Id,
    token: Token,
    interest: Interest,
    /// In the reports of the poller.
    is_reported: bool,
}

/// What has changed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Change {
    Readable,
    Writable,
    /// An end or an error, which is always reported.
    Ended,
}

/// What a socket is ready for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "as mio reports it")]
pub(super) struct Ready {
    pub(super) readable: bool,
    pub(super) writable: bool,
    pub(super) read_closed: bool,
    pub(super) error: bool,
}

impl State {
    pub(super) fn new_id(&mut self) -> Id {
        self.last += 1;
        self.last
    }

    /// Listens at `address`, or at a free port if that is 0.
    pub(super) fn listen(&mut self, mut address: SocketAddr) -> io::Result<(Id, SocketAddr)> {
        let id = self.new_id();
        if address.port() == 0 {
            address.set_port(u16::try_from(id).unwrap_or(u16::MAX));
        }
        if self.listeners.values().any(|listening| listening.address == address) {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        self.listeners.insert(id, Listening { address, queue: VecDeque::new() });
        Ok((id, address))
    }

    /// Connects, and returns before the connection is accepted.
    pub(super) fn connect(&mut self, address: SocketAddr) -> io::Result<Id> {
        let (client, server) = (self.new_id(), self.new_id());
        let mut listeners = self.listeners.iter_mut();
        let Some((&listener, listening)) = listeners.find(|(_, other)| other.address == address)
        else {
            return Err(io::ErrorKind::ConnectionRefused.into());
        };
        listening.queue.push_back(server);
        for (id, peer) in [(client, server), (server, client)] {
            let (arrived, writing) = (VecDeque::new(), Writing::Open);
            let end = End { peer, arrived, is_last: false, is_reset: false, writing };
            self.ends.insert(id, end);
        }
        self.report(listener, Change::Readable);
        Ok(client)
    }

    pub(super) fn accept(&mut self, listener: Id) -> io::Result<Id> {
        let listening = self.listeners.get_mut(&listener);
        let accepted = listening.and_then(|listening| listening.queue.pop_front());
        accepted.ok_or_else(|| io::ErrorKind::WouldBlock.into())
    }

    pub(super) fn read(&mut self, id: Id, into: &mut [u8]) -> io::Result<usize> {
        let Some(end) = self.ends.get_mut(&id) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let bytes = into.len().min(end.arrived.len());
        if bytes > 0 {
            for (into, byte) in into.iter_mut().zip(end.arrived.drain(..bytes)) {
                *into = byte;
            }
            let peer = end.peer;
            if self.has_room(id) {
                self.report(peer, Change::Writable);
            }
            return Ok(bytes);
        }
        if std::mem::take(&mut end.is_reset) {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        if end.is_last { Ok(0) } else { Err(io::ErrorKind::WouldBlock.into()) }
    }

    pub(super) fn write(&mut self, id: Id, bytes: &[u8]) -> io::Result<usize> {
        let Some(end) = self.ends.get_mut(&id) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        if end.writing == Writing::Lost {
            if thread_rng().r#gen() {
                return Ok(bytes.len());
            }
            end.writing = Writing::Fails;
        }
        if end.writing == Writing::Fails {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let (peer, pipe) = (end.peer, self.pipe);
        let Some(reader) = self.ends.get_mut(&peer) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let taken = bytes.len().min(pipe.saturating_sub(reader.arrived.len()));
        if taken == 0 {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        reader.arrived.extend(bytes.iter().take(taken));
        self.report(peer, Change::Readable);
        Ok(taken)
    }

    pub(super) fn shutdown(&mut self, id: Id, how: Shutdown) -> io::Result<()> {
        let Some(end) = self.ends.get_mut(&id) else {
            return Err(io::ErrorKind::NotConnected.into());
        };
        let peer = end.peer;
        end.is_last |= how != Shutdown::Write;
        if how != Shutdown::Read {
            end.writing = Writing::Fails;
        }
        if let Some(peer) = self.ends.get_mut(&peer) {
            peer.is_last |= how != Shutdown::Read;
            if how == Shutdown::Both && peer.writing == Writing::Open {
                peer.writing = Writing::Lost;
            }
        }
        self.report(id, Change::Ended);
        self.report(peer, Change::Ended);
        Ok(())
    }

    /// Closes a socket, a poller or a waker.
    pub(super) fn close(&mut self, id: Id) {
        // An end that is closed with bytes that it has not read resets the connection.
        if self.ends.contains_key(&id) {
            // It exists.
            let _ = self.shutdown(id, Shutdown::Both);
        }
        if let Some(end) = self.ends.remove(&id)
            && !end.arrived.is_empty()
            && let Some(peer) = self.ends.get_mut(&end.peer)
        {
            peer.is_reset = true;
        }
        for waiting in self.listeners.remove(&id).into_iter().flat_map(|listening| listening.queue)
        {
            self.close(waiting);
        }
        self.reports.remove(&id);
        self.watches.remove(&id);
    }

    fn break_connections(&mut self) {
        let ids: Vec<Id> = self.ends.keys().copied().collect();
        for &id in &ids {
            let Some(end) = self.ends.get_mut(&id) else { continue };
            end.arrived.truncate(thread_rng().gen_range(0..=end.arrived.len()));
            (end.is_last, end.is_reset, end.writing) = (true, true, Writing::Fails);
            self.report(id, Change::Ended);
        }
    }

    /// Begins to tell a poller what a socket is ready for, or changes what it is told. Tells it at once.
    pub(super) fn watch(&mut self, id: Id, poller: Id, token: Token, interest: Interest) {
        let is_reported = self.watches.get(&id).is_some_and(|watch| watch.is_reported);
        self.watches.insert(id, Watch { poller, token, interest, is_reported });
        if self.ready(id, interest) != Ready::default() {
            self.report(id, Change::Ended);
        }
    }

    pub(super) fn forget(&mut self, id: Id) {
        self.watches.remove(&id);
    }

    /// The waker with this number wakes its poller.
    pub(super) fn wake(&mut self, id: Id) {
        self.report(id, Change::Readable);
    }

    /// Takes what is reported to a poller.
    pub(super) fn take_reports(&mut self, poller: Id) -> Vec<(Token, Ready)> {
        let reported = self.reports.get_mut(&poller).map(std::mem::take).unwrap_or_default();
        let mut events = Vec::new();
        for id in reported {
            let Some(watch) = self.watches.get_mut(&id) else { continue };
            watch.is_reported = false;
            let (token, interest) = (watch.token, watch.interest);
            let ready = self.ready(id, interest);
            // What was to be reported may be over.
            if ready != Ready::default() {
                events.push((token, ready));
            }
        }
        events
    }

    fn report(&mut self, id: Id, change: Change) {
        // Threads in calls that block wait for the same changes.
        self.changed = true;
        let Some(watch) = self.watches.get_mut(&id) else { return };
        let is_wanted = change != Change::Writable || watch.interest.is_writable();
        if is_wanted && !std::mem::replace(&mut watch.is_reported, true) {
            self.reports.entry(watch.poller).or_default().push_back(id);
        }
    }

    fn ready(&self, id: Id, interest: Interest) -> Ready {
        if let Some(end) = self.ends.get(&id) {
            let may_write = end.writing != Writing::Open || self.has_room(end.peer);
            return Ready {
                readable: !end.arrived.is_empty() || end.is_last || end.is_reset,
                writable: interest.is_writable() && may_write,
                read_closed: end.is_last,
                error: end.is_reset,
            };
        }
        let readable = match self.listeners.get(&id) {
            Some(listening) => !listening.queue.is_empty(),
            // A waker.
            None => true,
        };
        Ready { readable, ..Ready::default() }
    }

    /// Whether a poller is told that the peer of this end may write: a third of the pipe is free, as with TCP.
    fn has_room(&self, reader: Id) -> bool {
        self.ends.get(&reader).is_none_or(|end| end.arrived.len() * 3 <= self.pipe * 2)
    }
}
