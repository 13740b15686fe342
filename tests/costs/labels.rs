//! Tags, and the calls that read by them.

use tubewell::{Claim, FIFO, FIFOTTL, Filter, Keep, Put, TubeOptions, UTUBETTL};

use crate::{flushes_and_commits, rows_edited, with_tube};

fn tagged(tags: u64) -> Put {
    (0..tags).fold(Put::new("x".into()), |put, tag| put.tag(format!("tag {tag}")))
}

/// A tag is two rows more for a put and for an ack: that of the task, and the count.
#[test]
fn tag_costs_a_put_and_an_ack_two_rows() {
    for driver in [FIFO, FIFOTTL, UTUBETTL] {
        with_tube(driver, TubeOptions::new(), |store, tube| {
            let cost = |tags: u64| {
                let (mut put, mut ack) = (0, 0);
                let calls = || {
                    put = rows_edited(store, || _ = tube.put(tagged(tags)).unwrap());
                    let claim = tube.try_take().unwrap().unwrap();
                    ack = rows_edited(store, || _ = claim.ack().unwrap());
                };
                assert_eq!(flushes_and_commits(store, calls), (2, 2));
                (put, ack)
            };
            let (put, ack) = cost(0);
            for tags in [1, 3, 32] {
                assert_eq!(cost(tags), (put + 2 * tags, ack + 2 * tags), "{driver}: {tags} tags");
            }
        });
    }
}

/// The record, and two rows for each tag that is added or removed.
#[test]
fn edit_of_tags_costs_the_record_and_the_tags_that_change() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        let id = tube.put(tagged(3)).unwrap().id;
        let header_and_record = 2;
        let add =
            |tags: &[&str]| rows_edited(store, || _ = tube.admin().add_tags(id, tags).unwrap());
        assert_eq!(add(&["tag 1"]), 0);
        assert_eq!(add(&["tag 1", "a", "b"]), header_and_record + 4);
        let remove =
            |tags: &[&str]| rows_edited(store, || _ = tube.admin().remove_tags(id, tags).unwrap());
        assert_eq!(remove(&["tag 1", "other"]), header_and_record + 2);
        assert_eq!(rows_edited(store, || _ = tube.admin().bury(id, None).unwrap()), 5);
    });
}

/// A task that is kept after its end keeps its tags without another write.
#[test]
fn kept_ack_of_a_task_with_tags_costs_what_it_costs_without() {
    with_tube(FIFO, TubeOptions::new().keep_done(Keep::new()), |store, tube| {
        let ack = |claim: Claim| rows_edited(store, || _ = claim.ack().unwrap());
        tube.put_many([tagged(0), tagged(3)]).unwrap();
        let plain = ack(tube.try_take().unwrap().unwrap());
        assert_eq!(ack(tube.try_take().unwrap().unwrap()), plain);
    });
}

#[test]
fn tags_of_other_tasks_cost_a_plain_task_nothing() {
    with_tube(FIFO, TubeOptions::new(), |store, tube| {
        tube.put_many((0..100).map(|n| tagged(n % 4))).unwrap();
        let put = || _ = tube.put("x").unwrap();
        put();
        assert_eq!((rows_edited(store, put), flushes_and_commits(store, put)), (3, (1, 1)));
    });
}

#[test]
fn listings_write_and_flush_nothing() {
    with_tube(UTUBETTL, TubeOptions::new(), |store, tube| {
        tube.put_many((0..100).map(|n| tagged(n % 4).sub_queue(format!("{n}")))).unwrap();
        let list = || {
            store.list(Filter::new().tag("tag 1"), None, 99).unwrap();
            store.tags(None, 99).unwrap();
            store.find(1).unwrap();
            tube.query().list(Filter::new().tag("tag 1"), None, 99).unwrap();
            tube.query().tasks(Filter::new(), None, 99).unwrap();
            tube.query().next(99).unwrap();
        };
        assert_eq!((rows_edited(store, list), flushes_and_commits(store, list)), (0, (0, 0)));
    });
}
