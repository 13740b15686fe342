//! A client or a server that speaks the protocol by hand.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
#[cfg(unix)]
use std::os::unix::net::UnixStream;

use tubewell_wire::Address;

use crate::support::{HANGS_AFTER, SECRET};

pub const HELLO: u8 = 1;
pub const WELCOME: u8 = 2;
pub const REFUSED: u8 = 3;
pub const HANDSHAKE: u8 = 4;
pub const CALL: u8 = 5;
pub const ANSWER: u8 = 6;
pub const TRACKED: u8 = 7;
pub const ITEM: u8 = 8;
pub const END: u8 = 9;
pub const CANCEL: u8 = 10;
pub const SEEN: u8 = 11;

/// Kind, number and body.
pub type Frame = (u8, u64, Vec<u8>);

pub fn frame(kind: u8, number: u64, body: &[u8]) -> Vec<u8> {
    let mut frame = u32::try_from(body.len() + 10).unwrap().to_le_bytes().to_vec();
    frame.extend_from_slice(&[1, kind]);
    frame.extend_from_slice(&number.to_le_bytes());
    frame.extend_from_slice(body);
    frame
}

pub fn hello(lowest: u8, highest: u8, application: &[u8]) -> Vec<u8> {
    let mut body = vec![lowest, highest];
    body.extend_from_slice(&u32::MAX.to_le_bytes());
    body.extend_from_slice(application);
    frame(HELLO, 0, &body)
}

/// A welcome with the limits that a server has.
pub fn welcome(calls: u32, longest: u32) -> Vec<u8> {
    let mut body = vec![1];
    body.extend_from_slice(&calls.to_le_bytes());
    body.extend_from_slice(&longest.to_le_bytes());
    frame(WELCOME, 0, &body)
}

trait Socket: Read + Write + Send {}
impl<T: Read + Write + Send> Socket for T {}

/// One end of a connection.
pub struct Raw {
    socket: Box<dyn Socket>,
    bytes: Vec<u8>,
    taken: usize,
}

impl Raw {
    pub fn connect(address: &Address) -> Raw {
        match address {
            Address::Tcp(address) => Raw::tcp(TcpStream::connect(address).unwrap()),
            #[cfg(unix)]
            Address::Unix(path) => Raw::unix(UnixStream::connect(path).unwrap()),
            #[cfg(not(unix))]
            Address::Unix(_) => unreachable!(),
        }
    }

    pub fn tcp(socket: TcpStream) -> Raw {
        socket.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        Raw { socket: Box::new(socket), bytes: Vec::new(), taken: 0 }
    }

    #[cfg(unix)]
    pub fn unix(socket: UnixStream) -> Raw {
        socket.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        Raw { socket: Box::new(socket), bytes: Vec::new(), taken: 0 }
    }

    /// A client that may say hello: over TCP, all it says is in records.
    pub fn met(address: &Address) -> Raw {
        match address {
            Address::Tcp(address) => Raw::sealed(&TcpStream::connect(address).unwrap()),
            Address::Unix(_) => Raw::connect(address),
        }
    }

    /// A client whose handshake is over.
    pub fn sealed(socket: &TcpStream) -> Raw {
        socket.set_read_timeout(Some(HANGS_AFTER)).unwrap();
        Raw { socket: Box::new(Sealed::connect(socket)), bytes: Vec::new(), taken: 0 }
    }

