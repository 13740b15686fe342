//! A service that does what each call says, and a handler that notes what it hears.

use std::collections::HashMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, OnceLock, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use tubewell_wire::{
    Address, Answering, CallKind, Client, ClientOptions, Handler, Limits, Rejection, Reply, Server,
    ServerOptions, Service,
};

/// After this a test fails instead of waiting forever.
pub const HANGS_AFTER: Duration = Duration::from_secs(600);

/// A call that is made again, and cancelled when dropped.
pub const AGAIN: CallKind = CallKind { resend: true, cancel: true, changes: false };
/// As `AGAIN`, of a call that changes something.
pub const CHANGES: CallKind = CallKind { changes: true, ..AGAIN };
/// A call that is made once, and cancelled when dropped.
pub const ONCE: CallKind = CallKind { resend: false, cancel: true, changes: false };
/// A call that is made once, whatever becomes of its caller.
pub const ALWAYS: CallKind = CallKind { resend: false, cancel: false, changes: false };

/// What has happened, in order.
#[derive(Default)]
pub struct Log {
    lines: Mutex<Vec<String>>,
    added: Condvar,
}

impl Log {
    pub fn add(&self, line: impl Into<String>) {
        self.lines.lock().unwrap().push(line.into());
        self.added.notify_all();
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().unwrap().clone()
    }

    pub fn count(&self, line: &str) -> usize {
        self.lines.lock().unwrap().iter().filter(|other| *other == line).count()
    }

