//! Tasks that wait for others are salvaged, copied and restored with their parents.

use std::collections::BTreeMap;

use tubewell::OnParent;

use super::*;

const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

/// A task of a file, with its parents.
#[derive(Clone, Debug, PartialEq)]
struct Child {
    tube: String,
    task: Task,
    parents: Vec<u64>,
    rule: OnParent,
}

/// All tasks of a file by their ids. None of it may be damaged.
fn children(path: &Path, clock: &ManualClock) -> BTreeMap<u64, Child> {
    let mut tasks = BTreeMap::new();
    let each = |what| {
        match what {
            Salvaged::Task { tube, task, parents, on_parent, .. } => {
                let id = task.info.id;
                tasks.insert(id, Child { tube, task, parents, rule: on_parent });
            }
            Salvaged::Lost { what } => panic!("{what}"),
            _ => {}
        }
        Ok(())
    };
    StoreOptions::default().clock(clock).salvage(path, each).unwrap();
    tasks
}

/// States, groups and parents.
fn states(tasks: &BTreeMap<u64, Child>) -> Vec<String> {
    let state = |(id, child): (&u64, &Child)| {
        let info = &child.task.info;
        let (state, group, parents) = (info.state, &info.group, &child.parents);
        format!("{id}: {state}, {group:?}, {parents:?} of {}", info.open_parents)
    };
    tasks.iter().map(state).collect()
}

fn open(path: &Path, clock: &ManualClock) -> Store {
    Store::options().clock(clock).open(path).unwrap()
}

fn tubes(store: &Store) -> [Tube; 2] {
    let options = || TubeOptions::new();
    [("a", FIFOTTL), ("b", FIFO)]
        .map(|(name, driver)| store.open_tube(name, options().driver(driver)).unwrap())
}

/// A store with a diamond of blocked tasks, a task that was buried with its parent, done parents, and
/// a task whose parent has a higher id.
fn make_store(path: &Path, clock: &ManualClock) {
    let store = open(path, clock);
    let [a, b] = tubes(&store);
    let put = |tube: &Tube, put: Put<&str>| tube.put(put).unwrap().id;
    put(&a, Put::new("top"));
    put(&b, Put::new("left").after(&a, [0]));
    put(&a, Put::new("right").after(&a, [0]).delay(secs(60)).ttl(secs(600)).priority(3));
    put(&b, Put::new("bottom").after(&b, [1]).after(&a, [2]).on_parent(OnParent::Bury));
    put(&a, Put::new("done").ttl(secs(9)));
    put(&a, Put::new("after done tasks").after(&a, [4, 0]).on_parent(OnParent::Release));
    a.claim(4).unwrap().ack().unwrap();
    put(&a, Put::new("free").after(&a, [4]).on_parent(OnParent::Bury));
    put(&a, Put::new("buried"));
    put(&b, Put::new("buried with it").after(&a, [7]).after(&b, [1]).on_parent(OnParent::Bury));
    a.admin().bury(7, None).unwrap();
    put(&b, Put::new("early"));
    put(&a, Put::new("late"));
    b.admin().add_parents(9, &a, &[10]).unwrap();
    clock.advance(secs(1));
    assert_eq!(b.query().task(8).unwrap().info.group.as_deref(), Some("parent-buried"));
    store.close().unwrap();
}

fn restored(child: &Child, tube: &Tube, parents: impl IntoIterator<Item = (Tube, u64)>) -> Restore {
    let info = &child.task.info;
    let mut put = Put::new(child.task.body.clone()).on_parent(child.rule);
    if tube.driver() == FIFOTTL {
        let delay = info.due_in.unwrap_or_default();
        let ttl = info.ttl_left.map_or(Duration::MAX, |left| left.saturating_sub(delay));
        put = put.priority(info.priority).delay(delay).ttl(ttl);
    }
    for (of, parent) in parents {
        put = put.after(&of, [parent]);
    }
    let mut restore = Restore::new(put).id(info.id).put_at(info.put_at).takes(info.takes);
    restore = restore.buried(info.state == TaskState::Buried);
    restore = info.group.iter().fold(restore, Restore::group);
    info.failure.iter().fold(restore, |restore, failure| restore.failure(failure.clone()))
}

