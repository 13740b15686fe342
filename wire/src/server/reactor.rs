//! The thread that reads all sockets, decodes frames and calls the service.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::time::{Duration, Instant};

use super::attention::Attention;
use super::byte_budget::ByteBudget;
use super::connection::Connection;
use super::entry::{Arrived, Ending, Entry};
use super::listener::Listener;
use super::output_budget::OutputBudget;
use super::protocol::Protocol;
use super::queue::Queue;
use super::service::Service;
use super::state::{Beats, Stage};
use super::task::Task;
use crate::os::{Events, Poll, Token, Waker};
use crate::secure::Key;
use crate::socket::Socket;
use crate::sync::{Arc, AtomicBool, Ordering};
use crate::user_code::drop_caught;
use crate::{Limits, clock};

const LISTENER: Token = Token(0);
const WAKER: Token = Token(1);
const FIRST: usize = 2;

/// How many connections are accepted before others have their turn.
const ACCEPTED_AT_ONCE: usize = 64;
/// How much is read at once.
const READ: usize = 64 * 1024;
/// The part of the time for a hello that the oldest connection without one has while others wait to be accepted.
const HURRY: u32 = 32;
/// When to try to accept again after the system had no more file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What the threads of a server share.
pub(crate) struct Shared {
    pub(crate) stopping: AtomicBool,
    pub(crate) attention: Arc<Attention>,
    queue: Arc<Queue<Arc<Task>>>,
}

/// The reading thread.
pub(crate) struct Reactor<S: Service> {
    poll: Poll,
    listener: Option<Listener>,
    service: S,
    key: Option<Key>,
    limits: Limits,
    budget: Arc<ByteBudget>,
    output: Arc<OutputBudget>,
    shared: Arc<Shared>,
    entries: HashMap<Token, Entry<S>>,
    /// Those whose clients are not accepted yet, the oldest first.
    strangers: BTreeSet<Token>,
    /// Whether connections are accepted: there are fewer strangers than may be.
    is_accepting: bool,
    /// The connections of clients that say which one they are.
    clients: HashMap<u128, Token>,
    /// Connections whose client has said hello, and whose connection before has not ended yet.
    successors: Vec<Token>,
    next: usize,
    /// Connections that have a turn.
    turns: VecDeque<Token>,
    deadlines: BTreeSet<(Instant, Token)>,
    scratch: Vec<u8>,
}

