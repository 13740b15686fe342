//! A service that does what each call says, and a handler that notes what it hears.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use tubewell_wire::explored::{open_sockets, pass, switch_point};
use tubewell_wire::{
    Answering, CallError, CallKind, Client, ClientOptions, Handler, Limits, Rejection, Reply,
    Server, ServerOptions, Service, WireError,
};

/// A call that is made again, and cancelled when dropped.
pub const AGAIN: CallKind = CallKind { resend: true, cancel: true, changes: false };
/// A call that is made once, and cancelled when dropped.
pub const ONCE: CallKind = CallKind { resend: false, cancel: true, changes: false };
/// A call that is made once, whatever becomes of its caller.
pub const ALWAYS: CallKind = CallKind { resend: false, cancel: false, changes: false };

const ADDRESS: &str = "tcp://127.0.0.1:1";
const SECRET: &[u8] = b"secret";
/// A time that no scenario lets pass.
const LONG: Duration = Duration::from_secs(24 * 60 * 60);

/// What has happened, in order.
#[derive(Default)]
pub struct Log {
    lines: shuttle::sync::Mutex<Vec<String>>,
    added: shuttle::sync::Condvar,
}

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
        self.added.notify_all();
    }

    pub fn count(&self, line: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|other| *other == line).count()
    }

    /// Waits until `line` was added.
    pub fn wait_for(&self, line: &str) {
        let mut lines = self.lines.lock().unwrap();
        while !lines.iter().any(|other| other == line) {
            lines = self.added.wait(lines).unwrap();
        }
    }
}

/// The future of one call.
#[derive(Default)]
struct Promise {
    signals: usize,
    waker: Option<Waker>,
}

/// What a scenario and its service share.
#[derive(Default)]
pub struct Desk {
    pub log: Log,
    /// Of std: no point at which the explorer switches threads, and never locked when it may.
    promises: Mutex<HashMap<String, Promise>>,
}

impl Desk {
    /// Signals the future `name`, whose call may be made later.
    pub fn signal(&self, name: &str) {
        let mut promises = self.promises.lock().unwrap();
        let promise = promises.entry(name.to_owned()).or_default();
        promise.signals += 1;
        let waker = promise.waker.take();
        drop(promises);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// The service: the first word of a call says how it is answered.
struct Words(Arc<Desk>);

impl Service for Words {
    type Peer = ();

    fn connect(&self, _: &[u8]) -> Result<((), Vec<u8>), Rejection> {
        self.0.log.add("connect");
        Ok(((), Vec::new()))
    }

    fn call(&self, _: &Arc<()>, body: &[u8]) -> Answering {
        let call = text(body);
        self.0.log.add(format!("call {call}"));
        let (word, rest) = call.split_once(':').unwrap_or((&call, ""));
        let future = |needed, is_tracked| {
            let (desk, name) = (self.0.clone(), rest.to_owned());
            Answering::Later(Box::pin(Signalled { desk, name, needed, is_tracked }))
        };
        match word {
            "beats" => {
                let expect_beats = Some(rest == "on");
                Answering::Now(Reply { expect_beats, ..Reply::new(rest.as_bytes().to_vec()) })
            }
            "later" => future(1, false),
            "tracked" => future(1, true),
            "twice" => future(2, false),
            "bytes" => Answering::Now(Reply::new(vec![7; rest.parse().unwrap()])),
            "numbers" => {
                let end = rest.parse().unwrap();
                Answering::Many(Box::pin(Numbers { next: 0, end, desk: self.0.clone() }))
            }
            _ => Answering::Now(Reply::new(rest.as_bytes().to_vec())),
        }
    }

    fn disconnect(&self, _: &Arc<()>) -> bool {
        self.0.log.add("disconnect");
        false
    }
}

/// Pending until it is signalled as often as it needs. Notes that it was ready, and that it was dropped.
struct Signalled {
    desk: Arc<Desk>,
    name: String,
    needed: usize,
    is_tracked: bool,
}

impl Future for Signalled {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let mut promises = self.desk.promises.lock().unwrap();
        let promise = promises.entry(self.name.clone()).or_default();
        if promise.signals < self.needed {
            let before = promise.waker.replace(context.waker().clone());
            drop(promises);
            drop(before);
            // It may be signalled before the poll is over.
            switch_point();
            return Poll::Pending;
        }
        drop(promises);
        self.desk.log.add(format!("ready {}", self.name));
        let mut reply = Reply::new(self.name.clone().into_bytes());
        reply.expect_beats = (self.name == "expects beats").then_some(true);
        if self.is_tracked {
            let (desk, line) = (self.desk.clone(), format!("lost {}", self.name));
            reply.on_lost = Some(Box::new(move || desk.log.add(line)));
        }
        Poll::Ready(reply)
    }
}

impl Drop for Signalled {
    fn drop(&mut self) {
        let mut promises = self.desk.promises.lock().unwrap();
        // A waker keeps the connection of its call.
        let waker = promises.get_mut(&self.name).and_then(|promise| promise.waker.take());
        drop(promises);
        drop(waker);
        self.desk.log.add(format!("dropped {}", self.name));
    }
}

/// Numbers up to an end.
struct Numbers {
    next: u64,
    end: u64,
    desk: Arc<Desk>,
}

impl Stream for Numbers {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if self.next == self.end {
            return Poll::Ready(None);
        }
        self.next += 1;
        Poll::Ready(Some(self.next.to_string().into_bytes()))
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.desk.log.add("numbers dropped");
    }
}

