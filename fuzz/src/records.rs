//! Records, pointers, keys, rows of the catalog, and rows beside the records. Bytes decode or are refused, and an encoded
//! value decodes to itself.

use std::sync::Arc;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell_drivers::{
    Header, More, Position, Record, Recur, RecurRule, Shelf, StoredEntries, Table, Traceparent,
    check_body, encode, keys,
};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::disk::Disk;
use crate::exercise::exercise_store;
use crate::history::HISTORY;
use crate::oracle::Oracle;
use crate::{edits, panics, side_rows};

const ID: u64 = 3;
/// The first byte of a plain record, and of one with further fields.
const PLAIN: u8 = 1;
const WITH_MORE: u8 = 0x81;

pub fn check(bytes: &[u8], oracle: Oracle) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    let first = if *kind < 128 { PLAIN } else { WITH_MORE };
    match kind % 8 {
        0 => pointer(rest),
        1 => any_key(rest),
        2 => record(rest),
        3 => record(&framed_record(first, rest)),
        5 if kind & 64 != 0 => side_rows::check(rest, oracle),
        4 | 5 => drop(encoded(&mut Unstructured::new(rest), first, oracle)),
        6 => catalog(rest, false, oracle),
        _ => catalog(rest, true, oracle),
    }
}

/// The bytes with the first byte and the checksum of a valid record.
fn framed_record(first: u8, rest: &[u8]) -> Vec<u8> {
    let seed = ID ^ (u64::from(first ^ PLAIN) << 56);
    [&[first][..], &xxh3_64_with_seed(rest, seed).to_be_bytes(), rest].concat()
}

/// The bytes with the version and the checksum of a valid row of the catalog.
fn framed_row(rest: &[u8]) -> Vec<u8> {
    [&[1][..], &xxh3_64(rest).to_be_bytes(), rest].concat()
}

fn pointer(bytes: &[u8]) {
    if let Ok(position) = Position::from_pointer(ID, bytes) {
        assert_eq!(position.pointer(), bytes);
    }
}

fn any_key(key: &[u8]) {
    let _ = keys::order_and_id(key);
    let _ = keys::space_and_shelf(key);
    let _ = keys::id_of(key);
    if let Ok((time, space, id)) = keys::split_due(key)
        && key.len() == 20
    {
        assert_eq!(keys::due(time, space, id), key);
    }
    if let Ok((space, id, row)) = keys::split_note(key) {
        let again = match row {
            keys::NoteRow::Note(note) => keys::note(space, id, note),
            keys::NoteRow::Entry(number) => keys::history_entry(space, id, number),
            keys::NoteRow::Step(name) => keys::step(space, id, name),
        };
        assert_eq!(again, key);
    }
    if let Ok((space, group, ended, id)) = keys::split_group(key) {
        assert_eq!(keys::ranked(&keys::group_prefix(space, group), ended, id), key);
    }
    if let Ok((space, group)) = keys::split_group_count(key) {
        assert_eq!(keys::group_count(space, group), key);
    }
    let end = keys::end_of(key);
    assert!(end.as_slice() > key);
    assert!(keys::after(key).as_slice() > key);
}

/// A number has several encodings, so encoding a decoded record may give other bytes.
fn record(bytes: &[u8]) {
    let Ok(record) = Record::decode(ID, bytes.into()) else { return };
    let again = encode(ID, &record.header, record.inline());
    let back = Record::decode(ID, again).unwrap();
    assert_eq!((&back.header, back.inline()), (&record.header, record.inline()));
    for shelf in Shelf::ALL {
        let _ = record.header.due(shelf);
        let _ = tubewell_drivers::position_of(ID, shelf, &record.header);
    }
    let _ = check_body(ID, &record.header, bytes);
}

fn encoded(u: &mut Unstructured<'_>, first: u8, oracle: Oracle) -> Result<()> {
    let id = u64::arbitrary(u)?;
    let mut header = Header {
        priority: u32::arbitrary(u)?,
        order: u64::arbitrary(u)?,
        created: u64::arbitrary(u)?,
        expires_at: u64::arbitrary(u)?,
        ttr: u64::arbitrary(u)?,
        ready_at: u64::arbitrary(u)?,
        takes: u32::arbitrary(u)?,
        size: 0,
        body_checksum: None,
        sub: <&str>::arbitrary(u)?.into(),
        more: None,
    };
    if first == WITH_MORE {
        let more = more(u)?;
        header.edit_more(|fields| *fields = more);
    }
    let mut body = u.bytes(u.len())?.to_vec();
    if id % 4 == 0 {
        body.resize(1020 + usize::try_from(id / 4 % 8).unwrap(), 7);
    }
    header.size = body.len() as u64;
    header.body_checksum = Header::checksum_of(&body);
    let value = encode(id, &header, &body);
    assert_eq!(value[0], if header.more.is_some() { WITH_MORE } else { PLAIN });
    let mut record = Record::decode(id, value.clone()).unwrap();
    if oracle.is_faulty() {
        record.header.takes ^= 1;
    }
    assert_eq!(record.header, header);
    match header.body_checksum {
        None => assert_eq!(record.inline(), body),
        Some(_) => assert_eq!(check_body(id, &header, &body), Ok(())),
    }
    assert!(
        Record::decode(id.wrapping_add(1), value.clone()).is_err(),
        "the record of another task"
    );
    let mut bad = value.to_vec();
    let at = usize::from(header.created.to_le_bytes()[0]) % bad.len();
    bad[at] ^= 1 << (header.ready_at % 8);
    assert!(Record::decode(id, bad.into()).is_err(), "a flipped bit at {at}");
    let mut other = value.to_vec();
    other[0] ^= 0x80;
    assert!(Record::decode(id, other.into()).is_err(), "a record with another flag");
    Ok(())
}

