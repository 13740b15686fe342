//! The answers to requests: those that are there, and those that come later.

use tubewell_wire::{Answering, Reply};

use crate::connection::{encode_grants, encode_value};
use crate::core::{Call, Grant, Wire};
use crate::handle::StoreHandle;
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
    later(async move { Reply { body: encode_value(&answer.await), ..Reply::default() } })
}

/// The connection to which tasks are handed out.
pub(super) struct Recipient {
    /// Where tasks go back whose answer is lost; `None` if their session ends with the connection.
    pub(super) store: Option<StoreHandle>,
    /// The process says that it is there while it has claims.
    pub(super) beats: bool,
}

/// The answer of a future that hands out tasks.
pub(super) fn grants(
    Recipient { store, beats }: Recipient,
    claims: impl Future<Output = Result<Vec<Claim>>> + Send + 'static,
) -> Answering {
    later(async move {
        let grants = claims.await.map(|claims| claims.into_iter().map(Claim::into_grant).collect());
        let body = encode_grants(&grants);
        let grants: Vec<Grant> = grants.unwrap_or_default();
        let expect_beats = (beats && !grants.is_empty()).then_some(true);
        let on_lost = store.and_then(|store| give_back(store, &grants));
        Reply { body, on_lost, expect_beats }
    })
}

fn give_back(store: StoreHandle, grants: &[Grant]) -> Option<Box<dyn FnOnce() + Send>> {
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