/// Notes what a client hears.
#[derive(Default)]
pub struct Ears {
    pub log: Log,
    /// Makes a call at each heartbeat. Of std: it is set before the first one.
    pub client: std::sync::OnceLock<std::sync::Weak<Client>>,
}

impl Handler for Ears {
    fn hello(&self) -> Vec<u8> {
        Vec::new()
    }

    fn welcome(&self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn orphan(&self, body: &[u8]) {
        self.log.add(format!("orphan {}", text(body)));
        if body == b"gate" {
            self.log.wait_for("gate is open");
        }
    }

    fn beat(&self) {
        self.log.add("beat");
        if let Some(client) = self.client.get().and_then(std::sync::Weak::upgrade) {
            drop(client.call(b"now:beat".to_vec(), ALWAYS));
        }
    }

    fn broken(&self) {
        self.log.add("broken");
    }
}

/// Starts a server at the address of all scenarios.
pub fn serve(limits: Limits) -> (Server, Arc<Desk>) {
    let desk = Arc::new(Desk::default());
    (serve_at(&desk, limits), desk)
}

/// Starts a server that answers from `desk`.
pub fn serve_at(desk: &Arc<Desk>, limits: Limits) -> Server {
    let limits = Limits { hello: LONG, stalled: LONG, stop: LONG, ..limits };
    let options = ServerOptions { secret: Some(SECRET.to_vec()), limits, ..Default::default() };
    Server::start(&ADDRESS.parse().unwrap(), options, Words(desk.clone())).unwrap()
}

/// Connects to the server.
pub fn try_connect() -> Result<(Arc<Client>, Arc<Ears>), WireError> {
    try_connect_with(Limits::default())
}

/// Connects to the server, which runs, with these limits of the client.
pub fn connect_with(limits: Limits) -> (Arc<Client>, Arc<Ears>) {
    try_connect_with(limits).unwrap()
}

fn try_connect_with(limits: Limits) -> Result<(Arc<Client>, Arc<Ears>), WireError> {
    let backoff = Duration::from_millis(1)..=Duration::from_millis(4);
    let options = ClientOptions {
        secret: Some(SECRET.to_vec()),
        limits,
        connect_timeout: LONG,
        backoff,
        ..ClientOptions::default()
    };
    let ears = Arc::new(Ears::default());
    let client = Client::connect(&ADDRESS.parse().unwrap(), options, ears.clone())?;
    Ok((Arc::new(client), ears))
}

/// Connects to the server, which runs.
pub fn connect() -> (Arc<Client>, Arc<Ears>) {
    try_connect().unwrap()
}

/// Makes a call and waits for its answer, in either of the two ways.
pub fn ask(client: &Client, call: &str, kind: CallKind) -> Result<String, CallError> {
    let body = call.as_bytes().to_vec();
    let answer = if thread_rng().gen_bool(0.5) {
        client.call_and_wait(body, kind)
    } else {
        client.call(body, kind).wait()
    };
    answer.map(|answer| text(&answer))
}

/// Makes a call on a thread of its own.
pub fn asking(
    client: &Arc<Client>,
    call: &str,
    kind: CallKind,
) -> thread::JoinHandle<Result<String, CallError>> {
    let (client, call) = (client.clone(), call.to_owned());
    thread::spawn(move || ask(&client, &call, kind))
}

/// Waits for the answers of calls, while time passes.
pub fn answers_in_time<const N: usize>(
    client: &Arc<Client>,
    calls: [(&str, CallKind); N],
) -> [Result<String, CallError>; N] {
    let done = Arc::new(AtomicUsize::new(0));
    let callers = calls.map(|(call, kind)| {
        let (client, call, done) = (client.clone(), call.to_owned(), done.clone());
        thread::spawn(move || {
            let answer = ask(&client, &call, kind);
            done.fetch_add(1, Ordering::SeqCst);
            answer
        })
    });
    while done.load(Ordering::SeqCst) < N {
        pass(Duration::from_millis(1));
        thread::yield_now();
    }
    callers.map(|caller| caller.join().unwrap())
}

/// Ends the server and its clients, and asserts that nothing is left of them.
pub fn end<const N: usize>(server: &Server, desk: &Desk, clients: [Arc<Client>; N]) {
    drop(clients);
    server.stop();
    while open_sockets() > 0 {
        thread::yield_now();
    }
    assert_eq!(desk.log.count("connect"), desk.log.count("disconnect"));
}

fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}
