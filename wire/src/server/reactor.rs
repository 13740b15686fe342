//! The thread that reads all sockets, decodes frames and calls the service.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use mio::{Events, Poll, Token, Waker};

use super::connection::{Attention, Connection, Misuse, call_lost};
use super::executor::Executor;
use super::listener::Listener;
use super::protocol::{Event, Protocol};
use super::task::{Task, Work};
use super::{Answering, Service, Shared};
use crate::auth::{self, Reason, Refusal};
use crate::limits::HELLO_BODY;
use crate::socket::{Socket, is_drained};
use crate::sync::Arc;
use crate::user_code::{catch_panic, drop_caught};
use crate::{Limits, clock};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST: usize = 2;

/// How many frames of one connection are taken before others have their turn.
const FRAMES_AT_ONCE: usize = 64;
/// How much is read at once.
const READ: usize = 64 * 1024;
/// Connections above the limit that are told so; more are closed without a word.
const TOLD: usize = 64;
/// When to try to accept again after the system had no more file descriptors.
const ACCEPT_AGAIN: std::time::Duration = std::time::Duration::from_millis(100);

/// A connection, as only the reading thread knows it.
struct Entry<S: Service> {
    connection: Arc<Connection>,
    protocol: Protocol,
    /// There once the client is welcome.
    peer: Option<Arc<S::Peer>>,
    stage: Stage,
    arrived: Arrived,
    /// In the queue of connections that have a turn.
    queued: bool,
    /// Above the limit on connections: refused when it has said hello.
    surplus: bool,
    /// When to look at the time-outs of the connection.
    deadline: Option<Instant>,
    /// The hello, or writing the last output, must be done by then.
    until: Option<Instant>,
}

/// What the socket may have to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Arrived {
    Nothing,
    Bytes,
    /// The client has closed its side; there may be bytes before the end.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Active,
    /// What was written goes out, then it is closed.
    Draining,
    /// The socket is closed; a future of a call is still being polled.
    Closed,
}

/// The reading thread.
pub(crate) struct Reactor<S: Service> {
    poll: Poll,
    listener: Option<Listener>,
    service: S,
    secret: Option<Arc<[u8]>>,
    limits: Limits,
    shared: Arc<Shared>,
    entries: HashMap<Token, Entry<S>>,
    next: usize,
    /// Connections that have a turn.
    turns: VecDeque<Token>,
    deadlines: BTreeSet<(Instant, Token)>,
    scratch: Vec<u8>,
}