/// Restores the tasks, each after its parents.
fn restore(tasks: &BTreeMap<u64, Child>, store: &Store) {
    let tube = |id: &u64| store.find_tube(&tasks[id].tube).unwrap();
    tubes(store);
    let mut done = Vec::new();
    while done.len() < tasks.len() {
        for (id, child) in tasks {
            if !done.contains(id) && child.parents.iter().all(|parent| done.contains(parent)) {
                let parents = child.parents.iter().map(|parent| (tube(parent), *parent));
                tube(id).admin().restore_many([restored(child, &tube(id), parents)]).unwrap();
                done.push(*id);
            }
        }
    }
}

#[test]
fn salvaged_tasks_and_their_parents_are_restored_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let [path, other] = ["store", "other"].map(|name| dir.path().join(name));
    let clock = ManualClock::new();
    make_store(&path, &clock);
    let tasks = children(&path, &clock);
    let parents: Vec<&[u64]> = tasks.values().map(|child| &*child.parents).collect();
    let none: &[u64] = &[];
    assert_eq!(parents, [none, &[0], &[0], &[1, 2], &[0], none, none, &[1, 7], &[10], none]);
    let rules: Vec<OnParent> = [2, 3, 5, 6].map(|id| tasks[&id].rule).into();
    assert_eq!(rules, [OnParent::Wait, OnParent::Bury, OnParent::Release, OnParent::Bury]);
    assert_eq!(tasks[&2].task.info.due_in, Some(secs(59)));

    let store = open(&other, &clock);
    restore(&tasks, &store);
    assert_sound(&store);
    store.close().unwrap();
    assert_eq!(children(&other, &clock), tasks);

    let store = open(&other, &clock);
    let [a, b] = tubes(&store);
    a.admin().resolve(0, ()).unwrap();
    assert_eq!(
        [1, 3].map(|id| b.query().task(id).unwrap().info.state),
        [TaskState::Ready, TaskState::Blocked]
    );
    assert_eq!(
        [2, 5].map(|id| a.query().task(id).unwrap().info.state),
        [TaskState::Delayed, TaskState::Ready]
    );
    assert_eq!(b.admin().kick(Filter::new().limit(1)).unwrap(), 1);
    assert_eq!(b.query().task(8).unwrap().info.state, TaskState::Blocked);
    assert_sound(&store);
}

#[test]
fn backup_and_compact_keep_edges() {
    let dir = tempfile::tempdir().unwrap();
    let [path, copy] = ["store", "copy"].map(|name| dir.path().join(name));
    let clock = ManualClock::new();
    make_store(&path, &clock);
    let tasks = children(&path, &clock);
    let store = open(&path, &clock);
    store.admin().backup(&copy).unwrap();
    store.close().unwrap();
    Store::options().clock(&clock).compact(&path, |_, _| {}).unwrap();
    for path in [&path, &copy] {
        assert_eq!(children(path, &clock), tasks);
        let store = open(path, &clock);
        assert_sound(&store);
        let [a, b] = tubes(&store);
        assert_eq!(
            (a.query().children(0), b.query().parents(3)),
            (Ok(vec![1, 2, 5]), Ok(vec![1, 2]))
        );
        assert_eq!(a.delete(0), Err(Error::HasDependents { id: 0, count: 3 }));
        a.claim(0).unwrap().ack().unwrap();
        assert_eq!(b.query().task(1).unwrap().info.state, TaskState::Ready);
        assert_sound(&store);
    }
}

/// What is salvaged is a copy of the file after the call: its process was killed.
#[test]
fn salvage_applies_the_ends_of_parents_of_which_children_were_not_told() {
    let ends: [fn(&Store, &Tube); 4] = [
        |_, tube| assert_eq!(tube.claim(0).unwrap().ack().unwrap().id, 0),
        |_, tube| assert_eq!(tube.admin().bury(0, None).unwrap().id, 0),
        |_, tube| tube.admin().truncate().unwrap(),
        |store, tube| store.drop_tube(tube.name()).unwrap(),
    ];
    for (number, end) in ends.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        let [path, killed] = ["store", "killed"].map(|name| dir.path().join(name));
        let clock = ManualClock::new();
        let store = open(&path, &clock);
        let [a, b] = tubes(&store);
        let timed = store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        a.put("parent").unwrap();
        b.put("other").unwrap();
        // The first children of an acked parent are told at once.
        b.put_many((0..70).map(|_| Put::new("child").after(&a, [0]))).unwrap();
        for rule in RULES {
            let child = || Put::new("child").after(&a, [0]).on_parent(rule);
            b.put(child()).unwrap();
            b.put(child().after(&b, [1])).unwrap();
            timed.put(child().delay(secs(60))).unwrap();
            let buried = b.put(child()).unwrap().id;
            b.admin().bury(buried, None).unwrap();
        }
        end(&store, &a);
        store.flush().unwrap();
        std::fs::copy(&path, &killed).unwrap();
        let before = states(&children(&killed, &clock));
        store.close().unwrap();

        let store = open(&killed, &clock);
        clock.advance(Duration::ZERO);
        assert_sound(&store);
        store.close().unwrap();
        assert_eq!(before, states(&children(&killed, &clock)), "end {number}");
        assert!(before.iter().any(|task| task.contains("blocked, None, [1] of 1")), "end {number}");
    }
}

