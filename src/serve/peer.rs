//! A connection, as the owner of the store sees it: its sessions, and what takes long.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::sync::Arc;

use tubewell_wire::{Answering, Reply};

use super::answers::{Recipient, later, refused};
use super::shares::{Permit, Share, Shares};
use super::subscriptions::Subscriptions;
use crate::base::park::block_on;
use crate::base::sync::{Mutex, thread};
use crate::base::tube_no::TubeNo;
use crate::base::user_code::panic_to_error;
use crate::connection::encode_value;
use crate::core::{ClaimKey, Core, TubeHead, WaitSlot, Wire};
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::runtime::open_store::LocalHandle;
use crate::values::owner::check_label;
use crate::{Error, Result, SessionId, Tube};

/// More sessions than a connection may have. A client keeps to fewer: as many as fit into a hello.
const SESSIONS_MAX: usize = 4096;
/// Sessions of a connection that has ended that are dropped before other connections have their turns.
const DROPPED_AT_ONCE: usize = 16;

/// Whether somebody still waits for what is done on a thread: the answer is dropped with its connection.
pub(super) struct Waiting<'a>(&'a Arc<WaitSlot<Vec<u8>>>);

impl Waiting<'_> {
    pub(super) fn or_break(&self) -> ControlFlow<()> {
        if Arc::strong_count(self.0) == 1 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A connection.
pub(super) struct Peer {
    pub(super) store: LocalHandle,
    /// Sessions outlive their connection for a time.
    has_grace: bool,
    /// The process says that it is there while it has claims.
    beats: bool,
    sessions: Mutex<BTreeSet<SessionId>>,
    pub(super) subscriptions: Subscriptions,
    pub(super) shares: Arc<Shares>,
    max_tubes: usize,
}

impl Peer {
    pub(super) fn new(
        store: &LocalHandle,
        shares: &Arc<Shares>,
        max_tubes: usize,
        beats: bool,
    ) -> Peer {
        Peer {
            store: store.clone(),
            has_grace: store.open_store().inner.run(|core| core.config.grace > 0),
            beats,
            sessions: Mutex::default(),
            subscriptions: Subscriptions::default(),
            shares: shares.clone(),
            max_tubes,
        }
    }

    /// The recipient of the tasks of an answer.
    pub(super) fn recipient(&self) -> Recipient {
        Recipient { store: self.handle(), has_grace: self.has_grace, beats: self.beats }
    }

    /// A call waits in so many tubes, or for one task, until the permit is dropped.
    pub(super) fn wait_in(&self, tubes: usize) -> Result<Permit> {
        self.shares.permit(Share::Waits, tubes)
    }

    /// Refuses to create a tube if the store has as many as other processes may create.
    pub(super) fn check_tubes(&self, name: &str) -> Result<()> {
        let is_full = |core: &mut Core| {
            core.tubes.len() >= self.max_tubes
                && matches!(core.find_tube(name), Err(Error::TubeNotFound { .. }))
        };
        if !self.store.open_store().inner.run(is_full) {
            return Ok(());
        }
        let what =
            format!("{} tubes, which is as many as other processes may create", self.max_tubes);
        Err(Error::OwnerBusy { what })
    }

    /// The process is there. Whether it must say so further on: whether its sessions have claims.
    pub(super) fn answer_beat(&self) -> Answering {
        let sessions = self.sessions.lock().clone();
        let has_claims = self.store.open_store().inner.run(|core| core.have_claims(&sessions));
        let body = encode_value(&Ok(has_claims));
        let expect_beats = self.beats.then_some(has_claims);
        Answering::Now(Reply { body, expect_beats, ..Reply::default() })
    }

    /// The handle of a tube, for a session of the connection.
    pub(super) fn tube(&self, number: TubeNo, name: &str, session: SessionId) -> Result<Tube> {
        Ok(Tube::new(self.handle(), session, None, self.head(number, name)?))
    }

    pub(super) fn head(&self, number: TubeNo, name: &str) -> Result<TubeHead> {
        self.store.open_store().inner.run(|core| core.head_of(number, name))
    }

    pub(super) fn handle(&self) -> StoreHandle {
        StoreHandle::Here(self.store.clone())
    }

    /// Begins a session. A connection that was made anew finds those of the one before, if their
    /// grace has not ended. The connection has one handle of each of its sessions.
    ///
    /// A session that a call has ended meanwhile stays ended: its calls return `SessionEnded`.
    pub(super) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) -> Result<()> {
        label.map_or(Ok(()), |label| check_label(label))?;
        if !self.add_session(id)? {
            return Ok(());
        }
        let handle = self.handle();
        match self.store.run(|core| core.resume_session(id)) {
            Err(Error::SessionUnknown { .. })
                if self.store.open_store().inner.run(|core| core.was_ended_for_good(id)) =>
            {
                self.forget_session(id);
                Ok(())
            }
            Err(Error::SessionUnknown { .. }) => handle.begin_session(id, label),
            resumed => resumed,
        }
    }

    /// Handles of the sessions of these claims.
    pub(super) fn hold_sessions(&self, claims: &[ClaimKey]) -> Vec<SessionGuard> {
        let sessions: BTreeSet<SessionId> = claims.iter().map(|key| key.session).collect();
        let handle = self.handle();
        // A session that has ended has no claims.
        let resume = |id: &SessionId| self.store.run(|core| core.resume_session(*id)).is_ok();
        let begun = sessions.into_iter().filter(resume);
        begun.map(|id| SessionGuard::new(handle.clone(), id)).collect()
    }

    pub(super) fn resume_session(&self, id: SessionId) -> Result<()> {
        if !self.add_session(id)? {
            return Ok(());
        }
        let resumed = self.store.run(|core| core.resume_session(id));
        if resumed.is_err() {
            self.forget_session(id);
        }
        resumed
    }

    /// Ends a session, whatever handles of other connections it has.
    pub(super) fn end_session(&self, id: SessionId) -> Result<()> {
        self.check_not_own(id)?;
        self.forget_session(id);
        block_on(self.store.end_session(id))
    }

    fn check_not_own(&self, id: SessionId) -> Result<()> {
        if id != self.store.open_store().own {
            return Ok(());
        }
        Err(Error::invalid("the store's own session cannot be resumed or ended"))
    }

    /// A session has ended: the connection has no handle of it.
    pub(super) fn forget_session(&self, id: SessionId) {
        self.sessions.lock().remove(&id);
    }

    pub(super) fn drop_session(&self, id: SessionId) -> Result<()> {
        let had = self.sessions.lock().remove(&id);
        if had { self.store.run(|core| core.drop_session_handle(id)) } else { Ok(()) }
    }

    /// Returns whether the session is a new one of the connection.
    fn add_session(&self, id: SessionId) -> Result<bool> {
        self.check_not_own(id)?;
        let mut sessions = self.sessions.lock();
        if sessions.contains(&id) {
            return Ok(false);
        }
        if sessions.len() == SESSIONS_MAX {
            return Err(Error::invalid(format!(
                "a connection may have at most {SESSIONS_MAX} sessions"
            )));
        }
        Ok(sessions.insert(id))
    }

    /// Does what takes long on a thread of its own.
    pub(super) fn on_thread<T: Wire>(
        &self,
        share: Share,
        work: impl FnOnce(&Waiting) -> Result<T> + Send + 'static,
    ) -> Answering {
        let slot = Arc::new(WaitSlot::new());
        let permit = match self.shares.permit(share, 1) {
            Ok(permit) => permit,
            Err(busy) => return refused(busy),
        };
        let filled = slot.clone();
        let run = move || {
            let done = panic_to_error(|| work(&Waiting(&filled)));
            let done = done.unwrap_or_else(|why| Err(Error::OutcomeUnknown { why }));
            drop(permit);
            filled.fill(encode_value(&done));
            filled.wake();
        };
        if let Err(error) = thread::Builder::new().name("tubewell-served".into()).spawn(run) {
            return refused(Error::Io { what: format!("cannot start a thread: {error}") });
        }
        later(async move {
            let body = poll_fn(|context| slot.poll(context.waker())).await;
            Reply { body, ..Reply::default() }
        })
    }

    /// Drops the handles of some sessions of a connection that has ended. Returns whether it has more.
    pub(super) fn drop_some_sessions(&self) -> bool {
        for _ in 0..DROPPED_AT_ONCE {
            let Some(id) = self.sessions.lock().pop_first() else { return false };
            // What cannot be read stays as it is; `verify` reports it.
            let _ = self.store.run(|core| core.drop_session_handle(id));
        }
        true
    }
}
