//! Tasks that wait for other tasks: puts of children beside the end of their parent, parents that begin anew,
//! and children that are told of an end a step at a time, beside callers.
//!
//! A child that nothing frees leaves a take without an answer, which the explorer reports.

use shuttle::thread::{self, JoinHandle};
use tubewell::{Error, FIFO, Keep, OnParent, Put, Store, TaskState, Tube, TubeOptions};

use crate::explore::{explore, explore_few};
use crate::support::{manual_clock_store, spawn_with, sweeper_store, verify_and_close};

/// A tube for parents that keeps them when they are done, and one for children.
fn tubes(store: &Store) -> (Tube, Tube) {
    let keep = TubeOptions::new().keep_done(Keep::new());
    let parents = store.create_tube("parents", keep.driver(FIFO)).unwrap();
    (parents, store.create_tube("children", TubeOptions::new().driver(FIFO)).unwrap())
}

fn child_of(parents: &Tube, parent: u64) -> Put {
    Put::new("child".into()).after(parents, [parent])
}

/// Takes and acks this many children.
fn work_off(children: &Tube, count: usize) -> JoinHandle<()> {
    spawn_with(children, move |children| {
        for _ in 0..count {
            children.take().unwrap().ack().unwrap();
        }
    })
}

/// The child is put before the ack is decided, between that and its flush, or later.
#[test]
fn child_that_is_put_beside_the_ack_of_its_parent_becomes_free() {
    explore("child_that_is_put_beside_the_ack_of_its_parent_becomes_free", || {
        let (store, _) = manual_clock_store();
        let (parents, children) = tubes(&store);
        let parent = parents.put("parent").unwrap().id;
        let claim = parents.try_take().unwrap().unwrap();
        let acks = thread::spawn(move || claim.ack().unwrap());
        let of = parents.clone();
        let puts = spawn_with(&children, move |children| {
            let put = children.put(child_of(&of, parent)).unwrap();
            assert!(matches!(put.state, TaskState::Blocked | TaskState::Ready), "{put:?}");
        });
        let works = work_off(&children, 1);
        acks.join().unwrap();
        puts.join().unwrap();
        works.join().unwrap();
        verify_and_close(&store);
    });
}

/// The parent begins anew before its child is told of the burial, or after it.
#[test]
fn child_of_a_parent_that_is_kicked_beside_its_burial_waits_or_is_buried() {
    explore("child_of_a_parent_that_is_kicked_beside_its_burial_waits_or_is_buried", || {
        let store = sweeper_store();
        let (parents, children) = tubes(&store);
        let parent = parents.put("parent").unwrap().id;
        let put = child_of(&parents, parent).on_parent(OnParent::Bury);
        let child = children.put(put).unwrap().id;
        let buries =
            spawn_with(&parents, move |parents| parents.admin().bury(parent, None).map(drop));
        let kicks = spawn_with(&parents, move |parents| parents.kick(parent).map(drop));
        buries.join().unwrap().unwrap();
        match kicks.join().unwrap() {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error, Error::NotBuried { id: parent });
                parents.kick(parent).unwrap();
            }
        }
        parents.take().unwrap().ack().unwrap();
        let state = children.query().task(child).unwrap().info.state;
        assert!(
            matches!(state, TaskState::Ready | TaskState::Buried | TaskState::Blocked),
            "{state:?}"
        );
        if state == TaskState::Buried {
            children.kick(child).unwrap();
        }
        children.take().unwrap().ack().unwrap();
        verify_and_close(&store);
    });
}

/// More children than the commit of the ack frees: the others are freed beside the calls.
#[test]
fn children_that_are_freed_in_steps_beside_callers_all_become_free() {
    explore_few("children_that_are_freed_in_steps_beside_callers_all_become_free", || {
        const CHILDREN: usize = 70;
        let store = sweeper_store();
        let (parents, children) = tubes(&store);
        let parent = parents.put(Put::new("parent").key("parent")).unwrap().id;
        children.put_many((0..CHILDREN).map(|_| child_of(&parents, parent))).unwrap();
        let claim = parents.try_take().unwrap().unwrap();
        let acks = thread::spawn(move || claim.ack().unwrap());
        let others = spawn_with(&parents, |parents| parents.put("other").unwrap());
        let works = work_off(&children, CHILDREN);
        acks.join().unwrap();
        match parents.requeue("parent", "again") {
            Ok(_) => {}
            Err(Error::NotReady { id, .. }) => assert_eq!(id, parent),
            Err(error) => panic!("{error}"),
        }
        others.join().unwrap();
        works.join().unwrap();
        verify_and_close(&store);
    });
}
