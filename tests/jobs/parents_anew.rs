//! Parents that begin anew: they are kicked, replaced or put again while their children are still to be
//! told of their end.

use tubewell::{Error, Filter, Keep, OnKey, OnParent, Outcome, Put, TaskState, TubeOptions};

use super::files::{create_with, draft};
use super::support::*;
use crate::stores;

/// More than the end of a parent tells with its own commit.
const CHILDREN: u64 = 400;

/// Puts a parent with a key and many children. Returns its id.
fn parent_of_many(case: &Case, rule: OnParent) -> u64 {
    let parent = case.add(case.draft("parent").key("parent"));
    let child = |_| case.draft("child").after(&case.tube, [parent]).on_parent(rule);
    case.tube.put_many((0..CHILDREN).map(child)).unwrap();
    parent
}

fn assert_not_told<T: std::fmt::Debug>(answer: Result<T, Error>, parent: u64) {
    let Err(Error::NotReady { id, state: TaskState::Done, why }) = answer else {
        panic!("not refused: {answer:?}");
    };
    assert_eq!(id, parent);
    assert!(why.contains("still being freed"), "{why}");
}

#[test]
fn done_parent_begins_anew_only_once_its_children_are_free() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        let parent = parent_of_many(case, OnParent::Wait);
        case.tube.claim(parent).unwrap().ack().unwrap();
        assert!(case.tasks()["blocked"] > 0, "some children are still to be freed");
        let again = || case.draft("again").key("parent").on_key(OnKey::Replace);
        assert_not_told(case.tube.requeue("parent", again()), parent);
        assert_not_told(case.tube.put(again()), parent);
        assert_not_told(case.tube.put_many([again()]), parent);
        let late = case.add(case.draft("late").after(&case.tube, [parent]));
        assert_eq!(case.state(late), Some(TaskState::Ready), "its parent is done");
        case.advance(0);
        assert_eq!(case.tasks().get("blocked"), None);
        assert_eq!(case.tube.requeue("parent", again()).unwrap().state, TaskState::Ready);
        let child = case.add(case.draft("child").after(&case.tube, [parent]));
        case.advance(0);
        assert_eq!(case.state(child), Some(TaskState::Blocked), "it waits for the new run");
    });
}

#[test]
fn done_parent_is_refused_after_a_restart_until_its_children_are_free() {
    let file = StoreFile::new();
    for driver in ALL {
        let name = format!("parent of {driver}");
        let options = TubeOptions::new().keep_done(Keep::new());
        let (store, tube) = create_with(&file, driver, options);
        let parent = tube.put(draft(driver, "parent").key(&*name)).unwrap().id;
        let child = |n: u64| draft(driver, &n.to_string()).after(&tube, [parent]);
        tube.put_many((0..CHILDREN).map(child)).unwrap();
        tube.claim(parent).unwrap().ack().unwrap();
        drop(tube);
        stores::close(&store);
        let store = file.open();
        let tube = store.find_tube("case").unwrap();
        assert_not_told(tube.requeue(&name, Put::new("again")), parent);
        store.admin().catch_up().unwrap();
        assert_eq!(tasks(&tube).get("blocked"), None);
        assert_eq!(tube.requeue(&name, Put::new("again")).unwrap().id, parent);
        assert_sound(&store);
        drop(tube);
        store.drop_tube("case").unwrap();
        stores::close(&store);
    }
}

/// A kick or a replacement comes before the children are told of the burial.
#[test]
fn children_wait_for_a_buried_parent_that_begins_anew_before_they_are_told() {
    let anew: [fn(&Case, u64); 5] = [
        |case, id| assert_eq!(case.tube.kick(id).unwrap().state, TaskState::Ready),
        |case, _| assert_eq!(case.tube.admin().kick(Filter::new().limit(1)), Ok(1)),
        |case, _| assert_eq!(case.tube.admin().kick(Filter::new().group("g")), Ok(1)),
        |case, id| assert_eq!(case.tube.requeue("parent", Put::new("again")).unwrap().id, id),
        |case, id| {
            let put = Put::new("again").key("parent").on_key(OnKey::Replace);
            assert_eq!(case.tube.put_many([put]).unwrap()[0].id, id);
        },
    ];
    for begin_anew in anew {
        for_each_driver(all_or_few(), |case| {
            for rule in [OnParent::Bury, OnParent::Release] {
                let parent = parent_of_many(case, rule);
                let claim = case.tube.claim(parent).unwrap();
                claim.bury(tubewell::Failure::new("g", "m")).unwrap();
                begin_anew(case, parent);
                case.advance(0);
                assert_eq!(case.tasks()["blocked"], CHILDREN, "with {rule:?}");
                // A later burial counts.
                case.tube.admin().bury(parent, None).unwrap();
                case.advance(0);
                assert_eq!(case.tasks().get("blocked"), None);
                case.tube.admin().truncate().unwrap();
                case.advance(0);
            }
        });
    }
}

/// A parent with more children than may move with it, since it stays in its tube.
#[test]
fn parent_of_many_children_is_replaced_in_its_tube() {
    for_each_driver(&["fifottl"], |case| {
        let parent = case.add(Put::new("parent").key("parent"));
        for _ in 0..11 {
            let child = |_| Put::new("child").after(&case.tube, [parent]);
            case.tube.put_many((0..1000).map(child)).unwrap();
        }
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let moved = other.requeue("parent", Put::new("again"));
        assert_eq!(moved, Err(Error::HasDependents { id: parent, count: 10_001 }));
        let again = case.tube.requeue("parent", Put::new("again")).unwrap();
        assert_eq!((again.id, again.state), (parent, TaskState::Ready));
        let claim = case.tube.claim(parent).unwrap();
        claim.end(Outcome::advance(&case.tube, Put::new("once more"))).unwrap();
        case.tube.claim(parent).unwrap().ack().unwrap();
        case.advance(0);
        assert_eq!(case.tasks(), counts([("ready", 11_000), ("done", 2), ("total", 11_000)]));
    });
}