    /// A client that the server has welcomed.
    pub fn welcomed(address: &Address) -> Raw {
        let mut raw = Raw::met(address);
        raw.send(&hello(1, 1, b"raw"));
        assert_eq!(raw.receive().unwrap().0, WELCOME);
        raw
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).unwrap();
    }

    /// Sends to a peer that may have closed the connection. Returns whether it has not.
    pub fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.socket.write_all(bytes).is_ok()
    }

    pub fn call(&mut self, number: u64, call: &str) {
        self.send(&frame(CALL, number, call.as_bytes()));
    }

    /// The next frame; `None` at the end of the connection.
    pub fn receive(&mut self) -> Option<Frame> {
        let mut bytes = vec![0; 65536];
        loop {
            if let Some(frame) = self.next_frame() {
                return Some(frame);
            }
            self.bytes.drain(..std::mem::take(&mut self.taken));
            match self.socket.read(&mut bytes) {
                Ok(0) => return None,
                Ok(read) => self.bytes.extend_from_slice(&bytes[..read]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The next byte, of whatever it is; `None` at the end of the connection.
    pub fn receive_byte(&mut self) -> Option<u8> {
        let mut byte = [0];
        match self.socket.read(&mut byte) {
            Ok(1) => Some(byte[0]),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    /// Reads so many bytes at most, whatever they are. Returns how many; 0 at the end of the connection.
    pub fn read_some(&mut self, most: usize) -> usize {
        match self.socket.read(&mut vec![0; most]) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => 0,
            Err(error) => panic!("{error}"),
        }
    }

    fn next_frame(&mut self) -> Option<Frame> {
        let rest = &self.bytes[self.taken..];
        let length = 4 + u32::from_le_bytes(*rest.first_chunk()?) as usize;
        let frame = rest.get(..length)?;
        self.taken += length;
        let number = u64::from_le_bytes(frame[6..14].try_into().unwrap());
        Some((frame[5], number, frame[14..].to_vec()))
    }

    /// Receives until the connection ends, and returns the last frame.
    pub fn last(&mut self) -> Option<Frame> {
        let mut last = None;
        while let Some(frame) = self.receive() {
            last = Some(frame);
        }
        last
    }
}

/// A handshake by hand, and records: written from the specification of Noise, and not from the code that is tested.
struct Sealed {
    socket: TcpStream,
    state: snow::TransportState,
    /// What a record held, and how much of it is taken.
    opened: Vec<u8>,
    taken: usize,
}

/// A handshake of a client by hand, and the frame that begins it.
pub fn begin_handshake(secret: &[u8]) -> (snow::HandshakeState, Vec<u8>) {
    let key = hmac_sha256::HMAC::mac(secret, b"tubewell: pre-shared key of Noise");
    let pattern = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s".parse().unwrap();
    let builder = snow::Builder::new(pattern).prologue(b"tubewell").unwrap();
    let mut state = builder.psk(0, &key).unwrap().build_initiator().unwrap();
    let mut message = [0; 48];
    assert_eq!(state.write_message(&[], &mut message).unwrap(), 48);
    (state, frame(HANDSHAKE, 0, &message))
}

impl Sealed {
    fn connect(socket: &TcpStream) -> Sealed {
        let socket = socket.try_clone().unwrap();
        let (mut state, first) = begin_handshake(SECRET);
        let mut raw = Raw::tcp(socket.try_clone().unwrap());
        raw.send(&first);
        let (kind, _, message) = raw.receive().unwrap();
        assert_eq!(kind, HANDSHAKE);
        state.read_message(&message, &mut [0; 16]).unwrap();
        let state = state.into_transport_mode().unwrap();
        Sealed { socket, state, opened: Vec::new(), taken: 0 }
    }
}

impl Read for Sealed {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        if self.taken == self.opened.len() {
            let mut head = [0; 2];
            match self.socket.read_exact(&mut head) {
                // As at the end of any socket.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                read => read?,
            }
            let mut record = vec![0; usize::from(u16::from_le_bytes(head))];
            self.socket.read_exact(&mut record)?;
            self.opened.resize(record.len(), 0);
            let opened = self.state.read_message(&record, &mut self.opened).unwrap();
            self.opened.truncate(opened);
            self.taken = 0;
        }
        let length = into.len().min(self.opened.len() - self.taken);
        into[..length].copy_from_slice(&self.opened[self.taken..self.taken + length]);
        self.taken += length;
        Ok(length)
    }
}

impl Write for Sealed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let content = &bytes[..bytes.len().min(60_000)];
        let mut record = vec![0; 2 + content.len() + 16];
        let length = self.state.write_message(content, &mut record[2..]).unwrap();
        record[..2].copy_from_slice(&u16::try_from(length).unwrap().to_le_bytes());
        self.socket.write_all(&record)?;
        Ok(content.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A server by hand that has no secret.
#[cfg(unix)]
pub struct Listener(std::os::unix::net::UnixListener, tempfile::TempDir);

#[cfg(unix)]
pub fn listen() -> Listener {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::os::unix::net::UnixListener::bind(folder.path().join("s")).unwrap();
    Listener(listener, folder)
}

#[cfg(unix)]
impl Listener {
    pub fn address(&self) -> Address {
        Address::Unix(self.1.path().join("s"))
    }

    pub fn accept(&self) -> Raw {
        Raw::unix(self.0.accept().unwrap().0)
    }
}
