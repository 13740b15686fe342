//! The rows of the table `days`: what `verify` finds in them, and their purge. And the days of failures.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::ops::ControlFlow;

use common::{Memory, ledger, plain_header};
use tubewell_drivers::{
    Body, Counts, DayCounts, FailureTimes, HeadCache, RecordError, Rows, Shelf, Table, TubeTotals,
    keys, purge_slice, verify_rows,
};

const SPACE: u32 = 7;
const DAY: u32 = 20_780;

fn counts() -> DayCounts {
    let mut counts = DayCounts { puts: 3, takes: 2, acks: 1, ..DayCounts::default() };
    counts.wait.add(5);
    counts.wait.add(70_000);
    counts.run.add(9);
    counts
}

fn findings(rows: &mut Memory) -> Vec<String> {
    let tube = TubeTotals {
        name: "mail".into(),
        space: SPACE,
        sub_queued: false,
        counts: Counts::default(),
    };
    verify_rows(rows, &[tube], &[9], &mut |_| ControlFlow::Continue(())).unwrap()
}

/// The findings with a row of `days` at this key.
fn with_row(key: Vec<u8>, row: &[u8]) -> Vec<String> {
    let mut rows = Memory::default();
    rows.insert(Table::Days, key, row.into());
    findings(&mut rows)
}

#[test]
fn rows_that_agree_have_no_findings() {
    let row = counts().to_row(SPACE, DAY);
    assert_eq!(with_row(keys::day(SPACE, DAY), &row), [""; 0]);
    // The rows of a space that is purged are skipped.
    assert_eq!(with_row(keys::day(9, DAY), &row), [""; 0]);
}

#[test]
fn damaged_moved_or_left_over_row_is_found() {
    let row = counts().to_row(SPACE, DAY);
    let unreadable =
        format!("tube \"mail\": the numbers of day {DAY} (wrong checksum) cannot be read");
    for at in 0..row.len() {
        let mut bad = row.to_vec();
        bad[at] ^= 0x10;
        assert_eq!(with_row(keys::day(SPACE, DAY), &bad), [&*unreadable], "byte {at}");
    }
    assert_eq!(with_row(keys::day(SPACE, DAY + 1), &row).len(), 1);
    let left_over = ["rows of no tube (space 8): a row of \"days\" is left over"];
    assert_eq!(with_row(keys::day(8, DAY), &row), left_over);
    let bad_key = ["tube \"mail\": a key of \"days\" cannot be read"];
    assert_eq!(with_row([keys::day(SPACE, DAY), vec![0]].concat(), &row), bad_key);
    assert_eq!(with_row(vec![0, 0], &row), ["a key of \"days\" is too short"]);
}

#[test]
fn numbers_that_do_not_add_up_are_found() {
    let mut bad = counts();
    bad.wait.count += 1;
    bad.acks += 1;
    let found = with_row(keys::day(SPACE, DAY), &bad.to_row(SPACE, DAY));
    let expected = [
        "the bins of its waits add up to 2, not to 3",
        "it has 2 takes and 3 waits",
        "it has 2 acks and 1 runs",
    ];
    let expected = expected.map(|what| format!("tube \"mail\": the numbers of day {DAY}: {what}"));
    assert_eq!(found, expected);
}

#[test]
fn purge_removes_the_rows_of_its_space_only() {
    let mut rows = Memory::default();
    for (space, day) in [(SPACE, DAY), (SPACE, DAY + 1), (8, DAY)] {
        rows.insert(Table::Days, keys::day(space, day), counts().to_row(space, day));
    }
    assert_eq!(purge_slice(&mut rows, SPACE, 100), Ok(true));
    let left: Vec<_> = rows.0.keys().cloned().collect();
    assert_eq!(left, [(Table::Days, keys::day(8, DAY))]);
}

#[test]
fn failures_between_two_times_are_found_in_steps() {
    let mut rows = Memory::default();
    let (mut counts, mut head_cache) = (Counts::default(), HeadCache::default());
    let mut ledger = ledger(&mut rows, (SPACE, false), &mut counts, &mut head_cache);
    let mut expected = Vec::new();
    for id in 0..90_u64 {
        let (ended, group) =
            (id * 7 % 50, ["a", "aa", "timeout"][usize::try_from(id % 3).unwrap()]);
        let mut header = plain_header();
        header.edit_more(|more| {
            (more.ended, more.group) = (Some(ended), Some(group.into()));
        });
        ledger.insert(id, Shelf::Buried, &header, &Body::new(Vec::new())).unwrap();
        expected.push(ended);
    }
    expected.sort_unstable();
    for (from, to) in [(0, 50), (10, 20), (0, 1), (49, 99), (50, 99), (20, 10), (10, 10)] {
        for limit in [1, 2, 3, 7, 1000] {
            let (mut found, mut next) = (Vec::new(), Some(Vec::new()));
            while let Some(key) = next {
                let step: Result<_, RecordError> = ledger.failed_between((from, to), &key, limit);
                let FailureTimes { times, next: following } = step.unwrap();
                assert!(times.len() <= limit);
                found.extend(times);
                next = following;
            }
            found.sort_unstable();
            let wanted: Vec<u64> =
                expected.iter().copied().filter(|it| (from..to).contains(it)).collect();
            assert_eq!(found, wanted, "{from}..{to} by {limit}");
        }
    }
}
