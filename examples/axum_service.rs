//! A web service with axum: clients post jobs with a request id, ask for their state, wait for them and delete them. Its
//! shutdown loses no job, and uses up no attempt.
//!
//! `cargo run --example axum_service`
//!
//! It needs no port: `clients` calls the router where a service has
//! `axum::serve(listener, app).with_graceful_shutdown(signal).await?`.

use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Path as At, State};
use axum::http::{HeaderMap, Request, StatusCode};
use axum::routing::{get, post};
use tokio::sync::watch;
use tower::ServiceExt;
use tubewell::{AsyncJob, Ending, Error, Keep, Outcome, Put, Store, Tube, TubeOptions, Worker};

type Answer = (StatusCode, String);
type AnyError = Box<dyn std::error::Error + Send + Sync>;

const STEPS: [&str; 3] = ["decode", "scale", "encode"];
/// How long running jobs may go on after SIGTERM.
const STOP: Duration = Duration::from_secs(1);
/// How many seconds this process waits for the one before it.
const OPENS: u32 = 30;

#[derive(Clone)]
struct App {
    images: Tube,
    /// Becomes true with the signal.
    stopping: watch::Receiver<bool>,
}

/// The steps are stored: the next attempt goes on where this one was.
async fn thumbnail(job: AsyncJob) -> tubewell::Result<Outcome> {
    for name in STEPS {
        job.check().await?; // returns if the worker stops, or if the task was deleted
        let work = async || {
            if (name, job.body()) == ("scale", b"hangs") {
                std::future::pending::<()>().await;
            }
            Ok::<_, Error>(())
        };
        job.step(name, work).await?;
    }
    Ok(Outcome::value(&format!("thumbnail of {}", job.value().text())))
}

fn failed(error: &Error) -> Answer {
    let status = match error {
        Error::NotFound { .. } => StatusCode::NOT_FOUND,
        Error::Invalid { .. } => StatusCode::BAD_REQUEST,
        _ => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, error.to_string())
}

/// A request that is sent again puts nothing, and gets the same id.
async fn create(State(app): State<App>, headers: HeaderMap, image: Bytes) -> Answer {
    let request = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let Some(request) = request else {
        return (StatusCode::BAD_REQUEST, "it has no Idempotency-Key".into());
    };
    let put = Put::new(image.to_vec()).idempotency_key(request);
    match app.images.to_async().refuse_when_full().put(put).await {
        Ok(receipt) => (StatusCode::ACCEPTED, receipt.id.to_string()), // it is on the disk
        Err(error) => failed(&error),
    }
}

async fn show(State(app): State<App>, At(id): At<u64>) -> Answer {
    describe(&app.images, id)
        .await
        .map_or_else(|error| failed(&error), |text| (StatusCode::OK, text))
}

async fn describe(images: &Tube, id: u64) -> tubewell::Result<String> {
    let images = images.to_async();
    Ok(match images.ending(id).await? {
        Some(ending @ Ending::Done { .. }) => format!("done: {}", ending.value::<String>()?),
        Some(Ending::Buried { failure, .. }) => format!("dead: {failure:?}"),
        Some(_) => "gone".into(),
        None => {
            let state = images.query().task(id).await?.info.state;
            let steps = images.query().steps(id).await?.len(); // progress that survives a restart
            format!("{state}, {steps} of {} steps", STEPS.len())
        }
    })
}

/// An open request holds the server back when it ends, so it ends with the signal.
async fn wait(State(mut app): State<App>, at: At<u64>) -> Answer {
    let images = app.images.to_async();
    let ended = tokio::select! {
        ended = images.wait_done(at.0, Duration::from_secs(20)) => ended,
        _ = app.stopping.changed() => Ok(None),
    };
    match ended {
        Ok(_) => show(State(app), at).await,
        Err(error) => failed(&error),
    }
}

