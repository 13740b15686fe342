//! The calls.

mod answers;
mod claims;
mod content;
mod events;
mod take;
mod tasks;
mod tubes;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use tokio::sync::{Semaphore, watch};
use tubewell::{AsyncSession, AsyncStore, AsyncTube, Store};

use answers::Answers;

use crate::guard::{Guard, guard};
use crate::problem::{Answer, Problem};

/// The maximum size of the content of all calls at a time.
const CONTENT: usize = 256 << 20;

/// What the calls share.
pub(crate) struct Shared {
    store: Store,
    later: AsyncStore,
    /// It has the claims of all clients.
    session: AsyncSession,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    /// The maximum size of the content of a call.
    max_body: usize,
    /// The content of calls that the server may hold.
    room: Arc<Semaphore>,
    answers: Answers,
}

impl Shared {
    pub(crate) fn new(
        store: &Store,
        session: AsyncSession,
        stopped: watch::Receiver<bool>,
        max_body: usize,
    ) -> Shared {
        // A piece that grows may have twice the size that it needs.
        let room = CONTENT.max(max_body.saturating_mul(2)).div_ceil(content::ROOM_UNIT) + 1;
        let room = Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS)));
        Shared {
            store: store.clone(),
            later: store.to_async(),
            session,
            stopped,
            max_body,
            room,
            answers: Answers::new(),
        }
    }

    /// A tube that exists, for changes and takes.
    async fn tube(&self, name: &str) -> Answer<AsyncTube> {
        let tube = self.later.find_tube(name).await?;
        Ok(self.session.tube(&tube)?)
    }

    /// Waits, unless the server stops meanwhile.
    async fn wait<R>(
        &self,
        waiting: impl Future<Output = tubewell::Result<R>>,
    ) -> Answer<Option<R>> {
        let mut stopped = self.stopped.clone();
        tokio::select! {
            made = waiting => Ok(Some(made?)),
            _ = stopped.wait_for(|stopped| *stopped) => Ok(None),
        }
    }

    /// Does work that takes a while: calls that read the file, and the parsing of long contents.
    async fn read<R: Send + 'static>(
        &self,
        calls: impl FnOnce(&Store, &Answers) -> Answer<R> + Send + 'static,
    ) -> Answer<R> {
        let (store, answers) = (self.store.clone(), self.answers.clone());
        let made = tokio::task::spawn_blocking(move || calls(&store, &answers)).await;
        made.unwrap_or_else(|_| {
            Err(Problem::new(
                StatusCode::INTERNAL_SERVER_ERROR,
                "panicked",
                "the call failed in the server, and the store goes on; report it",
            ))
        })
    }
}

pub(crate) fn router(shared: Arc<Shared>, allowed: Arc<Guard>) -> Router {
    Router::new()
        .route("/v1/tubes", get(tubes::list))
        .route("/v1/tubes/{tube}", get(tubes::show).put(tubes::open).delete(tubes::remove))
        .route("/v1/tubes/{tube}/tasks", get(tasks::list_in_tube).post(tasks::put))
        .route("/v1/tubes/{tube}/take", post(take::take))
        .route("/v1/tasks", get(tasks::list))
        .route("/v1/tasks/{id}", get(tasks::show).delete(tasks::remove))
        .route("/v1/tasks/{id}/outcome", get(tasks::outcome))
        .route("/v1/tasks/{id}/{change}", post(tasks::change))
        .route("/v1/claims/{claim}/{end}", post(claims::end))
        .route("/v1/events", get(events::events))
        .route("/metrics", get(metrics))
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(axum::middleware::from_fn_with_state(allowed, guard))
        .with_state(shared)
}

/// The numbers of the store and of its tubes, for Prometheus.
async fn metrics(State(shared): State<Arc<Shared>>) -> Answer {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    shared
        .read(move |store, answers| answers.text(StatusCode::OK, kind, store.prometheus()?.into()))
        .await
}

async fn unknown() -> Problem {
    Problem::new(
        StatusCode::NOT_FOUND,
        "unknown_call",
        "there is no such call; the paths begin with /v1",
    )
}

async fn not_allowed() -> Problem {
    Problem::new(StatusCode::METHOD_NOT_ALLOWED, "unknown_call", "the path has no such method")
}
