//! The answers to requests: those that are there, and those that come later.

use tubewell_wire::{Answering, Reply};

use crate::connection::{encode_grants, encode_value};
use crate::core::{ClaimKey, Grant, Wire};
use crate::handle::store_handle::StoreHandle;
use crate::{Claim, Error, Result};

/// The answer that is there.
pub(super) fn now<T: Wire>(answer: &Result<T>) -> Answering {
    Answering::Now(Reply { body: encode_value(answer), ..Reply::default() })
}

pub(super) fn refused(error: Error) -> Answering {
    now(&Err::<(), Error>(error))
}

/// The answer of a future.
pub(super) fn value<T: Wire>(
    answer: impl Future<Output = Result<T>> + Send + 'static,
) -> Answering {
    later(async move { reading(encode_value(&answer.await)) })
}

/// The answer to a call, which may be made again if it changes nothing.
pub(super) fn reply<T: Wire>(changes: bool, answer: &Result<T>) -> Reply {
    let body = encode_value(answer);
    if changes { Reply::new(body) } else { reading(body) }
}

/// The answer to a request that has changed nothing.
pub(super) fn reading(body: Vec<u8>) -> Reply {
    let busy = busy_instead_of(&body);
    Reply { body, busy, ..Reply::default() }
}

/// A longer answer may be refused, for other ones that were not read.
const LONG: usize = 64 << 10;

fn busy_instead_of(body: &[u8]) -> Option<Vec<u8>> {
    let what = || "too many bytes of answers that other processes have not read".to_owned();
    (body.len() > LONG).then(|| encode_value(&Err::<(), Error>(Error::OwnerBusy { what: what() })))
}

/// The connection to which tasks are handed out.
pub(super) struct Recipient {
    /// Where tasks go back whose answer is lost.
    pub(super) store: StoreHandle,
    /// Their session does not end with the connection.
    pub(super) has_grace: bool,
    /// The process says that it is there while it has claims.
    pub(super) beats: bool,
}

/// The answer of a future that hands out tasks.
pub(super) fn grants(
    Recipient { store, has_grace, beats }: Recipient,
    claims: impl Future<Output = Result<Vec<Claim>>> + Send + 'static,
) -> Answering {
    later(async move {
        let grants = claims.await.map(|claims| claims.into_iter().map(Claim::into_grant).collect());
        let body = encode_grants(&grants);
        let grants: Vec<Grant> = grants.unwrap_or_default();
        let expect_beats = (beats && !grants.is_empty()).then_some(true);
        let busy = busy_instead_of(&body);
        let may_be_lost = has_grace || busy.is_some();
        let on_lost = may_be_lost.then(|| give_back(store, &grants)).flatten();
        Reply { body, on_lost, busy, expect_beats }
    })
}

fn give_back(store: StoreHandle, grants: &[Grant]) -> Option<Box<dyn FnOnce() + Send>> {
    if grants.is_empty() {
        return None;
    }
    let keys: Vec<ClaimKey> = grants.iter().map(Grant::key).collect();
    Some(Box::new(move || store.drop_claims(&keys, true)))
}

/// The answer of a future that holds nothing of the body of its request.
pub(super) fn without_body(reply: impl Future<Output = Reply> + Send + 'static) -> Answering {
    Answering::LaterWithoutBody(Box::pin(reply))
}

pub(super) fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Answering {
    Answering::Later(Box::pin(reply))
}
