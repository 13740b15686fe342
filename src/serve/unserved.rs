//! A connection without a socket, for the fuzz targets: requests and answers are bytes.
//!
//! Only with the feature `_peer`, and not public: it may change in any release.

use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use tubewell_wire::{Answering, Reply, Service};

use super::peer;
use super::service::StoreService;
use crate::connection::{Hello, HelloSession, Mode, Request, read_call, verb_to_bytes};
use crate::core::list::with_verb;
use crate::core::verb::{Begin, Named, OnVerb};
use crate::core::{Grant, Input, Malformed, StoreId, TubeHead, Wire, from_bytes, to_bytes};
use crate::events::Delivered;
use crate::values::counters::{ClockReport, Counters};
use crate::values::scrape::StoreScrape;
use crate::{Error, Event, Result, SessionId, Store};

/// The peer of a connection to a store that is open in this process. Dropping it ends the connection.
pub struct Peer {
    service: StoreService,
    peer: Arc<peer::Peer>,
}

impl fmt::Debug for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peer").finish_non_exhaustive()
    }
}

impl Peer {
    /// Connects with these sessions.
    ///
    /// # Errors
    /// The connection is refused.
    pub fn connect(store: &Store, sessions: &[SessionId]) -> Result<Peer> {
        let service = StoreService::new(
            store.here("a connection without a socket")?.visitor(),
            StoreId([0; 16]),
            usize::MAX,
            None,
        );
        let session = |id: &SessionId| HelloSession { id: *id, label: None };
        let hello = Hello { sessions: sessions.iter().map(session).collect(), client: None };
        let (peer, _) = service
            .connect(&hello.to_bytes())
            .map_err(|rejection| Error::invalid(rejection.why))?;
        Ok(Peer { service, peer: Arc::new(peer) })
    }

    /// Makes a request, as the transport does with the bytes of a frame.
    #[must_use]
    pub fn ask(&self, request: &[u8]) -> Asked {
        Asked(Some(self.service.call(&self.peer, request)))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        while self.service.disconnect(&self.peer) {}
    }
}

/// A request that was made. Dropping it cancels it.
#[derive(Debug)]
pub struct Asked(Option<Answering>);

impl Asked {
    /// The answer, or the next one of a stream; `None` after the last one.
    pub fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Bytes>> {
        let next = match self.0.take() {
            None => None,
            Some(Answering::Now(reply)) => Some(Bytes(reply)),
            Some(Answering::Later(mut later) | Answering::LaterWithoutBody(mut later)) => {
                match later.as_mut().poll(context) {
                    Poll::Ready(reply) => Some(Bytes(reply)),
                    Poll::Pending => {
                        self.0 = Some(Answering::Later(later));
                        return Poll::Pending;
                    }
                }
            }
            Some(Answering::Many(mut items)) => {
                let next = items.as_mut().poll_next(context);
                self.0 = Some(Answering::Many(items));
                return next.map(|item| item.map(|item| Bytes(Reply::new(item))));
            }
        };
        Poll::Ready(next)
    }
}

/// The bytes of an answer.
#[derive(Debug)]
pub struct Bytes(Reply);

impl Bytes {
    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0.body
    }

    /// The connection ends before the answer has arrived.
    pub fn lose(self) {
        if let Some(lost) = self.0.on_lost {
            lost();
        }
    }
}

/// A request that was decoded.
#[derive(Debug)]
pub struct Decoded {
    /// Its text, for people.
    pub text: String,
    /// The bytes to which it is encoded.
    pub again: Vec<u8>,
}

/// Decodes a request. `None` if the bytes are none.
#[must_use]
pub fn decode(request: &[u8]) -> Option<Decoded> {
    if let Some((mode, mut input)) = read_call(request) {
        return with_verb(&mut input, Decode(mode)).ok();
    }
    let read = Request::read(request).ok()?;
    let text = match &read {
        Request::Take { tubes, timeout, most, .. } => {
            format!("Take {tubes:?} {timeout:?} {most:?}")
        }
        _ => format!("request {}", request[0]),
    };
    Some(Decoded { text, again: read.to_bytes() })
}

/// Decodes a verb, and encodes it again.
struct Decode(Mode);

impl OnVerb for Decode {
    type Done = Decoded;

    fn run<V: Begin>(self, on: Named<'_, V>, input: &mut Input<'_>) -> Result<Decoded, Malformed> {
        let verb = V::get(input)?;
        input.end()?;
        Ok(Decoded { text: V::NAME.to_owned(), again: verb_to_bytes(self.0, on, &verb) })
    }
}

/// Decodes the answer to a verb.
struct ReadAnswer<'a>(&'a [u8]);

