//! The client's side of the hello: bytes in, bytes out. No I/O.

use crate::auth::{HELLO_HEAD, Hello, Nonce, Reason, Refusal, Side, Welcome, equal, proof};
use crate::frame::{self, Frame, Input, Kind, NO_CALL, OLDEST, VERSION};
use crate::limits::HELLO_BODY;
use crate::{Address, WireError};

/// The hello of one connection.
pub(crate) struct Greeting<'a> {
    pub(crate) input: Input,
    address: &'a Address,
    secret: Option<&'a [u8]>,
    nonce: Nonce,
    /// The server has proved that it knows the secret.
    proved: bool,
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
    /// Begins: appends the hello to `out`.
    pub(crate) fn new(
        address: &'a Address,
        secret: Option<&'a [u8]>,
        nonce: Nonce,
        frame: u32,
        application: &[u8],
        out: &mut Vec<u8>,
    ) -> Greeting<'a> {
        Hello { lowest: OLDEST, highest: VERSION, frame, nonce, application }.put(out);
        Greeting { input: Input::default(), address, secret, nonce, proved: false }
    }

    /// Takes what has arrived, and appends what the server has to get to `out`. `Some`: the hello is over.
    pub(crate) fn next(&mut self, out: &mut Vec<u8>) -> Result<Option<Accepted>, WireError> {
        loop {
            let frame = self.input.next(HELLO_BODY + HELLO_HEAD);
            let frame =
                frame.map_err(|malformed| not_ours(self.address, &malformed.to_string()))?;
            let Some(Frame { kind, body, .. }) = frame else { return Ok(None) };
            match kind {
                Kind::Proof if !self.proved => {
                    let secret = self.secret.filter(|secret| !secret.is_empty());
                    let secret = secret
                        .ok_or_else(|| WireError::SecretNeeded { address: self.address.clone() })?;
                    prove(self.address, secret, &self.nonce, body, out)?;
                    self.proved = true;
                }
                // Over TCP, any process could have answered.
                Kind::Welcome if self.proved || matches!(self.address, Address::Unix(_)) => {
                    let welcome = Welcome::get(body)
                        .filter(|welcome| (OLDEST..=VERSION).contains(&welcome.version));
                    let welcome = welcome
                        .ok_or_else(|| not_ours(self.address, "its welcome is malformed"))?;
                    let fit = |limit: u32| usize::try_from(limit).unwrap_or(usize::MAX);
                    return Ok(Some(Accepted {
                        calls: fit(welcome.calls),
                        frame: fit(welcome.frame),
                        application: welcome.application.to_vec(),
                    }));
                }
                Kind::Refused => return Err(refused(self.address, body)),
                kind => return Err(not_ours(self.address, &format!("it began with {kind:?}"))),
            }
        }
    }
}

/// Checks the proof of the server, and appends that of the client.
fn prove(
    address: &Address,
    secret: &[u8],
    client: &Nonce,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), WireError> {
    let malformed = || not_ours(address, "its proof is malformed");
    let (server, mac) = body.split_first_chunk::<32>().ok_or_else(malformed)?;
    if !equal(&proof(secret, Side::Server, client, server), mac) {
        return Err(WireError::WrongSecret { address: address.clone() });
    }
    frame::put(out, Kind::Proof, NO_CALL, &proof(secret, Side::Client, client, server));
    Ok(())
}

fn not_ours(address: &Address, why: &str) -> WireError {
    WireError::Protocol { address: address.clone(), why: why.to_owned() }
}

/// The error of a refusal.
fn refused(address: &Address, body: &[u8]) -> WireError {
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
        Reason::Secret => WireError::WrongSecret { address },
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

    fn address() -> Address {
        Address::Tcp(([127, 0, 0, 1], 1).into())
    }

    /// Feeds `bytes` to the hello of a client over TCP that knows the secret.
    fn feed(bytes: &[u8], pieces: usize) -> Result<Option<Accepted>, WireError> {
        let address = address();
        let mut out = Vec::new();
        let mut greeting = Greeting::new(&address, Some(b"secret"), [1; 32], 100, b"", &mut out);
        for piece in bytes.chunks(pieces) {
            greeting.input.add(piece);
            if let Some(accepted) = greeting.next(&mut out)? {
                return Ok(Some(accepted));
            }
        }
        Ok(None)
    }

    /// What a server that knows the secret sends.
    fn server() -> Vec<u8> {
        let mut body = vec![2; 32];
        body.extend(proof(b"secret", Side::Server, &[1; 32], &[2; 32]));
        let mut bytes = Vec::new();
        frame::put(&mut bytes, Kind::Proof, NO_CALL, &body);
        Welcome { version: 1, calls: 7, frame: 8, application: b"app" }.put(&mut bytes);
        bytes
    }

    #[test]
    fn a_server_that_knows_the_secret_is_accepted() {
        let accepted = Accepted { calls: 7, frame: 8, application: b"app".to_vec() };
        for pieces in [1, 7, 1000] {
            assert_eq!(feed(&server(), pieces).unwrap().as_ref(), Some(&accepted));
        }
    }

    #[test]
    fn no_changed_proof_is_accepted() {
        let bytes = server();
        // The head of the frame, the nonce and the proof.
        for at in 0..14 + 64 {
            for bit in 0..8 {
                let mut changed = bytes.clone();
                changed[at] ^= 1 << bit;
                let number = (6..14).contains(&at);
                let accepted = feed(&changed, 1000);
                assert_eq!(matches!(accepted, Ok(Some(_))), number, "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn a_welcome_without_a_proof_is_refused() {
        let mut bytes = Vec::new();
        Welcome { version: 1, calls: 7, frame: 8, application: b"" }.put(&mut bytes);
        assert!(matches!(feed(&bytes, 1000), Err(WireError::Protocol { .. })));
    }

    #[test]
    fn a_second_proof_is_refused() {
        let mut bytes = server();
        bytes.truncate(14 + 64);
        let twice = [bytes.clone(), bytes].concat();
        assert!(matches!(feed(&twice, 1000), Err(WireError::Protocol { .. })));
    }
}
