//! Keys sort like the values that they encode, and the range of a prefix has no other keys.

use std::cmp::Ordering;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell_drivers::{Position, Shelf, keys};

use crate::oracle::Oracle;

/// The parts of the key of a row of `tasks`, `dues`, `heads` or `bodies`.
#[derive(Debug)]
struct Row {
    space: u32,
    position: Position,
    time: u64,
}

fn number(u: &mut Unstructured<'_>) -> Result<u64> {
    const EDGES: [u64; 8] = [0, 1, 255, 256, 65_535, 1 << 32, u64::MAX - 1, u64::MAX];
    if u.ratio(1, 2)? { Ok(*u.choose(&EDGES)?) } else { u64::arbitrary(u) }
}

fn row(u: &mut Unstructured<'_>) -> Result<Row> {
    let space = if u.ratio(3, 4)? { 7 } else { u32::arbitrary(u)? };
    let sub: String = if u.ratio(1, 2)? {
        (*u.choose(&["", "a", "aa", "a\0", "b", "\u{7f}", "ä"])?).to_owned()
    } else {
        let text = <&str>::arbitrary(u)?;
        text.chars().take(60).collect()
    };
    let position = Position {
        shelf: *u.choose(&Shelf::ALL)?,
        order: number(u)?,
        id: number(u)?,
        sub: sub.into(),
    };
    Ok(Row { space, position, time: number(u)? })
}

pub fn check(bytes: &[u8], oracle: Oracle) {
    let mut u = Unstructured::new(bytes);
    while !u.is_empty() {
        let (Ok(one), Ok(other)) = (row(&mut u), row(&mut u)) else { return };
        compare(&one, &other, oracle);
        read_back(&one);
    }
}

fn compare(one: &Row, other: &Row, oracle: Oracle) {
    let rank = |row: &Row| (row.position.order, row.position.id);
    let order = |row: &Row| {
        if oracle.is_faulty() { row.position.order.swap_bytes() } else { row.position.order }
    };
    // Names of sub-queues sort by length first. Their order does not matter, only that the tasks of
    // a sub-queue are contiguous.
    let sub = |row: &Row| match row.position.shelf {
        Shelf::Ready => (row.position.sub.len(), row.position.sub.to_string()),
        Shelf::Delayed | Shelf::Buried | Shelf::Blocked | Shelf::Done | Shelf::Recurring => {
            (0, String::new())
        }
    };
    let plain = |row: &Row| (row.space, row.position.shelf, order(row), row.position.id);
    let queued = |row: &Row| (row.space, row.position.shelf, sub(row), rank(row));
    let same = |what: &str, keys: Ordering, logical: Ordering| {
        assert_eq!(keys, logical, "{what} of {one:?} and {other:?}");
    };
    let task = |row: &Row, sub_queued| keys::task(row.space, sub_queued, &row.position);
    same("tasks", task(one, false).cmp(&task(other, false)), plain(one).cmp(&plain(other)));
    same(
        "tasks in sub-queues",
        task(one, true).cmp(&task(other, true)),
        queued(one).cmp(&queued(other)),
    );
    let due = |row: &Row| (row.time, row.position.id, row.space);
    let key = |row: &Row| keys::due(row.time, row.space, row.position.id);
    same("dues", key(one).cmp(&key(other)), due(one).cmp(&due(other)));
    let head = |row: &Row| (row.space, rank(row));
    let key = |row: &Row| keys::head(row.space, row.position.order, row.position.id);
    same("heads", key(one).cmp(&key(other)), head(one).cmp(&head(other)));
    let body = |row: &Row| (row.space, row.position.id);
    let key = |row: &Row| keys::by_id(row.space, row.position.id);
    same("bodies", key(one).cmp(&key(other)), body(one).cmp(&body(other)));
    ranges(one, other);
}

/// The range of a prefix has exactly the keys that start with it. `after` skips no key.
fn ranges(one: &Row, other: &Row) {
    let inside = |key: &[u8], prefix: &[u8]| key >= prefix && key < &keys::end_of(prefix)[..];
    let key = keys::task(other.space, true, &other.position);
    let ready = other.position.shelf == Shelf::Ready && one.space == other.space;
    let prefix = keys::sub_prefix(one.space, &one.position.sub);
    assert_eq!(
        inside(&key, &prefix),
        ready && one.position.sub == other.position.sub,
        "{one:?} {other:?}"
    );
    let prefix = keys::shelf_prefix(one.space, one.position.shelf);
    let same_shelf = (one.space, one.position.shelf) == (other.space, other.position.shelf);
    assert_eq!(inside(&key, &prefix), same_shelf, "{one:?} {other:?}");
    let prefix = keys::space_prefix(one.space);
    assert_eq!(inside(&key, &prefix), one.space == other.space, "{one:?} {other:?}");
    let mine = keys::task(one.space, true, &one.position);
    assert!(keys::after(&mine) > mine);
    assert_eq!(key >= keys::after(&mine), key > mine, "{one:?} {other:?}");
}

fn read_back(row: &Row) {
    let Row { space, position, time } = row;
    for sub_queued in [false, true] {
        let key = keys::task(*space, sub_queued, position);
        assert_eq!(keys::order_and_id(&key), Ok((position.order, position.id)));
        assert_eq!(keys::space_and_shelf(&key), Ok((*space, position.shelf)));
        assert_eq!(keys::space_of(&key), Some(*space));
    }
    assert_eq!(
        keys::order_and_id(&keys::head(*space, position.order, position.id)),
        Ok((position.order, position.id))
    );
    assert_eq!(
        keys::split_due(&keys::due(*time, *space, position.id)),
        Ok((*time, *space, position.id))
    );
    assert_eq!(keys::id_of(&keys::by_id(*space, position.id)), Some(position.id));
    assert_eq!(Position::from_pointer(position.id, &position.pointer()).as_ref(), Ok(position));
}
