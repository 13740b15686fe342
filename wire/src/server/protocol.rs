//! The server's side of one connection: bytes in, events and bytes out. No I/O.

#[cfg(test)]
mod tests;

use crate::auth::{HELLO_HEAD, Hello, Nonce, Reason, Refusal, Side, Welcome, equal, proof};
use crate::frame::{self, Frame, Input, Kind, Malformed, NO_CALL};
use crate::limits::{HELLO_BODY, Limits};
use crate::sync::Arc;

/// What the client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// A step of the hello was made; the client wants nothing yet.
    Step,
    /// The client is authenticated, and says this of itself. Answer with [`Protocol::welcome`] or a refusal.
    Hello(&'a [u8]),
    /// A call.
    Call { number: u64, body: &'a [u8] },
    /// The client needs no answer of this call any more.
    Cancel { number: u64 },
    /// The client has received this many tracked answers so far.
    SeenAnswers { count: u64 },
    /// The client has taken this many items of this call so far.
    SeenItems { number: u64, count: u64 },
}

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the hello.
    Hello,
    /// Waits for the client's proof.
    Proof {
        client: Nonce,
    },
    /// Waits for the decision of the application.
    Decision,
    Open,
    Refused,
}

/// The protocol of one connection.
#[derive(Debug)]
pub(crate) struct Protocol {
    input: Input,
    phase: Phase,
    /// The client must know it.
    secret: Option<Arc<[u8]>>,
    /// A fresh number of this connection.
    nonce: Nonce,
    limits: Limits,
    version: u8,
    /// The longest answer that the client takes.
    answer: usize,
    /// What the client says of itself, until it is authenticated.
    hello: Vec<u8>,
}

impl Protocol {
    pub(crate) fn new(secret: Option<Arc<[u8]>>, nonce: Nonce, limits: Limits) -> Protocol {
        let (input, hello) = (Input::default(), Vec::new());
        Protocol { input, phase: Phase::Hello, secret, nonce, limits, version: 0, answer: 0, hello }
    }

    /// Whether the client is authenticated and welcome.
    pub(crate) fn is_open(&self) -> bool {
        self.phase == Phase::Open
    }

    /// The longest answer that the client takes and this server sends.
    pub(crate) fn longest_answer(&self) -> usize {
        self.answer
    }

