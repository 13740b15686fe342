//! Histories: one row for each change, however long they are.

use tubewell::{Durability, FIFO, Filter, Tube, TubeOptions, UTUBETTL};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, with_tube};

/// The rows of a put, and of a bury, a kick and a delete of a task that has had 20 changes.
fn rows_of_changes(driver: &str, entries: u32) -> [u64; 4] {
    let mut rows = [0; 4];
    with_tube(driver, TubeOptions::new().history(entries), |store, tube| {
        let id = tube.put("warm").unwrap().id;
        for _ in 0..20 {
            tube.try_take().unwrap().unwrap().release().unwrap();
        }
        store.flush().unwrap();
        rows = [
            rows_edited(store, || _ = tube.put("x").unwrap()),
            rows_edited(store, || _ = tube.claim(id).unwrap().bury(None).unwrap()),
            rows_edited(store, || _ = tube.admin().kick(Filter::new().limit(1)).unwrap()),
            rows_edited(store, || _ = tube.delete(id).unwrap()),
        ];
        if entries > 0 {
            let log = || _ = tube.admin().log(id + 1, "text").unwrap();
            assert_eq!((rows_edited(store, log), flushes_and_commits(store, log)), (3, (1, 1)));
        }
    });
    rows
}

/// A change of a task with a full history writes an entry and removes one. The end of a claim has the
/// entry of its take, too. The end of a task removes all entries.
#[test]
fn change_writes_one_entry_and_removes_one() {
    for driver in [FIFO, UTUBETTL] {
        let [put, bury, kick, delete] = rows_of_changes(driver, 0);
        for entries in [3, 10] {
            let more = rows_of_changes(driver, entries);
            let delete = delete + u64::from(entries);
            assert_eq!(more, [put + 1, bury + 4, kick + 2, delete], "{driver}, {entries}");
        }
    }
}

#[test]
fn take_of_a_task_with_a_history_writes_nothing() {
    let take = |tube: &Tube| tube.try_take().unwrap().unwrap().detach();
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::new().history(10).durability(durability);
        with_tube(FIFO, options, |store, tube| {
            tube.put_many(["x"; 3]).unwrap();
            store.flush().unwrap();
            for _ in 0..3 {
                let before = store.admin().counters().unwrap();
                take(tube);
                let after = store.admin().counters().unwrap();
                assert_eq!((after.rows, after.writes), (before.rows, before.writes));
            }
        });
    }
}

#[test]
fn histories_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFO, TubeOptions::new().history(10), |store, tube| {
        tube.put_many(["x"; 100]).unwrap();
        let plain = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        assert_plain_costs(store, &plain);
    });
}
