//! `verify_rows` finds a schedule that lacks what it needs, and a task that has one without being
//! recurring.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "common/recur.rs"]
mod recur;

use std::ops::ControlFlow;

use common::{Memory, ledger, plain_header};
use recur::plain_recur;
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, NEVER, RecurRule, Shelf, TubeTotals, verify_rows,
};

const SPACE: u32 = 7;

/// A schedule that is due at this time on the clock of its rule.
fn schedule(rule: RecurRule, due: u64) -> Header {
    let is_cron = matches!(rule, RecurRule::Cron { .. });
    let mut header = Header { ready_at: if is_cron { 0 } else { due }, ..plain_header() };
    header.edit_more(|more| {
        more.key = Some("report".into());
        more.not_before = is_cron.then_some(due);
        more.recur = Some(plain_recur(rule).into());
    });
    header
}

fn findings(shelf: Shelf, header: &Header) -> Vec<String> {
    let (mut rows, mut counts) = (Memory::default(), Counts::default());
    let mut head_cache = HeadCache::default();
    let mut ledger = ledger(&mut rows, (SPACE, false), &mut counts, &mut head_cache);
    ledger.insert(1, shelf, header, &Body::new(Vec::new())).unwrap();
    let (name, space) = ("work".into(), SPACE);
    let tubes = [TubeTotals { name, space, sub_queued: false, counts }];
    verify_rows(&mut rows, &tubes, &[], &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn schedule_without_its_rule_key_or_time_is_found() {
    let cron = || RecurRule::Cron { expression: "0 9 * * *".into(), zone: "UTC".into() };
    let every = || RecurRule::Every(60);
    let recurring = Shelf::Recurring;
    let finding = |what: &str| vec![format!("tube \"work\": {what}")];
    for rule in [every, cron] as [fn() -> RecurRule; 2] {
        // A run that did not fit is due later.
        for due in [300, 301] {
            assert_eq!(findings(recurring, &schedule(rule(), due)), [""; 0]);
        }
        for due in [299, NEVER] {
            let found = findings(recurring, &schedule(rule(), due));
            assert_eq!(found, finding("schedule 1 is not due at its next run"));
        }
        let mut nameless = schedule(rule(), 300);
        nameless.edit_more(|more| more.key = None);
        assert_eq!(findings(recurring, &nameless), finding("schedule 1 has no key"));
        let ready = Header { ready_at: 0, ..schedule(rule(), 300) };
        let expected = finding("task 1 has a schedule, but it is not recurring");
        assert_eq!(findings(Shelf::Ready, &ready), expected);
    }
    let plain = Header { ready_at: 300, ..plain_header() };
    let expected = finding("recurring task 1 has no schedule");
    assert_eq!(findings(recurring, &plain), expected);
}
