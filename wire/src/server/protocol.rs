//! The server's side of one connection: bytes in, events and bytes out. No I/O.

#[cfg(test)]
mod tests;

use crate::frame::{self, Frame, Kind, Malformed, NO_CALL};
use crate::hello::{HELLO_HEAD, Hello, Reason, Refusal, Welcome};
use crate::input::Input;
use crate::limits::{HELLO_BODY, Limits};
use crate::secure::{self, Failed, Key, Keys, Sealer};

/// What the client wants.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event<'a> {
    /// The client knows the secret, and wants nothing yet. Send [`Protocol::take_handshake`] before anything else.
    Handshake,
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

/// What the server sends in a handshake, and what seals all that it sends behind it.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) answer: Vec<u8>,
    pub(crate) sealer: Sealer,
}

/// How many bytes of a client that has not shown that it knows the secret are held at most.
const STRANGER: usize = 4096;

#[derive(Debug, PartialEq, Eq)]
enum Phase {
    /// Waits for the message of the client.
    Handshake,
    /// Waits for the hello.
    Hello,
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
    /// The client must have it.
    key: Option<Key>,
    handshake: Option<Handshake>,
    limits: Limits,
    version: u8,
    /// The longest answer that the client takes.
    answer: usize,
    /// What the client says of itself, until it is authenticated.
    hello: Vec<u8>,
}

impl Protocol {
    pub(crate) fn new(key: Option<Key>, limits: Limits) -> Protocol {
        Protocol {
            input: Input::default(),
            phase: if key.is_some() { Phase::Handshake } else { Phase::Hello },
            key,
            handshake: None,
            limits,
            version: 0,
            answer: 0,
            hello: Vec::new(),
        }
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

    /// Takes the memory for a long call at once. Returns how many bytes may be added: not more than have not arrived of
    /// it, and few of a client that may not know the secret.
    pub(crate) fn make_room(&mut self) -> usize {
        if self.phase == Phase::Handshake {
            return STRANGER.saturating_sub(self.input.waiting());
        }
        self.input.make_room().unwrap_or(usize::MAX)
    }

    /// What is to be sent after [`Event::Handshake`].
    pub(crate) fn take_handshake(&mut self) -> Option<Handshake> {
        self.handshake.take()
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

    /// Takes the next frame if it is there as a whole. After a refusal, which the caller sends, nothing more is taken.
    pub(crate) fn next(&mut self) -> Result<Option<Event<'_>>, Refusal> {
        let limit = match self.phase {
            Phase::Open => match self.input.peek() {
                Some((Kind::Call, _)) | None => self.limits.frame,
                // Calls alone are held to a number of bytes.
                Some(_) => HELLO_BODY,
            },
            Phase::Handshake => return self.shake_hands(),
            Phase::Hello => HELLO_BODY + HELLO_HEAD,
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
            Phase::Hello => match hello(&frame) {
                Ok((hello, version)) => {
                    self.version = version;
                    self.answer =
                        usize::try_from(hello.frame).unwrap_or(usize::MAX).min(self.limits.frame);
                    self.hello = hello.application.to_vec();
                    self.phase = Phase::Decision;
                    Ok(Event::Hello(&self.hello))
                }
                Err(refusal) => Err(refusal),
            },
            Phase::Handshake | Phase::Decision | Phase::Refused => return Ok(None),
        };
        if event.is_err() {
            self.phase = Phase::Refused;
        }
        event.map(Some)
    }

    /// Takes the message of the client.
    fn shake_hands(&mut self) -> Result<Option<Event<'static>>, Refusal> {
        let mut answer = Vec::new();
        let made = make_keys(self.key.as_ref(), &mut self.input, &mut answer);
        self.phase = match &made {
            Ok(None) => Phase::Handshake,
            Ok(Some(_)) => Phase::Hello,
            Err(_) => Phase::Refused,
        };
        Ok(made?.map(|Keys { sealer, opener }| {
            self.input.open_with(opener);
            self.handshake = Some(Handshake { answer, sealer });
            Event::Handshake
        }))
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

/// The hello in a frame, and the version that both sides speak.
fn hello<'a>(frame: &Frame<'a>) -> Result<(Hello<'a>, u8), Refusal> {
    let not_a_hello = || Refusal::new(Reason::Protocol, "the first frame is not a hello");
    match frame.kind {
        Kind::Hello => {
            let hello = Hello::get(frame.body).ok_or_else(not_a_hello)?;
            let version = hello.version().ok_or_else(|| no_version(&hello))?;
            Ok((hello, version))
        }
        Kind::Handshake => {
            Err(Refusal::new(Reason::Secret, "the client has a secret, and the server has none"))
        }
        _ => Err(not_a_hello()),
    }
}

/// The keys, if the message of the client has arrived, whose answer is appended to `answer`.
fn make_keys(
    key: Option<&Key>,
    input: &mut Input,
    answer: &mut Vec<u8>,
) -> Result<Option<Keys>, Refusal> {
    let refused = |reason, why: &str| Err(Refusal::new(reason, why));
    if let Some((Kind::Hello, _)) = input.peek() {
        return refused(Reason::Secret, "the server needs a secret, and the client has none");
    }
    let Some(frame) = input.next(secure::MESSAGE).map_err(refusal)? else { return Ok(None) };
    let Some(key) = key.filter(|_| frame.kind == Kind::Handshake) else {
        return refused(Reason::Protocol, "the first frame is not a handshake");
    };
    match key.answer(frame.body, answer) {
        // Behind it nothing can have arrived: the client does not have its keys yet.
        Ok(_) if input.waiting() > 0 => refused(Reason::Protocol, "bytes behind the handshake"),
        Ok(keys) => Ok(Some(keys)),
        Err(Failed::Secret) => refused(Reason::Secret, "the client does not know the secret"),
        Err(Failed::System(error)) => {
            refused(Reason::Full, &format!("the server has no keys: {error}"))
        }
    }
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
