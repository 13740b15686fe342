use super::*;

const LIMIT: usize = 10_000;

fn protocol(secret: Option<&[u8]>) -> Protocol {
    let limits = Limits { frame: LIMIT, ..Limits::default() };
    Protocol::new(secret.map(Arc::from), [2; 32], limits)
}

fn hello_frame() -> Vec<u8> {
    let mut bytes = Vec::new();
    Hello { lowest: 1, highest: 1, frame: u32::MAX, nonce: [1; 32], application: b"app" }
        .put(&mut bytes);
    bytes
}

#[test]
fn a_client_without_a_secret_is_accepted_at_once() {
    let mut protocol = protocol(None);
    let mut out = Vec::new();
    protocol.add(&hello_frame());
    assert_eq!(protocol.next(&mut out), Ok(Some(Event::Hello(b"app"))));
    // Nothing is taken before the application has decided.
    let mut call = Vec::new();
    frame::put(&mut call, Kind::Call, 7, b"call");
    protocol.add(&call);
    assert_eq!(protocol.next(&mut out), Ok(None));
    protocol.welcome(b"welcome", &mut out);
    assert!(protocol.is_open());
    assert_eq!(protocol.next(&mut out), Ok(Some(Event::Call { number: 7, body: b"call" })));
    assert_eq!(protocol.longest_answer(), LIMIT);
}

#[test]
fn a_client_with_the_secret_is_accepted_after_its_proof() {
    let mut protocol = protocol(Some(b"secret"));
    let mut out = Vec::new();
    protocol.add(&hello_frame());
    assert_eq!(protocol.next(&mut out), Ok(Some(Event::Step)));
    let mac = proof(b"secret", Side::Client, &[1; 32], &[2; 32]);
    let mut bytes = Vec::new();
    frame::put(&mut bytes, Kind::Proof, NO_CALL, &mac);
    protocol.add(&bytes);
    assert_eq!(protocol.next(&mut out), Ok(Some(Event::Hello(b"app"))));
}

#[test]
fn the_proof_of_the_server_is_no_proof_of_a_client() {
    let mut protocol = protocol(Some(b"secret"));
    let mut out = Vec::new();
    protocol.add(&hello_frame());
    assert_eq!(protocol.next(&mut out), Ok(Some(Event::Step)));
    let mut input = Input::default();
    input.add(&out);
    let mac = input.next(100).unwrap().unwrap().body[32..].to_vec();
    assert_eq!(mac, proof(b"secret", Side::Server, &[1; 32], &[2; 32]));
    let mut bytes = Vec::new();
    frame::put(&mut bytes, Kind::Proof, NO_CALL, &mac);
    protocol.add(&bytes);
    assert_eq!(protocol.next(&mut out).unwrap_err().reason, Reason::Secret);
    assert_eq!(protocol.next(&mut out), Ok(None));
}

/// Numbers that look random, the same in each run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % (end.max(1) as u64)).unwrap()
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.below(256)).unwrap()
    }
}

/// What a client could send, and what one could not.
fn conversation(random: &mut Random, secret: bool) -> Vec<u8> {
    let mut bytes = hello_frame();
    if secret {
        let mac = proof(b"secret", Side::Client, &[1; 32], &[2; 32]);
        frame::put(&mut bytes, Kind::Proof, NO_CALL, &mac);
    }
    for _ in 0..random.below(20) {
        let number = random.below(4) as u64;
        match random.below(4) {
            0 => frame::put(&mut bytes, Kind::Cancel, number, b""),
            1 => frame::put_count(&mut bytes, number, random.below(3) as u64),
            _ => {
                let body = vec![random.byte(); random.below(LIMIT + LIMIT / 10)];
                frame::put(&mut bytes, Kind::Call, number, &body);
            }
        }
    }
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.byte(),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, random.byte()),
            _ => drop(bytes.remove(at)),
        }
        if bytes.is_empty() {
            bytes.push(random.byte());
        }
    }
    bytes
}

/// Sends `bytes` in pieces. Returns how many calls were taken, and whether the client was refused.
fn feed(protocol: &mut Protocol, random: &mut Random, mut bytes: &[u8]) -> (usize, bool) {
    let mut calls = 0;
    let mut out = Vec::new();
    while !bytes.is_empty() {
        let (piece, rest) = bytes.split_at(1 + random.below(bytes.len().min(3000)));
        bytes = rest;
        protocol.add(piece);
        loop {
            match protocol.next(&mut out) {
                Ok(Some(Event::Hello(_))) => protocol.welcome(b"", &mut out),
                Ok(Some(Event::Call { body, .. })) => {
                    assert!(body.len() <= LIMIT);
                    calls += 1;
                }
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(refusal) => {
                    refusal.put(&mut out);
                    assert_eq!(protocol.next(&mut out), Ok(None));
                    return (calls, true);
                }
            }
        }
        protocol.discard_taken();
        // A buffer may grow to twice what it must hold.
        assert!(protocol.capacity() <= 2 * (LIMIT.max(HELLO_BODY) + 3000 + 100));
        assert!(out.len() < 1000, "the hello is answered, nothing else");
    }
    (calls, false)
}

#[test]
fn mutated_conversations_do_no_harm() {
    let (mut calls, mut refused) = (0, 0);
    for seed in 1..3000 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let secret = seed % 2 == 0;
        let mut protocol = protocol(secret.then_some(b"secret"));
        let bytes = conversation(&mut random, secret);
        let (taken, was_refused) = feed(&mut protocol, &mut random, &bytes);
        calls += taken;
        refused += usize::from(was_refused);
    }
    // The test gets past the hello, and not always.
    assert!(calls > 1000, "{calls} calls");
    assert!((100..2900).contains(&refused), "{refused} refused");
}

#[test]
fn random_bytes_do_no_harm() {
    for seed in 1..1000 {
        let mut random = Random(0x9E37_79B9_7F4A_7C15_u64.wrapping_mul(seed));
        let mut protocol = protocol(None);
        if seed % 2 == 0 {
            protocol.add(&hello_frame());
        }
        let length = random.below(10_000);
        let bytes: Vec<u8> = (0..length).map(|_| random.byte()).collect();
        feed(&mut protocol, &mut random, &bytes);
    }
}

#[test]
fn lengths_that_are_claimed_and_not_sent_cost_nothing() {
    let mut protocol = protocol(None);
    let length = u32::try_from(HELLO_BODY).unwrap();
    protocol.add(&length.to_le_bytes());
    protocol.add(&[1, 1]);
    assert_eq!(protocol.next(&mut Vec::new()), Ok(None));
    assert!(protocol.capacity() < 1000);
}
