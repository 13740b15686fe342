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
                // Over TCP anybody could answer.
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
