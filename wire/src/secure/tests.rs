//! Handshakes and records in pieces, and what is neither.

use std::fmt::Write;

use super::*;
use crate::frame::EMPTY;

/// The keys of both sides: the client's, and the server's.
fn keys() -> (Keys, Keys) {
    let (key, mut message, mut reply) = (Key::of(b"secret"), Vec::new(), Vec::new());
    let begun = key.begin(&mut message).unwrap();
    let server = key.answer(&message[EMPTY..], &mut reply).unwrap();
    (begun.finish(&reply[EMPTY..]).unwrap(), server)
}

/// A record for each of the contents.
fn records<const N: usize>(sealer: &mut Sealer, contents: [&[u8]; N]) -> [Vec<u8>; N] {
    contents.map(|content| {
        let mut out = Vec::new();
        sealer.seal_all(content, &mut out).unwrap();
        out
    })
}

fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").unwrap();
    }
    text
}

/// What is on the wire may not change: the pattern, the prologue, the label, and the head of a record.
#[test]
fn conversation_with_known_keys_is_as_recorded() {
    let (key, mut out) = (Key::of(b"a secret of the test"), Vec::new());
    let fixed = |private: &'static [u8; 32]| {
        key.builder().unwrap().fixed_ephemeral_key_for_testing_only(private)
    };
    let begun = begin(fixed(&[1; 32]).build_initiator().unwrap(), &mut out).unwrap();
    let message = out[EMPTY..].to_vec();
    let mut server =
        answer(fixed(&[2; 32]).build_responder().unwrap(), &message, &mut out).unwrap();
    let mut client = begun.finish(&out[EMPTY + MESSAGE + EMPTY..]).unwrap();
    client.sealer.seal_all(b"of the client", &mut out).unwrap();
    server.sealer.seal_all(b"of the server", &mut out).unwrap();
    let recorded = include_str!("recorded.txt").split_whitespace();
    let mut at = 0;
    let lines = [EMPTY + MESSAGE, EMPTY + MESSAGE, OVERHEAD + 13, OVERHEAD + 13].map(|length| {
        at += length;
        hex(&out[at - length..at])
    });
    assert!(recorded.eq(lines.iter()), "{}", lines.join("\n"));
}

#[test]
fn secrets_of_any_length_differ() {
    let secrets: [&[u8]; 6] = [b"", b"a", b"a\0", &[7; 64], &[7; 65], &[7; 10_000]];
    for (at, one) in secrets.iter().enumerate() {
        for other in &secrets[at + 1..] {
            assert_ne!(Key::of(one).0, Key::of(other).0);
        }
    }
}

#[test]
fn handshake_with_another_secret_or_a_changed_message_fails() {
    let key = Key::of(b"secret");
    let mut message = Vec::new();
    let _begun = key.begin(&mut message).unwrap();
    let message = &message[EMPTY..];
    let is_refused = |key: &Key, message: &[u8]| {
        matches!(key.answer(message, &mut Vec::new()), Err(Failed::Secret))
    };
    assert!(!is_refused(&key, message));
    assert!(is_refused(&Key::of(b"another"), message));
    for length in 0..message.len() {
        assert!(is_refused(&key, &message[..length]), "{length}");
    }
    assert!(is_refused(&key, &[message, &[0]].concat()));
    for bit in 0..8 * message.len() {
        let mut changed = message.to_vec();
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(is_refused(&key, &changed), "bit {bit}");
    }
}

#[test]
fn records_arrive_in_any_pieces() {
    let (mut client, mut server) = keys();
    let contents: [&[u8]; 3] = [b"one", b"two, which is longer", &[3; 200]];
    let expected = contents.concat();
    for size in 1..300 {
        let bytes = records(&mut client.sealer, contents).concat();
        let mut out = Vec::new();
        for piece in bytes.chunks(size) {
            server.opener.open(piece, &mut out).unwrap();
        }
        assert!(out == expected, "pieces of {size}");
    }
}

#[test]
fn long_content_has_several_records() {
    let (mut client, mut server) = keys();
    for length in [CONTENT - 1, CONTENT, CONTENT + 1, 3 * CONTENT, 1_000_000] {
        let content = vec![7; length];
        let [bytes] = records(&mut client.sealer, [&content]);
        assert_eq!(bytes.len(), length + length.div_ceil(CONTENT) * OVERHEAD);
        let mut out = Vec::new();
        server.opener.open(&bytes, &mut out).unwrap();
        assert!(out == content, "{length}");
    }
}

