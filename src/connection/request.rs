//! What a connection asks of the owner of a store, and how it is answered, as bytes.

use std::sync::Arc;

use crate::base::random::random_id;
use crate::core::verb::{Named, TubeName, Verb, put_verb};
use crate::core::{ClaimKey, Grant, Input, Malformed, StoreId, Wire, from_bytes};
use crate::runtime::when_full::WhenFull;
use crate::values::filter::Filter;
use crate::values::token::ClaimToken;
use crate::{Error, Result, SessionId};

/// How the owner makes a call. What the call waits for follows from its verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Its caller waits for the answer.
    Call,
    /// Its caller has let go of the claim that it ends: if the call is refused, the task is released.
    End,
    /// As `Call`, but it is refused while the write buffer is full.
    UnlessFull,
}

impl Mode {
    /// The mode of a change that consumes no handle of its caller.
    pub(crate) fn of_change(when_full: WhenFull) -> Mode {
        match when_full {
            WhenFull::Refuse => Mode::UnlessFull,
            WhenFull::Wait => Mode::Call,
        }
    }
}

impl Mode {
    fn tag(self) -> u8 {
        match self {
            Mode::Call => tag::CALL,
            Mode::End => tag::END,
            Mode::UnlessFull => tag::CALL_UNLESS_FULL,
        }
    }

    fn of_tag(tag: u8) -> Option<Mode> {
        Some(match tag {
            tag::CALL => Mode::Call,
            tag::END => Mode::End,
            tag::CALL_UNLESS_FULL => Mode::UnlessFull,
            _ => return None,
        })
    }
}

/// What is no call of the core: it waits, or reads what is beside the core. Times are in
/// microseconds.
pub(crate) enum Request {
    /// A take from the first of these tubes that has a task. With `most`, of up to so many tasks of
    /// the first tube. Without a tube, it waits for the timeout.
    Take {
        tubes: Vec<TubeName>,
        session: SessionId,
        timeout: Option<u64>,
        most: Option<u64>,
    },
    WaitReady {
        tube: TubeName,
        session: SessionId,
        timeout: Option<u64>,
    },
    /// A take of this task.
    Claim {
        tube: TubeName,
        session: SessionId,
        id: u64,
    },
    /// The end of a claim.
    ClaimEnd(ClaimKey),
    /// A parked claim goes to this session.
    ResumeClaim(SessionId, ClaimToken),
    BeginSession(SessionId, Option<Arc<str>>),
    ResumeSession(SessionId),
    EndSession(SessionId),
    /// The connection has no handle of the session any more.
    DropSession(SessionId),
    Flush,
    CatchUp,
    Verify,
    /// A copy of the store to a path of the owner's machine.
    Backup(String),
    Counters,
    Clock,
    /// The store at a scrape, without its tubes.
    ScrapeStore,
    /// The process is there. Answered with whether sessions of the connection have claims.
    Heartbeat,
    /// A stream of events, by a number that the connection has chosen. The first item is the answer
    /// that the subscription has begun.
    Subscribe {
        number: u64,
        filter: Filter,
        capacity: usize,
    },
    /// How many events were delivered to a subscription of the connection.
    Delivered(u64),
}

/// How an answer begins: whether it hands out tasks, which are given back if nobody gets them.
const VALUE: u8 = 0;
const GRANTS: u8 = 1;

/// The numbers of the requests in the protocol.
mod tag {
    pub(super) const CALL: u8 = 1;
    pub(super) const END: u8 = 3;
    pub(super) const CALL_UNLESS_FULL: u8 = 4;
    pub(super) const TAKE: u8 = 5;
    pub(super) const WAIT_READY: u8 = 6;
    pub(super) const CLAIM_END: u8 = 7;
    pub(super) const FLUSH: u8 = 8;
    pub(super) const CATCH_UP: u8 = 9;
    pub(super) const VERIFY: u8 = 10;
    pub(super) const BACKUP: u8 = 11;
    pub(super) const COUNTERS: u8 = 12;
    pub(super) const CLOCK: u8 = 13;
    pub(super) const HEARTBEAT: u8 = 15;
    pub(super) const SUBSCRIBE: u8 = 16;
    pub(super) const DELIVERED: u8 = 17;
    pub(super) const CLAIM: u8 = 18;
    pub(super) const BEGIN_SESSION: u8 = 19;
    pub(super) const RESUME_SESSION: u8 = 20;
    pub(super) const END_SESSION: u8 = 21;
    pub(super) const DROP_SESSION: u8 = 22;
    pub(super) const RESUME_CLAIM: u8 = 23;
    pub(super) const SCRAPE_STORE: u8 = 24;
}

