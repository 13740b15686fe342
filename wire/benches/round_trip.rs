//! The time of empty calls: one caller, many callers, and many calls in flight of one caller.
//!
//! `cargo bench -p tubewell-wire` prints one line for each.
#![expect(clippy::disallowed_methods, reason = "measures time")]
#![expect(clippy::unwrap_used, reason = "a benchmark may end with an error")]

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tubewell_wire::{
    Address, Answering, CallKind, Client, ClientOptions, Handler, Rejection, Reply, Server,
    ServerOptions, Service,
};

/// How long each line measures.
const TIME: Duration = Duration::from_secs(1);
const KIND: CallKind = CallKind { resend: false, cancel: true, changes: false };

/// How a caller waits: for an answer that the thread of the client reads, or for one that it reads itself.
#[derive(Clone, Copy)]
enum Wait {
    ForThread,
    Itself,
}

impl Wait {
    const ALL: [Wait; 2] = [Wait::ForThread, Wait::Itself];

    fn call(self, client: &Client, body: &[u8]) {
        let answer = match self {
            Wait::ForThread => client.call(body.to_vec(), KIND).wait(),
            Wait::Itself => client.call_and_wait(body.to_vec(), KIND),
        };
        answer.unwrap();
    }

    fn name(self) -> &'static str {
        match self {
            Wait::ForThread => "read by the thread",
            Wait::Itself => "read by the caller",
        }
    }
}

/// Answers at once, or, if the call says so, from the thread of futures.
struct Echo;

impl Service for Echo {
    type Peer = ();

    fn connect(&self, _: &[u8]) -> Result<((), Vec<u8>), Rejection> {
        Ok(((), Vec::new()))
    }

    fn call(&self, _: &Arc<()>, body: &[u8]) -> Answering {
        if body.is_empty() {
            Answering::Now(Reply::new(Vec::new()))
        } else {
            Answering::Later(Box::pin(Twice(false)))
        }
    }

    fn disconnect(&self, _: &Arc<()>) -> bool {
        false
    }
}

/// Pending once, and woken at once.
struct Twice(bool);

impl Future for Twice {
    type Output = Reply;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Reply> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(Reply::new(Vec::new()));
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

struct Quiet;

impl Handler for Quiet {
    fn hello(&self) -> Vec<u8> {
        Vec::new()
    }

    fn welcome(&self, _: &[u8]) -> Result<(), String> {
        Ok(())
    }

    fn orphan(&self, _: &[u8]) {}

    fn broken(&self) {}
}

fn main() {
    let folder = tempfile::tempdir().unwrap();
    let secret = Some(vec![7; 32]);
    let mut places = vec![("tcp", "tcp://127.0.0.1:0".parse().unwrap(), secret.clone())];
    if cfg!(unix) {
        let unix = |name| Address::Unix(folder.path().join(name));
        places.push(("unix", unix("bench.sock"), None));
        places.push(("unix, encrypted", unix("sealed.sock"), secret));
    }
    for (kind, address, secret) in places {
        let options = ServerOptions { secret: secret.clone(), ..ServerOptions::default() };
        let server = Server::start(&address, options, Echo).unwrap();
        let options = ClientOptions { secret, ..ClientOptions::default() };
        let connect =
            || Client::connect(server.address(), options.clone(), Arc::new(Quiet)).unwrap();
        for wait in Wait::ALL {
            one_caller(kind, ("at once", wait), &connect(), b"");
            one_caller(kind, ("later", wait), &connect(), b"later");
            for callers in [16, 64] {
                many_callers(kind, (callers, wait), &connect());
            }
            many_clients(kind, (64, wait), &connect);
        }
        in_flight(kind, 256, &connect(), "at once", b"");
        in_flight(kind, 256, &connect(), "later", b"later");
        in_flight(kind, 4, &connect(), "later, 1 MiB each", &vec![7; 1 << 20]);
    }
}

fn one_caller(address: &str, (answered, wait): (&str, Wait), client: &Client, body: &[u8]) {
    for _ in 0..1000 {
        wait.call(client, body);
    }
    let mut times = Vec::new();
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        let call = Instant::now();
        wait.call(client, body);
        times.push(call.elapsed());
    }
    times.sort_unstable();
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    println!(
        "{address}: 1 caller, answered {answered}, {}: p50 {p50:.1?}, p99 {p99:.1?}",
        wait.name()
    );
}

fn many_callers(address: &str, (callers, wait): (usize, Wait), client: &Client) {
    let begun = Instant::now();
    let calls = std::thread::scope(|scope| {
        let threads: Vec<_> =
            (0..callers).map(|_| scope.spawn(|| calls_until(begun, client, wait))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    print_rate(address, &format!("{callers} callers, {}", wait.name()), calls, begun);
}

fn many_clients(
    address: &str,
    (clients, wait): (usize, Wait),
    connect: &(dyn Fn() -> Client + Sync),
) {
    let connected: Vec<Client> = (0..clients).map(|_| connect()).collect();
    let begun = Instant::now();
    let calls = std::thread::scope(|scope| {
        let threads: Vec<_> = connected
            .iter()
            .map(|client| scope.spawn(move || calls_until(begun, client, wait)))
            .collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    print_rate(address, &format!("{clients} clients of 1 caller, {}", wait.name()), calls, begun);
}

fn calls_until(begun: Instant, client: &Client, wait: Wait) -> u64 {
    let mut calls = 0;
    while begun.elapsed() < TIME {
        wait.call(client, b"");
        calls += 1;
    }
    calls
}

fn in_flight(address: &str, most: usize, client: &Client, answered: &str, body: &[u8]) {
    let mut pending = VecDeque::new();
    let mut calls = 0;
    let begun = Instant::now();
    while begun.elapsed() < TIME {
        while pending.len() < most {
            pending.push_back(client.call(body.to_vec(), KIND));
        }
        pending.pop_front().unwrap().wait().unwrap();
        calls += 1;
    }
    print_rate(
        address,
        &format!("1 caller, {most} calls in flight, answered {answered}"),
        calls,
        begun,
    );
}

fn print_rate(address: &str, what: &str, calls: u64, begun: Instant) {
    #[expect(clippy::cast_precision_loss, reason = "a rate is printed")]
    let rate = calls as f64 / begun.elapsed().as_secs_f64();
    println!("{address}: {what}: {rate:.0} calls/s");
}
