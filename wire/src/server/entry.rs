//! A connection, as only the reading thread knows it.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use super::connection::{Connection, call_lost};
use super::protocol::{Event, Protocol};
use super::queue::Queue;
use super::service::{Answering, Rejection, Service};
use super::state::{Beats, Call, Misuse, Stage};
use super::task::{Task, Work};
use crate::clock;
use crate::hello::{Reason, Refusal};
use crate::limits::{HELLO_BODY, Limits};
use crate::socket::is_drained;
use crate::sync::Arc;
use crate::user_code::{catch_panic, drop_caught};

/// How many frames of one connection are taken before others have their turn.
const FRAMES_AT_ONCE: usize = 64;
/// How often one connection is read before others have their turn: a frame may be long.
const READS_AT_ONCE: usize = 4;
/// How many calls, lost answers and steps of the service are ended before other connections have their turns.
const ENDED_AT_ONCE: usize = 64;
/// How long a client may take to read why it is refused.
const REFUSAL: Duration = Duration::from_secs(1);

/// A connection: its protocol, and what became of it.
pub(crate) struct Entry<S: Service> {
    pub(crate) connection: Arc<Connection>,
    protocol: Protocol,
    /// The longest answer.
    longest: usize,
    /// What the client says of itself, until it is accepted or refused.
    pub(crate) hello: Option<Vec<u8>>,
    /// Which client it is, if it says so.
    pub(crate) client: Option<u128>,
    /// There once the client is welcome.
    peer: Option<Arc<S::Peer>>,
    pub(crate) stage: Stage,
    pub(crate) arrived: Arrived,
    /// In the queue of connections that have a turn.
    pub(crate) queued: bool,
    /// When it was accepted.
    pub(crate) since: Instant,
    /// Calls that are to end with the connection.
    ending: VecDeque<Arc<dyn Call>>,
    /// The connection is closed if nothing has arrived by then.
    pub(crate) silent: Option<Instant>,
    /// When something arrived last; kept while that matters.
    heard: Option<Instant>,
    /// There while a long call arrives.
    arrival: Option<Arrival>,
    /// The time of the connection seems to be over. It is closed if that is still so when it is looked at again.
    pub(crate) second_look: Option<Instant>,
    /// When to look at the time-outs of the connection.
    pub(crate) deadline: Option<Instant>,
    /// The hello, or writing the last output, must be done by then.
    pub(crate) until: Option<Instant>,
}

/// How a long call arrives.
#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// Until when more of it must arrive.
    more: Option<Instant>,
    /// Until when as much of it must arrive as at the least rate, if other calls wait for its bytes.
    enough: Option<Instant>,
    /// How much has arrived since that was noted.
    bytes: usize,
}

/// How far the end of a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It wants another turn.
    Again,
    /// A thread polls the future of a call.
    Waits,
    Done,
}

/// What the socket may have to read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Arrived {
    Nothing,
    Bytes,
    /// The client has closed its side; there may be bytes before the end.
    End,
}

impl<S: Service> Entry<S> {
    /// A connection that was accepted, and must have said hello before `until`.
    pub(crate) fn new(connection: Connection, protocol: Protocol, until: Instant) -> Entry<S> {
        Entry {
            connection: Arc::new(connection),
            protocol,
            longest: 0,
            hello: None,
            client: None,
            peer: None,
            stage: Stage::Open,
            arrived: Arrived::Bytes,
            queued: false,
            since: clock::now(),
            ending: VecDeque::new(),
            silent: None,
            heard: None,
            arrival: None,
            second_look: None,
            deadline: None,
            until: Some(until),
        }
    }

    /// Takes frames, and reads if there are none. True: it wants another turn.
    pub(crate) fn read(
        &mut self,
        service: &S,
        queue: &Arc<Queue<Arc<Task>>>,
        scratch: &mut [u8],
    ) -> bool {
        let (mut taken, mut reads) = (0, 0);
        // Nothing is read behind a hello before it is decided.
        while self.stage == Stage::Open && self.hello.is_none() {
            if taken >= FRAMES_AT_ONCE || reads >= READS_AT_ONCE {
                return true;
            }
            if !self.connection.may_read(self.protocol.next_call()) {
                // A client that has gone needs no answers.
                if self.arrived == Arrived::End {
                    self.close();
                }
                break;
            }
            match self.protocol.next() {
                Ok(Some(Event::Handshake)) => {
                    if let Some(handshake) = self.protocol.take_handshake() {
                        self.connection.append_handshake(handshake);
                    }
                }
                Ok(Some(Event::Hello(hello))) => self.hello = Some(hello.to_vec()),
                Ok(Some(event)) => {
                    taken += 1;
                    self.arrival = None;
                    let Some(peer) = &self.peer else { continue };
                    let caller = Caller {
                        service,
                        peer,
                        connection: &self.connection,
                        queue,
                        longest: self.longest,
                    };
                    match caller.handle(event) {
                        Ok(()) => {}
                        Err(End::Misuse(Misuse(text))) => {
                            self.refuse(&Refusal::new(Reason::Protocol, text));
                        }
                        Err(End::Panicked) => self.close(),
                    }
                }
                Ok(None) if self.arrived == Arrived::Nothing => break,
                Ok(None) => {
                    reads += 1;
                    self.fill(scratch);
                }
                Err(refusal) => self.refuse(&refusal),
            }
        }
        self.protocol.discard_taken();
        false
    }

