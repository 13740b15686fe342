//! The hello: versions, limits and refusals.

use crate::frame::{self, Kind, NO_CALL, OLDEST, VERSION};
use crate::limits::HELLO_BODY;

/// The bytes of a hello or a welcome that are not the application's, at most.
pub(crate) const HELLO_HEAD: usize = 16;

/// The client's first frame, behind the handshake if there is a secret.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Hello<'a> {
    pub(crate) lowest: u8,
    pub(crate) highest: u8,
    /// The longest answer that the client takes.
    pub(crate) frame: u32,
    /// What the application says of itself.
    pub(crate) application: &'a [u8],
}

impl<'a> Hello<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(HELLO_HEAD + self.application.len());
        body.extend_from_slice(&[self.lowest, self.highest]);
        body.extend_from_slice(&self.frame.to_le_bytes());
        body.extend_from_slice(self.application);
        frame::put(out, Kind::Hello, NO_CALL, &body);
    }

    pub(crate) fn get(body: &'a [u8]) -> Option<Hello<'a>> {
        let (&[lowest, highest], rest) = body.split_first_chunk::<2>()?;
        let (frame, application) = rest.split_first_chunk::<4>()?;
        let frame = u32::from_le_bytes(*frame);
        Some(Hello { lowest, highest, frame, application })
    }

    /// The version that both sides speak.
    pub(crate) fn version(&self) -> Option<u8> {
        let version = self.highest.min(VERSION);
        (version >= self.lowest && version >= OLDEST).then_some(version)
    }
}

/// The server accepts the client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Welcome<'a> {
    pub(crate) version: u8,
    /// How many calls the server takes at once: the client keeps to it, so that the server does not leave its other
    /// frames unread.
    pub(crate) calls: u32,
    /// The longest body of a call that the server takes.
    pub(crate) frame: u32,
    /// What the application says of itself.
    pub(crate) application: &'a [u8],
}

impl<'a> Welcome<'a> {
    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(9 + self.application.len());
        body.push(self.version);
        body.extend_from_slice(&self.calls.to_le_bytes());
        body.extend_from_slice(&self.frame.to_le_bytes());
        body.extend_from_slice(self.application);
        frame::put(out, Kind::Welcome, NO_CALL, &body);
    }

    pub(crate) fn get(body: &'a [u8]) -> Option<Welcome<'a>> {
        let (&[version], rest) = body.split_first_chunk::<1>()?;
        let (calls, rest) = rest.split_first_chunk::<4>()?;
        let (frame, application) = rest.split_first_chunk::<4>()?;
        let (calls, frame) = (u32::from_le_bytes(*calls), u32::from_le_bytes(*frame));
        Some(Welcome { version, calls, frame, application })
    }
}

/// Why a server refuses. The numbers are the protocol and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Reason {
    /// No common version of the protocol.
    Version = 1,
    /// The client does not know the secret: it has none, or another one; or it has one, and the server has none.
    Secret = 2,
    /// There are too many connections, or the application refuses for now. The client tries again.
    Full = 3,
    /// The application refuses.
    Application = 4,
    /// What the client has sent is not of this protocol.
    Protocol = 5,
}

/// A refusal of a server, which is the last frame of its connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub(crate) reason: Reason,
    /// The versions of the server.
    pub(crate) lowest: u8,
    pub(crate) highest: u8,
    pub(crate) text: String,
}

impl Refusal {
    pub(crate) fn new(reason: Reason, text: impl Into<String>) -> Refusal {
        Refusal { reason, lowest: OLDEST, highest: VERSION, text: text.into() }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        // A character that is cut is one that cannot be read at the other side.
        let text = self.text.as_bytes();
        let text = text.get(..HELLO_BODY).unwrap_or(text);
        let mut body = Vec::with_capacity(3 + text.len());
        body.extend_from_slice(&[self.reason as u8, self.lowest, self.highest]);
        body.extend_from_slice(text);
        frame::put(out, Kind::Refused, NO_CALL, &body);
    }

    pub(crate) fn get(body: &[u8]) -> Option<Refusal> {
        let (&[reason, lowest, highest], text) = body.split_first_chunk::<3>()?;
        let reason = match reason {
            1 => Reason::Version,
            2 => Reason::Secret,
            3 => Reason::Full,
            4 => Reason::Application,
            // A reason of a newer version, too: the text explains it.
            _ => Reason::Protocol,
        };
        Some(Refusal { reason, lowest, highest, text: String::from_utf8_lossy(text).into_owned() })
    }
}
