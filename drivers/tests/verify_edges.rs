//! `verify_rows` finds every edge between a parent and a child that is damaged, and describes it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use std::ops::ControlFlow;
use std::sync::Arc;

use common::{Memory, ledger, plain_header};
use tubewell_drivers::{
    Body, Counts, HeadCache, Ledger, Rows, Shelf, Table, TubeTotals, Value, children, edge, keys,
    parents, remove_edge, verify_rows,
};

const WORK: u32 = 7;
const NEXT: u32 = 8;
/// A space whose rows are being removed.
const PURGED: u32 = 9;

/// The parents, with their tubes and shelves.
const PARENTS: [(u64, u32, Shelf); 3] =
    [(1, WORK, Shelf::Ready), (2, NEXT, Shelf::Ready), (3, WORK, Shelf::Buried)];
/// The children, with their tubes, shelves and parents.
const CHILDREN: [(u64, u32, Shelf, &[u64]); 3] = [
    (11, WORK, Shelf::Blocked, &[1]),
    (12, NEXT, Shelf::Blocked, &[1, 2]),
    (13, NEXT, Shelf::Buried, &[3]),
];
/// A task that is done and kept.
const DONE: u64 = 4;

/// The rows of two tubes whose tasks wait for each other.
#[derive(Clone)]
struct Store {
    rows: Memory,
    tubes: Vec<TubeTotals>,
}

impl Store {
    fn new() -> Store {
        let tube = |(name, space)| {
            let (name, counts) = (Arc::from(name), Counts::default());
            TubeTotals { name, space, sub_queued: space == NEXT, counts }
        };
        let tubes = [("work", WORK), ("next", NEXT)].map(tube).to_vec();
        let mut store = Store { rows: Memory::default(), tubes };
        store.insert(DONE, WORK, Shelf::Done, 0);
        for (id, space, shelf) in PARENTS {
            store.insert(id, space, shelf, 0);
        }
        for (id, space, shelf, above) in CHILDREN {
            store.insert(id, space, shelf, u32::try_from(above.len()).unwrap());
            for parent in above {
                store.add_edge((id, space), (*parent, space_of(*parent)));
            }
        }
        store
    }

    /// Edits the ledger of a tube, and counts the edges that were added.
    fn edit(&mut self, space: u32, edit: impl FnOnce(&mut Ledger<'_, Memory>)) {
        let tube = self.tubes.iter_mut().find(|tube| tube.space == space).unwrap();
        let mut head_cache = HeadCache::default();
        let of = (space, tube.sub_queued);
        let mut ledger = ledger(&mut self.rows, of, &mut tube.counts, &mut head_cache);
        edit(&mut ledger);
        for (space, change) in ledger.edge_changes {
            let tube = self.tubes.iter_mut().find(|tube| tube.space == space).unwrap();
            tube.counts.edges = tube.counts.edges.saturating_add_signed(change);
        }
    }

    fn insert(&mut self, id: u64, space: u32, shelf: Shelf, open_parents: u32) {
        let mut header = plain_header();
        header.edit_more(|more| {
            more.open_parents = open_parents;
            more.ended = (shelf == Shelf::Done).then_some(5);
        });
        self.edit(space, |ledger| {
            ledger.insert(id, shelf, &header, &Body::new(Vec::new())).unwrap();
        });
    }

    fn add_edge(&mut self, (child, space): (u64, u32), parent: (u64, u32)) {
        self.edit(space, |ledger| ledger.add_edge(child, parent));
    }

    fn parents_of(&mut self, child: u64) -> usize {
        parents(&mut self.rows, child, None, 9).unwrap().len()
    }

    fn findings(&self) -> Vec<String> {
        verify_rows(&mut self.rows.clone(), &self.tubes, &[PURGED], &mut |_| {
            ControlFlow::Continue(())
        })
        .unwrap()
    }

    /// The findings after a change of the rows.
    fn findings_after(&self, change: impl FnOnce(&mut Memory)) -> Vec<String> {
        let mut store = self.clone();
        change(&mut store.rows);
        store.findings()
    }
}

fn space_of(parent: u64) -> u32 {
    PARENTS.iter().find(|(id, ..)| *id == parent).unwrap().1
}

/// Each edge: the parent, the child, and the spaces of their tubes.
fn edges() -> impl Iterator<Item = ((u64, u32), (u64, u32))> {
    CHILDREN.into_iter().flat_map(|(child, space, _, above)| {
        above.iter().map(move |parent| ((*parent, space_of(*parent)), (child, space)))
    })
}

fn name(space: u32) -> &'static str {
    if space == WORK { "work" } else { "next" }
}

fn value(space: u32) -> Value {
    space.to_be_bytes().as_slice().into()
}

#[test]
fn intact_edges_have_no_findings() {
    assert_eq!(Store::new().findings(), [""; 0]);
    assert_eq!(edges().count(), 4);
}

#[test]
fn missing_row_from_a_parent_to_its_child_is_found() {
    for ((parent, space), (child, _)) in edges() {
        let key = keys::child_edge(parent, child);
        let found = Store::new().findings_after(|rows| rows.remove(Table::Index, key));
        let name = name(space);
        assert_eq!(
            found,
            [format!("tube {name:?}: task {parent} has no edge to its child {child}")]
        );
    }
}

