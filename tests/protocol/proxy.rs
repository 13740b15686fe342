//! Records a conversation: a proxy between the client and the owner of this build.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};

use tubewell::ConnectOptions;

use crate::frames::{Frame, connect};
use crate::owner::Owner;
use crate::recording::{Act, Line};
use crate::script::{Stage, converse};

/// What was said so far.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<Line>>>);

struct Recorder<'a> {
    owner: &'a Owner,
    log: Log,
}

impl Log {
    fn add(&self, line: Line) {
        self.0.lock().unwrap().push(line);
    }
}

impl Stage for Recorder<'_> {
    fn add(&self, line: Line) {
        let Line::Act(act) = &line else { return self.log.add(line) };
        let act = act.clone();
        // A call that the clock ends is answered after the advance, and a call that waits was made before.
        if matches!(act, Act::Advance(_)) {
            self.log.add(line);
            self.owner.act(&act);
        } else {
            self.owner.act(&act);
            self.log.add(line);
        }
    }
}

/// The conversation of the client and the owner of this build.
pub fn record() -> Vec<Line> {
    let owner = Owner::start();
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("proxy")).unwrap();
    let url = format!("unix:{}", folder.path().join("proxy").display());
    let log = Log::default();
    std::thread::scope(|scope| {
        let proxy = scope.spawn(|| pass_on(&listener.accept().unwrap().0, &owner, &log));
        let client = ConnectOptions::new().label("recorder").connect(&url).unwrap();
        converse(&client, &Recorder { owner: &owner, log: log.clone() });
        client.close().unwrap();
        proxy.join().unwrap();
    });
    log.0.lock().unwrap().clone()
}

/// Passes frames on in both directions until the client ends the connection.
fn pass_on(client: &UnixStream, owner: &Owner, log: &Log) {
    let server = connect(&owner.socket());
    std::thread::scope(|scope| {
        scope.spawn(|| pump(&server, client, |frame| log.add(Line::Owner(frame))));
        pump(client, &server, |frame| log.add(Line::Client(frame)));
        server.shutdown(Shutdown::Write).unwrap();
    });
}

fn pump(mut from: &UnixStream, mut to: &UnixStream, note: impl Fn(Frame)) {
    while let Some(frame) = Frame::read(&mut from) {
        note(frame.clone());
        // The client may have gone.
        let _ = to.write_all(frame.bytes());
    }
}