async fn delete(State(app): State<App>, At(id): At<u64>) -> Answer {
    match app.images.to_async().delete(id).await {
        Ok(_) => (StatusCode::OK, "deleted".into()), // also while it runs: the job is told
        Err(error) => failed(&error),
    }
}

/// The process before this one may still have the file. Each open tries for a second before it returns `InUse`.
fn open(path: &Path) -> tubewell::Result<Store> {
    for _ in 1..OPENS {
        match Store::open(path) {
            Err(Error::InUse { .. }) => {}
            opened => return opened,
        }
    }
    Store::open(path)
}

async fn service(path: &Path) -> Result<(), AnyError> {
    let store = open(path)?;
    let day = Duration::from_secs(86_400);
    let options = TubeOptions::new().max_attempts(5).max_runtime(Duration::from_secs(60));
    let images = store.open_tube("images", options.keep_done(Keep::new().age(day)))?;
    let worker = Worker::new(&store).on_async(&images, thumbnail).concurrency(4);
    let stopper = worker.stopper();
    let worker = worker.spawn_with(|job| drop(tokio::spawn(job))).run_async();
    let worker = tokio::spawn(worker.stop_timeout(STOP));

    let (stop, stopping) = watch::channel(false);
    let stop = std::sync::Arc::new(move || {
        stopper.stop(); // no further job begins, and those that run see it
        stop.send(true).unwrap_or_default(); // open requests end
    });
    let signal = stop.clone();
    ctrlc::set_handler(move || signal())?; // Ctrl-C and SIGTERM

    let app = Router::new()
        .route("/images", post(create))
        .route("/images/{id}", get(show).delete(delete))
        .route("/images/{id}/wait", get(wait))
        .with_state(App { images, stopping });
    clients(&app, &*stop).await?; // in a service, `axum::serve`: it returns when all requests have ended
    let tally = worker.await??; // after `STOP` at the latest
    println!("stopped: {} done, {} given back", tally.done, tally.left);
    store.to_async().close().await?; // the next process can open the file
    Ok(())
}

/// Clients send their requests, and the service gets the signal to stop meanwhile.
async fn clients(app: &Router, stop: &(dyn Fn() + Sync)) -> Result<(), AnyError> {
    let cat = call(app, Request::post("/images").header("idempotency-key", "1"), "cat").await?;
    let again = call(app, Request::post("/images").header("idempotency-key", "1"), "cat").await?;
    println!("{cat}, and again {again}");
    println!("{}", call(app, Request::get("/images/0/wait"), "").await?);

    call(app, Request::post("/images").header("idempotency-key", "2"), "hangs").await?;
    call(app, Request::delete("/images/1"), "").await?;
    call(app, Request::post("/images").header("idempotency-key", "3"), "hangs").await?;
    while !call(app, Request::get("/images/2"), "").await?.contains("taken, 1 of") {
        tokio::task::yield_now().await;
    }
    let signal = async {
        tokio::task::yield_now().await;
        stop(); // where the operating system sends SIGTERM
    };
    let (waited, ()) = tokio::join!(call(app, Request::get("/images/2/wait"), ""), signal);
    println!("an open request ends: {}", waited?);
    Ok(())
}

async fn call(
    app: &Router,
    request: axum::http::request::Builder,
    body: &'static str,
) -> Result<String, AnyError> {
    let response = app.clone().oneshot(request.body(Body::from(body))?).await?;
    let status = response.status().as_u16();
    let text = to_bytes(response.into_body(), 10_000).await?;
    Ok(format!("{status} {}", String::from_utf8_lossy(&text)))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), AnyError> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("images.tubewell");
    service(&path).await?;

    // The next process.
    let images = open(&path)?.tube("images")?;
    let info = images.query().task(2)?.info;
    let left = info.attempts_left.unwrap_or_default();
    println!("the next process finds 2: {}, {left} attempts left", describe(&images, 2).await?);
    Ok(())
}
