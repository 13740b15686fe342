//! The rows of the tokens of puts: what is remembered, removed, purged and verified.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "other test targets use the rest")]
mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{Memory, ledger};
use tubewell_drivers::{
    Counts, HeadCache, NEVER, RememberedPut, Rows, Table, TubeTotals, keys, purge_slice,
    put_of_token, remove_old_tokens, verify_rows,
};

const SPACE: u32 = 7;
const OTHER: u32 = 8;

/// Remembers a put as the store does.
fn remember(rows: &mut Memory, space: u32, token: &str, put: RememberedPut) {
    let before = put_of_token(rows, space, token).unwrap();
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    ledger(rows, (space, false), &mut counts, &mut head_cache).remember_put(token, before, put);
}

/// Tokens in two spaces, which are remembered until the times 0 to 9.
fn ten() -> Memory {
    let mut rows = Memory::default();
    for n in 0..10 {
        let space = if n % 2 == 0 { SPACE } else { OTHER };
        remember(&mut rows, space, &format!("t{n}"), RememberedPut { until: n, id: 100 + n });
    }
    rows
}

fn findings(rows: &Memory, purges: &[u32]) -> Vec<String> {
    let tubes = [("seven", SPACE), ("eight", OTHER)].map(|(name, space)| TubeTotals {
        name: Arc::from(name),
        space,
        sub_queued: false,
        counts: Counts::default(),
    });
    let tubes = tubes.into_iter().filter(|tube| !purges.contains(&tube.space));
    let tubes: Vec<TubeTotals> = tubes.collect();
    verify_rows(&mut rows.clone(), &tubes, purges, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn token_is_found_in_its_space_only() {
    let mut rows = ten();
    let put = RememberedPut { until: 4, id: 104 };
    assert_eq!(put_of_token(&mut rows, SPACE, "t4"), Ok(Some(put)));
    assert!(put.counts_at(3) && !put.counts_at(4));
    assert!(RememberedPut { until: NEVER, id: 0 }.counts_at(NEVER - 1));
    assert_eq!(put_of_token(&mut rows, OTHER, "t4"), Ok(None));
    assert_eq!(put_of_token(&mut rows, SPACE, "t"), Ok(None));
    // A later put has one row by time, too.
    let put = RememberedPut { until: 20, id: 200 };
    remember(&mut rows, SPACE, "t4", put);
    assert_eq!(put_of_token(&mut rows, SPACE, "t4"), Ok(Some(put)));
    assert_eq!((rows.0.len(), findings(&rows, &[])), (20, vec![]));
}

#[test]
fn old_tokens_are_removed_from_the_front_a_few_at_a_time() {
    let mut rows = ten();
    let (mut from, mut left) = (Vec::new(), Vec::new());
    // Those until the times 0 to 5 are over.
    for _ in 0..5 {
        let old = remove_old_tokens(&mut rows, &from, 5, 2).unwrap();
        assert!(old.next >= from);
        from = old.next;
        left.push((rows.0.len(), old.earliest));
        assert_eq!(findings(&rows, &[]), [""; 0]);
    }
    assert_eq!(left, [(16, 2), (12, 4), (8, 6), (8, 6), (8, 6)]);
    let old = remove_old_tokens(&mut rows, &from, NEVER, 9).unwrap();
    assert_eq!((rows.0.len(), old.earliest), (0, NEVER));
    assert_eq!(remove_old_tokens(&mut rows, &[], NEVER, 2).unwrap().earliest, NEVER);
}

/// A row by time that is left over does not take a later put with it.
#[test]
fn stray_rows_by_time_are_removed_alone() {
    let mut rows = ten();
    rows.insert(Table::Index, keys::token_by_time(1, SPACE, "t4"), [][..].into());
    rows.insert(Table::Index, keys::token_by_time(1, SPACE, "none"), [][..].into());
    rows.insert(Table::Index, b"O short".to_vec(), [][..].into());
    assert_eq!(findings(&rows, &[]).len(), 3);
    let old = remove_old_tokens(&mut rows, &[], 1, 9).unwrap();
    assert_eq!((old.earliest, rows.0.len()), (2, 17));
    assert!(put_of_token(&mut rows, SPACE, "t4").unwrap().is_some());
}

#[test]
fn damaged_row_is_not_returned_and_is_removed_when_it_is_old() {
    let intact = ten();
    let key = keys::token(SPACE, "t4");
    let sound = intact.0[&(Table::Index, key.clone())].to_vec();
    let other = intact.0[&(Table::Index, keys::token(SPACE, "t6"))].to_vec();
    let flipped = (0..sound.len()).map(|at| {
        let mut damaged = sound.clone();
        damaged[at] ^= 1;
        damaged
    });
    for damaged in flipped.chain([other, sound[..23].to_vec(), Vec::new()]) {
        let mut rows = intact.clone();
        rows.replace(Table::Index, key.clone(), damaged.into());
        assert!(put_of_token(&mut rows, SPACE, "t4").is_err());
        assert_eq!(
            findings(&rows, &[]),
            ["tube \"seven\": the row of the token \"t4\" is damaged"]
        );
        remove_old_tokens(&mut rows, &[], 9, 10).unwrap();
        assert!(rows.0.is_empty());
    }
}

#[test]
fn missing_rows_are_found() {
    let intact = ten();
    for (table, key) in intact.0.keys() {
        let mut rows = intact.clone();
        rows.remove(*table, key.clone());
        let found = findings(&rows, &[]);
        assert!(found.len() == 1 && found[0].starts_with("tube \""), "{found:?}");
    }
    let mut rows = intact;
    for key in [b"o\0".to_vec(), b"O\0".to_vec()] {
        rows.insert(Table::Index, key, [][..].into());
    }
    assert_eq!(findings(&rows, &[]), ["the row of a token cannot be read"; 2]);
}

#[test]
fn purge_removes_both_rows_of_the_tokens_of_its_space() {
    let mut rows = ten();
    let mut slices = 0;
    while !purge_slice(&mut rows, SPACE, 2).unwrap() {
        slices += 1;
        assert_eq!(findings(&rows, &[SPACE]), [""; 0]);
    }
    assert_eq!((slices, rows.0.len()), (2, 10));
    assert_eq!(findings(&rows, &[]), [""; 0]);
    assert!(put_of_token(&mut rows, OTHER, "t3").unwrap().is_some());
    // One that was removed since, as it is old, and a damaged one.
    rows.remove(Table::Index, keys::token_by_time(1, OTHER, "t1"));
    rows.replace(Table::Index, keys::token(OTHER, "t3"), [0; 24][..].into());
    assert!(purge_slice(&mut rows, OTHER, 100).unwrap());
    let left: Vec<&Vec<u8>> = rows.0.keys().map(|(_, key)| key).collect();
    assert_eq!(left, [&keys::token_by_time(3, OTHER, "t3")]);
}
