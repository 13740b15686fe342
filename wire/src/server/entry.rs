//! A connection, as only the reading thread knows it.

use std::io;
use std::time::{Duration, Instant};

use super::connection::{Connection, call_lost};
use super::protocol::{Event, Protocol};
use super::queue::Queue;
use super::service::{Answering, Rejection, Service};
use super::state::{Beats, Misuse, Stage};
use super::task::{Task, Work};
use crate::auth::{Reason, Refusal};
use crate::clock;
use crate::limits::HELLO_BODY;
use crate::socket::is_drained;
use crate::sync::Arc;
use crate::user_code::{catch_panic, drop_caught};

/// How many frames of one connection are taken before others have their turn.
const FRAMES_AT_ONCE: usize = 64;
/// How often one connection is read before others have their turn: a frame may be long.
const READS_AT_ONCE: usize = 4;
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
    /// Above the limit on connections: refused when it has said hello.
    pub(crate) surplus: bool,
    /// The connection is closed if nothing has arrived by then.
    pub(crate) silent: Option<Instant>,
    /// When something arrived last; kept while that matters.
    heard: Option<Instant>,
    /// More of a long call must have arrived by then.
    pub(crate) arrives_by: Option<Instant>,
    /// The time of the connection seems to be over. It is closed if that is still so when it is looked at again.
    pub(crate) second_look: Option<Instant>,
    /// When to look at the time-outs of the connection.
    pub(crate) deadline: Option<Instant>,
    /// The hello, or writing the last output, must be done by then.
    pub(crate) until: Option<Instant>,
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
    pub(crate) fn new(
        connection: Connection,
        protocol: Protocol,
        surplus: bool,
        until: Instant,
    ) -> Entry<S> {
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
            surplus,
            silent: None,
            heard: None,
            arrives_by: None,
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
            let mut out = Vec::new();
            let event = self.protocol.next(&mut out);
            if !out.is_empty() {
                self.connection.append(|all| all.append(&mut out));
            }
            match event {
                Ok(Some(Event::Hello(hello))) => self.hello = Some(hello.to_vec()),
                Ok(Some(event)) => {
                    taken += 1;
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
        let room = self.protocol.make_room().unwrap_or(usize::MAX).min(scratch.len());
        self.read_once(scratch.get_mut(..room).unwrap_or_default());
    }

    fn read_once(&mut self, scratch: &mut [u8]) {
        match self.connection.socket.read(scratch) {
            Ok(0) => self.close(),
            Ok(bytes) => {
                self.arrives_by = None;
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

    /// Accepts or refuses the client that has said hello.
    pub(crate) fn welcome(&mut self, service: &S) {
        let Some(hello) = self.hello.take() else { return };
        if self.surplus {
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

    /// Notes until when more of a long call must have arrived, if one arrives.
    pub(crate) fn await_rest(&mut self, is_long_arriving: bool, most: Duration) {
        if !is_long_arriving {
            self.arrives_by = None;
        } else if self.arrives_by.is_none() {
            self.arrives_by = clock::now().checked_add(most);
        }
    }

    /// Whether nothing more of a long call has arrived for too long. What has arrived is read next.
    pub(crate) fn has_stopped_halfway(&mut self, now: Instant) -> bool {
        let is_over = self.arrives_by.is_some_and(|by| by <= now);
        if is_over && self.arrived != Arrived::Nothing {
            self.arrives_by = None;
            return false;
        }
        is_over
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
        self.connection.drain();
    }

    /// Closes the socket and ends all calls.
    pub(crate) fn close(&mut self) {
        if self.stage != Stage::Closed {
            self.stage = Stage::Closed;
            self.connection.close();
        }
    }

    /// The end of the connection: it is closed, and no future of its calls exists.
    pub(crate) fn finish(self, service: &S) {
        for on_lost in self.connection.take_lost() {
            call_lost(on_lost);
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
            Event::Step | Event::Hello(_) => Ok(()),
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
