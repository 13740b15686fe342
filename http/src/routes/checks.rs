//! The store as a file: its backup as a download, and the check of all that it has.

use std::fs::File;
use std::hash::{BuildHasher, RandomState};
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{Method, StatusCode};
use axum::response::IntoResponse;
use serde::Serialize;
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tubewell::Store;
use tubewell_json::check::{CheckProgress, CheckResult};

use super::Shared;
use super::content::{self, Content};
use super::streamed::{Message, Messages, Parts, Sized, parts};
use crate::peer::Peer;
use crate::problem::{Answer, Problem, Problems};

/// The size of a part of a download in bytes.
const PART: usize = 256 << 10;
/// How long a client may take to download a backup, and how many bytes it reads a second at least beside that.
const TIME: Duration = Duration::from_secs(60);
const BYTES_PER_SECOND: u64 = 1 << 20;

/// A copy of the store in the state of one moment, as a file that is a store.
///
/// It has all rows of the file, those of the application, too. A server that is read-only refuses it.
#[utoipa::path(
    get, path = "/v1/store/backup", operation_id = "get_backup", tag = "store",
    responses((status = 200, body = content::Raw, content_type = "application/octet-stream"), Problems),
)]
pub(super) async fn backup(
    method: Method,
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
) -> Answer {
    if shared.read_only {
        let what = "a backup has rows that no other call shows; serve the store without read-only, \
                    or use `tubewell backup`";
        return Err(Problem::new(StatusCode::FORBIDDEN, "read_only", what));
    }
    if method == Method::HEAD {
        // The length is not known before the copy is made.
        let (_, nothing) = parts();
        let body = Messages::body(nothing, std::future::pending());
        return Ok(([(CONTENT_TYPE, "application/octet-stream")], body).into_response());
    }
    let place = shared.place_for_check()?;
    let folder = shared.backup_folder.clone();
    let (sender, receiver) = parts();
    let wanted = Wanted { parts: sender.clone(), stopped: shared.stopped.clone() };
    let making = shared.read(move |store, _| {
        Ok((format!("{}.tubewell", store.today()?), Copy::new(store, &folder, place, &wanted)?))
    });
    // With this call, the receiver of the parts goes. That ends the copy.
    let (name, copy) = tokio::select! {
        biased;
        () = peer.gone() => return Err(Problem::stopped()),
        made = making => made?,
    };
    let time = TIME + Duration::from_secs(copy.length / BYTES_PER_SECOND);
    let body = Sized::body(receiver, copy.length, time);
    // A client that goes away ends it, and a failure shows as an answer that is too short.
    tokio::task::spawn_blocking(move || copy.send(&sender));
    let disposition = format!("attachment; filename=\"{name}\"");
    let headers =
        [(CONTENT_TYPE, "application/octet-stream"), (CONTENT_DISPOSITION, disposition.as_str())];
    Ok((headers, body).into_response())
}

/// Whether a client still waits for a backup, and a server for the client.
struct Wanted {
    parts: Parts,
    stopped: watch::Receiver<bool>,
}

impl Wanted {
    fn or_break(&self) -> ControlFlow<()> {
        if self.parts.is_closed() || *self.stopped.borrow() {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }
}

/// A backup that is open, and has no name any more.
struct Copy {
    file: File,
    length: u64,
    place: OwnedSemaphorePermit,
}

/// A file that is removed when this is dropped.
struct Named(PathBuf);

impl Drop for Named {
    fn drop(&mut self) {
        let _may_not_be_there = std::fs::remove_file(&self.0);
    }
}

impl Copy {
    fn new(
        store: &Store,
        folder: &Path,
        place: OwnedSemaphorePermit,
        wanted: &Wanted,
    ) -> Answer<Copy> {
        // No other user can know the name, and no backup overwrites a file.
        let random = RandomState::new().hash_one(std::process::id());
        let named = Named(folder.join(format!("tubewell-{random:016x}.backup")));
        if !store.admin().backup_with(&named.0, |_, _| wanted.or_break())? {
            return Err(Problem::stopped());
        }
        let opened = File::open(&named.0).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (length, file) = opened.map_err(|error| {
            let what = format!("reading the backup in {}: {error}", folder.display());
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "io", what)
        })?;
        Ok(Copy { file, length, place })
    }

    fn send(self, parts: &Parts) {
        let Copy { mut file, length: mut left, place } = self;
        let mut place = Some(place);
        while left > 0 {
            let mut part = vec![0; PART.min(usize::try_from(left).unwrap_or(PART))];
            if file.read_exact(&mut part).is_err() {
                return;
            }
            left -= part.len() as u64;
            if left == 0 {
                // A client that has everything may begin the next one.
                drop(place.take());
            }
            if parts.blocking_send(part.into()).is_err() {
                return;
            }
        }
    }
}

/// Checks every page, every record and every count of the store.
///
/// The answer is a stream of server-sent events: `progress` from time to time, and at the end `done` with the findings,
/// or `failed` with a problem.
#[utoipa::path(
    post, path = "/v1/store/verify", operation_id = "verify_store", tag = "store",
    responses((status = 200, body = Message, content_type = "text/event-stream"), Problems),
)]
pub(super) async fn verify(
    State(shared): State<Arc<Shared>>,
    Extension(peer): Extension<Peer>,
    _: Content,
) -> Answer {
    let place = shared.place_for_check()?;
    let (sender, receiver) = parts();
    let store = shared.store.clone();
    tokio::task::spawn_blocking(move || {
        let _place = place;
        let progress = |checked, of| {
            // The next one tells more than one that a slow client has not read.
            match sender.try_send(message("progress", &CheckProgress { checked, of })) {
                Err(TrySendError::Closed(_)) => ControlFlow::Break(()),
                Ok(()) | Err(TrySendError::Full(_)) => ControlFlow::Continue(()),
            }
        };
        let last = match store.admin().verify_with(progress) {
            Ok(findings) => message("done", &CheckResult { findings }),
            Err(error) => message("failed", &Problem::from(error).json()),
        };
        let _may_be_gone = sender.blocking_send(last);
    });
    let mut stopped = shared.stopped.clone();
    // With the body, the receiver of the messages goes. That ends the check.
    let body = Messages::body(receiver, async move {
        tokio::select! {
            () = peer.gone() => {}
            _stops = stopped.wait_for(|stopped| *stopped) => {}
        }
    });
    let headers = [(CONTENT_TYPE, "text/event-stream"), (CACHE_CONTROL, "no-store")];
    Ok((headers, body).into_response())
}

fn message(kind: &str, data: &impl Serialize) -> Bytes {
    // A value of texts and numbers is written without an error.
    let data = serde_json::to_string(data).unwrap_or_default();
    format!("event: {kind}\ndata: {data}\n\n").into()
}

impl Shared {
    /// Each reads the whole store, and keeps its space from being used again: one at a time.
    fn place_for_check(&self) -> Answer<OwnedSemaphorePermit> {
        self.checks.clone().try_acquire_owned().map_err(|_| {
            let what = "another backup or check of the store is made; try again when it has ended";
            Problem::new(StatusCode::TOO_MANY_REQUESTS, "overloaded", what)
        })
    }
}
