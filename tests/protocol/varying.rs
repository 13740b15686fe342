//! What differs from run to run, and is translated: the ids of a client and of its sessions, which it
//! chooses at random, the id of the store, and the epochs of the claims of an owner, which begin at a random
//! number.

use crate::frames::{CALL, Frame, HELLO, TRACKED, WELCOME};

/// In the body of a hello: the id of the only session.
const OWN_SESSION: std::ops::Range<usize> = 9..25;
/// At the end, whether there is an id of the client, and the id.
const CLIENT: usize = 17;

/// In the body of a welcome, at the end: the id of the store.
const STORE: usize = 16;

/// How a request that begins a session begins; its id follows.
const BEGIN_SESSION: [u8; 1] = [19];

/// How many epochs of a conversation are told from other numbers.
const EPOCHS: u64 = 10_000;

/// The sessions of a client: as recorded, and those of this run.
#[derive(Default)]
pub struct Sessions(Vec<[Vec<u8>; 2]>);

impl Sessions {
    /// The frame that the client of this run has sent, as it would be recorded.
    pub fn recorded(&mut self, live: &Frame, expected: &Frame) -> Frame {
        let mut body = live.body().to_vec();
        if live.kind() == HELLO {
            let recorded = expected.body();
            body.truncate(body.len() - CLIENT);
            body.extend_from_slice(&recorded[recorded.len() - CLIENT..]);
            assert_eq!(body.len(), recorded.len(), "the length of a hello");
            self.learn(&expected.body()[OWN_SESSION], &live.body()[OWN_SESSION]);
        }
        if live.kind() == CALL && body.starts_with(&BEGIN_SESSION) {
            let id = BEGIN_SESSION.len()..BEGIN_SESSION.len() + 16;
            self.learn(&expected.body()[id.clone()], &live.body()[id]);
        }
        self.0.iter().for_each(|[recorded, live]| replace(&mut body, live, recorded));
        live.with_body(&body)
    }

    /// A recorded frame of the owner, for the client of this run.
    pub fn live(&self, recorded: &Frame) -> Frame {
        let mut body = recorded.body().to_vec();
        self.0.iter().for_each(|[recorded, live]| replace(&mut body, recorded, live));
        recorded.with_body(&body)
    }

    fn learn(&mut self, recorded: &[u8], live: &[u8]) {
        self.0.push([recorded.to_vec(), live.to_vec()]);
    }
}

fn replace(body: &mut [u8], from: &[u8], to: &[u8]) {
    for at in 0..body.len() {
        if body[at..].starts_with(from) {
            body[at..at + to.len()].copy_from_slice(to);
        }
    }
}

/// The first epochs: the recorded one, and that of the owner of this run. Until a task is handed out,
/// there are none.
#[derive(Default)]
pub struct Epochs(Option<(u64, u64)>);

impl Epochs {
    /// Learns from an answer of the owner of this run.
    pub fn learn(&mut self, recorded: &Frame, live: &Frame) {
        if self.0.is_none() && recorded.kind() == TRACKED && live.kind() == TRACKED {
            self.0 = first_epoch(recorded.body()).zip(first_epoch(live.body()));
        }
    }

    /// A recorded frame of the client, for the owner of this run.
    pub fn live(&self, recorded: &Frame) -> Frame {
        self.0.map_or(recorded.clone(), |(from, to)| translated(recorded, from, to))
    }

    /// A frame of the owner of this run, as it would be recorded. `expected` is the recorded one.
    pub fn recorded(&self, live: &Frame, expected: &Frame) -> Frame {
        if live.kind() == WELCOME {
            return with_store(live, expected);
        }
        self.0.map_or(live.clone(), |(to, from)| translated(live, from, to))
    }
}

/// A welcome with the id of the store of another one.
fn with_store(welcome: &Frame, from: &Frame) -> Frame {
    let mut body = welcome.body().to_vec();
    if body.len() == from.body().len() {
        let id = body.len() - STORE..;
        body[id.clone()].copy_from_slice(&from.body()[id]);
    }
    welcome.with_body(&body)
}

/// The epoch of the first task in an answer that hands out tasks: 1 for such an answer, 1 for no
/// error, how many tasks there are, and of the first one the tube, its name, the id and the epoch.
fn first_epoch(body: &[u8]) -> Option<u64> {
    let (mut at, mut values) = (2, Vec::new());
    for is_name in [false, false, true, false, false] {
        let (value, length) = number_at(body, at)?;
        at += length + if is_name { usize::try_from(value).ok()? } else { 0 };
        values.push(value);
    }
    (body.starts_with(&[1, 1]) && values[0] > 0).then(|| values[4])
}

/// A frame in which epochs that are counted from `from` are counted from `to`.
fn translated(frame: &Frame, from: u64, to: u64) -> Frame {
    let (body, mut at, mut out) = (frame.body(), 0, Vec::new());
    while at < body.len() {
        match number_at(body, at) {
            Some((number, length)) if number.wrapping_sub(from) < EPOCHS => {
                put_number(to.wrapping_add(number.wrapping_sub(from)), &mut out);
                at += length;
            }
            _ => {
                out.push(body[at]);
                at += 1;
            }
        }
    }
    frame.with_body(&out)
}

/// How many numbers a body consists of, behind its first two bytes.
pub fn numbers_in(body: &[u8]) -> usize {
    let (mut at, mut count) = (2, 0);
    while let Some((_, length)) = number_at(body, at) {
        at += length;
        count += 1;
    }
    assert_eq!(at, body.len(), "numbers, and nothing else");
    count
}

/// A number of seven bits to a byte, and how many bytes it has.
fn number_at(body: &[u8], at: usize) -> Option<(u64, usize)> {
    let bytes = body.get(at..)?;
    let length = bytes.iter().take(10).position(|byte| *byte < 0x80)? + 1;
    let value = bytes[..length]
        .iter()
        .rev()
        .fold(0, |value: u64, byte| value.wrapping_shl(7) | u64::from(byte & 0x7f));
    Some((value, length))
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}
