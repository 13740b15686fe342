//! Frames in pieces, and bytes that are none.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::frame::{count, put, put_count};

#[test]
fn frames_arrive_in_any_pieces() {
    let mut bytes = Vec::new();
    put(&mut bytes, Kind::Call, 7, b"body");
    put(&mut bytes, Kind::Cancel, u64::MAX, b"");
    for size in 1..bytes.len() {
        let mut input = Input::default();
        let mut frames = Vec::new();
        for piece in bytes.chunks(size) {
            input.add(piece);
            while let Some(frame) = input.next(100).unwrap() {
                frames.push((frame.kind, frame.number, frame.body.to_vec()));
            }
        }
        let expected = [(Kind::Call, 7, b"body".to_vec()), (Kind::Cancel, u64::MAX, Vec::new())];
        assert_eq!(frames, expected, "pieces of {size}");
    }
}

#[test]
fn lengths_out_of_range_are_refused_before_the_body() {
    let mut input = Input::default();
    input.add(&u32::MAX.to_le_bytes());
    assert!(matches!(input.next(100), Err(Malformed::TooLong { .. })));
    let mut input = Input::default();
    input.add(&9_u32.to_le_bytes());
    assert_eq!(input.next(100), Err(Malformed::TooShort { length: 9 }));
}

#[test]
fn a_body_may_be_as_long_as_the_limit() {
    for (size, fits) in [(100, true), (101, false)] {
        let mut input = Input::default();
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Call, 1, &vec![0; size]);
        input.add(&bytes);
        assert_eq!(input.next(100).is_ok(), fits);
    }
}

#[test]
fn unknown_kinds_and_versions_are_refused() {
    let mut bytes = Vec::new();
    put(&mut bytes, Kind::Call, 1, b"");
    bytes[5] = 99;
    let mut input = Input::default();
    input.add(&bytes);
    assert_eq!(input.next(100), Err(Malformed::Kind { kind: 99 }));
    bytes[4] = 200;
    let mut input = Input::default();
    input.add(&bytes);
    assert_eq!(input.next(100), Err(Malformed::Version { version: 200 }));
}

#[test]
fn an_input_gives_the_memory_of_a_long_frame_back() {
    let mut input = Input::default();
    let mut bytes = Vec::new();
    put(&mut bytes, Kind::Call, 1, &vec![0; 1 << 20]);
    input.add(&bytes);
    assert!(input.next(1 << 20).unwrap().is_some());
    input.discard_taken();
    assert!(input.capacity() <= KEPT);
}

#[test]
fn frame_of_an_unknown_kind_or_version_is_refused_before_its_body() {
    for (at, byte, error) in
        [(5, 99, Malformed::Kind { kind: 99 }), (4, 200, Malformed::Version { version: 200 })]
    {
        let mut bytes = Vec::new();
        put(&mut bytes, Kind::Call, 1, &[0; 1000]);
        bytes[at] = byte;
        let mut input = Input::default();
        input.add(&bytes[..6]);
        assert_eq!(input.next(1000), Err(error));
    }
}

#[test]
fn memory_of_a_long_frame_is_taken_once() {
    let mut bytes = Vec::new();
    put(&mut bytes, Kind::Cancel, 1, b"");
    put(&mut bytes, Kind::Call, 1, &vec![0; 10 * LONG]);
    let (whole, mut input) = (EMPTY + 10 * LONG, Input::default());
    input.add(&bytes[..EMPTY + 100]);
    assert_eq!(input.make_room(), None, "the next frame is a short one");
    assert!(input.next(10 * LONG).unwrap().is_some());
    assert_eq!(input.make_room(), Some(whole - 100));
    for piece in bytes[EMPTY + 100..].chunks(1000) {
        input.add(piece);
        assert_eq!(input.capacity(), whole);
    }
    assert_eq!(input.make_room(), Some(0));
    assert!(input.next(10 * LONG).unwrap().is_some());
}

/// Kind, number and body.
type Taken = (Kind, u64, Vec<u8>);

/// The limit of bodies in the tests of any bytes.
const LIMIT: usize = 20_000;

fn frames() -> impl Strategy<Value = Vec<Taken>> {
    let kind = (1..=11_u8).prop_map(|byte| Kind::new(byte).unwrap());
    let length = prop_oneof![8 => 0..100_usize, 1 => 0..=LIMIT];
    let body = length.prop_flat_map(|length| vec(any::<u8>(), length));
    vec((kind, any::<u64>(), body), 0..20)
}

fn encoded(frames: &[Taken]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (kind, number, body) in frames {
        put(&mut bytes, *kind, *number, body);
    }
    bytes
}

/// The lengths of the pieces in which bytes arrive, in turn.
fn pieces() -> impl Strategy<Value = Vec<usize>> {
    vec(prop_oneof![3 => 1..30_usize, 1 => 1..5000_usize], 1..30)
}

/// Takes all frames of bytes that arrive in pieces, until there is an error.
fn take_all(mut bytes: &[u8], pieces: &[usize]) -> (Vec<Taken>, Option<Malformed>) {
    let (mut input, mut taken, mut longest) = (Input::default(), Vec::new(), 0);
    for length in pieces.iter().cycle() {
        let (piece, rest) = bytes.split_at((*length).min(bytes.len()));
        (bytes, longest) = (rest, longest.max(piece.len()));
        input.add(piece);
        // A vector that grows has up to twice the memory that it needs. It keeps it while it has a part of a
        // frame, also from a longer piece before this one.
        assert!(input.capacity() <= (2 * (EMPTY + LIMIT + longest)).max(KEPT));
        loop {
            match input.next(LIMIT) {
                Ok(Some(frame)) => taken.push((frame.kind, frame.number, frame.body.to_vec())),
                Ok(None) => break,
                Err(malformed) => return (taken, Some(malformed)),
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    (taken, None)
}

proptest! {
    #[test]
    fn frames_that_are_split_anywhere_are_those_that_were_encoded(
        frames in frames(),
        pieces in pieces(),
    ) {
        prop_assert_eq!(take_all(&encoded(&frames), &pieces), (frames, None));
    }

    /// Frames, an error, or the beginning of a frame: the same in whichever pieces they arrive.
    #[test]
    fn any_bytes_are_frames_or_an_error_in_whichever_pieces_they_arrive(
        bytes in vec(any::<u8>(), 0..300),
        pieces in pieces(),
    ) {
        prop_assert_eq!(take_all(&bytes, &pieces), take_all(&bytes, &[bytes.len().max(1)]));
    }

    #[test]
    fn changed_frames_are_frames_or_an_error_in_whichever_pieces_they_arrive(
        frames in frames(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        pieces in pieces(),
    ) {
        let mut bytes = encoded(&frames);
        for (at, byte) in changes {
            if !bytes.is_empty() {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
        }
        prop_assert_eq!(take_all(&bytes, &pieces), take_all(&bytes, &[bytes.len().max(1)]));
    }

    #[test]
    fn counts_are_those_that_were_encoded(number in any::<u64>(), seen in any::<u64>()) {
        let mut bytes = Vec::new();
        put_count(&mut bytes, number, seen);
        let mut input = Input::default();
        input.add(&bytes);
        let frame = input.next(LIMIT).unwrap().unwrap();
        prop_assert_eq!((frame.kind, frame.number, count(frame.body)), (Kind::Seen, number, Some(seen)));
    }
}
