//! Tasks that are put as a step of the work: each exactly once.

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::expert::{Step, StepKind};
use tubewell::{Error, OnKey, Put, Store, TaskState, TubeOptions};

use super::files::{after_a_kill, create_with};
use super::steps::{assert_invalid, claim, names};
use super::support::*;

#[test]
fn spawned_task_is_put_once() {
    for_each_driver(ALL, |case| {
        let parts =
            case.store.create_tube("parts", TubeOptions::new().driver(case.driver)).unwrap();
        case.put_all([0]);
        let mut ids = Vec::new();
        for attempt in 0..4 {
            let job = claim(&case.tube);
            let again: Vec<u64> = (0..=attempt)
                .map(|n| job.spawn(&format!("part {n}"), &parts, case.draft("part")).unwrap())
                .collect();
            assert_eq!(again[..ids.len()], ids);
            ids = again;
            assert_invalid(job.spawn("part 0", &parts, "x"), "named twice");
        }
        assert_eq!(ids, [1, 2, 3, 4]);
        assert_eq!(parts.statistics().unwrap().tasks.ready, 4);
        // It may be over when the step is called again.
        claim(&parts).ack().unwrap();
        let job = claim(&case.tube);
        assert_eq!(job.spawn("part 0", &parts, "x"), Ok(1));
        assert_eq!(parts.statistics().unwrap().tasks.total, 3);
        let steps = job.steps().unwrap();
        assert!(steps.iter().all(|step| step.kind == StepKind::Spawned));
        assert_eq!(steps.iter().filter_map(Step::spawned).collect::<Vec<_>>(), ids);
    });
}

#[test]
fn spawned_task_waits_as_its_put_says() {
    for_each_driver(TIMED, |case| {
        case.put_all([0]);
        let job = claim(&case.tube);
        let delayed = job.spawn("late", &case.tube, case.draft("x").delay(secs(1))).unwrap();
        let child = job.spawn("after", &case.tube, case.draft("x").after(&case.tube, [0]));
        let child = child.unwrap();
        assert_eq!(case.state(delayed), Some(TaskState::Delayed));
        assert_eq!(case.state(child), Some(TaskState::Blocked));
        job.ack().unwrap();
        assert_eq!(case.state(child), Some(TaskState::Ready));
        case.advance(1000);
        assert_eq!(case.state(delayed), Some(TaskState::Ready));
    });
}

#[test]
fn refused_put_stores_no_step() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let options = TubeOptions::new().capacity(1);
        let narrow = case.store.create_tube("narrow", options.driver(LIMFIFOTTL)).unwrap();
        narrow.put("x").unwrap();
        let untimed = case.store.create_tube("untimed", TubeOptions::new().driver(FIFO)).unwrap();
        let memory = TubeOptions::new().temporary(true);
        let memory = case.store.create_tube("memory", memory.driver(FIFO)).unwrap();
        let elsewhere = store_in_memory();
        let elsewhere =
            elsewhere.create_tube("elsewhere", TubeOptions::new().driver(FIFO)).unwrap();
        let dropped = case.store.create_tube("dropped", TubeOptions::new().driver(FIFO)).unwrap();
        case.store.drop_tube("dropped").unwrap();
        let job = claim(&case.tube);
        let full = job.spawn("child", &narrow, "x");
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        assert_unsupported(job.spawn("child", &untimed, Put::new("x").delay(secs(1))), FIFO);
        assert_invalid(job.spawn("child", &memory, "x"), "temporary");
        assert_invalid(job.spawn("child", &elsewhere, "x"), "another store");
        let gone = job.spawn("child", &dropped, "x");
        assert!(matches!(gone, Err(Error::TubeDropped { .. })), "{gone:?}");
        let unknown = job.spawn("child", &untimed, Put::new("x").after(&untimed, [99]));
        assert_eq!(unknown, Err(Error::NotFound { id: 99 }));
        assert_eq!((names(&case.tube, 0).len(), untimed.statistics().unwrap().tasks.total), (0, 0));
        // None of them has used up its name.
        claim(&narrow).ack().unwrap();
        let child = job.spawn("child", &narrow, "x").unwrap();
        assert_eq!(
            (narrow.query().task(child).unwrap().body, names(&case.tube, 0).len()),
            (b"x".into(), 1)
        );
    });
}

#[test]
fn spawned_task_with_a_key_follows_on_key() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let own = case.add(case.draft("job").key("own"));
        let taken = other.put(case.draft("x").key("taken")).unwrap().id;
        let job = case.tube.claim(own).unwrap();
        let put = |key: &str, on_key| case.draft("new").key(key).on_key(on_key);
        let in_use = job.spawn("child", &case.tube, put("taken", OnKey::Reject));
        assert!(matches!(in_use, Err(Error::KeyInUse { id, .. }) if id == taken), "{in_use:?}");
        assert_eq!(job.spawn("kept", &case.tube, put("taken", OnKey::Keep)), Ok(taken));
        assert_eq!(other.query().task(taken).unwrap().body, b"x");
        assert_eq!(job.spawn("replaced", &case.tube, put("taken", OnKey::Replace)), Ok(taken));
        assert_eq!(case.tube.query().task(taken).unwrap().body, b"new");
        assert_eq!(other.statistics().unwrap().tasks.total, 0);
        let child = job.spawn("free", &case.tube, put("free", OnKey::Replace)).unwrap();
        assert_eq!(case.store.by_key("free").unwrap().unwrap().id, child);
        // A task that would be put anew while it is worked on.
        let itself = job.spawn("itself", &other, put("own", OnKey::Replace));
        assert!(matches!(itself, Err(Error::KeyInUse { id, .. }) if id == own), "{itself:?}");
        assert_eq!(job.spawn("itself", &other, put("own", OnKey::Keep)), Ok(own));
        assert!(job.is_current().unwrap());
        assert_eq!(names(&case.tube, own), ["free", "itself", "kept", "replaced"]);
    });
}

/// The step and the put are one commit, with the stronger durability of both tubes.
#[test]
fn spawned_task_survives_with_its_step() {
    let write = tubewell::Durability::Write { flush_within: secs(3600) };
    let relaxed = tubewell::Durability::Relaxed { max_delay: secs(3600) };
    for (own, other) in [(write, write), (write, relaxed), (relaxed, write)] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFOTTL, TubeOptions::new().durability(own));
        let options = TubeOptions::new().durability(other);
        let parts = store.create_tube("parts", options.driver(FIFO)).unwrap();
        tube.put("x").unwrap();
        store.flush().unwrap();
        let child = claim(&tube).spawn("child", &parts, "part").unwrap();
        let (_killed_file, killed): (_, Store) = after_a_kill(&file);
        let job = claim(&killed.find_tube("case").unwrap());
        assert_eq!(killed.find_tube("parts").unwrap().query().task(child).unwrap().body, b"part");
        assert_eq!(job.spawn("child", &killed.find_tube("parts").unwrap(), "part"), Ok(child));
        assert_sound(&killed);
    }
}
