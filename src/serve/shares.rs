//! What the owner of a store makes and keeps for all connections together, each kind with a limit.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::events::EventBytes;
use crate::{Error, Result};

/// A kind of what connections share. No kind waits for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// Threads that read the whole file: `verify`, `backup`.
    Copies,
    CatchUps,
    /// The combinations of the filters of subscriptions, which take memory in the index of events.
    Combinations,
    /// Calls that wait: a take waits in each of its tubes.
    Waits,
}

const SHARES: [Share; 4] = [Share::Copies, Share::CatchUps, Share::Combinations, Share::Waits];

impl Share {
    pub(super) fn most(self) -> usize {
        match self {
            Share::Copies => 2,
            Share::CatchUps => 4,
            Share::Combinations => 65_536,
            Share::Waits => 262_144,
        }
    }

    fn as_many_as_may_be(self) -> String {
        let what = match self {
            Share::Copies => "verifications or backups for other processes",
            Share::CatchUps => "catch-ups for other processes",
            Share::Combinations => "combinations in filters of other processes",
            Share::Waits => "waiting calls of other processes",
        };
        format!("{} {what}", self.most())
    }
}

/// What all connections of a server share.
#[derive(Default)]
pub(super) struct Shares {
    used: [AtomicUsize; SHARES.len()],
    /// The bytes of events that wait to be read.
    pub(super) events: Arc<EventBytes>,
}

impl Shares {
    /// A part of a share, until it is dropped.
    ///
    /// # Errors
    /// `OwnerBusy`: too little of it is left.
    pub(super) fn permit(self: &Arc<Shares>, share: Share, count: usize) -> Result<Permit> {
        let more = |used: usize| used.checked_add(count).filter(|sum| *sum <= share.most());
        match self.used[share as usize].fetch_update(Ordering::AcqRel, Ordering::Acquire, more) {
            Ok(_) => Ok(Permit { shares: self.clone(), share, count }),
            Err(_) => Err(Error::OwnerBusy { what: share.as_many_as_may_be() }),
        }
    }
}

/// A part of a share that is in use.
pub(super) struct Permit {
    shares: Arc<Shares>,
    share: Share,
    count: usize,
}

impl Permit {
    /// Keeps the permit until a future is done or dropped.
    pub(super) async fn hold<F: Future>(self, future: F) -> F::Output {
        let answer = future.await;
        drop(self);
        answer
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.shares.used[self.share as usize].fetch_sub(self.count, Ordering::AcqRel);
    }
}
