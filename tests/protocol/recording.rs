//! The file of a conversation: one line for each frame, for what the owner does meanwhile, and for what
//! the calls of the client return.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::frames::{Frame, kind_of};

/// The version that this release speaks.
pub const NEWEST: &str = "version-1";

/// What happens at the owner, and not on the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// Its clock is advanced.
    Advance(Duration),
    /// This many takes wait in the tube.
    Waiting(String, u64),
    /// This many puts wait in the tube.
    WaitingPuts(String, u64),
}

#[derive(Clone)]
pub enum Line {
    /// What the next lines are about.
    About(String),
    Client(Frame),
    Owner(Frame),
    Act(Act),
    /// What a call of the client has returned.
    Result(String),
}

/// The recorded conversations, each with the name of its file.
pub fn recordings() -> Vec<(String, Vec<Line>)> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let files = entries.filter(|path| path.extension().is_some_and(|extension| extension == "txt"));
    let mut recordings: Vec<_> = files.map(|path| (name_of(&path), read(&path))).collect();
    recordings.sort_by(|one, other| one.0.cmp(&other.0));
    assert!(recordings.iter().any(|(name, _)| name == NEWEST), "{NEWEST} is not recorded");
    recordings
}

pub fn write(name: &str, lines: &[Line]) {
    std::fs::write(folder().join(format!("{name}.txt")), text_of(name, lines)).unwrap();
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/protocol")
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

fn text_of(name: &str, lines: &[Line]) -> String {
    let mut text = format!(
        "# A conversation of {name} of the protocol, written by record_conversation in tests/protocol.\n\
         # > a frame of the client, < a frame of the owner: its kind, its number, its body\n\
         # ! what happens at the owner, = what a call of the client has returned\n"
    );
    for line in lines {
        let written = match line {
            Line::About(about) => writeln!(text, "\n# {about}"),
            Line::Client(frame) => writeln!(text, "> {}", text_of_frame(frame)),
            Line::Owner(frame) => writeln!(text, "< {}", text_of_frame(frame)),
            Line::Act(Act::Advance(time)) => writeln!(text, "! advance {}", time.as_micros()),
            Line::Act(Act::Waiting(tube, count)) => writeln!(text, "! waiting {tube} {count}"),
            Line::Act(Act::WaitingPuts(tube, count)) => {
                writeln!(text, "! waiting-puts {tube} {count}")
            }
            Line::Result(result) => writeln!(text, "= {result}"),
        };
        written.unwrap();
    }
    text
}

/// The kind of a frame, its number, and its body as hexadecimal digits.
fn text_of_frame(frame: &Frame) -> String {
    let mut text = frame.name();
    if !frame.body().is_empty() {
        text.push(' ');
    }
    frame.body().iter().for_each(|byte| write!(text, "{byte:02x}").unwrap());
    text
}

fn read(path: &Path) -> Vec<Line> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter_map(line_of).collect()
}

fn line_of(line: &str) -> Option<Line> {
    let Some((mark, rest)) = line.split_once(' ') else {
        assert_eq!(line, "");
        return None;
    };
    Some(match mark {
        "#" => Line::About(rest.into()),
        ">" => Line::Client(frame_of(rest)),
        "<" => Line::Owner(frame_of(rest)),
        "!" => Line::Act(act_of(rest)),
        "=" => Line::Result(rest.into()),
        _ => panic!("a line that begins with {mark:?}"),
    })
}

fn frame_of(text: &str) -> Frame {
    let mut words = text.split(' ');
    let (kind, number) = (words.next().unwrap(), words.next().unwrap().parse().unwrap());
    let digits = words.next().unwrap_or_default().as_bytes().chunks(2);
    let byte = |pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    let body: Vec<u8> = digits.map(byte).collect();
    Frame::new(kind_of(kind), number, &body)
}

fn act_of(text: &str) -> Act {
    let words: Vec<&str> = text.split(' ').collect();
    match words[..] {
        ["advance", time] => Act::Advance(Duration::from_micros(time.parse().unwrap())),
        ["waiting", tube, count] => Act::Waiting(tube.into(), count.parse().unwrap()),
        ["waiting-puts", tube, count] => Act::WaitingPuts(tube.into(), count.parse().unwrap()),
        _ => panic!("an unknown act: {text}"),
    }
}