/// Most calls without a body fit into this many bytes.
const USUAL_CALL: usize = 256;

/// The bytes of a verb that is a type.
pub(crate) fn verb_to_bytes<V: Verb>(mode: Mode, on: Named<'_, V>, verb: &V) -> Vec<u8> {
    let mut out = Vec::with_capacity(USUAL_CALL);
    out.push(mode.tag());
    put_verb(on, verb, &mut out);
    out
}

/// Begins to read the bytes of a call: what it is made on is next. `None` if they are of another request.
pub(crate) fn read_call(bytes: &[u8]) -> Option<(Mode, Input<'_>)> {
    let mut input = Input::of_request(bytes);
    let mode = Mode::of_tag(input.byte().ok()?)?;
    Some((mode, input))
}

impl Request {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(USUAL_CALL);
        self.put(&mut bytes);
        bytes
    }

    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Request::Take { tubes, session, timeout, most } => {
                out.push(tag::TAKE);
                tubes.put(out);
                session.put(out);
                timeout.put(out);
                most.put(out);
            }
            Request::WaitReady { tube, session, timeout } => {
                out.push(tag::WAIT_READY);
                tube.put(out);
                session.put(out);
                timeout.put(out);
            }
            Request::Claim { tube, session, id } => {
                out.push(tag::CLAIM);
                tube.put(out);
                session.put(out);
                id.put(out);
            }
            Request::ClaimEnd(key) => {
                out.push(tag::CLAIM_END);
                key.put(out);
            }
            Request::ResumeClaim(session, token) => {
                out.push(tag::RESUME_CLAIM);
                session.put(out);
                token.put(out);
            }
            Request::BeginSession(session, label) => {
                out.push(tag::BEGIN_SESSION);
                session.put(out);
                label.put(out);
            }
            Request::ResumeSession(session) => {
                out.push(tag::RESUME_SESSION);
                session.put(out);
            }
            Request::EndSession(session) => {
                out.push(tag::END_SESSION);
                session.put(out);
            }
            Request::DropSession(session) => {
                out.push(tag::DROP_SESSION);
                session.put(out);
            }
            Request::Flush => out.push(tag::FLUSH),
            Request::CatchUp => out.push(tag::CATCH_UP),
            Request::Verify => out.push(tag::VERIFY),
            Request::Backup(path) => {
                out.push(tag::BACKUP);
                path.put(out);
            }
            Request::Counters => out.push(tag::COUNTERS),
            Request::Clock => out.push(tag::CLOCK),
            Request::ScrapeStore => out.push(tag::SCRAPE_STORE),
            Request::Heartbeat => out.push(tag::HEARTBEAT),
            Request::Subscribe { number, filter, capacity } => {
                out.push(tag::SUBSCRIBE);
                number.put(out);
                filter.put(out);
                capacity.put(out);
            }
            Request::Delivered(number) => {
                out.push(tag::DELIVERED);
                number.put(out);
            }
        }
    }

    /// Reads a request that is no call.
    pub(crate) fn read(bytes: &[u8]) -> Result<Request, Malformed> {
        let mut input = Input::of_request(bytes);
        let request = match input.byte()? {
            tag::TAKE => Request::Take {
                tubes: Wire::get(&mut input)?,
                session: Wire::get(&mut input)?,
                timeout: Wire::get(&mut input)?,
                most: Wire::get(&mut input)?,
            },
            tag::WAIT_READY => Request::WaitReady {
                tube: Wire::get(&mut input)?,
                session: Wire::get(&mut input)?,
                timeout: Wire::get(&mut input)?,
            },
            tag::CLAIM => Request::Claim {
                tube: Wire::get(&mut input)?,
                session: Wire::get(&mut input)?,
                id: Wire::get(&mut input)?,
            },
            tag::CLAIM_END => Request::ClaimEnd(Wire::get(&mut input)?),
            tag::RESUME_CLAIM => {
                Request::ResumeClaim(Wire::get(&mut input)?, Wire::get(&mut input)?)
            }
            tag::BEGIN_SESSION => {
                Request::BeginSession(Wire::get(&mut input)?, Wire::get(&mut input)?)
            }
            tag::RESUME_SESSION => Request::ResumeSession(Wire::get(&mut input)?),
            tag::END_SESSION => Request::EndSession(Wire::get(&mut input)?),
            tag::DROP_SESSION => Request::DropSession(Wire::get(&mut input)?),
            tag::FLUSH => Request::Flush,
            tag::CATCH_UP => Request::CatchUp,
            tag::VERIFY => Request::Verify,
            tag::BACKUP => Request::Backup(Wire::get(&mut input)?),
            tag::COUNTERS => Request::Counters,
            tag::CLOCK => Request::Clock,
            tag::SCRAPE_STORE => Request::ScrapeStore,
            tag::HEARTBEAT => Request::Heartbeat,
            tag::SUBSCRIBE => Request::Subscribe {
                number: Wire::get(&mut input)?,
                filter: Wire::get(&mut input)?,
                capacity: Wire::get(&mut input)?,
            },
            tag::DELIVERED => Request::Delivered(Wire::get(&mut input)?),
            _ => return Err(Malformed::Invalid("an unknown number of a request")),
        };
        input.end()?;
        Ok(request)
    }
}