impl<S: Service> Reactor<S> {
    pub(crate) fn new(
        mut listener: Listener,
        secret: Option<Vec<u8>>,
        limits: Limits,
        service: S,
        executor: Arc<Executor>,
    ) -> io::Result<Reactor<S>> {
        let poll = Poll::new()?;
        listener.register(poll.registry(), LISTENER)?;
        let attention =
            Attention::new(Waker::new(poll.registry(), WAKER)?, poll.registry().try_clone()?);
        let shared =
            Shared { stopping: AtomicBool::new(false), attention: Arc::new(attention), executor };
        Ok(Reactor {
            poll,
            listener: Some(listener),
            service,
            secret: secret.map(Arc::from),
            limits,
            shared: Arc::new(shared),
            entries: HashMap::new(),
            next: FIRST,
            turns: VecDeque::new(),
            deadlines: BTreeSet::new(),
            scratch: vec![0; READ],
        })
    }

    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    /// Serves until the server is stopped.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        let mut tokens = Vec::new();
        while self.listener.is_some() || !self.entries.is_empty() {
            if self.poll(&mut events).is_err() {
                break;
            }
            for event in &events {
                match event.token() {
                    LISTENER => self.accept(),
                    WAKER => {}
                    token => {
                        if event.is_writable()
                            && let Some(entry) = self.entries.get(&token)
                        {
                            entry.connection.writable();
                        }
                        self.arrived(token, event.is_read_closed() || event.is_error());
                    }
                }
            }
            self.shared.attention.take(&mut tokens);
            for token in tokens.drain(..) {
                self.give_turn(token);
            }
            self.expire();
            for _ in 0..self.turns.len() {
                let Some(token) = self.turns.pop_front() else { break };
                self.turn(token);
            }
            if self.listener.is_some() && self.shared.stopping.load(Ordering::SeqCst) {
                self.begin_stop();
            }
        }
        self.abandon();
        self.shared.executor.stop();
    }

    /// Waits for events, until the first deadline.
    fn poll(&mut self, events: &mut Events) -> io::Result<()> {
        let timeout = if self.turns.is_empty() {
            self.deadlines.first().map(|&(deadline, _)| clock::left(deadline))
        } else {
            Some(std::time::Duration::ZERO)
        };
        match self.poll.poll(events, timeout) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
            polled => polled,
        }
    }

    fn accept(&mut self) {
        while let Some(listener) = &self.listener {
            match listener.accept() {
                Ok(socket) => self.add(socket),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if is_of_one_connection(&error) => {}
                Err(_) => {
                    // No file descriptor is left, for now.
                    self.deadlines.insert((clock::in_time(ACCEPT_AGAIN), LISTENER));
                    return;
                }
            }
        }
    }

    fn add(&mut self, mut socket: Socket) {
        let surplus = self.entries.len() >= self.limits.connections;
        if self.entries.len() >= self.limits.connections.saturating_add(TOLD) {
            return;
        }
        let token = Token(self.next);
        self.next += 1;
        // A connection that fails here is closed, which tells the client all there is to tell.
        let Ok(nonce) = auth::nonce() else { return };
        if socket.set_nodelay().is_err() || socket.register(self.poll.registry(), token).is_err() {
            return;
        }
        let connection =
            Connection::new(token, socket, self.shared.attention.clone(), self.limits.clone());
        let entry = Entry {
            connection: Arc::new(connection),
            protocol: Protocol::new(self.secret.clone(), nonce, self.limits.clone()),
            peer: None,
            stage: Stage::Active,
            arrived: Arrived::Bytes,
            queued: false,
            surplus,
            deadline: None,
            until: Some(clock::in_time(self.limits.hello)),
        };
        self.entries.insert(token, entry);
        self.set_deadline(token);
    }

    fn arrived(&mut self, token: Token, end: bool) {
        if let Some(entry) = self.entries.get_mut(&token) {
            entry.arrived = entry.arrived.max(if end { Arrived::End } else { Arrived::Bytes });
        }
        self.give_turn(token);
    }

    fn give_turn(&mut self, token: Token) {
        if let Some(entry) = self.entries.get_mut(&token)
            && !entry.queued
        {
            entry.queued = true;
            self.turns.push_back(token);
        }
    }

    /// Takes frames of one connection, writes the answers, and sees what became of it.
    fn turn(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        entry.queued = false;
        let again = entry.read(&self.service, &self.shared.executor, &mut self.scratch);
        entry.connection.flush();
        if again {
            self.give_turn(token);
        }
        self.look(token);
    }

    /// Goes on with the end of a connection, as far as it is possible now.
    fn look(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let status = entry.connection.status();
        if status.broken || (entry.stage == Stage::Draining && status.written) {
            entry.close();
        }
        if entry.stage == Stage::Closed && entry.connection.status().idle {
            if let Some(entry) = self.entries.remove(&token) {
                self.set_aside_deadline(token, entry.deadline);
                entry.finish(&self.service);
            }
            return;
        }
        self.set_deadline(token);
    }

    /// Notes when the time-outs of the connection are to be looked at.
    fn set_deadline(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let stalled = entry.connection.status().stalled;
        let stalled = stalled.and_then(|since| since.checked_add(self.limits.stalled));
        let deadline = [entry.until, stalled].into_iter().flatten().min();
        let deadline = deadline.filter(|_| entry.stage != Stage::Closed);
        let before = std::mem::replace(&mut entry.deadline, deadline);
        if before != deadline {
            self.set_aside_deadline(token, before);
            self.deadlines.extend(deadline.map(|deadline| (deadline, token)));
        }
    }

    fn set_aside_deadline(&mut self, token: Token, deadline: Option<Instant>) {
        if let Some(deadline) = deadline {
            self.deadlines.remove(&(deadline, token));
        }
    }

    /// Closes connections whose time is over.
    fn expire(&mut self) {
        let now = clock::now();
        while let Some(&(deadline, token)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            if token == LISTENER {
                self.accept();
                continue;
            }
            let Some(entry) = self.entries.get_mut(&token) else { continue };
            entry.deadline = None;
            let stalled = entry.connection.status().stalled;
            let stalled = stalled.and_then(|since| since.checked_add(self.limits.stalled));
            if [entry.until, stalled].into_iter().flatten().any(|until| until <= now) {
                entry.close();
            }
            self.look(token);
        }
    }

    /// Accepts nothing more, and lets all connections end.
    fn begin_stop(&mut self) {
        if let Some(mut listener) = self.listener.take() {
            // It is dropped anyway.
            let _ = listener.deregister(self.poll.registry());
        }
        let until = clock::in_time(self.limits.stop);
        let tokens: Vec<Token> = self.entries.keys().copied().collect();
        for token in tokens {
            if let Some(entry) = self.entries.get_mut(&token)
                && entry.stage == Stage::Active
            {
                entry.drain(until);
                entry.connection.flush();
            }
            self.look(token);
        }
    }

    /// The system reports no more events: ends all connections without it.
    fn abandon(&mut self) {
        for (_, mut entry) in self.entries.drain() {
            entry.close();
            entry.finish(&self.service);
        }
    }
}

/// Whether an error of `accept` concerns only the connection that was to be accepted.
fn is_of_one_connection(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::Interrupted
    )
}

