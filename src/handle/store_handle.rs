//! The shared handle of a store: of this process, or of another one, which is reached through a
//! [`Connection`].

use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

use tubewell_drivers::Shelf;

use crate::connection::{Connection, Request};
use crate::core::list::DescribeHeld;
use crate::core::verb::{Begin, Limits, Named};
use crate::core::{Buffer, ClaimKey, Core, Grant, Granted, describe_unreachable};
use crate::runtime::open_store::LocalHandle;
use crate::{Error, Result, SessionId, TaskInfo};

/// A reference to a store: of this process, or of another one that serves it.
#[derive(Clone)]
pub(crate) enum StoreHandle {
    Here(LocalHandle),
    Remote(Arc<Connection>),
}

impl StoreHandle {
    /// The store, for what only its owner can do.
    pub(crate) fn here(&self, what: &'static str) -> Result<&LocalHandle> {
        match self {
            StoreHandle::Here(store) => Ok(store),
            StoreHandle::Remote(_) => Err(Error::OwnerOnly { what: what.into() }),
        }
    }

    /// Refuses a fork of the process that has opened the store, or has connected to it.
    pub(crate) fn check_process(&self) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.inner().map(|_| ()),
            StoreHandle::Remote(owner) => owner.check_process(),
        }
    }

    /// Makes a call, and blocks until its answer is there. What it waits for follows from the verb.
    #[inline]
    pub(crate) fn make<V: Begin>(
        &self,
        buffer: Buffer,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<V::Answer> {
        verb.check(self.limits())?;
        match self {
            StoreHandle::Here(store) => store.inner()?.make(buffer, on, verb),
            StoreHandle::Remote(owner) => owner.make(on, verb),
        }
    }

    pub(crate) fn limits(&self) -> Limits {
        Limits { max_body: self.max_body() }
    }

    /// As [`Store::flush`](crate::Store::flush).
    pub(crate) fn flush(&self) -> Result<u64> {
        match self {
            StoreHandle::Here(store) => store.inner()?.flush(),
            StoreHandle::Remote(owner) => owner.ask(&Request::Flush),
        }
    }

    /// As [`StoreAdmin::catch_up_with`](crate::expert::StoreAdmin::catch_up_with).
    pub(crate) fn catch_up(&self, progress: &mut dyn FnMut(u64) -> ControlFlow<()>) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.inner()?.catch_up(progress),
            StoreHandle::Remote(owner) => owner.ask(&Request::CatchUp),
        }
    }

    /// The description of a task that was taken.
    pub(crate) fn describe(&self, grant: &Grant) -> TaskInfo {
        let Granted { tube, name, id, header, .. } = &**grant;
        match self {
            StoreHandle::Here(store) => {
                let describe = |core: &mut Core| core.describe(*tube, *id, Shelf::Ready, header);
                let described = store.inner().map(|inner| inner.run(describe));
                described.unwrap_or_else(|_| describe_unreachable(name, *id, header))
            }
            StoreHandle::Remote(_) => {
                let described = self.make(grant.buffer, grant.key(), &DescribeHeld {});
                described.unwrap_or_else(|_| describe_unreachable(name, *id, header))
            }
        }
    }

    /// The running time of the machine, in microseconds.
    pub(crate) fn running(&self) -> u64 {
        match self {
            StoreHandle::Here(store) => store.open_store().inner.clock().running(),
            StoreHandle::Remote(owner) => owner.running(),
        }
    }

    /// Releases a task whose claim handle is gone. Does nothing if the claim has ended. `forgive`:
    /// no caller got the task, so the attempt does not count.
    pub(crate) fn drop_claim(&self, key: ClaimKey, forgive: bool) {
        match self {
            StoreHandle::Here(store) => store.drop_claim(key, forgive),
            StoreHandle::Remote(owner) => owner.drop_claim(key, forgive),
        }
    }

    /// As `drop_claim`, for each of these claims whose handles are gone.
    pub(crate) fn drop_claims(&self, claims: &[ClaimKey], forgive: bool) {
        for key in claims {
            self.drop_claim(*key, forgive);
        }
    }

    /// A handle of a session is dropped: the session ends, or its grace begins.
    fn drop_session(&self, id: SessionId) {
        match self {
            StoreHandle::Here(store) => {
                // What cannot be read stays as it is; `verify` reports it.
                let _ = store.run(|core| core.drop_session_handle(id));
            }
            StoreHandle::Remote(owner) => owner.drop_session(id),
        }
    }

    /// Begins a session. In this process, that does not fail.
    pub(crate) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.run(|core| core.begin_session(id, label.cloned())),
            StoreHandle::Remote(owner) => owner.begin_session(id, label),
        }
    }

    /// Adds a handle to a session.
    pub(crate) async fn resume_session(self, id: SessionId) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.run(|core| core.resume_session(id)),
            StoreHandle::Remote(owner) => owner.resume_session(id).await,
        }
    }

    /// Ends a session, whatever handles it has.
    pub(crate) async fn end_session(self, id: SessionId) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.end_session(id).await,
            StoreHandle::Remote(owner) => owner.end_session(id).await,
        }
    }

    /// Closes the store; that of another process stays open, and the connection ends.
    pub(crate) fn close(&self) -> Result<()> {
        match self {
            StoreHandle::Here(store) => store.open_store().close(),
            StoreHandle::Remote(owner) => owner.close(),
        }
    }

    /// Whether both handles refer to the same store.
    pub(crate) fn is_same_store(&self, other: &StoreHandle) -> bool {
        match (self, other) {
            (StoreHandle::Here(store), StoreHandle::Here(other)) => store.is_same_store(other),
            (StoreHandle::Remote(owner), StoreHandle::Remote(other)) => Arc::ptr_eq(owner, other),
            _ => false,
        }
    }

    pub(crate) fn max_body(&self) -> usize {
        match self {
            StoreHandle::Here(store) => store.open_store().max_body,
            StoreHandle::Remote(owner) => owner.max_body(),
        }
    }

    /// The store's own session, for callers that did not open one. That of a connection ends with
    /// the connection.
    pub(crate) fn own_session(&self) -> SessionId {
        match self {
            StoreHandle::Here(store) => store.open_store().own,
            StoreHandle::Remote(owner) => owner.own_session(),
        }
    }
}

/// One handle of a session. When the last one is dropped, the session ends or its grace begins.
pub(crate) struct SessionGuard {
    pub(crate) handle: StoreHandle,
    pub(crate) id: SessionId,
}

impl fmt::Debug for SessionGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.id)
    }
}

impl SessionGuard {
    pub(crate) fn new(handle: StoreHandle, id: SessionId) -> SessionGuard {
        SessionGuard { handle, id }
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        self.handle.drop_session(self.id);
    }
}