#[test]
fn parents_of_a_restored_task_must_be_there_or_over() {
    let store = Store::in_memory().unwrap();
    let [a, b] = tubes(&store);
    let after = |id, parents: &[u64]| {
        Restore::new(Put::new("child").after(&a, parents.iter().copied())).id(id)
    };
    assert_eq!(b.admin().restore_many([after(1, &[20])]), Err(Error::NotFound { id: 20 }));
    assert_eq!((store.admin().next_id().unwrap(), b.statistics().unwrap().tasks.total), (0, 0));
    a.admin().restore_many([named("parent", 20)]).unwrap();
    // Task 7 was never restored, and its id is below that of a task: it counts as over.
    let states =
        b.admin().restore_many([after(1, &[20, 7]), after(2, &[7]), after(3, &[20]).buried(true)]);
    let states: Vec<TaskState> = states.unwrap().iter().map(|receipt| receipt.state).collect();
    assert_eq!(states, [TaskState::Blocked, TaskState::Ready, TaskState::Buried]);
    assert_eq!((b.query().parents(1), b.query().parents(3)), (Ok(vec![20]), Ok(vec![20])));
    b.admin().kick(Filter::new().limit(1)).unwrap();
    assert_eq!(b.query().task(3).unwrap().info.state, TaskState::Blocked);
    assert_sound(&store);
    a.claim(20).unwrap().ack().unwrap();
    assert_eq!(ids_in_take_order(&b), [1, 2, 3]);
    assert_sound(&store);
}

#[test]
fn lost_edge_is_reported_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let clock = ManualClock::new();
    let store = open(&path, &clock);
    let [a, b] = tubes(&store);
    let [near, far, child] = [0x0102_0304, 0x0203_0405, 0x0304_0506_u64];
    a.admin().restore_many([named("near", near), named("far", far)]).unwrap();
    let put = Put::new("child").after(&a, [near, far]);
    b.admin().restore_many([Restore::new(put).id(child)]).unwrap();
    drop((a, b));
    store.close().unwrap();
    Store::options().clock(&clock).compact(&path, |_, _| {}).unwrap();

    // The key of the row that leads from the child to one of its parents.
    let key = [&b"p"[..], &child.to_be_bytes(), &near.to_be_bytes()].concat();
    let mut file = std::fs::read(&path).unwrap();
    let found: Vec<usize> =
        (0..file.len() - key.len()).filter(|at| file[*at..].starts_with(&key)).collect();
    assert!(!found.is_empty());
    for at in found {
        // Now it is the row of another child, and the rows are still in order.
        file[at + 8] -= 1;
    }
    std::fs::write(&path, &file).unwrap();
    let (mut lost, mut parents) = (Vec::new(), Vec::new());
    let each = |what| {
        match what {
            Salvaged::Lost { what } => lost.push(what),
            Salvaged::Task { task, parents: known, .. } if task.info.id == child => {
                parents.push((task.info.state, task.info.open_parents, known));
            }
            _ => {}
        }
        Ok(())
    };
    StoreOptions::default().clock(&clock).salvage(&path, each).unwrap();
    assert_eq!(parents, [(TaskState::Blocked, 2, vec![far])]);
    let [lost] = &lost[..] else { panic!("{lost:?}") };
    assert!(lost.starts_with("in tube \"b\": "), "{lost}");
    assert!(lost.contains(&format!("task {child}: 1 of its parents cannot be read")), "{lost}");
}
