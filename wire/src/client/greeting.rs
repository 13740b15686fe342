//! The client's side of the hello: bytes in, bytes out. No I/O.

use crate::frame::{Frame, Kind, OLDEST, VERSION};
use crate::hello::{HELLO_HEAD, Hello, Reason, Refusal, Welcome};
use crate::input::Input;
use crate::limits::HELLO_BODY;
use crate::secure::{Begun, Failed, Key, Sealer};
use crate::{Address, WireError};

/// The hello of one connection.
pub(crate) struct Greeting<'a> {
    pub(crate) input: Input,
    /// Seals all that is sent once the handshake is over.
    pub(crate) sealer: Option<Sealer>,
    address: &'a Address,
    phase: Phase,
    has_secret: bool,
}

/// What is expected of the server.
enum Phase {
    /// Its message of the handshake. The hello is sent then.
    Handshake {
        begun: Box<Begun>,
        hello: Vec<u8>,
    },
    Welcome,
    Over,
}

/// What the server has accepted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Accepted {
    pub(crate) calls: usize,
    pub(crate) frame: usize,
    /// The welcome of the application.
    pub(crate) application: Vec<u8>,
}

impl<'a> Greeting<'a> {
    /// Begins: appends the first frame to `out`.
    pub(crate) fn new(
        address: &'a Address,
        key: Option<&Key>,
        frame: u32,
        application: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Greeting<'a>, WireError> {
        let mut hello = Vec::new();
        Hello { lowest: OLDEST, highest: VERSION, frame, application }.put(&mut hello);
        let phase = match key {
            Some(key) => {
                let begun = key.begin(out).map_err(|failed| no_keys(address, failed))?;
                Phase::Handshake { begun: Box::new(begun), hello }
            }
            None => {
                out.append(&mut hello);
                Phase::Welcome
            }
        };
        let has_secret = key.is_some();
        Ok(Greeting { input: Input::default(), sealer: None, address, phase, has_secret })
    }

    /// Takes what has arrived, and appends what the server has to get to `out`. `Some`: the hello is over.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<Accepted>, WireError> {
        loop {
            let frame = self.input.next(HELLO_BODY + HELLO_HEAD);
            let frame =
                frame.map_err(|malformed| not_ours(self.address, &malformed.to_string()))?;
            let Some(Frame { kind, body, .. }) = frame else { return Ok(None) };
            match (kind, std::mem::replace(&mut self.phase, Phase::Over)) {
                (Kind::Handshake, Phase::Handshake { begun, hello }) => {
                    let keys =
                        begun.finish(body).map_err(|failed| no_keys(self.address, failed))?;
                    // The server waits for the hello now, and has nothing to say.
                    if self.input.waiting() > 0 {
                        return Err(not_ours(self.address, "it sent bytes behind the handshake"));
                    }
                    let mut sealer = keys.sealer;
                    let sealed = sealer.seal_all(&hello, out);
                    sealed.map_err(WireError::io("connect to", self.address))?;
                    self.input.open_with(keys.opener);
                    self.sealer = Some(sealer);
                    self.phase = Phase::Welcome;
                }
                (Kind::Welcome, Phase::Welcome) => {
                    return accepted(self.address, body).map(Some);
                }
                (Kind::Refused, _) => return Err(refused(self.address, body, self.has_secret)),
                (kind, _) => {
                    return Err(not_ours(self.address, &format!("it began with {kind:?}")));
                }
            }
        }
    }
}

fn accepted(address: &Address, body: &[u8]) -> Result<Accepted, WireError> {
    let welcome =
        Welcome::get(body).filter(|welcome| (OLDEST..=VERSION).contains(&welcome.version));
    let welcome = welcome.ok_or_else(|| not_ours(address, "its welcome is malformed"))?;
    let fit = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
    Ok(Accepted {
        calls: fit(welcome.calls),
        frame: fit(welcome.frame),
        application: welcome.application.to_vec(),
    })
}

fn not_ours(address: &Address, why: &str) -> WireError {
    WireError::Protocol { address: address.clone(), why: why.to_owned() }
}

fn no_keys(address: &Address, failed: Failed) -> WireError {
    match failed {
        Failed::Secret => WireError::WrongSecret { address: address.clone() },
        Failed::System(error) => WireError::io("connect to", address)(error),
    }
}