/// The fields that plain tasks do not have.
fn more(u: &mut Unstructured<'_>) -> Result<More> {
    let (max_attempts, forgiven) = (Option::arbitrary(u)?, u32::arbitrary(u)?);
    let group = Option::<&str>::arbitrary(u)?.map(Arc::from);
    let (ended, until) = (Option::arbitrary(u)?, Option::arbitrary(u)?);
    // One number has seven fields, so that older inputs keep their meaning.
    let number = u32::arbitrary(u)?;
    Ok(More {
        max_attempts,
        forgiven,
        group,
        ended,
        until,
        notes: number % 4,
        key: Option::<&str>::arbitrary(u)?.map(Arc::from),
        open_parents: number >> 16,
        on_parent: (number >> 8) % (More::BURY_ON_PARENT + 1),
        not_before: (number & 4 != 0).then_some(u64::from(number) << 20),
        ttl_from: (number & 8 != 0).then_some(u64::from(number)),
        tags: (0..number >> 4 & 3).map(|tag| format!("{tag}").into()).collect(),
        history: (number & 128 != 0)
            .then(|| StoredEntries { total: u64::from(number) + 5, count: 1 + number % 5 }),
        since: (number & 16 != 0).then_some(u64::from(number)),
        spawned_by: (number & 16 != 0).then_some((number.into(), 1, u64::from(number) << 20)),
        recur: (number & 32 != 0).then(|| Arc::new(recur(number))),
        has_steps: number % 251 % 9 > 4,
        max_runtime: (number % 251 % 7 > 4).then_some(u64::from(number) << 20),
        done_parents: number >> 20,
        failed_parents: number >> 24,
        traceparent: traceparent(number),
    })
}

fn traceparent(number: u32) -> Option<Traceparent> {
    let is_traced = number % 251 % 5 > 2;
    let text = is_traced.then(|| format!("00-{number:032x}-{number:016x}-{:02x}", number % 4));
    text.and_then(|text| Traceparent::parse(&text))
}

/// A schedule.
fn recur(number: u32) -> Recur {
    let time = u64::from(number) << 10;
    let (expression, zone) = ("0 9 * * *".into(), "UTC".into());
    let is_cron = number & 64 != 0;
    Recur {
        rule: if is_cron {
            RecurRule::Cron { expression, zone }
        } else {
            RecurRule::Every(time + 1)
        },
        next: time,
        fired: (number & 128 != 0).then_some(time),
        last: None,
        runs: number.into(),
        skipped: 0,
        times: None,
        missed: Recur::ALL,
        within: Some(time),
        skips_overlap: is_cron,
        priority: Some(number),
        ttl: None,
        ttr: None,
        delay: 0,
        tags: (0..number >> 8 & 3).map(|tag| format!("{tag}").into()).collect(),
        starting: is_cron.then_some(time),
        covered: (number & 128 != 0).then_some(time),
    }
}

/// Replaces or adds a row in the catalog of a valid store, and exercises the store.
fn catalog(bytes: &[u8], checksum: bool, oracle: Oracle) {
    let Some((which, rest)) = bytes.split_first() else { return };
    let disk = Disk::new(HISTORY.images[4].clone());
    let mut keys: Vec<Vec<u8>> =
        edits::read(&disk, Table::Meta).into_iter().map(|(key, _)| key).collect();
    keys.push(b"tube/one more".to_vec());
    keys.push([&b"count/"[..], &99_u32.to_be_bytes()].concat());
    keys.push([&b"dying/"[..], &rest[..rest.len().min(4)]].concat());
    let key = keys[usize::from(*which) % keys.len()].clone();
    let value = if checksum { framed_row(rest) } else { rest.to_vec() };
    edits::write(&disk, Table::Meta, vec![(key, Some(value))]);
    panics::allow_engine_panics(|| exercise_store(&disk, oracle));
}