#[test]
fn missing_row_from_a_child_to_its_parent_is_found() {
    for ((parent, parent_space), (child, space)) in edges() {
        let key = keys::parent_edge(child, parent);
        let found = Store::new().findings_after(|rows| rows.remove(Table::Index, key));
        let (open, name) = (Store::new().parents_of(child), name(space));
        let expected =
            format!("tube {name:?}: task {child} has {open} open parents and {} edges", open - 1);
        assert!(found.contains(&expected), "{found:?}");
        let expected = format!("tube {name:?}: task {child} has no edge from its parent {parent}");
        assert!(found.contains(&expected), "{found:?}");
        // And the count of edges.
        assert_eq!(found.len(), 3, "{found:?} of {parent_space}");
    }
}

#[test]
fn edge_that_its_task_does_not_count_is_found() {
    for ((parent, _), (child, space)) in edges() {
        let found = Store::new().findings_after(|rows| remove_edge(rows, child, parent));
        let expected = format!("tube {:?}: task {child} has ", name(space));
        assert!(found.iter().any(|finding| finding.starts_with(&expected)), "{found:?}");
    }
    // A task that does not wait has a parent.
    let mut store = Store::new();
    store.add_edge((2, NEXT), (1, WORK));
    assert_eq!(store.findings(), ["tube \"next\": a row of \"index\" does not match task 2"]);
}

#[test]
fn task_on_the_wrong_shelf_for_its_parents_is_found() {
    for shelf in [Shelf::Ready, Shelf::Delayed, Shelf::Done] {
        let mut store = Store::new();
        store.insert(20, WORK, shelf, 1);
        store.add_edge((20, WORK), (1, WORK));
        let found = store.findings();
        let expected = format!("tube \"work\": task 20 is {shelf:?} with 1 open parents");
        assert!(found.contains(&expected), "{found:?}");
    }
    let mut store = Store::new();
    store.insert(20, WORK, Shelf::Blocked, 0);
    let expected = "tube \"work\": task 20 is Blocked with 0 open parents";
    assert!(store.findings().iter().any(|finding| finding == expected), "{:?}", store.findings());
}

#[test]
fn edge_of_a_task_that_is_not_there_is_found() {
    // From a parent that was never put, from one of another tube, and from one that is done.
    for (parent, space) in [(77, WORK), (1, NEXT), (DONE, WORK)] {
        let mut store = Store::new();
        store.insert(20, WORK, Shelf::Blocked, 1);
        store.add_edge((20, WORK), (parent, space));
        let expected =
            format!("tube {:?}: task 20 waits for task {parent}, which is over", name(space));
        assert_eq!(store.findings(), [expected]);
        // Unless its children are told of that.
        let mark = keys::freed(parent);
        assert_eq!(store.findings_after(|rows| rows.insert(Table::Meta, mark, value(1))), [""; 0]);
    }
    // To a child that was never put, and to one of another tube.
    for (child, space) in [(77, WORK), (13, WORK)] {
        let mut store = Store::new();
        store.add_edge((child, space), (1, WORK));
        let expected = format!("tube \"work\": a row of \"index\" does not match task {child}");
        assert!(store.findings().contains(&expected), "{:?}", store.findings());
    }
}

#[test]
fn edge_that_names_another_tube_is_found() {
    for ((parent, parent_space), (child, space)) in edges() {
        let other = |space: u32| if space == WORK { NEXT } else { WORK };
        let keys = [keys::child_edge(parent, child), keys::parent_edge(child, parent)];
        for (key, of) in keys.into_iter().zip([space, parent_space]) {
            for wrong in [other(of), 77] {
                let found = Store::new().findings_after(|rows| {
                    rows.replace(Table::Index, key.clone(), value(wrong));
                });
                assert!(!found.is_empty(), "{parent} {child}");
            }
        }
    }
}

/// Rows of a tube that is purged are removed by a chore, with those of other tubes that lead there.
#[test]
fn edges_to_a_purged_tube_are_not_findings() {
    let mut store = Store::new();
    let keys = [keys::child_edge(1, 99), keys::parent_edge(99, 1)];
    for key in keys {
        store.rows.insert(Table::Index, key, value(PURGED));
    }
    assert_eq!(store.findings(), [""; 0]);
}

/// A value of any length, and a key of any length with the first byte of an edge.
#[test]
fn unreadable_edges_are_found_and_refused() {
    for (parent, child) in edges().map(|((parent, _), (child, _))| (parent, child)) {
        for key in [keys::child_edge(parent, child), keys::parent_edge(child, parent)] {
            for len in (0..9).filter(|len| *len != 4) {
                let value = vec![1; len].into();
                let found = Store::new().findings_after(|rows| {
                    rows.replace(Table::Index, key.clone(), value);
                });
                assert!(found.iter().any(|it| it.contains("cannot be read")), "{found:?}");
            }
        }
        let mut rows = Store::new().rows;
        rows.replace(Table::Index, keys::child_edge(parent, child), [1][..].into());
        rows.replace(Table::Index, keys::parent_edge(child, parent), [1][..].into());
        assert!(children(&mut rows, parent, None, 9).is_err());
        assert!(parents(&mut rows, child, None, 9).is_err());
        assert!(edge(&mut rows, child, parent).is_err());
    }
    for kind in [keys::CHILD, keys::PARENT] {
        for len in (0..30).filter(|len| *len != 16) {
            let key = [&[kind][..], &vec![0; len]].concat();
            let found = Store::new().findings_after(|rows| {
                rows.insert(Table::Index, key, value(WORK));
            });
            assert!(!found.is_empty(), "{len} bytes");
        }
    }
}