impl<S: Service> Entry<S> {
    /// Takes frames, and reads if there are none. True: it wants another turn.
    fn read(&mut self, service: &S, executor: &Arc<Executor>, scratch: &mut [u8]) -> bool {
        let mut taken = 0;
        while self.stage == Stage::Active {
            if taken >= FRAMES_AT_ONCE {
                return true;
            }
            if !self.connection.may_read(self.protocol.next_is_call()) {
                // A client that has gone needs no answers.
                if self.arrived == Arrived::End {
                    self.close();
                }
                break;
            }
            let mut out = Vec::new();
            let event = self.protocol.next(&mut out);
            if !out.is_empty() {
                self.connection.append(|all| all.append(&mut out));
            }
            match event {
                Ok(Some(Event::Hello(hello))) => {
                    let hello = hello.to_vec();
                    self.welcome(service, &hello);
                }
                Ok(Some(event)) => {
                    taken += 1;
                    let peer = self.peer.as_ref();
                    match handle::<S>(service, peer, &self.connection, executor, event) {
                        Ok(()) => {}
                        Err(End::Misuse(Misuse(text))) => {
                            self.refuse(&Refusal::new(Reason::Protocol, text));
                        }
                        Err(End::Panicked) => self.close(),
                    }
                }
                Ok(None) if self.arrived == Arrived::Nothing => break,
                Ok(None) => self.fill(scratch),
                Err(refusal) => self.refuse(&refusal),
            }
        }
        self.protocol.discard_taken();
        false
    }

    /// Reads once.
    fn fill(&mut self, scratch: &mut [u8]) {
        match self.connection.socket.read(scratch) {
            Ok(0) => self.close(),
            Ok(bytes) => {
                if self.arrived == Arrived::Bytes && is_drained(bytes, scratch.len()) {
                    self.arrived = Arrived::Nothing;
                }
                self.protocol.add(scratch.get(..bytes).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.arrived = Arrived::Nothing;
            }
            Err(_) => self.close(),
        }
    }

    fn welcome(&mut self, service: &S, hello: &[u8]) {
        if self.surplus {
            return self.refuse(&Refusal::new(Reason::Full, "the server has too many connections"));
        }
        match catch_panic(|| service.connect(hello)) {
            Ok(Ok((peer, welcome))) if welcome.len() <= HELLO_BODY => {
                self.peer = Some(Arc::new(peer));
                self.until = None;
                self.connection.append(|out| self.protocol.welcome(&welcome, out));
            }
            Ok(Ok((peer, _))) => {
                self.peer = Some(Arc::new(peer));
                self.refuse(&Refusal::new(
                    Reason::Application,
                    "the welcome is longer than 64 KiB",
                ));
            }
            Ok(Err(text)) => self.refuse(&Refusal::new(Reason::Application, text)),
            Err(_) => self.close(),
        }
    }

    /// Tells the client why, and closes the connection.
    fn refuse(&mut self, refusal: &Refusal) {
        self.connection.append(|out| refusal.put(out));
        self.drain(self.until.unwrap_or_else(|| clock::in_time(std::time::Duration::from_secs(1))));
    }

    /// Ends all calls, and closes the connection when the client has read what was written.
    fn drain(&mut self, until: Instant) {
        self.stage = Stage::Draining;
        self.until = Some(until);
        self.connection.cancel_all();
    }

    /// Closes the socket and ends all calls.
    fn close(&mut self) {
        if self.stage != Stage::Closed {
            self.stage = Stage::Closed;
            self.connection.close();
            self.connection.cancel_all();
        }
    }

    /// The end of the connection: it is closed, and no future of its calls exists.
    fn finish(self, service: &S) {
        for on_lost in self.connection.take_lost() {
            call_lost(Some(on_lost));
        }
        if let Some(peer) = self.peer {
            let _ = catch_panic(|| service.disconnect(peer));
        }
    }
}

/// Why a connection ends.
enum End {
    Misuse(Misuse),
    Panicked,
}

/// Does what an authenticated client wants.
fn handle<S: Service>(
    service: &S,
    peer: Option<&Arc<S::Peer>>,
    connection: &Arc<Connection>,
    executor: &Arc<Executor>,
    event: Event<'_>,
) -> Result<(), End> {
    match event {
        Event::Step | Event::Hello(_) => Ok(()),
        Event::Call { number, body } => {
            let Some(peer) = peer else { return Ok(()) };
            let answering = catch_panic(|| service.call(peer, body)).map_err(|_| End::Panicked)?;
            let work = match answering {
                Answering::Now(reply) => {
                    connection.answer(number, reply);
                    return Ok(());
                }
                Answering::Later(future) => Work::Later(future),
                Answering::Many(stream) => Work::Many { stream, sent: 0 },
            };
            let task = Task::new(number, connection.clone(), executor.clone(), work);
            if let Err(misuse) = connection.add(task.clone()) {
                let _ = drop_caught(task);
                return Err(End::Misuse(misuse));
            }
            task.run();
            Ok(())
        }
        Event::Cancel { number } => {
            if let Some(task) = connection.find(number) {
                task.cancel();
            }
            Ok(())
        }
        Event::SeenAnswers { count } => connection.seen(count).map_err(End::Misuse),
        Event::SeenItems { number, count } => {
            if let Some(task) = connection.find(number) {
                task.taken(count);
            }
            Ok(())
        }
    }
}