#[test]
fn socket_may_take_a_record_in_pieces() {
    let (mut client, mut server) = keys();
    let (content, mut out, mut opened) = (vec![5; 2 * CONTENT + 10], Vec::new(), Vec::new());
    client.sealer.begin_behind(3);
    let mut rest = &content[..];
    while let Some(piece) = client.sealer.next(rest).unwrap().chunks(1000).next() {
        let length = piece.len();
        out.extend_from_slice(piece);
        rest = &rest[client.sealer.advance(length)..];
    }
    assert!(rest.is_empty());
    assert_eq!(out[..3], [5; 3], "as they are");
    server.opener.open(&out[3..], &mut opened).unwrap();
    assert!(opened == content[3..]);
}

#[test]
fn no_changed_repeated_missing_or_early_record_is_opened() {
    let contents: [&[u8]; 2] = [b"first", b"second"];
    let opens = |choose: &dyn Fn([Vec<u8>; 2]) -> Vec<u8>| {
        let (mut client, mut server) = keys();
        let (mut out, records) = (Vec::new(), records(&mut client.sealer, contents));
        let opened = server.opener.open(&choose(records), &mut out);
        opened.map(|()| out.clone()).map_err(|malformed| (malformed, out))
    };
    let first = b"first".to_vec();
    assert_eq!(opens(&|[one, two]| [one, two].concat()), Ok(b"firstsecond".to_vec()));
    assert_eq!(
        opens(&|[one, _]| [&one[..], &one].concat()),
        Err((Malformed::Record, first.clone()))
    );
    assert_eq!(opens(&|[one, two]| [two, one].concat()), Err((Malformed::Record, Vec::new())));
    assert_eq!(opens(&|[_, two]| two), Err((Malformed::Record, Vec::new())));
    let length = OVERHEAD + first.len();
    for bit in 0..8 * length {
        let opened = opens(&|[mut one, two]| {
            one[bit / 8] ^= 1 << (bit % 8);
            // Enough for a longer record.
            [one, two, vec![0; RECORD]].concat()
        });
        assert_eq!(opened, Err((Malformed::Record, Vec::new())), "bit {bit}");
    }
}

#[test]
fn record_of_the_other_direction_is_not_opened() {
    let (mut client, _) = keys();
    let [own] = records(&mut client.sealer, [b"own"]);
    assert_eq!(client.opener.open(&own, &mut Vec::new()), Err(Malformed::Record));
}

#[test]
fn record_without_content_is_refused_before_it_arrives() {
    for length in 0..=16_u16 {
        let (_, mut server) = keys();
        let opened = server.opener.open(&length.to_le_bytes(), &mut Vec::new());
        assert_eq!(opened, Err(Malformed::Record), "{length}");
    }
}

#[test]
fn last_number_of_a_record_is_not_used() {
    let (mut client, mut server) = keys();
    (client.sealer.next, server.opener.next) = (u64::MAX - 1, u64::MAX - 1);
    let [last] = records(&mut client.sealer, [b"last"]);
    let mut out = Vec::new();
    server.opener.open(&last, &mut out).unwrap();
    assert_eq!(out, b"last");
    assert!(client.sealer.seal_all(b"more", &mut Vec::new()).is_err());
    assert_eq!(server.opener.open(&last, &mut out), Err(Malformed::Record));
}

#[test]
fn memory_of_long_records_is_given_back() {
    let (mut client, mut server) = keys();
    let [bytes] = records(&mut client.sealer, [&vec![1; CONTENT]]);
    for piece in bytes.chunks(10_000) {
        server.opener.open(piece, &mut Vec::new()).unwrap();
        assert!(server.opener.capacity() <= 2 * RECORD);
    }
    server.opener.shrink();
    client.sealer.shrink();
    assert!(server.opener.capacity() <= KEPT && client.sealer.record.capacity() <= KEPT);
}

#[test]
fn keys_are_not_shown() {
    assert_eq!(format!("{:?}", Key::of(b"secret")), "Key(...)");
}