/// The versions of requests and answers that this release speaks.
const VERSIONS: Versions = Versions { lowest: 1, highest: 1 };

/// The versions that a side speaks. Their encoding is the same in all releases.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Versions {
    lowest: u32,
    highest: u32,
}

impl Versions {
    /// The newest version that this release has in common with another one.
    pub(crate) fn common(self) -> Result<u32, String> {
        let version = self.highest.min(VERSIONS.highest);
        if version >= self.lowest.max(VERSIONS.lowest) {
            return Ok(version);
        }
        let older = if self.highest < VERSIONS.lowest { "this program" } else { "the owner" };
        Err(format!(
            "the owner of the store speaks versions {} to {} of the calls, and this program {} to {}; \
             {older} is older: update it",
            VERSIONS.lowest, VERSIONS.highest, self.lowest, self.highest
        ))
    }

    /// Reads the versions of a hello, whatever follows them.
    pub(crate) fn of_hello(hello: &[u8]) -> Result<Versions, Malformed> {
        Versions::get(&mut Input::new(hello))
    }
}

impl Wire for Versions {
    fn put(&self, out: &mut Vec<u8>) {
        self.lowest.put(out);
        self.highest.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<Versions, Malformed> {
        Ok(Versions { lowest: Wire::get(input)?, highest: Wire::get(input)? })
    }
}

/// What a connection says first, after the versions that it speaks.
pub(crate) struct Hello {
    /// The sessions that it has.
    pub(crate) sessions: Vec<HelloSession>,
    /// Which client it is of: the same for each connection of a client.
    pub(crate) client: Option<ClientId>,
}

/// A client, by a number that it has chosen at random.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ClientId([u8; 16]);

impl ClientId {
    pub(crate) fn random() -> ClientId {
        ClientId(random_id())
    }

    pub(crate) fn number(self) -> u128 {
        u128::from_le_bytes(self.0)
    }
}

impl Wire for ClientId {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }

    fn get(input: &mut Input<'_>) -> Result<ClientId, Malformed> {
        SessionId::get(input).map(|id| ClientId(id.to_bytes()))
    }
}

pub(crate) struct HelloSession {
    pub(crate) id: SessionId,
    pub(crate) label: Option<Arc<str>>,
}

impl Hello {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        VERSIONS.put(&mut out);
        self.sessions.put(&mut out);
        self.client.put(&mut out);
        out
    }

    /// Reads a hello. What a newer release says behind it is skipped.
    pub(crate) fn read(bytes: &[u8]) -> Result<Hello, Malformed> {
        let mut input = Input::new(bytes);
        let Versions { highest, .. } = Versions::get(&mut input)?;
        let sessions = Wire::get(&mut input)?;
        let client = Wire::get(&mut input)?;
        if highest <= VERSIONS.highest {
            input.end()?;
        }
        Ok(Hello { sessions, client })
    }
}

