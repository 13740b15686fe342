//! The connection to the process that owns a store: each call of a handle is sent there.
//!
//! The connection makes itself again when it breaks, with the same sessions. Calls in flight that
//! change nothing are sent again; the others are answered with `OutcomeUnknown`, also if the
//! connection is closed or is not made again.

mod beats;
mod claim_end;
mod effects;
mod events;
mod promise;
mod request;
mod sessions;

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock, Weak};

use tubewell_wire::{
    Address, CallError, CallKind, Client, ClientOptions, Handler, Pending, WireError,
};

use crate::base::clock::Clock;
use crate::base::sync::Mutex;
use crate::core::list::DropClaim;
use crate::core::verb::{Named, Verb};
use crate::core::{ClaimKey, Grant, StoreId, Wire};
use crate::{Error, Result, SessionId};

use beats::Beats;
pub(crate) use promise::{RemotePromise, answered_already};
pub(crate) use request::{
    ClientId, Hello, HelloSession, Mode, Request, Versions, Welcome, encode_grants, encode_value,
    read_call, verb_to_bytes,
};
use request::{grants_in, read_grants, read_value, refusal_in};
use sessions::Sessions;

/// A connection to the owner of a store.
pub(crate) struct Connection {
    client: Client,
    clock: Clock,
    shared: Arc<Shared>,
}

/// What the thread of the connection needs too.
struct Shared {
    own: SessionId,
    sessions: Mutex<Sessions>,
    max_body: OnceLock<usize>,
    /// Which store the first owner had.
    store: OnceLock<StoreId>,
    connection: OnceLock<Weak<Connection>>,
    beats: Mutex<Beats>,
    /// How many subscriptions were begun.
    subscriptions: AtomicU64,
}

impl Connection {
    /// Connects to an owner. Blocks until it has answered.
    pub(crate) fn open(
        address: &Address,
        options: ClientOptions,
        label: Option<Arc<str>>,
    ) -> Result<Arc<Connection>> {
        let (own, mut sessions) = (SessionId::random(), Sessions::new());
        sessions.begin(own, label)?;
        let shared = Arc::new(Shared {
            own,
            sessions: Mutex::new(sessions),
            max_body: OnceLock::new(),
            store: OnceLock::new(),
            connection: OnceLock::new(),
            beats: Mutex::default(),
            subscriptions: AtomicU64::default(),
        });
        let client = Client::connect(address, options, shared.clone())
            .map_err(|error| not_connected(&error))?;
        let connection = Arc::new(Connection { client, clock: Clock::system(), shared });
        // It is set once.
        let _ = connection.shared.connection.set(Arc::downgrade(&connection));
        Ok(connection)
    }

    /// The session of callers that did not begin one.
    pub(crate) fn own_session(&self) -> SessionId {
        self.shared.own
    }

    pub(crate) fn max_body(&self) -> usize {
        self.shared.max_body.get().copied().unwrap_or_default()
    }

    /// The running time of this machine.
    pub(crate) fn running(&self) -> u64 {
        self.clock.running()
    }

    /// Makes a call and blocks until it is answered.
    pub(crate) fn make<V: Verb>(&self, on: Named<'_, V>, verb: &V) -> Result<V::Answer> {
        verb.check_sendable()?;
        let bytes = verb_to_bytes(Mode::Call, on, verb);
        read_value(&self.client.call_and_wait(bytes, kind_of_verb(verb)).map_err(into_error)?)
    }

    /// As `make`, for a caller that waits for the answer later or never.
    pub(crate) fn make_later<V: Verb>(
        &self,
        mode: Mode,
        on: Named<'_, V>,
        verb: &V,
    ) -> Result<RemotePromise<V::Answer>> {
        verb.check_sendable()?;
        let bytes = verb_to_bytes(mode, on, verb);
        Ok(RemotePromise::new(self.client.call(bytes, kind_of_verb(verb)), read_value))
    }

    /// Makes a request and blocks until it is answered.
    pub(crate) fn ask<T: Wire>(&self, request: &Request) -> Result<T> {
        read_value(&self.answer(request, true)?)
    }

    /// As `ask`, for a request that hands out tasks.
    pub(crate) fn ask_grants(&self, request: &Request) -> Result<Vec<Grant>> {
        read_grants(&self.answer(request, true)?)
    }

    /// Refuses a fork of the process that has connected.
    pub(crate) fn check_process(&self) -> Result<()> {
        self.client.check_process().map_err(into_error)
    }

