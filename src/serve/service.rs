//! The service: what the owner of a store does for each connection.

use std::sync::Arc;
use std::time::Duration;

use tubewell_wire::{Answering, Rejection, Service};

use super::peer::Peer;
use super::requests::answer;
use super::shares::Shares;
use crate::Error;
use crate::base::micros::micros_ceil;
use crate::connection::{ClientId, Hello, HelloSession, Versions, Welcome};
use crate::core::StoreId;
use crate::runtime::open_store::LocalHandle;
use crate::values::owner::check_label;

pub(super) struct StoreService {
    /// It does not keep the store open.
    store: LocalHandle,
    id: StoreId,
    shares: Arc<Shares>,
    max_tubes: usize,
    /// How often to hear from a connection that has claims.
    heartbeat: Option<Duration>,
}

impl StoreService {
    /// `id` is that of the store, which is flushed.
    pub(super) fn new(
        store: LocalHandle,
        id: StoreId,
        max_tubes: usize,
        heartbeat: Option<Duration>,
    ) -> StoreService {
        StoreService { store, id, shares: Arc::default(), max_tubes, heartbeat }
    }
}

impl Service for StoreService {
    type Peer = Peer;

    fn connect(&self, hello: &[u8]) -> Result<(Peer, Vec<u8>), Rejection> {
        let versions = Versions::of_hello(hello);
        let version = versions.map_err(|malformed| Error::from(malformed).to_string())?.common()?;
        let hello = Hello::read(hello).map_err(|malformed| Error::from(malformed).to_string())?;
        let beats = self.heartbeat.is_some();
        let peer = Peer::new(&self.store, &self.shares, self.max_tubes, beats);
        let mut sessions = hello.sessions.iter();
        let begun = sessions.try_for_each(|HelloSession { id, label }| {
            label.as_deref().map_or(Ok(()), check_label)?;
            peer.begin_session(*id, label.as_ref())
        });
        if let Err(error) = begun {
            while peer.drop_some_sessions() {}
            // Nothing but its hello makes a client unwelcome for good: the store resumes, or is opened again.
            let temporary = !matches!(error, Error::Invalid { .. });
            return Err(Rejection { why: error.to_string(), temporary });
        }
        let max_body = self.store.open_store().max_body;
        let heartbeat = self.heartbeat.map_or(0, micros_ceil);
        Ok((peer, Welcome { version, max_body, heartbeat, store: self.id }.to_bytes()))
    }

    fn client(&self, hello: &[u8]) -> Option<u128> {
        Hello::read(hello).ok()?.client.map(ClientId::number)
    }

    fn call(&self, peer: &Arc<Peer>, body: &[u8]) -> Answering {
        answer(peer, body)
    }

    fn disconnect(&self, peer: &Arc<Peer>) -> bool {
        peer.drop_some_sessions()
    }
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests;
