//! Rows beside the records: the numbers of a day, entries of a history, steps. Bytes decode or are refused,
//! and an encoded row decodes to itself, and only at its own place.

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell_drivers::{
    DayCounts, SPREAD_BINS, Spread, StepRow, Value, check_entry, check_step, encode_entry,
    encode_step,
};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::oracle::Oracle;

const SPACE: u32 = 3;
const DAY: u32 = 20_000;
const ID: u64 = 7;

pub(crate) fn check(bytes: &[u8], oracle: Oracle) {
    let Some((kind, rest)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => day(rest),
        1 => day(&framed_day(rest)),
        2 => drop(encoded_day(&mut Unstructured::new(rest), oracle)),
        _ => entry_and_step(rest),
    }
}

/// The bytes with the version and the checksum of a valid day.
fn framed_day(rest: &[u8]) -> Vec<u8> {
    let seed = u64::from(SPACE) << 32 | u64::from(DAY);
    let seed = seed ^ 1 << 56;
    [&[1][..], &xxh3_64_with_seed(rest, seed).to_be_bytes(), rest].concat()
}

/// A number has several encodings, so encoding a decoded day may give other bytes.
fn day(bytes: &[u8]) {
    let Ok(day) = DayCounts::from_row(SPACE, DAY, bytes) else { return };
    let again = day.to_row(SPACE, DAY);
    assert_eq!(DayCounts::from_row(SPACE, DAY, &again).unwrap(), day);
    let mut twice = day.clone();
    twice.absorb(&day);
    for (spread, double) in [(&day.wait, &twice.wait), (&day.run, &twice.run)] {
        assert_eq!(double.count, spread.count.saturating_mul(2));
        assert_eq!(double.max, spread.max);
        assert!(spread.bins().all(|(bin, count)| bin < SPREAD_BINS && count > 0));
    }
}

fn encoded_day(u: &mut Unstructured<'_>, oracle: Oracle) -> Result<()> {
    let mut day = DayCounts {
        puts: u64::arbitrary(u)?,
        takes: u64::arbitrary(u)?,
        lost: u64::arbitrary(u)?,
        ..DayCounts::default()
    };
    let flipped = u32::arbitrary(u)?;
    while let Ok(micros) = u64::arbitrary(u)
        && !u.is_empty()
    {
        add(if micros % 2 == 0 { &mut day.wait } else { &mut day.run }, micros);
    }
    let row = day.to_row(SPACE, DAY);
    let mut decoded = DayCounts::from_row(SPACE, DAY, &row).unwrap();
    if oracle.is_faulty() {
        decoded.acks ^= 1;
    }
    assert_eq!(decoded, day);
    DayCounts::from_row(SPACE + 1, DAY, &row).expect_err("a day of another tube");
    DayCounts::from_row(SPACE, DAY + 1, &row).expect_err("another day");
    DayCounts::from_row(SPACE, DAY, &flip(&row, flipped)).expect_err("a flipped bit");
    Ok(())
}

/// Adds a duration, and checks in which bin it is counted.
fn add(spread: &mut Spread, micros: u64) {
    let before: Vec<_> = spread.bins().collect();
    spread.add(micros);
    let bin = spread.bins().find(|bin| !before.contains(bin)).map(|(bin, _)| bin).unwrap();
    let (from, to) = Spread::bounds(bin);
    assert!(from <= micros && to.is_none_or(|to| micros < to), "{micros} in bin {bin}");
}

fn entry_and_step(bytes: &[u8]) {
    let row: Value = bytes.into();
    let _ = check_entry(ID, 1, Some(&row));
    let _ = check_step(ID, "step", Some(&row));
    let (Some((head, rest)), flipped) = (bytes.split_first(), bytes.len()) else { return };
    let flipped = u32::from(*head) + u32::try_from(flipped).unwrap();

    let entry = encode_entry(ID, 1, rest);
    assert_eq!(check_entry(ID, 1, Some(&entry)), Ok(rest));
    check_entry(ID + 1, 1, Some(&entry)).expect_err("an entry of another task");
    check_entry(ID, 2, Some(&entry)).expect_err("another entry");
    check_entry(ID, 1, Some(&flip(&entry, flipped))).expect_err("a flipped bit");

    let step = StepRow { number: u16::from(*head) << 4, kind: head % 4, value: rest };
    let row = encode_step(ID, "step", step);
    assert_eq!(check_step(ID, "step", Some(&row)), Ok(step));
    check_step(ID + 1, "step", Some(&row)).expect_err("a step of another task");
    check_step(ID, "other", Some(&row)).expect_err("another step");
    check_step(ID, "step", Some(&flip(&row, flipped))).expect_err("a flipped bit");
}

/// The row with one bit changed.
fn flip(row: &[u8], at: u32) -> Value {
    let mut row = row.to_vec();
    let at = at as usize;
    let length = row.len();
    row[at / 8 % length] ^= 1 << (at % 8);
    row.into()
}