    /// Waits until `line` was added `count` times.
    #[track_caller]
    pub fn wait_for(&self, line: &str, count: usize) {
        let end = deadline();
        let mut lines = self.lines.lock().unwrap();
        while lines.iter().filter(|other| *other == line).count() < count {
            let left = end.saturating_duration_since(now());
            assert!(
                !left.is_zero(),
                "no {count} times {line:?} in {:?}",
                &lines[lines.len().saturating_sub(50)..]
            );
            lines = self.added.wait_timeout(lines, left).unwrap().0;
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "only to fail instead of waiting forever")]
pub fn now() -> Instant {
    Instant::now()
}

pub fn deadline() -> Instant {
    now() + HANGS_AFTER
}

/// The future of one call, which the test completes.
#[derive(Default)]
struct Promise {
    reply: Option<Reply>,
    waker: Option<Waker>,
}

/// What the tests and the service share.
#[derive(Default)]
pub struct Desk {
    pub log: Log,
    promises: Mutex<HashMap<String, Promise>>,
    /// What `connect` answers, if not a welcome.
    pub refusal: Mutex<Option<String>>,
    pub welcome: Mutex<Vec<u8>>,
    /// How many calls of `gate` may pass.
    gate: Mutex<usize>,
    opened: Condvar,
    /// Stopped by the call `stop`.
    pub server: Mutex<Option<Arc<Server>>>,
    holds: Mutex<Holds>,
    held: Condvar,
}

/// Calls that hold their body until they may end.
#[derive(Default)]
struct Holds {
    calls: usize,
    bytes: usize,
    most_bytes: usize,
    /// How many may end.
    permits: usize,
    ended: usize,
    wakers: Vec<Waker>,
}

impl Desk {
    /// Completes the call `later:NAME`, or gives an item to `stream:NAME`.
    pub fn finish(&self, name: &str, reply: Reply) {
        let mut promises = self.promises.lock().unwrap();
        let promise = promises.entry(name.to_owned()).or_default();
        promise.reply = Some(reply);
        let waker = promise.waker.take();
        drop(promises);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub fn open_gate(&self) {
        *self.gate.lock().unwrap() = usize::MAX;
        self.opened.notify_all();
    }

    /// Lets one call of `gate` pass.
    pub fn open_gate_once(&self) {
        *self.gate.lock().unwrap() += 1;
        self.opened.notify_all();
    }

    /// Lets calls of `hold` end.
    pub fn permit(&self, calls: usize) {
        let mut holds = self.holds.lock().unwrap();
        holds.permits += calls;
        let wakers = std::mem::take(&mut holds.wakers);
        drop(holds);
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits until so many calls of `hold` hold their bodies, and so many have ended. Returns the most bytes that
    /// they have held together.
    #[track_caller]
    pub fn wait_for_holds(&self, calls: usize, ended: usize) -> usize {
        let holds = self.holds.lock().unwrap();
        let other = |holds: &mut Holds| (holds.calls, holds.ended) != (calls, ended);
        let (holds, waited) = self.held.wait_timeout_while(holds, HANGS_AFTER, other).unwrap();
        let found = (holds.calls, holds.ended);
        assert!(
            !waited.timed_out(),
            "{found:?} calls are held and have ended, not {calls} and {ended}"
        );
        holds.most_bytes
    }

    /// Waits until so many calls of `hold` have ended.
    #[track_caller]
    pub fn wait_for_ended(&self, ended: usize) {
        let holds = self.holds.lock().unwrap();
        let other = |holds: &mut Holds| holds.ended < ended;
        let (holds, waited) = self.held.wait_timeout_while(holds, HANGS_AFTER, other).unwrap();
        assert!(!waited.timed_out(), "{} calls have ended, not {ended}", holds.ended);
    }

    pub fn wait_at_gate(&self) {
        self.log.add("at gate");
        let gate = self.gate.lock().unwrap();
        let opened = self.opened.wait_timeout_while(gate, HANGS_AFTER, |passes| *passes == 0);
        let (mut passes, timed_out) = opened.unwrap();
        assert!(!timed_out.timed_out(), "the gate was not opened");
        if *passes < usize::MAX {
            *passes -= 1;
        }
    }

    /// An answer that notes if it is lost.
    pub fn tracked(self: &Arc<Self>, body: &[u8]) -> Reply {
        let (desk, name) = (self.clone(), text(body));
        let on_lost = move || {
            desk.log.add(format!("lost {name}"));
            assert_ne!(name, "panic");
        };
        Reply { body: body.to_vec(), on_lost: Some(Box::new(on_lost)), ..Reply::default() }
    }
}

pub fn text(body: &[u8]) -> String {
    String::from_utf8_lossy(body).into_owned()
}

/// A refusal that holds only for now.
pub const NOT_NOW: &str = "not now";

/// The service: the first word of a call says how it is answered.
pub struct Words(pub Arc<Desk>);

impl Service for Words {
    type Peer = String;

    fn connect(&self, hello: &[u8]) -> Result<(String, Vec<u8>), Rejection> {
        assert_ne!(hello, b"panic in connect");
        if let Some(refusal) = self.0.refusal.lock().unwrap().clone() {
            let temporary = refusal == NOT_NOW;
            return Err(Rejection { why: refusal, temporary });
        }
        let hello = text(hello);
        self.0.log.add(format!("hello {hello}"));
        Ok((hello, self.0.welcome.lock().unwrap().clone()))
    }

    fn client(&self, hello: &[u8]) -> Option<u128> {
        text(hello).strip_prefix("client:")?.parse().ok()
    }

    fn call(&self, _: &Arc<String>, body: &[u8]) -> Answering {
        let call = text(body);
        let desk = &self.0;
        let (word, rest) = call.split_once(':').unwrap_or((&call, ""));
        if !["quiet", "hold"].contains(&word) {
            desk.log.add(format!("call {call}"));
        }
        let number = || rest.parse().unwrap();
        match word {
            "later" => Answering::Later(Box::pin(Later(desk.clone(), rest.to_owned()))),
            "beats" => Answering::Now(Reply {
                expect_beats: Some(rest == "on"),
                ..Reply::new(body.to_vec())
            }),
            "tracked" => Answering::Now(desk.tracked(rest.as_bytes())),
            "bytes" => Answering::Now(Reply::new(vec![7; number()])),
            "tracked-bytes" => {
                Answering::Now(Reply { body: vec![7; number()], ..desk.tracked(b"bytes") })
            }
            "numbers" => {
                let end = number() as u64;
                Answering::Many(Box::pin(Numbers { next: 0, end, desk: desk.clone() }))
            }
            "hold" => Answering::Later(Box::pin(Hold::new(desk, body.len()))),
            "stream" => Answering::Many(Box::pin(Fed(desk.clone(), rest.to_owned()))),
            "gate" => {
                desk.wait_at_gate();
                Answering::Now(Reply::new(body.to_vec()))
            }
            "future" => {
                Answering::Later(Box::pin(Misbehaving(desk.clone(), rest.to_owned(), false)))
            }
            "stop" => {
                desk.server.lock().unwrap().take().unwrap().stop();
                Answering::Now(Reply::new(b"stopped".to_vec()))
            }
            "panic" => panic!("as the call says"),
            _ => Answering::Now(Reply::new(body.to_vec())),
        }
    }

    fn disconnect(&self, peer: &Arc<String>) -> bool {
        if peer.starts_with("ends slowly") {
            self.0.log.add("step of disconnect");
            let steps = self.0.log.count("step of disconnect");
            if steps < 1000 {
                return true;
            }
        }
        self.0.log.add("disconnect");
        assert_ne!(**peer, "panic in disconnect");
        false
    }
}

impl Drop for Words {
    fn drop(&mut self) {
        self.0.log.add("service dropped");
    }
}

/// Pending until the test finishes it.
struct Later(Arc<Desk>, String);

impl Future for Later {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let mut promises = self.0.promises.lock().unwrap();
        let promise = promises.entry(self.1.clone()).or_default();
        if let Some(reply) = promise.reply.take() {
            return Poll::Ready(reply);
        }
        promise.waker = Some(context.waker().clone());
        drop(promises);
        self.0.log.add(format!("pending {}", self.1));
        Poll::Pending
    }
}

impl Drop for Later {
    fn drop(&mut self) {
        self.0.log.add(format!("dropped {}", self.1));
        assert!(self.1 != "panics in drop" || std::thread::panicking());
    }
}

/// Pending until it may end. It stands for a body that is held.
struct Hold(Arc<Desk>, usize);

impl Hold {
    fn new(desk: &Arc<Desk>, bytes: usize) -> Hold {
        let mut holds = desk.holds.lock().unwrap();
        holds.calls += 1;
        holds.bytes += bytes;
        holds.most_bytes = holds.most_bytes.max(holds.bytes);
        desk.held.notify_all();
        Hold(desk.clone(), bytes)
    }
}

impl Future for Hold {
    type Output = Reply;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        let mut holds = self.0.holds.lock().unwrap();
        if holds.permits == 0 {
            holds.wakers.push(context.waker().clone());
            return Poll::Pending;
        }
        holds.permits -= 1;
        Poll::Ready(Reply::new(b"held".to_vec()))
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut holds = self.0.holds.lock().unwrap();
        holds.calls -= 1;
        holds.bytes -= self.1;
        holds.ended += 1;
        self.0.held.notify_all();
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
        if self.next >= self.end {
            return Poll::Ready(None);
        }
        let number = self.next;
        self.next += 1;
        self.desk.log.add("number");
        Poll::Ready(Some(number.to_string().into_bytes()))
    }
}

impl Drop for Numbers {
    fn drop(&mut self) {
        self.desk.log.add("numbers dropped");
    }
}

/// Items that the test gives one by one.
struct Fed(Arc<Desk>, String);

impl Stream for Fed {
    type Item = Vec<u8>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let mut promises = self.0.promises.lock().unwrap();
        let promise = promises.entry(self.1.clone()).or_default();
        let Some(reply) = promise.reply.take() else {
            promise.waker = Some(context.waker().clone());
            drop(promises);
            self.0.log.add(format!("pending {}", self.1));
            return Poll::Pending;
        };
        drop(promises);
        assert_ne!(reply.body, b"panic");
        Poll::Ready(Some(reply.body))
    }
}