impl Wire for HelloSession {
    fn put(&self, out: &mut Vec<u8>) {
        self.id.put(out);
        self.label.put(out);
    }

    fn get(input: &mut Input<'_>) -> Result<HelloSession, Malformed> {
        Ok(HelloSession { id: Wire::get(input)?, label: Wire::get(input)? })
    }
}

/// What the owner answers to it.
pub(crate) struct Welcome {
    /// The version that both sides speak from now on.
    pub(crate) version: u32,
    pub(crate) max_body: usize,
    /// How often the owner wants to hear from a connection that has claims, in microseconds; 0 for never.
    pub(crate) heartbeat: u64,
    /// Which store it is.
    pub(crate) store: StoreId,
}

impl Welcome {
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.version.put(&mut out);
        self.max_body.put(&mut out);
        self.heartbeat.put(&mut out);
        self.store.put(&mut out);
        out
    }

    /// Reads a welcome, and refuses a version that this release does not speak.
    pub(crate) fn read(bytes: &[u8]) -> Result<Welcome, String> {
        let text = |malformed| Error::from(malformed).to_string();
        let mut input = Input::new(bytes);
        let version = Wire::get(&mut input).map_err(text)?;
        let Versions { lowest, highest } = VERSIONS;
        if !(lowest..=highest).contains(&version) {
            return Err(format!(
                "the owner of the store has chosen version {version} of the calls, and this program \
                 speaks {lowest} to {highest}"
            ));
        }
        let rest = |input: &mut Input<'_>| {
            let max_body = Wire::get(input)?;
            let heartbeat = Wire::get(input)?;
            let store = Wire::get(input)?;
            input.end()?;
            Ok(Welcome { version, max_body, heartbeat, store })
        };
        rest(&mut input).map_err(text)
    }
}

/// Encodes the answer to a request.
pub(crate) fn encode_value<T: Wire>(answer: &Result<T>) -> Vec<u8> {
    let mut out = vec![VALUE];
    answer.put(&mut out);
    out
}

/// Encodes an answer that hands out tasks. Their bodies have been read.
pub(crate) fn encode_grants(answer: &Result<Vec<Grant>>) -> Vec<u8> {
    let mut out = vec![GRANTS];
    answer.put(&mut out);
    out
}

/// The error of an answer that cannot be read. The call may have taken effect.
fn unreadable(what: &str) -> Error {
    let why = format!(
        "the answer of the owner of the store cannot be read: {what}; use the same release in both \
         processes"
    );
    Error::OutcomeUnknown { why }
}

pub(crate) fn read_value<T: Wire>(bytes: &[u8]) -> Result<T> {
    read_tagged(VALUE, bytes)
}

pub(crate) fn read_grants(bytes: &[u8]) -> Result<Vec<Grant>> {
    read_tagged(GRANTS, bytes)
}

/// Whether an answer hands out tasks: it is not an error, and there is one at least.
pub(super) fn has_grants(bytes: &[u8]) -> bool {
    matches!(bytes, [GRANTS, 1, count, ..] if *count > 0)
}

/// The tasks that an answer hands out.
pub(super) fn grants_in(bytes: &[u8]) -> Vec<Grant> {
    read_grants(bytes).unwrap_or_default()
}

/// The error that an answer is, whatever was asked.
pub(super) fn refusal_in(bytes: &[u8]) -> Option<Error> {
    let (_, rest) = bytes.split_first()?;
    from_bytes::<Result<()>>(rest).ok()?.err()
}

fn read_tagged<T: Wire>(tag: u8, bytes: &[u8]) -> Result<T> {
    let answer: Result<Result<T>, Malformed> = match bytes.split_first() {
        Some((first, rest)) if *first == tag => from_bytes(rest),
        // A refusal is the same for all requests.
        Some(_) => match refusal_in(bytes) {
            Some(refusal) => Ok(Err(refusal)),
            None => Err(Malformed::Invalid("the answer to another request")),
        },
        None => Err(Malformed::Invalid("an answer without bytes")),
    };
    match answer.map_err(|malformed| unreadable(&malformed.to_string()))? {
        // The owner will be back, or another one.
        Err(Error::Closed) => {
            Err(Error::NotConnected { why: "the owner of the store has closed it".into() })
        }
        answer => answer,
    }
}