impl<S: Service> Reactor<S> {
    pub(crate) fn new(
        mut listener: Listener,
        key: Option<Key>,
        limits: Limits,
        service: S,
        queue: Arc<Queue<Arc<Task>>>,
    ) -> io::Result<Reactor<S>> {
        let poll = Poll::new()?;
        listener.register(poll.registry(), LISTENER)?;
        let attention =
            Attention::new(Waker::new(poll.registry(), WAKER)?, poll.registry().try_clone()?);
        let attention = Arc::new(attention);
        let budget = Arc::new(ByteBudget::new(limits.all_call_bytes, attention.clone()));
        let output = Arc::new(OutputBudget::new(limits.all_unsent));
        let shared = Shared { stopping: AtomicBool::new(false), attention, queue };
        Ok(Reactor {
            poll,
            listener: Some(listener),
            service,
            key,
            limits,
            budget,
            output,
            shared: Arc::new(shared),
            entries: HashMap::new(),
            strangers: BTreeSet::new(),
            is_accepting: true,
            clients: HashMap::new(),
            successors: Vec::new(),
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
        self.shared.queue.stop();
        // A panic there cannot end the server any further.
        let _ = drop_caught(self.service);
    }

    /// Waits for events, until the first deadline. A signal that interrupts it says nothing of the events.
    fn poll(&mut self, events: &mut Events) -> io::Result<()> {
        loop {
            let timeout = if self.turns.is_empty() {
                self.deadlines
                    .first()
                    .map(|&(deadline, _)| clock::left(deadline).min(clock::LONGEST_SLEEP))
            } else {
                Some(Duration::ZERO)
            };
            match self.poll.poll(events, timeout) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                polled => return polled,
            }
        }
    }

    fn accept(&mut self) {
        for _ in 0..ACCEPTED_AT_ONCE {
            let Some(listener) = &self.listener else { return };
            if self.strangers.len() >= self.limits.strangers {
                return self.hurry_strangers();
            }
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
        // There may be more.
        self.deadlines.insert((clock::now(), LISTENER));
    }

    /// Accepts no more until one of the connections without a client is accepted or has ended. Each has a short
    /// time for that: they go together, so that silent ones do not keep others waiting one after the other.
    fn hurry_strangers(&mut self) {
        self.is_accepting = false;
        let strangers: Vec<Token> = self.strangers.iter().copied().collect();
        for stranger in strangers {
            if let Some(entry) = self.entries.get_mut(&stranger) {
                let soon = entry.since.checked_add(self.limits.hello / HURRY);
                entry.until = entry.until.into_iter().chain(soon).min();
            }
            self.set_deadline(stranger);
        }
    }

    /// A connection has a client, or has ended.
    fn is_no_stranger(&mut self, token: Token) {
        if self.strangers.remove(&token) && !std::mem::replace(&mut self.is_accepting, true) {
            self.deadlines.insert((clock::now(), LISTENER));
        }
    }

    fn add(&mut self, mut socket: Socket) {
        let token = Token(self.next);
        self.next += 1;
        // A connection that fails here is closed, which tells the client all there is to tell.
        if socket.set_options().is_err() || socket.register(self.poll.registry(), token).is_err() {
            return;
        }
        let attention = self.shared.attention.clone();
        let budgets = (self.budget.clone(), self.output.clone());
        let connection = Connection::new(token, socket, attention, budgets, self.limits.clone());
        let protocol = Protocol::new(self.key.clone(), self.limits.clone());
        let entry = Entry::new(connection, protocol, clock::in_time(self.limits.hello));
        self.entries.insert(token, entry);
        self.strangers.insert(token);
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
        let again = entry.read(&self.service, &self.shared.queue, &mut self.scratch);
        let has_hello = entry.hello.is_some() && entry.stage == Stage::Open;
        if has_hello {
            self.greet(token);
        }
        let Some(entry) = self.entries.get_mut(&token) else { return };
        entry.connection.flush();
        if again {
            self.give_turn(token);
        }
        self.look(token);
    }

    /// Accepts a client that has said hello, once its connection before has ended.
    fn greet(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        if let Some(client) = entry.identify(&self.service) {
            let before = self.clients.insert(client, token).filter(|before| *before != token);
            if let Some(before) = before {
                // It takes the place of that one.
                if let Some(before) = self.entries.get_mut(&before) {
                    before.close();
                }
                self.look(before);
                if self.entries.contains_key(&before) {
                    // A call of it is polled now.
                    self.clients.insert(client, before);
                    self.successors.push(token);
                    return;
                }
            }
        }
        let accepted = self.entries.len() - self.strangers.len();
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let surplus = accepted >= self.limits.connections;
        entry.welcome(&self.service, surplus);
        if !entry.is_stranger() {
            self.is_no_stranger(token);
        }
        self.give_turn(token);
    }

    /// Goes on with the end of a connection, as far as it is possible now.
    fn look(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let status = entry.connection.status();
        let drained = entry.stage == Stage::Draining && status.idle && status.written;
        if status.broken || drained {
            entry.close();
        }
        if entry.stage != Stage::Open {
            match entry.end(&self.service) {
                Ending::Again => self.give_turn(token),
                Ending::Waits => {}
                Ending::Done => return self.remove(token),
            }
        }
        self.set_deadline(token);
    }

    /// A connection has ended.
    fn remove(&mut self, token: Token) {
        let Some(entry) = self.entries.remove(&token) else { return };
        self.set_aside_deadline(token, entry.deadline);
        self.is_no_stranger(token);
        if let Some(client) = entry.client
            && self.clients.get(&client) == Some(&token)
        {
            self.clients.remove(&client);
        }
        // The peer is the application's: its drop may do anything.
        let _ = drop_caught(entry);
        for successor in std::mem::take(&mut self.successors) {
            self.give_turn(successor);
        }
    }

    /// Notes when the time-outs of the connection are to be looked at.
    fn set_deadline(&mut self, token: Token) {
        let Some(entry) = self.entries.get_mut(&token) else { return };
        let status = entry.connection.status();
        if (status.beats != Beats::NotExpected) != entry.silent.is_some() {
            entry.listen(status.beats, self.limits.silence, clock::now());
        }
        entry.await_rest(status.is_long_arriving, &self.limits);
        let deadlines =
            [entry.until, status.stalled, status.read_by, entry.silent, entry.arrives_by()];
        let deadline = entry.second_look.or(deadlines.into_iter().flatten().min());
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

    /// Closes connections whose time is over, at their second look.
    fn expire(&mut self) {
        let now = clock::now();
        let mut due = Vec::new();
        while let Some(&(deadline, token)) = self.deadlines.first()
            && deadline <= now
        {
            self.deadlines.pop_first();
            due.push((deadline, token));
        }
        for (deadline, token) in due {
            if token == LISTENER {
                self.accept();
                continue;
            }
            let Some(entry) = self.entries.get_mut(&token) else { continue };
            entry.deadline = None;
            if entry.second_look.take().is_none() {
                entry.look_again(now, deadline, self.limits.silence / 3, &mut self.scratch);
                self.give_turn(token);
                self.set_deadline(token);
                continue;
            }
            let status = entry.connection.status();
            let is_over =
                [entry.until, status.stalled].into_iter().flatten().any(|until| until <= now);
            let is_over = entry.has_stopped_halfway(now) || is_over;
            if entry.listen(status.beats, self.limits.silence, now) || is_over {
                entry.close();
            }
            entry.end_if_slow(now, &self.limits);
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
        let mut tokens: Vec<Token> = self.entries.keys().copied().collect();
        tokens.sort_unstable();
        for token in tokens {
            if let Some(entry) = self.entries.get_mut(&token)
                && entry.stage == Stage::Open
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
            while entry.end(&self.service) == Ending::Again {}
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
