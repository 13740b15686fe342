//! The owner of the build under test, and a recorded client that talks to it.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::{ManualClock, ServeOptions, Store, TubeInfo};

use crate::executor::wait_until;
use crate::frames::{ANSWER, Frame, connect};
use crate::recording::{Act, Line};
use crate::varying::{Epochs, numbers_in};

/// How long a session outlives its connection: so answers with tasks are confirmed.
const GRACE: Duration = Duration::from_secs(30);

/// No conversation lasts so long: it would have heartbeats.
const HEARTBEAT: Duration = Duration::from_secs(3600);

/// The body of a request for the counters of the storage.
const COUNTERS: &[u8] = &[12];

/// The body of a request for the numbers of the store, with its id and those counters.
const SCRAPE_STORE: &[u8] = &[24];

/// A store with a clock of its own, served at a socket.
pub struct Owner {
    pub store: Store,
    clock: ManualClock,
    folder: TempDir,
}

impl Owner {
    pub fn start() -> Owner {
        let (clock, folder) = (ManualClock::new(), TempDir::new().unwrap());
        let options = Store::options().clock(&clock).session_grace(GRACE);
        let owner = Owner { store: options.open_in_memory().unwrap(), clock, folder };
        owner.store.admin().serve(ServeOptions::unix(owner.socket()).heartbeat(HEARTBEAT)).unwrap();
        owner
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    pub fn act(&self, act: &Act) {
        let info = |tube: &str| -> TubeInfo { self.store.find_tube(tube).unwrap().info().unwrap() };
        match act {
            Act::Advance(time) => self.clock.advance(*time),
            Act::Waiting(tube, count) => wait_until(|| info(tube).waiting == *count),
            Act::WaitingPuts(tube, count) => wait_until(|| info(tube).waiting_puts == *count),
        }
    }
}

/// Sends the recorded bytes of a client, and compares what the owner answers with what was recorded.
pub fn play_client(owner: &Owner, name: &str, lines: &[Line]) {
    let mut client = Client { socket: connect(&owner.socket()), early: Vec::new() };
    let mut epochs = Epochs::default();
    let mut about = "";
    for (at, line) in lines.iter().enumerate() {
        match line {
            Line::About(text) => about = text,
            Line::Client(frame) => client.socket.write_all(epochs.live(frame).bytes()).unwrap(),
            Line::Owner(recorded) => {
                let live = client.receive(recorded.number());
                epochs.learn(recorded, &live);
                let live = epochs.recorded(&live, recorded);
                let call = call_of(&lines[..at], recorded);
                if call.is_some_and(|call| call.body() == COUNTERS) {
                    let shape = |frame: &Frame| (frame.kind(), numbers_in(frame.body()));
                    assert_eq!(shape(&live), shape(recorded), "{name}, {about}: the counters");
                    continue;
                }
                if call.is_some_and(|call| call.body() == SCRAPE_STORE) {
                    assert_eq!(live.kind(), recorded.kind(), "{name}, {about}: the scrape");
                    continue;
                }
                assert!(
                    live == *recorded,
                    "{name}, {about}: {} is\n{:02x?}, and was recorded as\n{:02x?}; the call was\n{:02x?}",
                    recorded.name(),
                    live.bytes(),
                    recorded.bytes(),
                    call.map(Frame::body),
                );
            }
            Line::Act(act) => owner.act(act),
            Line::Result(_) => {}
        }
    }
    assert_eq!(client.rest(), [""; 0], "{name}: frames that were not recorded");
}

/// The call that a frame of the owner answers.
fn call_of<'a>(before: &'a [Line], answer: &Frame) -> Option<&'a Frame> {
    let mut calls = before.iter().filter_map(|line| match line {
        Line::Client(frame) => Some(frame),
        _ => None,
    });
    calls.rfind(|call| answer.kind() == ANSWER && call.number() == answer.number())
}

/// The connection of a recorded client.
struct Client {
    socket: UnixStream,
    /// What has arrived before it was expected: calls in flight are answered in any order.
    early: Vec<Frame>,
}

impl Client {
    /// The next frame with this number.
    fn receive(&mut self, number: u64) -> Frame {
        if let Some(at) = self.early.iter().position(|frame| frame.number() == number) {
            return self.early.remove(at);
        }
        loop {
            let frame = Frame::read(&mut self.socket).expect("the owner ended the connection");
            if frame.number() == number {
                return frame;
            }
            self.early.push(frame);
        }
    }

    /// What else the owner sends until the end of the connection.
    fn rest(mut self) -> Vec<String> {
        self.socket.shutdown(Shutdown::Write).unwrap();
        while let Some(frame) = Frame::read(&mut self.socket) {
            self.early.push(frame);
        }
        self.early.iter().map(Frame::name).collect()
    }
}
