//! Calls all operations of a store that may be damaged. Any result is accepted except a body that
//! was not put, and a failure or a result of another task; and each call must return.

use std::time::Duration;

use tubewell::expert::{LastFailure, Restore};
use tubewell::{
    Claim, Cursor, Durability, Ending, Error, EventKind, FIFO, Filter, ManualClock, Outcome, Page,
    Result, Store, TaskInfo, TaskState, Tube, TubeOptions, Update,
};

use crate::disk::Disk;
use crate::history::{HISTORY, TAGS, entry, failure, options, result};
use crate::oracle::Oracle;

/// Far more than the number of tasks. A longer iteration does not end.
const ITERATIONS_MAX: usize = 4000;

/// Opens a store on this disk and takes its tasks, then opens it again and uses the other
/// operations.
pub fn exercise_store(disk: &Disk, oracle: Oracle) {
    let clock = ManualClock::new();
    // Relaxed calls share commits in the first run. In the second, each call has its own commit.
    for (run, durability) in [Durability::relaxed(), Durability::Flush].into_iter().enumerate() {
        let options = options(&clock).durability(durability);
        let Ok(store) = options.open_on(Box::new(disk.share())) else { return };
        let _ = store.admin().verify();
        resume_claims(&store, run, oracle);
        if run == 0 {
            read_labels(&store, oracle);
        }
        for info in store.tubes().unwrap() {
            let Ok(tube) = store.tube(&info.name) else { continue };
            if run == 0 {
                read_all(&tube, oracle);
                take_all(&tube, oracle);
                let _ = tube.admin().kick(Filter::new().limit(1));
            } else {
                take_all(&tube, oracle);
                change_tubes(&store, &tube);
            }
        }
        clock.advance(Duration::from_secs(4000));
        let _ = store.admin().verify();
        let _ = store.close();
    }
}

/// Each run resumes other claims.
fn resume_claims(store: &Store, run: usize, oracle: Oracle) {
    for (nth, token) in HISTORY.tokens.iter().enumerate().skip(run).step_by(2) {
        if let Ok(claim) = store.resume_claim(token) {
            assert_put(claim.id(), claim.body(), oracle);
            finish(claim, nth);
        }
    }
}

fn read_all(tube: &Tube, oracle: Oracle) {
    let _ = tube.statistics();
    let unended = [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Blocked];
    for state in
        unended.into_iter().chain([TaskState::Buried, TaskState::Done, TaskState::Recurring])
    {
        read_pages(tube, oracle, |after| tube.query().list(state, after, 7));
    }
    let _ = tube.schedules().list(None, 100);
    let _ = tube.query().next(100);
    for tag in TAGS {
        read_pages(tube, oracle, |after| tube.query().list(Filter::new().tag(tag), after, 2));
    }
    read_pages(tube, oracle, |after| tube.query().list(Filter::new().soonest_first(), after, 2));
    for group in tube.query().groups().unwrap_or_default() {
        read_pages(tube, oracle, |after| {
            tube.query().list(Filter::new().group(&group.name).newest_first(), after, 2)
        });
    }
}

