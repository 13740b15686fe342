//! Changes of stored tasks: of their priority, body or delay, and deletes of many.

use std::time::Duration;

use tubewell::{Durability, FIFOTTL, Filter, Put, TaskState, TubeOptions, UTUBETTL, Update};

use crate::{allocations, flushes_and_commits, rows_edited, with_tube};

const MINUTE: Duration = Duration::from_secs(60);

/// A new priority moves the record, and rewrites its place and its due. A new body of up to 1 KiB is
/// one row, the record. The header comes with each commit, and the counts if they change.
#[test]
fn edits_of_a_task_are_few_rows_in_one_flush() {
    for (driver, most) in [(FIFOTTL, [5, 2, 3, 6, 1]), (UTUBETTL, [7, 2, 3, 7, 1])] {
        with_tube(driver, TubeOptions::new().priority(5).ttl(MINUTE), |store, tube| {
            let put = Put::new("x");
            let put = if driver == UTUBETTL { put.sub_queue("one") } else { put };
            let id = tube.put(put).unwrap().id;
            let update = |update: Update| _ = tube.update(id, update).unwrap();
            let edits: [&dyn Fn(); 4] = [
                &|| _ = tube.admin().set_priority(id, 1).unwrap(),
                &|| update(Update::new().body("another")),
                &|| update(Update::new().body([7; 2000])),
                &|| update(Update::new().delay(MINUTE)),
            ];
            let mut rows = Vec::new();
            for edit in edits {
                let mut cost = (0, 0);
                rows.push(rows_edited(store, || cost = flushes_and_commits(store, edit)));
                assert_eq!(cost, (1, 1));
            }
            let same = || _ = tube.admin().set_priority(id, 1).unwrap();
            let mut cost = (0, 0);
            rows.push(rows_edited(store, || cost = flushes_and_commits(store, same)) + 1);
            assert_eq!(cost, (0, 0), "the same priority again");
            println!("{driver}: {rows:?} rows");
            let within = rows.iter().zip(most).all(|(rows, most)| *rows <= most);
            assert!(within, "{driver}: {rows:?} rows, at most {most:?} expected");
        });
    }
}

#[test]
fn delete_many_is_one_flush_and_delete_of_a_filter_one_for_each_512_tasks() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, tube| {
        let puts = tube.put_many(vec!["x"; 5000]).unwrap();
        let ids: Vec<u64> = puts[..2000].iter().map(|put| put.id).collect();
        let mut cost = (0, 0);
        let delete = || assert_eq!(tube.admin().delete(Filter::new().ids(&ids)).unwrap(), 2000);
        let rows = rows_edited(store, || cost = flushes_and_commits(store, delete));
        assert_eq!((rows, cost), (2002, (1, 1)));
        let delete = || _ = tube.admin().delete(Filter::new().state(TaskState::Ready)).unwrap();
        let rows = rows_edited(store, || cost = flushes_and_commits(store, delete));
        assert_eq!((rows, cost), (3000 + 6 * 2, (6, 6)));
        let none = || assert_eq!(tube.admin().delete(Filter::new().ids(&ids)).unwrap(), 0);
        assert_eq!(flushes_and_commits(store, none), (0, 0));
    });
}

#[test]
fn edits_of_a_task_allocate_little() {
    let relaxed = TubeOptions::new().durability(Durability::relaxed());
    with_tube(FIFOTTL, relaxed, |_, tube| {
        let id = tube.put(&[7; 128]).unwrap().id;
        let mut priority = 0;
        let priority = allocations(500, || {
            priority = priority % 100 + 1;
            tube.admin().set_priority(id, priority).unwrap();
        });
        let body = allocations(500, || _ = tube.update(id, Update::new().body([8; 64])).unwrap());
        println!("a priority {priority}, a body {body} allocations");
        assert!(priority <= 24 && body <= 14, "priority {priority}, body {body} allocations");
    });
}