    fn answer(&self, request: &Request, cancel: bool) -> Result<Vec<u8>> {
        self.client.call_and_wait(request.to_bytes(), kind_of(request, cancel)).map_err(into_error)
    }

    /// Sends a request whose answer nobody needs.
    fn send_request(&self, request: &Request) {
        drop(self.post(request, false));
    }

    /// As `StoreHandle::drop_claim`.
    pub(crate) fn drop_claim(&self, key: ClaimKey, forgive: bool) {
        // Without a connection, the session and its claims have ended or will be resumed as they were.
        drop(self.make_later(Mode::Call, (), &DropClaim { key, forgive }));
    }

    /// Sends a request whose answer may take long. Dropping the promise cancels it.
    pub(crate) fn request<T: Wire>(&self, request: &Request) -> RemotePromise<T> {
        RemotePromise::new(self.post(request, true), read_value)
    }

    /// As `request`, for one that hands out tasks.
    pub(crate) fn request_grants(&self, request: &Request) -> RemotePromise<Vec<Grant>> {
        RemotePromise::new(self.post(request, true), read_grants)
    }

    /// Sends a request. `cancel`: the owner is told if its caller goes.
    fn post(&self, request: &Request, cancel: bool) -> Pending {
        self.client.call(request.to_bytes(), kind_of(request, cancel))
    }

    /// Begins a session. The owner has one handle of it for all of this connection.
    ///
    /// # Errors
    /// `Invalid`: the connection has as many sessions as it can begin again.
    pub(crate) fn begin_session(&self, id: SessionId, label: Option<&Arc<str>>) -> Result<()> {
        self.check_process()?;
        // First, so that a connection that is made meanwhile begins it too.
        self.shared.sessions.lock().begin(id, label.cloned())?;
        self.send_request(&Request::BeginSession(id, label.cloned()));
        Ok(())
    }

    /// Adds a handle to a session. The owner has one handle for all of this connection, and gets its
    /// request again if the connection was made anew before the session was noted here.
    pub(crate) async fn resume_session(self: Arc<Self>, id: SessionId) -> Result<()> {
        self.check_process()?;
        if self.begin_resume(id)? {
            return Ok(());
        }
        let mut resuming = Resuming { connection: &self, id, is_refused: false };
        loop {
            let (hellos, answer) = {
                let sessions = self.shared.sessions.lock();
                (sessions.hellos(), self.request::<()>(&Request::ResumeSession(id)))
            };
            if let Err(refused) = answer.await {
                resuming.is_refused = true;
                return Err(refused);
            }
            let mut sessions = self.shared.sessions.lock();
            if sessions.hellos() == hellos {
                sessions.begin(id, None)?;
                break;
            }
        }
        drop(resuming);
        // It may have claims.
        self.shared.begin_beats();
        self.shared.beat();
        Ok(())
    }

    /// Returns whether this connection has the session already, and a handle of it now. Otherwise it is
    /// being resumed.
    fn begin_resume(&self, id: SessionId) -> Result<bool> {
        let mut sessions = self.shared.sessions.lock();
        if sessions.add_handle(id) {
            return Ok(true);
        }
        sessions.check_room(id)?;
        sessions.begin_resume(id);
        Ok(false)
    }

    /// Ends a session. Whatever the owner answers, no later connection begins it again: if the owner
    /// does not hear of it, the session ends with this connection, at the latest after its grace.
    pub(crate) async fn end_session(&self, id: SessionId) -> Result<()> {
        self.check_process()?;
        self.shared.sessions.lock().end(id);
        // The end is sent, also if nobody waits for its answer.
        RemotePromise::new(self.post(&Request::EndSession(id), false), read_value).await
    }

    /// A handle of a session is dropped.
    pub(crate) fn drop_session(&self, id: SessionId) {
        if self.check_process().is_err() {
            return;
        }
        let mut sessions = self.shared.sessions.lock();
        // With the lock: a resume that begins afterwards is sent afterwards.
        if sessions.drop_handle(id) && !sessions.is_resuming(id) {
            self.send_request(&Request::DropSession(id));
        }
    }

    /// The connection ends, and its sessions with it. What waits for an answer gets `Closed`, or
    /// `OutcomeUnknown` if it changes something.
    pub(crate) fn close(&self) -> Result<()> {
        self.check_process()?;
        self.client.close();
        Ok(())
    }
}