/// Reads what is found by tags, keys and ids.
fn read_labels(store: &Store, oracle: Oracle) {
    let _ = store.tags(None, 10);
    for tag in TAGS {
        let mut after = None;
        for page in 0.. {
            assert!(page < ITERATIONS_MAX, "the tasks with the tag {tag} do not end");
            let Ok(tagged) = store.list(Filter::new().tag(tag), after, 2) else { break };
            for task in &tagged.items {
                if let Ok(tube) = store.tube(&task.tube) {
                    read_task(&tube, &task, oracle);
                }
            }
            after = tagged.next;
            if after.is_none() {
                break;
            }
        }
    }
    let mut after = None;
    for page in 0.. {
        assert!(page < ITERATIONS_MAX, "the tasks of all tubes do not end");
        let Ok(listed) = store.list(Filter::new(), after, 2) else { break };
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
    for id in HISTORY.bodies.keys() {
        let _ = store.find(*id);
    }
    for n in 0..8 {
        let _ = store.by_key(&format!("key-{n}"));
    }
    let _ = store.owners().unwrap();
}

fn read_pages(
    tube: &Tube,
    oracle: Oracle,
    read: impl Fn(Option<Cursor>) -> Result<Page<TaskInfo>>,
) {
    let mut after = None;
    for page in 0.. {
        assert!(page < ITERATIONS_MAX, "a list of {:?} does not end", tube.name());
        let Ok(listed) = read(after) else { break };
        for info in &listed.items {
            read_task(tube, info, oracle);
        }
        after = listed.next;
        if after.is_none() {
            break;
        }
    }
}

fn read_task(tube: &Tube, info: &TaskInfo, oracle: Oracle) {
    if let Ok(task) = tube.query().task(info.id) {
        assert_put(task.info.id, &task.body, oracle);
    }
    if let Some(failure) = &info.failure {
        assert_reported(info.id, failure);
    }
    for found in tube.query().history(info.id).unwrap_or_default() {
        let text = found.text.filter(|_| found.what == EventKind::Log);
        assert!(
            text.is_none_or(|text| text == entry(info.id)),
            "task {} has no such entry",
            info.id
        );
    }
    match tube.ending(info.id) {
        Ok(Some(Ending::Buried { failure: Some(failure) })) => assert_reported(info.id, &failure),
        Ok(Some(Ending::Done { result: Some(found) })) => assert_eq!(found, result(info.id)),
        _ => {}
    }
}

/// Asserts that a failure of a task was reported for it, or was recorded by the store.
fn assert_reported(id: u64, found: &LastFailure) {
    let is_reported = found.message == failure(id).message();
    let is_of_store = found.message.contains("the last one");
    assert!(is_reported || is_of_store, "task {id} never had {found:?}");
}

fn change_tubes(store: &Store, tube: &Tube) {
    let _ = tube.put("new");
    let _ = tube
        .admin()
        .restore_many([Restore::new("new"), Restore::new("new").done(Some("new".into()))]);
    let _ = tube.admin().restore_many([Restore::new("new").buried(true)]);
    let _ = tube.admin().kick(Filter::new().limit(1));
    end_without_claim(tube);
    edit(tube);
    let _ = tube.try_take().map(|claim| claim.map(Claim::detach));
    let _ = tube.admin().revoke(Filter::new());
    let _ = tube.admin().release(Filter::new());
    if let Ok(other) = store.open_tube("moved", TubeOptions::new().driver(tube.driver())) {
        let _ = tube.admin().move_to(&other, Filter::new());
        let _ = other.admin().move_to(tube, Filter::new());
    }
    match tube.name().len() % 3 {
        0 => drop(tube.admin().truncate()),
        1 => drop(store.drop_tube(tube.name())),
        _ => {}
    }
    let _ = store.open_tube("new", TubeOptions::new().driver(FIFO));
}

/// Ends tasks as an administrator does, and forgets some of the kept ones.
fn end_without_claim(tube: &Tube) {
    for group in tube.query().groups().unwrap_or_default() {
        let Ok(page) = tube.query().list(Filter::new().group(&group.name).newest_first(), None, 2)
        else {
            continue;
        };
        for info in &page.items {
            let _ = tube.admin().resolve(info.id, Outcome::result(result(info.id)));
        }
    }
    if let Ok(page) = tube.query().list(TaskState::Done, None, 3) {
        for info in &page.items {
            let _ = tube.wait_done(info.id, Duration::ZERO);
            let _ = tube.admin().forget(info.id);
        }
    }
}

/// Changes tasks in each state, and deletes some.
fn edit(tube: &Tube) {
    for state in
        [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried, TaskState::Done]
    {
        let Ok(page) = tube.query().list(state, None, 3) else { continue };
        for info in &page.items {
            let _ = tube.admin().set_priority(info.id, info.priority ^ 1);
            let _ = tube.update(info.id, Update::new().delay(Duration::ZERO));
            let _ = tube.admin().add_tags(info.id, ["red", "new"]);
            let _ = tube.admin().remove_tags(info.id, ["green"]);
            let _ = tube.admin().log(info.id, &entry(info.id));
        }
        let ids: Vec<u64> = page.items.iter().take(1).map(|info| info.id).collect();
        let _ = tube.admin().delete(Filter::new().ids(&ids));
        let _ = tube.admin().delete(Filter::new().state(state).limit(1));
    }
    for group in tube.query().groups().unwrap_or_default() {
        let _ = tube.admin().kick(Filter::new().group(group.name).limit(1));
    }
}

fn take_all(tube: &Tube, oracle: Oracle) {
    let mut failures = 0;
    for taken in 0.. {
        assert!(taken < ITERATIONS_MAX, "the takes from {:?} do not end", tube.name());
        match tube.try_take() {
            Ok(Some(claim)) => {
                assert_put(claim.id(), claim.body(), oracle);
                finish(claim, taken);
            }
            // A task that cannot be read must not prevent other takes. A stopped store fails each
            // call.
            Err(Error::Corrupt { .. }) if failures < 100 => failures += 1,
            Ok(None) | Err(_) => return,
        }
    }
}

fn finish(claim: Claim, nth: usize) {
    let id = claim.id();
    let _ = claim.step("one", || Ok::<_, Error>(result(id)));
    let _ = claim.steps();
    let _ = match nth % 10 {
        0 => claim.bury(None),
        1 => claim.touch(Duration::from_millis(1)).and_then(|_| claim.ack()),
        5 => claim.fail(failure(id)),
        6 => claim.bury(failure(id)),
        7 => claim.end(Outcome::snooze(Duration::ZERO)),
        8 => claim.end(Outcome::fail_in(Duration::from_millis(1), failure(id))),
        9 => claim.end(Outcome::result(result(id))),
        _ => claim.ack(),
    };
}

/// The puts of this module have the body "new".
fn assert_put(id: u64, body: &[u8], oracle: Oracle) {
    let known = HISTORY.bodies.get(&id).is_some_and(|put| put == body);
    let excluded = oracle.is_faulty() && body.len() == 6000;
    assert!(known && !excluded || body == b"new", "the body {body:?} of task {id} was never put");
}
