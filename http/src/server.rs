//! The server: its threads, its connections and their limits.

use std::net::{SocketAddr, TcpListener as StdListener, ToSocketAddrs};
use std::sync::Arc;
use std::time::Duration;

use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{Semaphore, watch};
use tubewell::{Error, Filter, Result, Session, Store};

use crate::HttpOptions;
use crate::guard::Guard;
use crate::options::Patience;
use crate::peer::Peer;
use crate::routes::{self, Shared};
use crate::workers::Workers;

/// How many threads make calls and write answers.
const THREADS: usize = 2;
/// How many calls may block at a time, such as reads of listings.
const BLOCKING_THREADS: usize = 16;
/// The maximum size of the head of a call in bytes.
const HEAD_MAX: usize = 64 << 10;
/// How long a stop waits for the calls that are under way.
const STOP_TIMEOUT: Duration = Duration::from_secs(5);

/// A store that is served over HTTP. Dropping it ends the serving, as [`stop`](HttpServer::stop) does.
#[derive(Debug)]
#[must_use = "a server that is dropped serves no longer"]
pub struct HttpServer {
    address: SocketAddr,
    /// The owners of the claims of all clients.
    workers: Arc<Workers>,
    /// Without it, the claims would end as those of a session that is lost.
    session: Option<Session>,
    store: Store,
    runtime: Option<Runtime>,
    stop: watch::Sender<bool>,
}

