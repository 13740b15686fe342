//! Frames by hand: what is on a socket, without the code that is tested.

use std::io::{ErrorKind, Read};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// After this a test fails instead of waiting forever.
pub use super::executor::HANGS_AFTER as PATIENCE;

pub const HELLO: u8 = 1;
pub const WELCOME: u8 = 2;
pub const REFUSED: u8 = 3;
pub const CALL: u8 = 5;
pub const ANSWER: u8 = 6;
pub const TRACKED: u8 = 7;
pub const ITEM: u8 = 8;

const NAMES: [&str; 12] = [
    "?",
    "hello",
    "welcome",
    "refused",
    "handshake",
    "call",
    "answer",
    "tracked",
    "item",
    "end",
    "cancel",
    "seen",
];

/// The kind with this name.
pub fn kind_of(name: &str) -> u8 {
    let kind = NAMES.iter().position(|other| *other == name);
    u8::try_from(kind.expect(name)).unwrap()
}

/// The length, the version, the kind and the number.
const HEAD: usize = 14;

/// One frame, with its head.
#[derive(Clone, PartialEq, Eq)]
pub struct Frame(Vec<u8>);

impl Frame {
    /// A frame of version 1.
    pub fn new(kind: u8, number: u64, body: &[u8]) -> Frame {
        let length = u32::try_from(HEAD - 4 + body.len()).unwrap();
        let number = number.to_le_bytes();
        Frame([&length.to_le_bytes()[..], &[1, kind], &number, body].concat())
    }

    /// The next frame of a socket; `None` at the end of the connection.
    pub fn read(socket: &mut impl Read) -> Option<Frame> {
        let mut bytes = vec![0; 4];
        match socket.read_exact(&mut bytes) {
            Err(error) if is_end(error.kind()) => return None,
            read => read.unwrap(),
        }
        bytes.resize(4 + u32_at(&bytes, 0) as usize, 0);
        socket.read_exact(&mut bytes[4..]).unwrap();
        Some(Frame(bytes))
    }

    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    pub fn kind(&self) -> u8 {
        self.0[5]
    }

    pub fn number(&self) -> u64 {
        u64::from_le_bytes(self.0[6..HEAD].try_into().unwrap())
    }

    pub fn body(&self) -> &[u8] {
        &self.0[HEAD..]
    }

    /// The same frame with another body.
    pub fn with_body(&self, body: &[u8]) -> Frame {
        let mut frame = Frame::new(self.kind(), self.number(), body);
        frame.0[4] = self.0[4];
        frame
    }

    /// The kind and the number.
    pub fn name(&self) -> String {
        format!("{} {}", NAMES[usize::from(self.kind())], self.number())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}

fn is_end(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}

/// A connection to the socket at `path`, on which no read waits forever.
pub fn connect(path: &Path) -> UnixStream {
    patient(UnixStream::connect(path).unwrap())
}

pub fn patient(socket: UnixStream) -> UnixStream {
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// A hello of a client that speaks these versions of the frames.
pub fn hello(lowest: u8, highest: u8, application: &[u8]) -> Frame {
    let head = [&[lowest, highest][..], &u32::MAX.to_le_bytes()].concat();
    Frame::new(HELLO, 0, &[&head, application].concat())
}