/// Woken once; then does what its name says.
struct Misbehaving(Arc<Desk>, String, bool);

impl Future for Misbehaving {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        assert_ne!(self.1, "panics at once");
        if !std::mem::replace(&mut self.2, true) {
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        match self.1.as_str() {
            "panics" => panic!("as the call says"),
            "waits, then is pending" => {
                self.0.wait_at_gate();
                Poll::Pending
            }
            "waits, then is ready" => {
                self.0.wait_at_gate();
                Poll::Ready(self.0.tracked(b"ready"))
            }
            "stops" => {
                self.0.server.lock().unwrap().take().unwrap().stop();
                Poll::Ready(Reply::new(b"stopped".to_vec()))
            }
            _ => Poll::Ready(Reply::new(b"done".to_vec())),
        }
    }
}

impl Drop for Misbehaving {
    fn drop(&mut self) {
        self.0.log.add("future dropped");
        assert!(self.1 != "panics in drop" || std::thread::panicking());
    }
}

/// Notes what a client hears.
#[derive(Default)]
pub struct Ears {
    pub log: Log,
    pub hello: Mutex<Vec<u8>>,
    pub refuse: Mutex<Option<String>>,
    /// Makes a call at each heartbeat.
    pub client: OnceLock<Weak<Client>>,
}