/// A session that the owner is asked to resume. Unless this connection has it at the end, or resumes it once
/// more, the owner's handle is dropped: the caller may have gone, or other sessions may have taken its room.
struct Resuming<'a> {
    connection: &'a Connection,
    id: SessionId,
    /// The owner has no handle.
    is_refused: bool,
}

impl Drop for Resuming<'_> {
    fn drop(&mut self) {
        let Resuming { connection, id, is_refused } = *self;
        if connection.check_process().is_err() {
            return;
        }
        let mut sessions = connection.shared.sessions.lock();
        if sessions.end_resume(id) && !is_refused && !sessions.has(id) {
            connection.send_request(&Request::DropSession(id));
        }
    }
}

impl Shared {
    fn connection(&self) -> Option<Arc<Connection>> {
        self.connection.get().and_then(Weak::upgrade)
    }

    /// The connection has claims, or may have.
    fn begin_beats(&self) {
        let Some(connection) = self.connection() else { return };
        let mut beats = self.beats.lock();
        if let Some(every) = beats.begin() {
            connection.client.set_beat(Some(every));
        }
    }
}

impl Handler for Shared {
    fn hello(&self) -> Vec<u8> {
        self.sessions.lock().hello().to_bytes()
    }

    fn welcome(&self, welcome: &[u8]) -> Result<(), String> {
        let welcome = Welcome::read(welcome)?;
        if *self.store.get_or_init(|| welcome.store) != welcome.store {
            // Its tubes, tasks and claims are others, even if they have the same names and numbers.
            return Err(
                "another store is served at this address than before; connect again to use it"
                    .to_owned(),
            );
        }
        self.beats.lock().set_interval(welcome.heartbeat);
        // A store of the same address has the same limit, unless it was opened with another one.
        let _ = self.max_body.set(welcome.max_body);
        Ok(())
    }

    /// Tasks that were handed out to a caller which has gone are given back.
    fn orphan(&self, body: &[u8]) {
        let Some(connection) = self.connection() else { return };
        for grant in grants_in(body) {
            connection.drop_claim(grant.key(), true);
        }
    }

    /// An unknown outcome is passed on as it is.
    fn refusal(&self, answer: &[u8]) -> Option<String> {
        refusal_in(answer)
            .filter(|refusal| !matches!(refusal, Error::OutcomeUnknown { .. }))
            .map(|refusal| refusal.to_string())
    }

    fn arrived(&self, answer: &[u8]) {
        if Beats::are_needed_for(answer) {
            self.begin_beats();
        }
    }

    fn beat(&self) {
        let Some(connection) = self.connection() else { return };
        let mut beats = self.beats.lock();
        if beats.go_on() {
            beats.made(connection.post(&Request::Heartbeat, false));
        } else {
            connection.client.set_beat(None);
        }
    }

    fn broken(&self) {}
}

/// The most bytes of a call or an answer: a body of the largest size, with its key, tags and the like.
pub(crate) const FRAME_MAX: usize = 65 << 20;

/// The least length of a secret.
const SECRET_MIN: usize = 16;

/// Refuses a secret that is too short to be one.
pub(crate) fn check_secret(secret: &[u8]) -> Result<()> {
    if secret.len() >= SECRET_MIN {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a secret must have at least {SECRET_MIN} bytes; this one has {}; use random ones",
        secret.len()
    )))
}

/// What may happen to a request besides an answer. `cancel`: the owner is told if its caller goes.
fn kind_of(request: &Request, cancel: bool) -> CallKind {
    CallKind { resend: request.may_repeat(), cancel, changes: request.changes() }
}

fn kind_of_verb<V: Verb>(verb: &V) -> CallKind {
    CallKind { resend: verb.may_repeat(), cancel: V::WAITS, changes: V::KIND.changes() }
}

/// Why there is no first connection.
fn not_connected(error: &WireError) -> Error {
    let why = error.to_string();
    if error.is_final() { Error::Refused { why } } else { Error::NotConnected { why } }
}

/// Why a call has no answer.
pub(crate) fn into_error(error: CallError) -> Error {
    match error {
        CallError::Closed => Error::Closed,
        CallError::Broken { why } => Error::OutcomeUnknown {
            why: format!("the connection to the owner of the store broke: {why}"),
        },
        CallError::NotConnected { why } => Error::NotConnected { why },
        CallError::Forked { home } => Error::Forked { opened_in: home },
        CallError::Refused { why } => Error::Refused { why },
        error => Error::invalid(error.to_string()),
    }
}
