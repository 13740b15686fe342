//! A peer that plays a recorded owner for the client of the build under test.

use std::cell::RefCell;
use std::io::Write;
use std::os::unix::net::{UnixListener, UnixStream};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use tubewell::ConnectOptions;

use crate::frames::{Frame, PATIENCE, patient};
use crate::negotiation::refusal;
use crate::recording::Line;
use crate::script::{Stage, converse};
use crate::varying::Sessions;

#[derive(Default)]
struct Results(RefCell<Vec<String>>);

impl Stage for Results {
    fn add(&self, line: Line) {
        if let Line::Result(result) = line {
            self.0.borrow_mut().push(result);
        }
    }
}

/// Plays the owner, and returns what the calls of the client have returned.
pub fn play_owner(name: &str, lines: &[Line]) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("owner")).unwrap();
    let url = format!("unix:{}", folder.path().join("owner").display());
    let results = Results::default();
    std::thread::scope(|scope| {
        let owner = scope.spawn(move || {
            let socket = patient(listener.accept().unwrap().0);
            let heard = catch_unwind(AssertUnwindSafe(|| play(socket, name, lines)));
            if heard.is_err() {
                std::thread::spawn(move || refuse_all(&listener));
            }
            heard
        });
        let client = ConnectOptions::new().label("recorder").timeout(PATIENCE);
        let made = catch_unwind(AssertUnwindSafe(|| {
            let client = client.connect(&url).unwrap();
            converse(&client, &results);
            client.close().unwrap();
        }));
        // If the owner has heard something else than was recorded, the client has failed for it.
        if let Err(why) = owner.join().unwrap().and(made) {
            resume_unwind(why);
        }
    });
    results.0.into_inner()
}

/// Refuses the client for good when it connects again, so that its calls do not wait for an owner.
fn refuse_all(listener: &UnixListener) {
    while let Ok((socket, _)) = listener.accept() {
        let mut socket = patient(socket);
        let _ = Frame::read(&mut socket);
        let _ = socket.write_all(refusal(4, 1, 1, "the client says something else").bytes());
    }
}

fn play(mut socket: UnixStream, name: &str, lines: &[Line]) {
    let mut sessions = Sessions::default();
    let mut about = "";
    for line in lines {
        match line {
            Line::About(text) => about = text,
            Line::Client(recorded) => {
                let live = Frame::read(&mut socket);
                let live = live.unwrap_or_else(|| panic!("{name}, {about}: the client has gone"));
                let live = sessions.recorded(&live, recorded);
                assert!(
                    live == *recorded,
                    "{name}, {about}: {} is\n{:02x?}, and was recorded as\n{:02x?}",
                    live.name(),
                    live.bytes(),
                    recorded.bytes(),
                );
            }
            Line::Owner(recorded) => socket.write_all(sessions.live(recorded).bytes()).unwrap(),
            Line::Act(_) | Line::Result(_) => {}
        }
    }
    assert!(Frame::read(&mut socket).is_none(), "{name}: the client sends more than was recorded");
}
