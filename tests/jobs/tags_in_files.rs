//! Tags of tasks in a file: reopens, removed tubes, copies, and many tasks.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Durability, Filter, Put, Store, StoreOptions, TubeOptions};

use super::files::{after_a_kill, create, create_with};
use super::support::*;
use super::tags::{tagged, tagged_in_pages, used};
use crate::stores;

/// The rows of a truncated tube are removed later, and the id of a tag of it is skipped until then.
#[test]
fn tags_of_truncated_and_dropped_tubes_are_skipped_and_then_forgotten() {
    for reopen in [false, true] {
        let file = StoreFile::new();
        let (mut store, tube) = create(&file, FIFOTTL);
        let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many((0..3_000).map(|_| Put::new("x").tag("foo").tag("bar"))).unwrap();
        let id = other.put(Put::new("y").tag("foo")).unwrap().id;
        tube.admin().truncate().unwrap();
        assert_eq!(tagged_in_pages(&store, "foo", 10), [id]);
        let new = tube.put(Put::new("z").tag("foo")).unwrap().id;
        assert_eq!(tagged_in_pages(&store, "foo", 1000), [id, new]);
        store.drop_tube("case").unwrap();
        drop((tube, other));
        if reopen {
            store = file.reopen(store);
        }
        assert_eq!(tagged_in_pages(&store, "foo", 1000), [id]);
        assert_sound(&store);
        if reopen {
            stores::close(&store);
            Store::options().clock(&file.clock).compact(file.path(), |_, _| {}).unwrap();
            store = file.open();
        } else {
            store.admin().catch_up().unwrap();
        }
        assert_eq!(used(&store), []);
        assert_eq!(tagged(&store, "foo"), [id]);
        assert_sound(&store);
    }
}

#[test]
fn tags_are_there_after_a_reopen() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let ids: Vec<u64> = (0..10)
        .map(|n| tube.put(Put::new("x").tag("all").tag(format!("{}", n % 2))).unwrap().id)
        .collect();
    tube.admin().add_tags(ids[3], ["late"]).unwrap();
    drop(tube);
    let store = file.reopen(store);
    assert_eq!(tagged(&store, "all"), ids);
    assert_eq!(tagged(&store, "late"), [ids[3]]);
    assert_eq!(used(&store)[0], ("all".to_owned(), 10));
    assert_eq!(store.find(ids[3]).unwrap().unwrap().tags, ["all", "1", "late"]);
    assert_sound(&store);
}

#[test]
fn tags_of_temporary_tubes_are_listed_and_counted_with_the_others() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let temporary = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", temporary.driver(FIFO)).unwrap();
    let mut ids = Vec::new();
    for n in 0..6 {
        let tube = if n % 2 == 0 { &tube } else { &temporary };
        ids.push(tube.put(Put::new("x").tag("foo")).unwrap().id);
    }
    assert_eq!(tagged(&store, "foo"), ids);
    assert_eq!(used(&store), [("foo".to_owned(), 6)]);
    assert_eq!(store.find(ids[1]).unwrap().unwrap().tube, "temporary");
    temporary.delete(ids[1]).unwrap();
    assert_eq!(used(&store), [("foo".to_owned(), 5)]);
    assert_sound(&store);
}

#[test]
fn delete_of_a_filter_by_tag_deletes_more_than_one_step() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new());
    let tasks = (0..2_000).map(|n| Put::new("x").tag(if n % 3 == 0 { "three" } else { "other" }));
    tube.put_many(tasks).unwrap();
    assert_eq!(tube.admin().delete(Filter::new().tag("three")).unwrap(), 667);
    assert_eq!(tube.statistics().unwrap().tasks.total, 1333);
    assert_eq!(used(&store), [("other".to_owned(), 1333)]);
    assert_sound(&store);
}

#[test]
fn salvaged_and_copied_tasks_have_their_tags() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    let id = tube.put(Put::new("x").tag("b").tag("a").delay(secs(60))).unwrap().id;
    let copy = StoreFile::new();
    store.admin().backup(copy.path()).unwrap();
    let backup = stores::open_with(copy.path(), Store::options().clock(&file.clock));
    assert_eq!(tagged(&backup, "a"), [id]);
    assert_sound(&backup);
    let (_killed, after_kill) = after_a_kill(&file);
    assert_eq!(tagged(&after_kill, "b"), [id]);
    assert_sound(&after_kill);
    drop(tube);
    stores::close(&store);
    let mut tags = Vec::new();
    let salvage = |found: tubewell::expert::Salvaged| {
        if let tubewell::expert::Salvaged::Task { task, .. } = found {
            tags.push(task.info.tags);
        }
        Ok(())
    };
    StoreOptions::default().clock(&file.clock).salvage(file.path(), salvage).unwrap();
    assert_eq!(tags, [["b", "a"]]);
}

/// In a relaxed or written tube, too, a task that was put and acked before its flush leaves no row.
#[test]
fn tags_that_come_and_go_leave_nothing() {
    for durability in [Durability::relaxed(), Durability::write(), Durability::Flush] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFO, TubeOptions::new().durability(durability));
        for round in 0..3 {
            for n in 0..30 {
                let id = tube.put(Put::new("x").tag("all").tag(format!("t{n}"))).unwrap().id;
                tube.admin().add_tags(id, ["more"]).unwrap();
                tube.admin().remove_tags(id, ["all"]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
            if round == 1 {
                store.flush().unwrap();
            }
        }
        assert_eq!((tagged(&store, "more"), used(&store)), (vec![], vec![]));
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        assert_eq!(tagged(&store, "t7"), [0; 0]);
        assert_sound(&store);
    }
}