/// The error of a refusal.
fn refused(address: &Address, body: &[u8], has_secret: bool) -> WireError {
    let Some(refusal) = Refusal::get(body) else {
        return not_ours(address, "its refusal is malformed");
    };
    let address = address.clone();
    let why = refusal.text;
    match refusal.reason {
        Reason::Version => WireError::Version {
            address,
            their_lowest: refusal.lowest,
            their_highest: refusal.highest,
            our_lowest: OLDEST,
            our_highest: VERSION,
        },
        Reason::Secret if has_secret => WireError::WrongSecret { address },
        Reason::Secret => WireError::SecretNeeded { address },
        Reason::Full => WireError::Refused { address, why, temporary: true },
        Reason::Application => WireError::Refused { address, why, temporary: false },
        Reason::Protocol => WireError::Protocol { address, why },
    }
}

/// The text of a refusal in the middle of a connection.
pub(crate) fn refusal_text(body: &[u8]) -> String {
    Refusal::get(body).map_or_else(|| "the server refused".to_owned(), |refusal| refusal.text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::{self, NO_CALL};
    use crate::secure::Keys;

    /// The hello of a client that knows the secret, with the answer of a server and what it sends behind it.
    struct Talk<'a> {
        greeting: Greeting<'a>,
        out: Vec<u8>,
        answer: Vec<u8>,
        keys: Keys,
    }

    fn address() -> Address {
        Address::Tcp(([127, 0, 0, 1], 1).into())
    }

    fn talk(address: &Address) -> Talk<'_> {
        let (key, mut out, mut answer) = (Key::of(b"secret"), Vec::new(), Vec::new());
        let greeting = Greeting::new(address, Some(&key), 100, b"", &mut out).unwrap();
        let keys = key.answer(&out[frame::EMPTY..], &mut answer).unwrap();
        Talk { greeting, out, answer, keys }
    }

    impl Talk<'_> {
        fn feed(&mut self, bytes: &[u8], pieces: usize) -> Result<Option<Accepted>, WireError> {
            for piece in bytes.chunks(pieces) {
                self.greeting.input.add(piece);
                if let Some(accepted) = self.greeting.next(&mut self.out)? {
                    return Ok(Some(accepted));
                }
            }
            Ok(None)
        }

        fn seal(&mut self, frames: &[u8]) -> Vec<u8> {
            let mut records = Vec::new();
            self.keys.sealer.seal_all(frames, &mut records).unwrap();
            records
        }
    }

    fn welcome() -> Vec<u8> {
        let mut bytes = Vec::new();
        Welcome { version: 1, calls: 7, frame: 8, application: b"app" }.put(&mut bytes);
        bytes
    }

    #[test]
    fn server_that_knows_the_secret_is_accepted() {
        let accepted = Accepted { calls: 7, frame: 8, application: b"app".to_vec() };
        for pieces in [1, 7, 1000] {
            let address = address();
            let mut talk = talk(&address);
            let answer = talk.answer.clone();
            assert_eq!(talk.feed(&answer, pieces).unwrap(), None);
            let welcome = talk.seal(&welcome());
            assert_eq!(talk.feed(&welcome, pieces).unwrap().as_ref(), Some(&accepted));
        }
    }

    #[test]
    fn changed_handshake_is_not_accepted() {
        for at in 0..frame::EMPTY + crate::secure::MESSAGE {
            let address = address();
            let mut talk = talk(&address);
            let mut answer = talk.answer.clone();
            answer[at] ^= 1;
            let fed = talk.feed(&answer, 1000);
            // A longer frame is waited for. The version and the number say nothing here.
            let is_over = fed.is_ok() && talk.greeting.sealer.is_some();
            assert_eq!(is_over, (4..14).contains(&at) && at != 5, "byte {at}");
        }
    }

    #[test]
    fn frames_outside_of_records_are_refused() {
        let address = address();
        let mut early = talk(&address);
        assert!(matches!(early.feed(&welcome(), 1000), Err(WireError::Protocol { .. })));
        let mut behind = talk(&address);
        let bytes = [behind.answer.clone(), welcome()].concat();
        assert!(matches!(behind.feed(&bytes, 1000), Err(WireError::Protocol { .. })));
        let mut later = talk(&address);
        let answer = later.answer.clone();
        assert!(later.feed(&answer, 1000).unwrap().is_none());
        assert!(matches!(later.feed(&welcome(), 1000), Err(WireError::Protocol { .. })));
    }

    #[test]
    fn second_handshake_is_refused() {
        let address = address();
        let mut talk = talk(&address);
        let answer = talk.answer.clone();
        assert!(talk.feed(&answer, 1000).unwrap().is_none());
        let mut again = Vec::new();
        frame::put(&mut again, Kind::Handshake, NO_CALL, &[0; crate::secure::MESSAGE]);
        let again = talk.seal(&again);
        assert!(matches!(talk.feed(&again, 1000), Err(WireError::Protocol { .. })));
    }
}