impl OnVerb for ReadAnswer<'_> {
    type Done = Result<Said, Malformed>;

    fn run<V: Begin>(
        self,
        _: Named<'_, V>,
        input: &mut Input<'_>,
    ) -> Result<Self::Done, Malformed> {
        V::get(input)?;
        input.end()?;
        Ok(of_verb::<V>(self.0))
    }
}

/// The answer to a verb, with the tube or the number that it is.
fn of_verb<V: Begin>(answer: &[u8]) -> Result<Said, Malformed> {
    let said = value::<V::Answer>(answer)?;
    let answer = from_bytes::<Result<V::Answer>>(&answer[1..])?.ok();
    let answer = answer.as_ref().map(|answer| answer as &dyn Any);
    let head = answer.and_then(|answer| answer.downcast_ref::<TubeHead>());
    Ok(Said {
        tube: head.map(|head| (head.number.0, head.name.to_string())),
        count: answer.and_then(|answer| answer.downcast_ref::<u64>()).copied(),
        ..said
    })
}

/// An answer that was decoded.
#[derive(Debug)]
pub struct Said {
    /// Why the call was refused.
    pub refused: Option<Error>,
    /// The tasks that it hands out: the number of the tube, the id, the epoch of the claim and its
    /// session.
    pub grants: Vec<(u32, u64, u64, SessionId)>,
    /// The number and the name of the tube that it names.
    pub tube: Option<(u32, String)>,
    /// The number that it is, such as the epoch of a parked claim.
    pub count: Option<u64>,
    /// The bytes to which it is encoded.
    pub again: Vec<u8>,
}

/// Decodes an answer to a request, as the side that has made it does.
///
/// # Errors
/// The bytes are no answer to this request.
pub fn read_answer(request: &[u8], answer: &[u8]) -> Result<Said> {
    if let Some((_, mut input)) = read_call(request)
        && let Ok(said) = with_verb(&mut input, ReadAnswer(answer))
    {
        return Ok(said?);
    }
    // A malformed request is refused as any other one.
    let Ok(request) = Request::read(request) else { return Ok(value::<()>(answer)?) };
    let said = match request {
        Request::Take { .. } | Request::Claim { .. } | Request::ResumeClaim(..) => grants(answer),
        Request::WaitReady { .. } | Request::Heartbeat => value::<bool>(answer),
        Request::Verify => value::<Vec<String>>(answer),
        Request::Counters => value::<Counters>(answer),
        Request::Clock => value::<ClockReport>(answer),
        Request::ScrapeStore => value::<StoreScrape>(answer),
        // The first item is an answer.
        Request::Subscribe { .. } => value::<()>(answer).or_else(|_| item(answer)),
        Request::Delivered(_) => value::<Delivered>(answer),
        Request::Flush => value::<u64>(answer),
        Request::ClaimEnd(_)
        | Request::CatchUp
        | Request::Backup(_)
        | Request::BeginSession(..)
        | Request::ResumeSession(_)
        | Request::EndSession(_)
        | Request::DropSession(_) => value::<()>(answer),
    };
    Ok(said?)
}

/// Reads an answer that begins with this byte. A refusal may begin with any.
fn tagged(tag: u8, answer: &[u8]) -> Result<(u8, &[u8]), Malformed> {
    match answer.split_first() {
        Some((first, rest)) if *first == tag || rest.first() == Some(&0) => Ok((*first, rest)),
        _ => Err(Malformed::Invalid("the answer to another request")),
    }
}

fn value<T: Wire + 'static>(answer: &[u8]) -> Result<Said, Malformed> {
    let (tag, rest) = tagged(0, answer)?;
    let value: Result<T> = from_bytes(rest)?;
    let again = [vec![tag], to_bytes(&value)].concat();
    let count = value.as_ref().ok().and_then(|value| (value as &dyn Any).downcast_ref()).copied();
    Ok(Said { refused: value.err(), grants: Vec::new(), tube: None, count, again })
}

fn grants(answer: &[u8]) -> Result<Said, Malformed> {
    let (tag, rest) = tagged(1, answer)?;
    let value: Result<Vec<Grant>> = from_bytes(rest)?;
    let again = [vec![tag], to_bytes(&value)].concat();
    let (granted, refused) = match value {
        Ok(granted) => (granted, None),
        Err(refused) => (Vec::new(), Some(refused)),
    };
    let grant = |grant: Grant| (grant.tube.0, grant.id, grant.epoch, grant.session);
    let grants = granted.into_iter().map(grant).collect();
    Ok(Said { refused, grants, tube: None, count: None, again })
}

/// An event of a stream.
fn item(answer: &[u8]) -> Result<Said, Malformed> {
    let event: Event = from_bytes(answer)?;
    Ok(Said { refused: None, grants: Vec::new(), tube: None, count: None, again: to_bytes(&event) })
}
