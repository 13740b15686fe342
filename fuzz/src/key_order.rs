//! Keys sort like the values that they encode, and the range of a prefix has no other keys.

use std::cmp::Ordering;

use arbitrary::{Arbitrary, Result, Unstructured};
use tubewell_drivers::{Shelf, Spot, keys};

use crate::oracle::Oracle;

/// The parts of the key of a row of `tasks`, `dues`, `heads` or `bodies`.
#[derive(Debug)]
struct Row {
    space: u32,
    spot: Spot,
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
    let spot =
        Spot { shelf: *u.choose(&Shelf::ALL)?, order: number(u)?, id: number(u)?, sub: sub.into() };
    Ok(Row { space, spot, time: number(u)? })
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
    let rank = |row: &Row| (row.spot.order, row.spot.id);
    let order =
        |row: &Row| if oracle.is_faulty() { row.spot.order.swap_bytes() } else { row.spot.order };
    // Names of sub-queues sort by length first. Their order does not matter, only that the tasks of
    // a sub-queue are contiguous.
    let sub = |row: &Row| match row.spot.shelf {
        Shelf::Ready => (row.spot.sub.len(), row.spot.sub.to_string()),
        Shelf::Delayed | Shelf::Buried => (0, String::new()),
    };
    let plain = |row: &Row| (row.space, row.spot.shelf, order(row), row.spot.id);
    let queued = |row: &Row| (row.space, row.spot.shelf, sub(row), rank(row));
    let same = |what: &str, keys: Ordering, logical: Ordering| {
        assert_eq!(keys, logical, "{what} of {one:?} and {other:?}");
    };
    let task = |row: &Row, sub_queued| keys::task(row.space, sub_queued, &row.spot);
    same("tasks", task(one, false).cmp(&task(other, false)), plain(one).cmp(&plain(other)));
    same(
        "tasks in sub-queues",
        task(one, true).cmp(&task(other, true)),
        queued(one).cmp(&queued(other)),
    );
    let due = |row: &Row| (row.time, row.spot.id, row.space);
    let key = |row: &Row| keys::due(row.time, row.space, row.spot.id);
    same("dues", key(one).cmp(&key(other)), due(one).cmp(&due(other)));
    let head = |row: &Row| (row.space, rank(row));
    let key = |row: &Row| keys::head(row.space, row.spot.order, row.spot.id);
    same("heads", key(one).cmp(&key(other)), head(one).cmp(&head(other)));
    let body = |row: &Row| (row.space, row.spot.id);
    let key = |row: &Row| keys::by_id(row.space, row.spot.id);
    same("bodies", key(one).cmp(&key(other)), body(one).cmp(&body(other)));
    ranges(one, other);
}

/// The range of a prefix has exactly the keys that start with it. `after` skips no key.
fn ranges(one: &Row, other: &Row) {
    let inside = |key: &[u8], prefix: &[u8]| key >= prefix && key < &keys::end_of(prefix)[..];
    let key = keys::task(other.space, true, &other.spot);
    let ready = other.spot.shelf == Shelf::Ready && one.space == other.space;
    let prefix = keys::sub_prefix(one.space, &one.spot.sub);
    assert_eq!(inside(&key, &prefix), ready && one.spot.sub == other.spot.sub, "{one:?} {other:?}");
    let prefix = keys::shelf_prefix(one.space, one.spot.shelf);
    let same_shelf = (one.space, one.spot.shelf) == (other.space, other.spot.shelf);
    assert_eq!(inside(&key, &prefix), same_shelf, "{one:?} {other:?}");
    let prefix = keys::space_prefix(one.space);
    assert_eq!(inside(&key, &prefix), one.space == other.space, "{one:?} {other:?}");
    let mine = keys::task(one.space, true, &one.spot);
    assert!(keys::after(&mine) > mine);
    assert_eq!(key >= keys::after(&mine), key > mine, "{one:?} {other:?}");
}

fn read_back(row: &Row) {
    let Row { space, spot, time } = row;
    for sub_queued in [false, true] {
        let key = keys::task(*space, sub_queued, spot);
        assert_eq!(keys::order_and_id(&key), Ok((spot.order, spot.id)));
        assert_eq!(keys::space_and_shelf(&key), Ok((*space, spot.shelf)));
        assert_eq!(keys::space_of(&key), Some(*space));
    }
    assert_eq!(
        keys::order_and_id(&keys::head(*space, spot.order, spot.id)),
        Ok((spot.order, spot.id))
    );
    assert_eq!(keys::split_due(&keys::due(*time, *space, spot.id)), Ok((*time, *space, spot.id)));
    assert_eq!(keys::id_of(&keys::by_id(*space, spot.id)), Some(spot.id));
    assert_eq!(Spot::from_pointer(spot.id, &spot.pointer()).as_ref(), Ok(spot));
}