    /// Adds bytes that have arrived.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.input.add(bytes);
    }

    /// The bytes of the next frame if it is a call that may be read, as soon as its length has arrived.
    pub(crate) fn next_call(&self) -> Option<usize> {
        let (kind, body) = self.input.peek().filter(|_| self.is_open())?;
        (kind == Kind::Call && body <= self.limits.frame).then_some(frame::EMPTY + body)
    }

    /// Takes the memory for a long call at once. Returns how many of its bytes have not arrived: no more must be
    /// added.
    pub(crate) fn make_room(&mut self) -> Option<usize> {
        self.input.make_room()
    }

    /// Gives memory of frames that were taken back.
    pub(crate) fn discard_taken(&mut self) {
        self.input.discard_taken();
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.input.capacity() + self.hello.capacity()
    }

    /// Takes the next frame if it is there as a whole, and appends what the hello demands to `out`. After a
    /// refusal, which the caller sends, nothing more is taken.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<Event<'_>>, Refusal> {
        let limit = match self.phase {
            Phase::Open => match self.input.peek() {
                Some((Kind::Call, _)) | None => self.limits.frame,
                // Calls alone are held to a number of bytes.
                Some(_) => HELLO_BODY,
            },
            Phase::Hello | Phase::Proof { .. } => HELLO_BODY + HELLO_HEAD,
            Phase::Decision | Phase::Refused => return Ok(None),
        };
        let frame = match self.input.next(limit) {
            Ok(Some(frame)) => frame,
            Ok(None) => return Ok(None),
            Err(malformed) => {
                self.phase = Phase::Refused;
                return Err(refusal(malformed));
            }
        };
        let event = match self.phase {
            Phase::Open => open(frame),
            Phase::Hello => {
                let Some(hello) = hello(frame) else {
                    self.phase = Phase::Refused;
                    return Err(Refusal::new(Reason::Protocol, "the first frame is not a hello"));
                };
                let Some(version) = hello.version() else {
                    self.phase = Phase::Refused;
                    return Err(no_version(&hello));
                };
                self.version = version;
                self.answer =
                    usize::try_from(hello.frame).unwrap_or(usize::MAX).min(self.limits.frame);
                self.hello = hello.application.to_vec();
                let Some(secret) = &self.secret else {
                    self.phase = Phase::Decision;
                    return Ok(Some(Event::Hello(&self.hello)));
                };
                let mac = proof(secret, Side::Server, &hello.nonce, &self.nonce);
                let mut body = self.nonce.to_vec();
                body.extend_from_slice(&mac);
                frame::put(out, Kind::Proof, NO_CALL, &body);
                self.phase = Phase::Proof { client: hello.nonce };
                Ok(Event::Step)
            }
            Phase::Proof { client } => {
                let secret = self.secret.as_deref().unwrap_or_default();
                let expected = proof(secret, Side::Client, &client, &self.nonce);
                if frame.kind != Kind::Proof || !equal(&expected, frame.body) {
                    self.phase = Phase::Refused;
                    return Err(Refusal::new(
                        Reason::Secret,
                        "the client does not know the secret",
                    ));
                }
                self.phase = Phase::Decision;
                Ok(Event::Hello(&self.hello))
            }
            Phase::Decision | Phase::Refused => return Ok(None),
        };
        if event.is_err() {
            self.phase = Phase::Refused;
        }
        event.map(Some)
    }

    /// The application accepts the client: appends the welcome to `out`.
    pub(crate) fn welcome(&mut self, application: &[u8], out: &mut Vec<u8>) {
        self.phase = Phase::Open;
        self.hello = Vec::new();
        let fit = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        let (calls, frame) = (fit(self.limits.calls), fit(self.limits.frame));
        Welcome { version: self.version, calls, frame, application }.put(out);
    }
}

fn hello(frame: Frame<'_>) -> Option<Hello<'_>> {
    if frame.kind == Kind::Hello { Hello::get(frame.body) } else { None }
}

fn no_version(hello: &Hello<'_>) -> Refusal {
    let (lowest, highest) = (hello.lowest, hello.highest);
    let mut refusal = Refusal::new(Reason::Version, "");
    refusal.text = format!(
        "the client speaks versions {lowest} to {highest} of the protocol, the server {} to {}",
        refusal.lowest, refusal.highest
    );
    refusal
}

fn refusal(malformed: Malformed) -> Refusal {
    let reason = match malformed {
        Malformed::Version { .. } => Reason::Version,
        _ => Reason::Protocol,
    };
    let mut refusal = Refusal::new(reason, "");
    refusal.text = format!(
        "the client sent {malformed}; the server speaks versions {} to {}",
        refusal.lowest, refusal.highest
    );
    refusal
}

/// What a frame of an authenticated client wants.
fn open(frame: Frame<'_>) -> Result<Event<'_>, Refusal> {
    let Frame { kind, number, body } = frame;
    match kind {
        Kind::Call if number != NO_CALL => Ok(Event::Call { number, body }),
        Kind::Cancel => Ok(Event::Cancel { number }),
        Kind::Seen => match frame::count(body) {
            Some(count) if number == NO_CALL => Ok(Event::SeenAnswers { count }),
            Some(count) => Ok(Event::SeenItems { number, count }),
            None => Err(Refusal::new(Reason::Protocol, "a count that is not one")),
        },
        _ => Err(Refusal::new(Reason::Protocol, format!("a client may not send {kind:?}"))),
    }
}
