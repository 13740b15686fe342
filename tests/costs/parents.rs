//! Tasks that wait for other tasks.

use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, Filter, ManualClock, Put, Store, TaskState, TubeOptions};

use crate::{assert_plain_costs, flushes_and_commits, rows_edited, store_on, with_tube};

/// A put has its record, its place, the header and the counts, and two rows for each parent. An ack
/// has its record, the header and the counts; each child that it frees moves, loses its place and two
/// rows of the edge.
#[test]
fn edges_edit_few_rows_in_the_commit_of_their_call() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let parent = |n: usize| -> Vec<u64> {
            tube.put_many(vec!["x"; n]).unwrap().iter().map(|receipt| receipt.id).collect()
        };
        for (parents, put_rows) in [(1, 6), (2, 8), (10, 24)] {
            let parents = parent(parents);
            let (mut cost, mut id) = ((0, 0), 0);
            let put = Put::new("x").after(tube, parents.iter().copied());
            let rows = rows_edited(store, || {
                cost = flushes_and_commits(store, || id = tube.put(put).unwrap().id);
            });
            assert_eq!((rows, cost), (put_rows, (1, 1)));
            let mut claims = tube.take_many(parents.len(), Duration::ZERO).unwrap();
            let last = claims.pop().unwrap();
            for claim in claims {
                // The record of the child is rewritten.
                let rows = rows_edited(store, || _ = claim.ack().unwrap());
                assert_eq!(rows, 6);
            }
            let mut cost = (0, 0);
            let rows = rows_edited(store, || {
                cost = flushes_and_commits(store, || _ = last.ack().unwrap());
            });
            assert_eq!((rows, cost), (8, (1, 1)));
            tube.claim(id).unwrap().ack().unwrap();
        }
        let first = parent(1)[0];
        let child = tube.put(Put::new("x").after(tube, [first])).unwrap().id;
        let ids = [first, parent(1)[0]];
        assert_eq!(
            rows_edited(store, || _ = tube.admin().add_parents(child, tube, &ids).unwrap()),
            5
        );
        assert_eq!(
            rows_edited(store, || _ = tube.admin().add_parents(child, tube, &ids).unwrap()),
            0
        );
        assert_eq!(rows_edited(store, || _ = tube.delete(child).unwrap()), 8);
    });
}

/// The ack of a parent of many does not pay for all of them.
#[test]
fn ack_of_a_parent_of_many_tasks_edits_rows_of_64_of_them() {
    let dir = tempfile::tempdir().unwrap();
    // The writer thread runs chores only if the clock is not that of a test.
    for store in [Store::in_memory().unwrap(), Store::open(dir.path().join("store")).unwrap()] {
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let parent = tube.put("x").unwrap().id;
        tube.put_many((0..10_000).map(|_| Put::new("x").after(&tube, [parent]))).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        let events = store.events(Filter::new(), 20_000).unwrap();
        let before = store.admin().counters().unwrap();
        let receipt = claim.ack().unwrap();
        let ready = tube.statistics().unwrap().tasks.ready;
        assert!(ready >= 64, "{ready} ready");
        // Its commit; those of the chore follow.
        assert_eq!(receipt.commit, before.commits + before.opened_at + 1);
        // The writer thread goes on.
        while tube.statistics().unwrap().tasks.blocked > 0 {
            let _ = events.recv_timeout(Duration::from_millis(10));
        }
        let after = store.admin().counters().unwrap();
        let commits = after.commits - before.commits;
        let rows = after.rows - before.rows;
        assert!((40..=41).contains(&commits), "{commits} commits");
        assert!(rows <= 10_000 * 5 + commits * 3, "{rows} rows");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

/// Another tube of the store has parents and children.
#[test]
fn edges_of_another_tube_cost_a_plain_tube_nothing() {
    with_tube(FIFOTTL, TubeOptions::new(), |store, plain| {
        let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let parent = other.put("parent").unwrap().id;
        other.put_many((0..100).map(|_| Put::new("x").after(&other, [parent]))).unwrap();
        assert_plain_costs(store, plain);
    });
}

/// The reads of a put after a task that is over and was put into the tube `of`, beside so many other
/// tubes, each with so many tasks. There is another such put before it.
fn reads_of_a_put_after(of: &str, others: usize, tasks: usize, cache: usize) -> u64 {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    {
        let store = store_on(&path);
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(["x"; 100]).unwrap();
        store.create_tube("unnamed", TubeOptions::new().driver(FIFO)).unwrap();
        for n in 0..others {
            let other =
                store.create_tube(&format!("other {n}"), TubeOptions::new().driver(FIFO)).unwrap();
            other.put_many(vec!["x"; tasks]).unwrap();
        }
        store.close().unwrap();
    }
    let options = Store::options().clock(ManualClock::new()).cache_size(cache);
    let store = options.open(&path).unwrap();
    let [tube, of] = ["work", of].map(|name| store.find_tube(name).unwrap());
    let put_after = || {
        let parent = of.put("x").unwrap().id;
        of.claim(parent).unwrap().ack().unwrap();
        let before = store.admin().counters().unwrap().reads;
        let receipt = tube.put(Put::new("x").after(&tube, [parent])).unwrap();
        assert_eq!(receipt.state, TaskState::Ready);
        store.admin().counters().unwrap().reads - before
    };
    put_after();
    put_after()
}

#[test]
fn put_after_a_task_that_is_over_looks_in_no_tube_without_tasks() {
    let [none, many] = [0, 100].map(|others| reads_of_a_put_after("unnamed", others, 0, 0));
    assert_eq!(none, many);
}

/// The tube knows that the task was put into it, and no other tube has tasks that have moved.
#[test]
fn put_after_a_task_that_is_over_looks_in_the_tube_that_it_names_only() {
    assert_eq!(reads_of_a_put_after("work", 100, 10, 0), reads_of_a_put_after("work", 0, 0, 0));
}

/// It looks in all tubes with tasks, since any of them may have the parent.
#[test]
fn put_after_a_task_of_another_tube_reads_cached_pages_only_beside_many_tubes() {
    assert_eq!(reads_of_a_put_after("unnamed", 100, 10, 1 << 20), 0);
}