    /// Reads once.
    fn fill(&mut self, scratch: &mut [u8]) {
        // The frames behind a long call are read once it is taken.
        let room = self.protocol.make_room().min(scratch.len());
        self.read_once(scratch.get_mut(..room).unwrap_or_default());
    }

    fn read_once(&mut self, scratch: &mut [u8]) {
        match self.connection.socket.read(scratch) {
            Ok(0) => self.close(),
            Ok(bytes) => {
                if let Some(arrival) = &mut self.arrival {
                    arrival.more = None;
                    arrival.bytes = arrival.bytes.saturating_add(bytes);
                }
                if self.silent.is_some() {
                    self.heard = Some(clock::now());
                }
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

    /// The time of the connection is over at `deadline`, and it is `now`. This thread may have been stopped in
    /// between, so what has arrived and what can be written counts first: it has a turn before its second look. A
    /// client may have been stopped together with this thread. It has as much time to go on as the thread is late,
    /// but no more than `most`.
    pub(crate) fn look_again(
        &mut self,
        now: Instant,
        deadline: Instant,
        most: Duration,
        scratch: &mut [u8],
    ) {
        let late = now.saturating_duration_since(deadline);
        self.second_look = now.checked_add(late.min(most));
        if self.stage == Stage::Open && self.arrived == Arrived::Nothing {
            // One byte says enough, also of a connection that may not be read now.
            self.arrived = Arrived::Bytes;
            self.read_once(scratch.get_mut(..1).unwrap_or_default());
        }
        self.connection.writable();
    }

    /// Which client has said hello, if it says so.
    pub(crate) fn identify(&mut self, service: &S) -> Option<u128> {
        if self.client.is_none()
            && let Some(hello) = &self.hello
        {
            self.client = catch_panic(|| service.client(hello)).ok().flatten();
        }
        self.client
    }

    /// Whether its client is not accepted.
    pub(crate) fn is_stranger(&self) -> bool {
        self.peer.is_none()
    }

    /// Accepts or refuses the client that has said hello. `surplus`: there are as many connections as may be.
    pub(crate) fn welcome(&mut self, service: &S, surplus: bool) {
        let Some(hello) = self.hello.take() else { return };
        if surplus {
            return self.refuse(&Refusal::new(Reason::Full, "the server has too many connections"));
        }
        match catch_panic(|| service.connect(&hello)) {
            Ok(Ok((peer, welcome))) if welcome.len() <= HELLO_BODY => {
                self.peer = Some(Arc::new(peer));
                self.until = None;
                self.longest = self.protocol.longest_answer();
                self.connection.append(|out| self.protocol.welcome(&welcome, out));
            }
            Ok(Ok((peer, _))) => {
                self.peer = Some(Arc::new(peer));
                self.refuse(&Refusal::new(
                    Reason::Application,
                    "the welcome is longer than 64 KiB",
                ));
            }
            Ok(Err(Rejection { why, temporary })) => {
                let reason = if temporary { Reason::Full } else { Reason::Application };
                self.refuse(&Refusal::new(reason, why));
            }
            Err(_) => self.close(),
        }
    }

    /// Notes until when the client may be silent, which it may as long as it likes unless beats are expected. Returns
    /// whether it was silent for too long.
    pub(crate) fn listen(&mut self, beats: Beats, most: Duration, now: Instant) -> bool {
        if beats == Beats::NotExpected {
            (self.silent, self.heard) = (None, None);
            return false;
        }
        let Some(silent) = self.silent else {
            self.silent = now.checked_add(most);
            return false;
        };
        if now < silent {
            return false;
        }
        // What has arrived is read next.
        let heard = if self.arrived == Arrived::Nothing { self.heard.take() } else { Some(now) };
        self.silent = heard.and_then(|heard| heard.checked_add(most));
        self.silent.is_none_or(|silent| silent <= now)
    }

    /// Notes until when a long call must arrive, if one arrives.
    pub(crate) fn await_rest(&mut self, is_long_arriving: bool, limits: &Limits) {
        if !is_long_arriving {
            self.arrival = None;
            return;
        }
        if self.arrival.is_some_and(|arrival| arrival.more.is_some()) {
            return;
        }
        let soon = clock::now().checked_add(limits.stalled);
        let begun = Arrival { more: soon, enough: soon, bytes: 0 };
        self.arrival.get_or_insert(begun).more = soon;
    }

    /// When a long call has taken too long to arrive.
    pub(crate) fn arrives_by(&self) -> Option<Instant> {
        let Arrival { more, enough, .. } = self.arrival?;
        more.into_iter().chain(enough).min()
    }

    /// Whether nothing more of a long call has arrived for too long. What has arrived is read next.
    pub(crate) fn has_stopped_halfway(&mut self, now: Instant) -> bool {
        let Some(arrival) = &mut self.arrival else { return false };
        let is_over = arrival.more.is_some_and(|by| by <= now);
        if is_over && self.arrived != Arrived::Nothing {
            arrival.more = None;
            return false;
        }
        is_over
    }

    /// Refuses a client that is too slow, and in the way of others: it sends a long call, or leaves output unread. In
    /// nobody's way it has the same time again.
    pub(crate) fn end_if_slow(&mut self, now: Instant, limits: &Limits) {
        if self.stage != Stage::Open {
            return;
        }
        if let Some(arrival) = self.arrival.as_mut()
            && arrival.enough.is_some_and(|by| by <= now)
        {
            if arrival.bytes < limits.least() && self.connection.do_calls_wait() {
                let why = "a long call arrives too slowly while others wait for it";
                self.refuse(&Refusal::new(Reason::Protocol, why));
                return self.connection.flush();
            }
            (arrival.enough, arrival.bytes) = (now.checked_add(limits.stalled), 0);
        }
        if self.connection.status().read_by.is_some_and(|by| by <= now) {
            if self.connection.is_output_short() {
                self.close();
            } else {
                self.connection.extend_reading(now);
            }
        }
    }

    /// Tells the client why, and closes the connection.
    fn refuse(&mut self, refusal: &Refusal) {
        self.connection.append(|out| refusal.put(out));
        self.drain(self.until.unwrap_or_else(|| clock::in_time(REFUSAL)));
    }

    /// Ends all calls, and closes the connection when their answers are written.
    pub(crate) fn drain(&mut self, until: Instant) {
        self.stage = Stage::Draining;
        self.until = Some(until);
        self.ending = self.connection.drain().into();
    }

    /// Closes the socket and ends all calls.
    pub(crate) fn close(&mut self) {
        if self.stage != Stage::Closed {
            self.stage = Stage::Closed;
            self.ending = self.connection.close().into();
        }
    }

    /// Goes on with the end of the connection: ends its calls, and once no future of them exists and it is closed,
    /// tells the service.
    pub(crate) fn end(&mut self, service: &S) -> Ending {
        for _ in 0..ENDED_AT_ONCE {
            let Some(call) = self.ending.pop_front() else { return self.end_peer(service) };
            if self.stage == Stage::Closed { call.cancel() } else { call.finish() }
        }
        Ending::Again
    }

    fn end_peer(&mut self, service: &S) -> Ending {
        if self.stage != Stage::Closed || !self.connection.status().idle {
            return Ending::Waits;
        }
        for _ in 0..ENDED_AT_ONCE {
            if let Some(on_lost) = self.connection.next_lost() {
                call_lost(on_lost);
                continue;
            }
            let Some(peer) = &self.peer else { return Ending::Done };
            if !catch_panic(|| service.disconnect(peer)).unwrap_or(false) {
                return Ending::Done;
            }
        }
        Ending::Again
    }
}

/// Why a connection ends.
enum End {
    Misuse(Misuse),
    Panicked,
}

/// What a frame of an authenticated client needs.
struct Caller<'a, S: Service> {
    service: &'a S,
    peer: &'a Arc<S::Peer>,
    connection: &'a Arc<Connection>,
    queue: &'a Arc<Queue<Arc<Task>>>,
    longest: usize,
}

impl<S: Service> Caller<'_, S> {
    /// Does what the client wants.
    fn handle(&self, event: Event<'_>) -> Result<(), End> {
        match event {
            Event::Handshake | Event::Hello(_) => Ok(()),
            Event::Call { number, body } => self.call(number, body),
            Event::Cancel { number } => {
                if let Some(task) = self.connection.find(number) {
                    task.cancel();
                }
                Ok(())
            }
            Event::SeenAnswers { count } => self.connection.seen(count).map_err(End::Misuse),
            Event::SeenItems { number, count } => {
                if let Some(task) = self.connection.find(number) {
                    task.taken(count);
                }
                Ok(())
            }
        }
    }

    fn call(&self, number: u64, body: &[u8]) -> Result<(), End> {
        let answering =
            catch_panic(|| self.service.call(self.peer, body)).map_err(|_| End::Panicked)?;
        let (work, keeps_body) = match answering {
            Answering::Now(reply) => {
                self.connection.answer(number, reply, self.longest);
                return Ok(());
            }
            Answering::Later(future) => (Work::Later(future), true),
            Answering::LaterWithoutBody(future) => (Work::Later(future), false),
            Answering::Many(stream) => (Work::Many { stream, sent: 0 }, true),
        };
        let task =
            Task::new(number, self.connection.clone(), self.queue.clone(), self.longest, work);
        if let Err(misuse) = self.connection.add(task.clone(), keeps_body) {
            // The future is dropped with the task.
            let _ = drop_caught(task);
            return Err(End::Misuse(misuse));
        }
        task.run();
        Ok(())
    }
}