impl Handler for Ears {
    fn hello(&self) -> Vec<u8> {
        self.hello.lock().unwrap().clone()
    }

    fn welcome(&self, welcome: &[u8]) -> Result<(), String> {
        self.log.add(format!("welcome {}", text(welcome)));
        self.refuse.lock().unwrap().clone().map_or(Ok(()), Err)
    }

    fn orphan(&self, body: &[u8]) {
        self.log.add(format!("orphan {}", text(body)));
        assert_ne!(body, b"panic");
    }

    fn refusal(&self, answer: &[u8]) -> Option<String> {
        let answer = text(answer);
        let why = answer.strip_prefix("refused: ")?;
        assert_ne!(why, "panic");
        Some(why.to_owned())
    }

    fn beat(&self) {
        self.log.add("beat");
        if let Some(client) = self.client.get().and_then(Weak::upgrade) {
            drop(client.call(b"quiet".to_vec(), ALWAYS));
        }
    }

    fn broken(&self) {
        self.log.add("broken");
    }
}

/// A folder with the address of a server in it.
pub struct Place {
    folder: tempfile::TempDir,
    pub address: Address,
}

impl Place {
    pub fn new() -> Place {
        let folder = tempfile::tempdir().unwrap();
        if cfg!(unix) {
            let address = Address::Unix(folder.path().join("app.sock"));
            return Place { folder, address };
        }
        Place::tcp()
    }

    pub fn tcp() -> Place {
        let address = "tcp://127.0.0.1:0".parse().unwrap();
        Place { folder: tempfile::tempdir().unwrap(), address }
    }

    /// The same place with the address that was chosen.
    pub fn at(self, address: Address) -> Place {
        Place { address, ..self }
    }

    pub fn folder(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("app.sock")
    }
}

pub const SECRET: &[u8] = b"thirty-two bytes that both know.";

/// A server and what its service knows.
pub struct Serving {
    pub desk: Arc<Desk>,
    pub server: Arc<Server>,
    pub address: Address,
}

impl Serving {
    pub fn start(place: &Place) -> Serving {
        Serving::with(place, Limits::default())
    }

    pub fn with(place: &Place, limits: Limits) -> Serving {
        let secret = secret_at(&place.address);
        let desk = Arc::new(Desk::default());
        let options = ServerOptions { secret, limits, any_interface: false };
        let server = Server::start(&place.address, options, Words(desk.clone())).unwrap();
        let address = server.address().clone();
        Serving { desk, server: Arc::new(server), address }
    }

    pub fn client(&self) -> (Client, Arc<Ears>) {
        self.client_with(options())
    }

    /// A client with these options and the secret.
    pub fn client_with(&self, options: ClientOptions) -> (Client, Arc<Ears>) {
        let ears = Arc::new(Ears::default());
        let options = ClientOptions { secret: secret_at(&self.address), ..options };
        (Client::connect(&self.address, options, ears.clone()).unwrap(), ears)
    }
}

/// The secret of the server at this address: only TCP needs one.
fn secret_at(address: &Address) -> Option<Vec<u8>> {
    matches!(address, Address::Tcp(_)).then(|| SECRET.to_vec())
}

/// Options without a secret.
pub fn options() -> ClientOptions {
    ClientOptions { connect_timeout: HANGS_AFTER, ..ClientOptions::default() }
}

/// Options with the secret of the server at this address.
pub fn options_at(address: &Address) -> ClientOptions {
    ClientOptions { secret: secret_at(address), ..options() }
}

/// Makes a call and waits for its answer.
#[track_caller]
pub fn ask(client: &Client, call: &str) -> String {
    text(&client.call_and_wait(call.into(), ONCE).unwrap())
}
