//! Callers at work while their server ends and starts again: what each call returned is compared with what
//! the servers have done.

use std::collections::{HashMap, HashSet};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tubewell_wire::{
    Answering, CallError, CallKind, Client, ClientOptions, Handler, Rejection, Reply, Server,
    ServerOptions, Service,
};

use crate::support::{HANGS_AFTER, Place, SECRET, deadline, now, options};

/// A call and which of its executions it was.
type Key = (u64, u32);

/// What the servers have done, and what the clients have got.
#[derive(Default)]
struct Ledger {
    books: Mutex<Books>,
    grown: Condvar,
}

#[derive(Default)]
struct Books {
    /// How often each call was executed.
    executed: HashMap<u64, u32>,
    total: usize,
    /// Tracked answers that were given, received and lost.
    given: HashSet<Key>,
    received: HashSet<Key>,
    lost: HashSet<Key>,
}

impl Ledger {
    fn execute(&self, call: u64) -> Key {
        let mut books = self.books.lock().unwrap();
        books.total += 1;
        let count = books.executed.entry(call).or_default();
        *count += 1;
        let key = (call, *count);
        drop(books);
        self.grown.notify_all();
        key
    }

    /// Waits for this many more executions.
    fn wait_for_more(&self, more: usize) {
        let books = self.books.lock().unwrap();
        let end = books.total + more;
        let waited = self.grown.wait_timeout_while(books, HANGS_AFTER, |books| books.total < end);
        assert!(!waited.unwrap().1.timed_out(), "no progress");
    }

    fn answer(self: &Arc<Ledger>, key: Key, tracked: bool) -> Reply {
        let mut body = key.0.to_le_bytes().to_vec();
        body.extend_from_slice(&key.1.to_le_bytes());
        body.push(u8::from(tracked));
        if !tracked {
            return Reply::new(body);
        }
        assert!(self.books.lock().unwrap().given.insert(key));
        let ledger = self.clone();
        let on_lost = move || assert!(ledger.books.lock().unwrap().lost.insert(key), "lost twice");
        Reply { body, on_lost: Some(Box::new(on_lost)), ..Reply::default() }
    }

    fn receive(&self, body: &[u8]) -> u64 {
        let call = u64::from_le_bytes(body[..8].try_into().unwrap());
        let count = u32::from_le_bytes(body[8..12].try_into().unwrap());
        if body[12] == 1 {
            let new = self.books.lock().unwrap().received.insert((call, count));
            assert!(new, "received twice");
        }
        call
    }
}

struct Clerk(Arc<Ledger>);

impl Service for Clerk {
    type Peer = ();

    fn connect(&self, _: &[u8]) -> Result<((), Vec<u8>), Rejection> {
        Ok(((), Vec::new()))
    }

    fn call(&self, _: &Arc<()>, body: &[u8]) -> Answering {
        let call = u64::from_le_bytes(body[..8].try_into().unwrap());
        let key = self.0.execute(call);
        let (ledger, tracked) = (self.0.clone(), call % 2 == 0);
        if call % 3 == 0 {
            return Answering::Now(ledger.answer(key, tracked));
        }
        Answering::Later(Box::pin(Turns { ledger, key, tracked, left: call % 5 }))
    }

    fn disconnect(&self, _: &Arc<()>) -> bool {
        false
    }
}

/// Ready after some turns.
struct Turns {
    ledger: Arc<Ledger>,
    key: Key,
    tracked: bool,
    left: u64,
}

impl Future for Turns {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        if self.left == 0 {
            return Poll::Ready(self.ledger.answer(self.key, self.tracked));
        }
        self.left -= 1;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Orphans(Arc<Ledger>);

impl Handler for Orphans {
    fn hello(&self) -> Vec<u8> {
        Vec::new()
    }