/// Serves a store over HTTP, in threads of its own. Does not block.
///
/// The server keeps the store open; a [`close`](Store::close) ends its calls with status 503.
///
/// # Errors
/// [`Invalid`](Error::Invalid): the address is none, or it can be reached from other machines and there is no token.
/// [`AddressInUse`](Error::AddressInUse): another process listens there. [`Io`](Error::Io). Nothing is served then.
/// [`Closed`](Error::Closed); [`OwnerBusy`](Error::OwnerBusy).
///
/// # Example
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
///
/// use tubewell::Store;
/// use tubewell_http::HttpOptions;
///
/// let store = Store::in_memory()?;
/// let server = tubewell_http::serve(&store, HttpOptions::new("127.0.0.1:0"))?;
///
/// let mut client = TcpStream::connect(server.address()).unwrap();
/// write!(client, "GET /v1/tubes HTTP/1.0\r\nHost: {}\r\n\r\n", server.address()).unwrap();
/// let mut answer = String::new();
/// client.read_to_string(&mut answer).unwrap();
/// assert!(answer.starts_with("HTTP/1.0 200 OK") && answer.ends_with("{\"tubes\":[]}"));
/// # Ok::<(), tubewell::Error>(())
/// ```
pub fn serve(store: &Store, options: HttpOptions) -> Result<HttpServer> {
    let address = resolve(&options.address)?;
    options.check(address)?;
    let listener = bind(address)?;
    let address = listener.local_addr().map_err(|error| io("asking for the address", &error))?;
    let label = format!("http://{address}");
    let session = store.session(label.as_str())?;
    let runtime = Builder::new_multi_thread()
        .thread_name("tubewell-http")
        .worker_threads(THREADS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_io()
        .enable_time()
        .build()
        .map_err(|error| io("starting the threads of the server", &error))?;
    let (stop, stopped) = watch::channel(false);
    let limit = Arc::new(Semaphore::new(options.max_connections.min(most_connections())));
    let guard = Arc::new(Guard::new(&options, address));
    let workers = Arc::new(Workers::new(store.to_async(), label));
    let shared = Shared::new(store, session.to_async(), workers.clone(), stopped.clone(), &options);
    let shared = Arc::new(shared);
    let router = routes::router(shared, guard);
    runtime.spawn(accept(listener, router, options.patience, limit, stopped));
    let (session, store) = (Some(session), store.clone());
    Ok(HttpServer { address, workers, session, store, runtime: Some(runtime), stop })
}

impl HttpServer {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends the serving: takes that wait return no task, and the calls that are under way have 5 s to end. Then the claims
    /// of the clients end: their tasks are ready again, and the attempts do not count.
    pub fn stop(self) {
        drop(self);
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        let Some(runtime) = self.runtime.take() else { return };
        // A runtime of the caller lets no other one block its threads.
        std::thread::scope(|scope| {
            let end = || {
                runtime.block_on(async {
                    // Each connection holds a receiver until it has ended.
                    let _in_time = tokio::time::timeout(STOP_TIMEOUT, self.stop.closed()).await;
                });
                runtime.shutdown_background();
            };
            // Without a thread for it, nothing waits.
            let _waits = std::thread::Builder::new().spawn_scoped(scope, end);
        });
        // What fails here is released with the session, which ends with its last handle.
        let _released = revoke(&self.store, &self.workers);
        self.session = None;
    }
}

/// Takes the tasks back that clients have, and forgives the attempts.
fn revoke(store: &Store, workers: &Workers) -> Result<()> {
    let owners = store.owners()?.into_iter().filter_map(|owner| owner.label);
    let owners: Vec<_> = owners.filter(|label| workers.has(label)).collect();
    let mut failed = Ok(());
    for (name, counts) in store.statistics()? {
        if counts.tasks.taken == 0 {
            continue;
        }
        for owner in &owners {
            let tube = store.find_tube(&name);
            let revoked = tube.and_then(|tube| tube.admin().revoke(Filter::new().owner(owner)));
            failed = failed.and(revoked.map(drop));
        }
    }
    failed
}

/// Connections leave half of the files that the process may open to the rest of it.
#[cfg(unix)]
fn most_connections() -> usize {
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let half = files.map_or(u64::MAX, |files| files / 2).max(1);
    usize::try_from(half).unwrap_or(usize::MAX).min(Semaphore::MAX_PERMITS)
}

#[cfg(not(unix))]
fn most_connections() -> usize {
    Semaphore::MAX_PERMITS
}

async fn accept(
    listener: StdListener,
    router: axum::Router,
    patience: Patience,
    limit: Arc<Semaphore>,
    mut stopped: watch::Receiver<bool>,
) {
    let Ok(listener) = TcpListener::from_std(listener) else { return };
    loop {
        let Ok(permit) = limit.clone().acquire_owned().await else { return };
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        match accepted {
            Ok((stream, _)) => {
                let (router, stopped) = (router.clone(), stopped.clone());
                tokio::spawn(async move {
                    serve_connection(stream, router, patience, stopped).await;
                    drop(permit);
                });
            }
            // Too many open files, for example: a connection that ends makes room.
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

async fn serve_connection(
    stream: TcpStream,
    router: axum::Router,
    patience: Patience,
    mut stopped: watch::Receiver<bool>,
) {
    // Answers are small, and a client waits for each.
    let _best_effort = stream.set_nodelay(true);
    let (peer, stream) = Peer::new(stream, patience.unread);
    let service = TowerToHyperService::new(router);
    let service = service_fn(move |mut call: Request<Incoming>| {
        call.extensions_mut().insert(peer.clone());
        service.call(call)
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(patience.head)
        .max_buf_size(HEAD_MAX)
        .serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        // A peer that breaks the protocol, or is gone, is nobody to tell.
        _ended = connection.as_mut() => return,
        _ = stopped.wait_for(|stopped| *stopped) => connection.as_mut().graceful_shutdown(),
    }
    let _ended = connection.await;
}

fn resolve(address: &str) -> Result<SocketAddr> {
    let resolved = address.to_socket_addrs().ok().and_then(|mut addresses| addresses.next());
    resolved.ok_or_else(|| Error::Invalid {
        what: format!("{address:?} is not an address with a port; write 127.0.0.1:11380"),
    })
}

fn bind(address: SocketAddr) -> Result<StdListener> {
    let listener = StdListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Error::AddressInUse {
            address: address.to_string(),
            why: "another process listens there".into(),
        },
        _ => io("listening", &error),
    })?;
    listener.set_nonblocking(true).map_err(|error| io("listening", &error))?;
    Ok(listener)
}

fn io(what: &str, error: &std::io::Error) -> Error {
    Error::Io { what: format!("{what}: {error}") }
}
