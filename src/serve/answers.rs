//! The answers to requests: those that are there, and those that come later.

use tubewell_wire::{Answering, Reply};

use crate::connection::{encode_grants, encode_value};
use crate::core::{Call, Grant, Wire};
use crate::handle::StoreHandle;
use crate::{Claim, Error, Result};

/// The answer that is there.
pub(super) fn now<T: Wire>(answer: &Result<T>) -> Answering {
    Answering::Now(Reply { body: encode_value(answer), on_lost: None })
}

pub(super) fn refused(error: Error) -> Answering {
    now(&Err::<(), Error>(error))
}

/// The answer of a future.
pub(super) fn value<T: Wire>(
    answer: impl Future<Output = Result<T>> + Send + 'static,
) -> Answering {
    later(async move { Reply { body: encode_value(&answer.await), on_lost: None } })
}

/// The answer of a future that hands out tasks. If it is lost, they go back to `store`; to none if
/// their session ends with the connection.
pub(super) fn grants(
    store: Option<StoreHandle>,
    claims: impl Future<Output = Result<Vec<Claim>>> + Send + 'static,
) -> Answering {
    later(async move {
        let grants = claims.await.map(|claims| claims.into_iter().map(Claim::into_grant).collect());
        let body = encode_grants(&grants);
        let lost = |store: StoreHandle| give_back(store, grants.unwrap_or_default());
        Reply { body, on_lost: store.and_then(lost) }
    })
}

fn give_back(store: StoreHandle, grants: Vec<Grant>) -> Option<Box<dyn FnOnce() + Send>> {
    if grants.is_empty() {
        return None;
    }
    let ids: Vec<(u64, u64)> = grants.iter().map(|grant| (grant.id, grant.epoch)).collect();
    Some(Box::new(move || {
        for (id, epoch) in ids {
            store.tell(Call::DropClaim { id, epoch, forgive: true });
        }
    }))
}

pub(super) fn later(reply: impl Future<Output = Reply> + Send + 'static) -> Answering {
    Answering::Later(Box::pin(reply))
}
