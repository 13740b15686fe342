//! Conversations of a client with an owner, kept in `tests/protocol` for every version of the protocol. Every later release must answer the recorded bytes of a client as the owner of that
//! version did, and its client must understand the recorded bytes of that owner.
//!
//! `cargo test --test protocol -- --ignored record_conversation` writes the conversation of the newest
//! version. This is done once for each of them. Existing conversations must never be written again: a
//! version that changes the protocol gets a file of its own, and both sides still speak the older ones.
//!
//! What is not recorded here: the handshake of a secret and the records that follow it, which are made from random keys
//! and hold these frames (`wire/src/secure/recorded.txt` has one with fixed keys), and refusals, which
//! [`negotiation`] has.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
mod frames;
mod negotiation;
mod owner;
mod player;
mod proxy;
mod recording;
mod script;
mod shown;
mod varying;

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use frames::CALL;
use owner::Owner;
use recording::{Line, NEWEST, recordings};

/// Run by hand, once for each version of the protocol.
#[test]
#[ignore = "writes the conversation of the newest version of the protocol"]
fn record_conversation() {
    recording::write(NEWEST, &proxy::record());
}

/// Answers are equal byte by byte, but for the epochs of claims, which begin at a random number in each
/// run of a store, the counters of the storage, which say how its commits were shared, and its scrape, which
/// has them too, and the id of the store.
#[test]
fn owner_answers_recorded_clients_as_recorded() {
    for (name, lines) in recordings() {
        let owner = Owner::start();
        owner::play_client(&owner, &name, &lines);
        assert_eq!(owner.store.admin().verify().unwrap(), [""; 0], "{name}");
    }
}

/// The client sends the recorded bytes, too, but for its id and the ids of its sessions, which are random.
#[test]
fn client_understands_recorded_owners() {
    for (name, lines) in recordings() {
        let results = player::play_owner(&name, &lines);
        let recorded = lines.iter().filter_map(|line| match line {
            Line::Result(result) => Some(result),
            _ => None,
        });
        for (result, recorded) in results.iter().zip(recorded.clone()) {
            assert_eq!(result, recorded, "{name}");
        }
        assert_eq!(results.len(), recorded.count(), "{name}");
    }
}

/// The numbers of requests, calls, verbs of a tube and verbs of a claim. Without those that are of the
/// owner's own process, which clients do not send: `CancelPut`, `CancelWatch` and `EndSignal`. No verb has
/// the numbers 0 and 9 any more, and no request 14. The heartbeats depend on the time, and are in [`negotiation`];
/// `tests/served.rs` has the request 17.
#[test]
fn recorded_conversations_have_every_request() {
    for (name, lines) in recordings() {
        assert_every_request(&name, &lines);
    }
}

fn assert_every_request(name: &str, lines: &[Line]) {
    let (mut requests, mut calls) = (BTreeSet::new(), BTreeSet::new());
    let (mut verbs, mut held) = (BTreeSet::new(), BTreeSet::new());
    let bodies = lines.iter().filter_map(|line| match line {
        Line::Client(frame) if frame.kind() == CALL => Some(frame.body()),
        _ => None,
    });
    for body in bodies {
        requests.insert(body[0]);
        if body[0] > 4 {
            continue;
        }
        calls.insert(body[1]);
        match body[1] {
            // The number of the tube, its name, and the verb.
            1 => verbs.insert(body[4 + usize::from(body[3])]),
            2 => held.insert(verb_of_claim(&body[2..])),
            _ => false,
        };
    }
    let missing = |has: BTreeSet<u8>, all: &[RangeInclusive<u8>]| -> Vec<u8> {
        all.iter().cloned().flatten().filter(|number| !has.contains(number)).collect()
    };
    // Numbers that are left out are those of none, and of what workers alone ask.
    let (of_requests, of_calls) = ([1..=1, 3..=13, 16..=16, 18..=24], [0..=2, 4..=18, 21..=22]);
    assert_eq!(missing(requests, &of_requests), [0; 0], "{name}: requests");
    assert_eq!(missing(calls.clone(), &of_calls), [0; 0], "{name}: calls");
    assert_eq!(missing(calls, &[26..=26]), [0; 0], "{name}: scrapes");
    let of_tubes = [
        1..=2,
        4..=8,
        12..=12,
        14..=16,
        21..=23,
        25..=25,
        28..=28,
        31..=32,
        34..=35,
        37..=50,
        60..=67,
    ];
    assert_eq!(missing(verbs.clone(), &of_tubes), [0; 0], "{name}: verbs of a tube");
    assert_eq!(missing(verbs, &[90..=92, 94..=98]), [0; 0], "{name}: reads of a tube");
    assert_eq!(
        missing(held, &[0..=6, 9..=11, 14..=14, 32..=38]),
        [0; 0],
        "{name}: verbs of a claim"
    );
}

/// The number of a verb, behind the claim: its tube, the session, an epoch if there is one, and the id.
fn verb_of_claim(bytes: &[u8]) -> u8 {
    let after_number =
        |at: usize| at + 1 + bytes[at..].iter().take_while(|byte| **byte > 0x7f).count();
    let session = after_number(after_number(0));
    bytes[after_number(session + 16)]
}
