//! A task that moves from one ledger to another has the same rows as if it had been put there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[allow(dead_code, reason = "other test targets use the rest")]
mod common;

use std::ops::ControlFlow;

use common::{Memory, ledger, plain_header};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use tubewell_drivers::{
    Body, Counts, HeadCache, Header, INLINE_MAX, Ledger, More, NEVER, Note, Rows, Shelf, StepRow,
    Table, TubeTotals, encode_step, keys, verify_rows,
};

/// The spaces of two tubes.
const SPACES: [u32; 2] = [7, 8];

#[derive(Debug)]
struct Tube {
    space: u32,
    sub_queued: bool,
    counts: Counts,
    head_cache: HeadCache,
}

impl Tube {
    fn new(space: u32, sub_queued: bool) -> Tube {
        Tube { space, sub_queued, counts: Counts::default(), head_cache: HeadCache::default() }
    }

    fn ledger<'a>(&'a mut self, rows: &'a mut Memory) -> Ledger<'a, Memory> {
        ledger(rows, (self.space, self.sub_queued), &mut self.counts, &mut self.head_cache)
    }

    fn totals(&self) -> TubeTotals {
        let Tube { space, sub_queued, counts, .. } = *self;
        TubeTotals { name: space.to_string().into(), space, sub_queued, counts }
    }
}

/// A task: its shelf, header, body, and the bytes of its last failure. The header says how many steps
/// it has.
type Task = (Shelf, Header, Vec<u8>, Option<Vec<u8>>);

fn task() -> impl Strategy<Value = Task> {
    (
        select(vec![Shelf::Ready, Shelf::Delayed, Shelf::Buried]),
        0..3_u64,
        select(vec!["", "a", "b"]),
        option::of(1..9_u64),
        select(vec![0, 9, INLINE_MAX, INLINE_MAX + 1]),
        (option::of(vec(any::<u8>(), 0..9)), any::<[bool; 2]>()),
    )
        .prop_map(
            |(shelf, order, sub, expires_at, size, (failure, [is_in_group, has_steps]))| {
                let body = vec![7; size];
                let mut header = Header {
                    order,
                    expires_at: expires_at.unwrap_or(NEVER),
                    ready_at: if shelf == Shelf::Delayed { 5 } else { 0 },
                    takes: 1,
                    size: body.len() as u64,
                    body_checksum: Header::checksum_of(&body),
                    sub: sub.into(),
                    ..plain_header()
                };
                if failure.is_some() {
                    header.edit_more(|more| {
                        more.notes = More::FAILURE_NOTE;
                        if is_in_group && shelf == Shelf::Buried {
                            (more.group, more.ended) = (Some("crash".into()), Some(3));
                        }
                    });
                }
                header.edit_more(|more| more.has_steps = has_steps);
                (shelf, header, body, failure)
            },
        )
}

fn put(ledger: &mut Ledger<'_, Memory>, id: u64, (shelf, header, body, failure): &Task) {
    ledger.insert(id, *shelf, header, &Body::new(body.clone())).unwrap();
    if let Some(failure) = failure {
        ledger.set_note(id, false, Note::Failure, failure);
    }
    for number in (0..7).filter(|_| header.has_steps()) {
        let name = format!("step {number}");
        let row = StepRow { number, kind: 0, value: &vec![7; number.into()] };
        ledger.write_step(id, &name, encode_step(id, &name, row));
    }
}

proptest! {
    #[test]
    fn moved_tasks_have_the_rows_of_tasks_that_were_put(
        tasks in vec((task(), any::<bool>()), 1..12),
        sub_queued in any::<[bool; 2]>(),
    ) {
        let mut tasks = tasks;
        for ((_, header, ..), _) in &mut tasks {
            if sub_queued != [true; 2] {
                header.sub = "".into();
            }
        }
        let mut rows = Memory::default();
        let [mut from, mut to] = [0, 1].map(|nth| Tube::new(SPACES[nth], sub_queued[nth]));
        for (id, (task, _)) in (0..).zip(&tasks) {
            put(&mut from.ledger(&mut rows), id, task);
        }
        for (id, _) in (0..).zip(&tasks).filter(|(_, (_, moves))| *moves) {
            let (found, contents) = {
                let mut ledger = from.ledger(&mut rows);
                let found = ledger.find(id).unwrap().unwrap();
                let contents = ledger.contents(id, &found).unwrap();
                ledger.remove(id, found.shelf, &found.record.header).unwrap();
                (found, contents)
            };
            let header = &found.record.header;
            to.ledger(&mut rows).insert_with(id, found.shelf, header, &contents).unwrap();
        }
        let totals = [from.totals(), to.totals()];
        prop_assert_eq!(verify_rows(&mut rows, &totals, &[], &mut |_| ControlFlow::Continue(())).unwrap(), [""; 0]);

        let mut expected = Memory::default();
        let mut tubes = [0, 1].map(|nth| Tube::new(SPACES[nth], sub_queued[nth]));
        for (id, (task, moves)) in (0..).zip(&tasks) {
            put(&mut tubes[usize::from(*moves)].ledger(&mut expected), id, task);
        }
        prop_assert_eq!(rows, expected);
        prop_assert_eq!(totals.map(|it| it.counts), tubes.map(|tube| tube.counts));
    }
}

#[test]
fn contents_of_a_damaged_task_are_refused() {
    let header =
        Header { size: 2000, body_checksum: Header::checksum_of(&[7; 2000]), ..plain_header() };
    let noted = {
        let mut header = header.clone();
        header.edit_more(|more| more.notes = More::FAILURE_NOTE);
        header
    };
    let note = keys::note(SPACES[0], 1, Note::Failure);
    for (table, key, what) in [
        (Table::Bodies, keys::by_id(SPACES[0], 1), "its body"),
        (Table::Notes, note, "its failure note"),
    ] {
        for is_missing in [true, false] {
            let (mut rows, mut tube) = (Memory::default(), Tube::new(SPACES[0], false));
            let mut ledger = tube.ledger(&mut rows);
            put(&mut ledger, 1, &(Shelf::Ready, noted.clone(), vec![7; 2000], Some(vec![1])));
            let found = ledger.find(1).unwrap().unwrap();
            assert!(ledger.contents(1, &found).is_ok());
            if is_missing {
                ledger.rows.remove(table, key.clone());
            } else {
                ledger.rows.replace(table, key.clone(), [0; 20].as_slice().into());
            }
            let refused = ledger.contents(1, &found).unwrap_err().to_string();
            assert!(refused.contains(what), "{refused}");
        }
    }
}