    fn welcome(&self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn orphan(&self, body: &[u8]) {
        self.0.receive(body);
    }

    fn broken(&self) {}
}

/// Makes calls until it is told to stop, and checks what they return.
fn work(caller: u64, client: &Client, ledger: &Ledger, done: &AtomicBool) {
    let mut pending = Vec::new();
    let mut call = caller << 32;
    let end = deadline();
    while !done.load(Ordering::SeqCst) {
        assert!(now() < end, "the test did not end");
        call += 1;
        let kind = CallKind { resend: call % 7 < 3, cancel: call % 4 < 2, changes: false };
        // Calls of which each is alone come in rows, so that callers read their answers.
        if call / 100 % 2 == 1 && pending.is_empty() {
            check(call, kind, client.call_and_wait(call.to_le_bytes().to_vec(), kind), ledger);
            continue;
        }
        let made = client.call(call.to_le_bytes().to_vec(), kind);
        match call % 5 {
            0 => drop(made),
            1 => check(call, kind, made.wait(), ledger),
            _ => pending.push((call, kind, made)),
        }
        if pending.len() > 20 {
            for (call, kind, made) in pending.drain(..) {
                check(call, kind, made.wait(), ledger);
            }
        }
    }
    for (call, kind, made) in pending {
        check(call, kind, made.wait(), ledger);
    }
}

fn check(call: u64, kind: CallKind, outcome: Result<Vec<u8>, CallError>, ledger: &Ledger) {
    match &outcome {
        Ok(body) => assert_eq!(ledger.receive(body), call),
        Err(CallError::Broken { .. }) => assert!(!kind.resend, "{outcome:?}"),
        Err(error) => panic!("{error}"),
    }
    let executed = ledger.books.lock().unwrap().executed.get(&call).copied().unwrap_or_default();
    assert!(outcome.is_err() || executed >= 1, "{outcome:?}");
    assert!(kind.resend || executed <= 1, "executed {executed} times");
}

#[test]
fn callers_and_servers_agree_through_many_restarts() {
    for place in [Place::new(), Place::tcp()] {
        let ledger = Arc::new(Ledger::default());
        let secret = Some(SECRET.to_vec());
        let start = |address| {
            let options = ServerOptions { secret: secret.clone(), ..ServerOptions::default() };
            Server::start(address, options, Clerk(ledger.clone())).unwrap()
        };
        let mut server = Some(start(&place.address));
        let address = server.as_ref().unwrap().address().clone();
        let clients: Vec<Client> = (0..2).map(|_| connect(&address, &ledger)).collect();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for caller in 0..4 {
                let client = &clients[caller % 2];
                let (ledger, done) = (&ledger, &done);
                scope.spawn(move || work(caller as u64, client, ledger, done));
            }
            for _ in 0..10 {
                ledger.wait_for_more(300);
                drop(server.take());
                server = Some(start(&address));
            }
            ledger.wait_for_more(300);
            done.store(true, Ordering::SeqCst);
        });
        drop(clients);
        drop(server);
        all_given_answers_are_accounted_for(&ledger);
    }
}

fn connect(address: &tubewell_wire::Address, ledger: &Arc<Ledger>) -> Client {
    let backoff = Duration::from_millis(1)..=Duration::from_millis(10);
    let secret = Some(SECRET.to_vec());
    let options = ClientOptions { secret, backoff, ..options() };
    Client::connect(address, options, Arc::new(Orphans(ledger.clone()))).unwrap()
}

/// An answer that was given is received or lost. The thread of a closed client may still be at an orphan.
fn all_given_answers_are_accounted_for(ledger: &Ledger) {
    let end = deadline();
    loop {
        let books = ledger.books.lock().unwrap();
        let mut open = books.given.iter();
        let open = open.find(|key| !books.received.contains(key) && !books.lost.contains(key));
        if open.is_none() {
            assert!(books.received.len() > 100, "{} received", books.received.len());
            return;
        }
        assert!(now() < end, "{open:?} was neither received nor lost");
        drop(books);
        std::thread::yield_now();
    }
}
