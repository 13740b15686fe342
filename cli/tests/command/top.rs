//! `top` at a terminal: what it shows, its keys, and how it leaves the terminal behind.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};

use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::served::serve;
use crate::support::{Ended, HANGS_AFTER, Sandbox, finish};

/// `top` at a terminal of its own.
struct Top {
    child: Child,
    terminal: File,
    /// Keeps the terminal open, so that its modes can be asked for.
    other_end: File,
    output: Receiver<Vec<u8>>,
    screen: Screen,
}

impl Top {
    fn start(sandbox: &Sandbox, words: &[&str]) -> Top {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&terminal).unwrap();
        unlockpt(&terminal).unwrap();
        let size = Winsize { ws_row: 30, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).unwrap();
        let name = ptsname(&terminal, Vec::new()).unwrap();
        let other_end =
            File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let end = || Stdio::from(other_end.try_clone().unwrap());
        let mut command = sandbox.command(&["top"]);
        command.args(words).stdin(end()).stdout(end()).stderr(end());
        let child = command.spawn().unwrap();
        drop(command);
        let terminal = File::from(terminal);
        let (send, output) = channel();
        let mut read = terminal.try_clone().unwrap();
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(length) = read.read(&mut part) {
                if length == 0 || send.send(part[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Top { child, terminal, other_end, output, screen: Screen::default() }
    }

    /// Waits until the screen has this text on a line.
    fn shows(&mut self, text: &str) {
        self.shows_one_of(&[text]);
    }

    fn shows_one_of(&mut self, texts: &[&str]) {
        while !texts.iter().any(|text| self.screen.has(text)) {
            let part = self.output.recv_timeout(HANGS_AFTER);
            let part = part.unwrap_or_else(|_| panic!("no {texts:?} in\n{}", self.screen.text()));
            self.screen.write(&part);
        }
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits for its end. The terminal must have its modes back.
    fn ends(self) -> Ended {
        let Top { child, terminal, other_end, output, mut screen } = self;
        let ended = finish(child);
        let modes = tcgetattr(&other_end).unwrap().local_modes;
        assert!(modes.contains(LocalModes::ECHO | LocalModes::ICANON), "{modes:?}");
        drop((terminal, other_end));
        while !screen.is_left {
            screen.write(&output.recv_timeout(HANGS_AFTER).unwrap());
        }
        ended
    }
}

/// The lines of a terminal, as far as `top` needs one: letters, and the position of the cursor.
#[derive(Default)]
struct Screen {
    lines: BTreeMap<usize, BTreeMap<usize, char>>,
    line: usize,
    column: usize,
    /// The beginning of an escape sequence, or of a letter.
    rest: Vec<u8>,
    /// The alternate screen was left.
    is_left: bool,
}

impl Screen {
    fn write(&mut self, bytes: &[u8]) {
        self.rest.extend_from_slice(bytes);
        let text = match str::from_utf8(&self.rest) {
            Ok(text) => text.to_owned(),
            Err(error) => String::from_utf8(self.rest[..error.valid_up_to()].to_vec()).unwrap(),
        };
        let mut left = text.as_str();
        while let Some(letter) = left.chars().next() {
            if letter != '\x1b' {
                self.lines.entry(self.line).or_default().insert(self.column, letter);
                self.column += 1;
                left = &left[letter.len_utf8()..];
                continue;
            }
            let Some(end) = left.find(|c: char| c.is_ascii_alphabetic()) else { break };
            let (sequence, rest) = left.split_at(end + 1);
            self.obey(sequence);
            left = rest;
        }
        let done = text.len() - left.len();
        self.rest.drain(..done);
    }

    fn obey(&mut self, sequence: &str) {
        if let Some(place) = sequence.strip_prefix("\x1b[").and_then(|it| it.strip_suffix('H')) {
            let (line, column) = place.split_once(';').unwrap();
            (self.line, self.column) = (line.parse().unwrap(), column.parse().unwrap());
        }
        self.is_left |= sequence == "\x1b[?1049l";
    }

    fn text(&self) -> String {
        let line = |letters: &BTreeMap<usize, char>| {
            let last = letters.keys().copied().max().unwrap_or(0);
            (1..=last).map(|at| letters.get(&at).copied().unwrap_or(' ')).collect::<String>()
        };
        self.lines.values().map(line).collect::<Vec<_>>().join("\n")
    }

    fn has(&self, text: &str) -> bool {
        self.text().contains(text)
    }
}

#[test]
fn top_shows_tubes_and_acts_on_tasks_by_keys() {
    let sandbox = Sandbox::with(&["a", "b"]);
    sandbox.ok("bury mail 1");
    let mut top = Top::start(&sandbox, &[]);
    top.shows("1 tube: 1 ready, 0 taken, 1 buried");
    top.shows("mail");
    top.types("k");
    top.shows("y/n");
    top.types("y");
    top.shows("kicked 1 task of mail");
    top.types("\r");
    top.shows("[ready 2]");
    // The tasks are read after the counts; before that there is none to delete.
    top.shows("1 B");
    top.types("\x1b[Bdy");
    top.shows("deleted task 1 of mail");
    top.types("p");
    top.shows("paused mail");
    top.types("q");
    assert_eq!(top.ends().status.code(), Some(0));
    assert_eq!(sandbox.counts(), (1, 0, 0));
    assert!(sandbox.ok("tubes").contains("paused"));
}

#[test]
fn top_shows_changes_as_they_happen() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail later --delay 1s");
    let mut top = Top::start(&sandbox, &["mail"]);
    // The delay may elapse before the first reading.
    top.shows("[ready 1]");
    top.types("\x03");
    assert_eq!(top.ends().status.code(), Some(0));
}

#[test]
fn top_leaves_the_terminal_as_it_was_when_a_signal_stops_it() {
    let sandbox = Sandbox::with(&[]);
    let mut top = Top::start(&sandbox, &[]);
    top.shows("mail");
    let pid = Pid::from_raw(i32::try_from(top.child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert_eq!(top.ends().status.code(), Some(128 + 15));
}

#[test]
fn top_without_a_terminal_is_refused() {
    let sandbox = Sandbox::with(&["a"]);
    let why = sandbox.fails("top", 2);
    assert!(why.contains("top needs a terminal") && why.contains("tubewell stats"), "{why}");
    assert!(sandbox.fails("top --interval 10ms", 2).contains("1s or more"));
}

/// Nothing changes in the store, so that nothing is read.
#[test]
fn idle_top_says_that_its_owner_is_stopped_and_goes_on_with_it() {
    let sandbox = Sandbox::with(&[]);
    let (owner, url) = serve(&sandbox, "");
    let mut top = Top::start(&sandbox, &["--connect", &url, "--interval", "1h"]);
    top.shows(&format!("{url}  1 tube: 0 ready"));
    top.shows("? help  q quit");
    owner.signal(Signal::STOP);
    top.shows("no answer of the store for");
    owner.signal(Signal::CONT);
    top.shows("? help  q quit");
    top.types("q");
    assert_eq!(top.ends().status.code(), Some(0));
}

#[test]
fn top_goes_through_the_owner_and_waits_for_it() {
    let sandbox = Sandbox::with(&[]);
    let (mut owner, url) = serve(&sandbox, "");
    let mut top = Top::start(&sandbox, &["--connect", &url]);
    top.shows(&format!("{url}  1 tube: 0 ready, 0 taken, 0 buried"));
    sandbox.ok("put mail a");
    top.shows("1 tube: 1 ready, 0 taken, 0 buried");
    let _gate = sandbox.gate();
    let worker = sandbox.work("mail", "echo working; read x < gate");
    worker.prints("working");
    top.shows("running tasks");
    top.shows("mail   0  work");
    drop(worker);
    top.shows("1 ready, 0 taken");
    owner.signal(Signal::TERM);
    assert_eq!(owner.ends(), 0);
    // The last line says so at once, then why, until the owner is back. A read that the owner has refused
    // as it closed may come before the end of the connection.
    let [ended, closed, away] = [
        "the connection has ended",
        "the store is closed; open it again",
        "the owner of the store cannot be reached",
    ]
    .map(|why| format!("waiting for the owner; q quits: {why}"));
    top.shows_one_of(&[&ended, &closed, &away]);
    top.shows(&away);
    let (_owner, _) = serve(&sandbox, "");
    top.shows("? help  q quit");
    sandbox.ok("put mail b");
    top.shows("2 ready, 0 taken");
    top.types("q");
    assert_eq!(top.ends().status.code(), Some(0));
}
