//! The calls.

mod answers;
mod backlog;
mod checks;
mod claims;
mod compressed;
mod content;
mod events;
mod one_task;
mod pages;
mod schedules;
mod selected;
mod streamed;
mod take;
mod tasks;
mod tubes;
mod whole_store;

use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::from_fn_with_state;
use axum::routing::get;
use tokio::sync::{Mutex, Semaphore, watch};
use tubewell::{AsyncSession, AsyncStore, AsyncTube, Store};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use answers::Answers;

use crate::HttpOptions;
use crate::guard::{Guard, guard};
use crate::openapi;
use crate::options::Patience;
use crate::page;
use crate::problem::{Answer, Problem, Problems};
use crate::workers::Workers;

/// The maximum size of the content of all calls at a time.
const CONTENT: usize = 256 << 20;

/// How many changes of many tasks are made at a time.
const CHANGES: usize = 4;

/// What the calls share.
pub(crate) struct Shared {
    store: Store,
    later: AsyncStore,
    /// It has the claims of the clients that do not name themselves.
    session: AsyncSession,
    workers: Arc<Workers>,
    /// Becomes true when the server stops.
    stopped: watch::Receiver<bool>,
    /// The maximum size of the content of a call.
    max_body: usize,
    read_only: bool,
    /// The content of calls that the server may hold.
    room: Arc<Semaphore>,
    /// The changes of many tasks that are made at a time.
    changes: Arc<Semaphore>,
    /// Held by a change of a schedule, which reads what it is to leave as it is.
    schedule_changes: Mutex<()>,
    /// Backups and checks of the store that are made at a time.
    checks: Arc<Semaphore>,
    backup_folder: PathBuf,
    answers: Answers,
    /// The events that may wait for clients.
    events: Arc<Semaphore>,
    patience: Patience,
}

impl Shared {
    pub(crate) fn new(
        store: &Store,
        session: AsyncSession,
        workers: Arc<Workers>,
        stopped: watch::Receiver<bool>,
        options: &HttpOptions,
    ) -> Shared {
        let (max_body, read_only) = (options.max_body, options.read_only);
        // A piece that grows may have twice the size that it needs.
        let room = CONTENT.max(max_body.saturating_mul(2)).div_ceil(content::ROOM_UNIT) + 1;
        let room = Arc::new(Semaphore::new(room.min(Semaphore::MAX_PERMITS)));
        Shared {
            store: store.clone(),
            later: store.to_async(),
            session,
            workers,
            stopped,
            max_body,
            read_only,
            room,
            changes: Arc::new(Semaphore::new(CHANGES)),
            schedule_changes: Mutex::default(),
            checks: Arc::new(Semaphore::new(1)),
            backup_folder: options.backup_folder.clone().unwrap_or_else(std::env::temp_dir),
            answers: Answers::new(options.patience),
            events: Arc::new(Semaphore::new(events::WAITING_IN_ALL)),
            patience: options.patience,
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

/// The calls of a client, and their description. Each call is described where it is made.
fn described() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::with_openapi(openapi::head())
        .routes(routes!(tubes::list))
        .routes(routes!(backlog::backlog))
        .routes(routes!(tubes::show, tubes::open, tubes::alter, tubes::remove))
        .routes(routes!(tubes::pause))
        .routes(routes!(tubes::resume))
        .routes(routes!(tubes::truncate))
        .routes(routes!(tubes::days))
        .routes(routes!(selected::change))
        .routes(routes!(tasks::list_in_tube, tasks::put))
        .routes(routes!(take::take))
        .routes(routes!(claims::end))
        .routes(routes!(tasks::list))
        .routes(routes!(one_task::show, one_task::update, one_task::remove))
        .routes(routes!(one_task::by_key))
        .routes(routes!(one_task::outcome))
        .routes(routes!(one_task::history))
        .routes(routes!(one_task::steps))
        .routes(routes!(one_task::relations))
        .routes(routes!(one_task::change))
        .routes(routes!(schedules::list))
        .routes(routes!(schedules::list_in_tube))
        .routes(routes!(schedules::store))
        .routes(routes!(schedules::change, schedules::remove))
        .routes(routes!(schedules::run))
        .routes(routes!(whole_store::show))
        .routes(routes!(checks::backup))
        .routes(routes!(checks::verify))
        .routes(routes!(whole_store::groups))
        .routes(routes!(whole_store::groups_in_tube))
        .routes(routes!(whole_store::owners))
        .routes(routes!(whole_store::tags))
        .routes(routes!(whole_store::limits))
        .routes(routes!(whole_store::set_limit, whole_store::remove_limit))
        .routes(routes!(selected::kick_all))
        .routes(routes!(selected::delete_all))
        .routes(routes!(events::events))
        .routes(routes!(metrics))
}

pub(crate) fn router(shared: Arc<Shared>, allowed: Arc<Guard>) -> Router {
    let (router, description) = described().split_for_parts();
    let description = Bytes::from(description.to_json().unwrap_or_default());
    router
        .route("/", get(page::index))
        .route("/page/{*name}", get(page::file))
        .route(
            "/openapi.json",
            get(async move || ([(CONTENT_TYPE, "application/json")], description)),
        )
        .fallback(unknown)
        .method_not_allowed_fallback(not_allowed)
        .layer(from_fn_with_state(shared.clone(), compressed::compress))
        .layer(from_fn_with_state(allowed, guard))
        .with_state(shared)
}

/// The numbers of the store and of its tubes, for Prometheus.
#[utoipa::path(
    get, path = "/metrics", operation_id = "get_metrics", tag = "store",
    responses((status = 200, body = String, content_type = "text/plain"), Problems),
)]
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
