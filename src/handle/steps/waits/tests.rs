//! Tests of the steps that wait.

use std::io;
use std::sync::Arc;

use super::*;
use crate::base::sync::Mutex;
use crate::core::Core;
use crate::storage::Storage;
use crate::values::step::StepKind;
use crate::{
    Claim, Error, FIFO, FIFOTTL, Filter, ManualClock, OnParent, Outcome, Put, Store, TaskState,
    TubeOptions, UTUBETTL,
};

const SECOND: Duration = Duration::from_secs(1);

fn with_tubes(options: TubeOptions, check: impl Fn(&ManualClock, &Store, &Tube, &Tube)) {
    for driver in [FIFO, FIFOTTL, UTUBETTL] {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let jobs = store.create_tube("jobs", options.clone().driver(driver)).unwrap();
        let parts = store.create_tube("parts", TubeOptions::new().driver(FIFO)).unwrap();
        check(&clock, &store, &jobs, &parts);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

fn take(tube: &Tube) -> Claim {
    tube.try_take().unwrap().unwrap()
}

#[test]
fn sleep_begins_once_and_goes_on_between_attempts() {
    with_tubes(TubeOptions::new(), |clock, store, jobs, _| {
        jobs.put("job").unwrap();
        let job = take(jobs);
        assert_eq!(job.held.sleep_step("rest", 10 * SECOND), Ok(10 * SECOND));
        assert!(matches!(job.held.sleep_step("rest", SECOND), Err(Error::Invalid { .. })));
        drop(job);
        clock.advance(4 * SECOND);
        let job = take(jobs);
        assert_eq!(job.held.sleep_step("rest", SECOND), Ok(6 * SECOND));
        assert_eq!(job.held.sleep_step("none", Duration::ZERO), Ok(Duration::ZERO));
        assert_eq!(job.held.sleep_step("endless", Duration::MAX), Ok(Duration::MAX));
        let steps = job.steps().unwrap();
        assert!(steps.iter().all(|step| step.kind == StepKind::Sleep));
        let until = 1_767_225_600_000_000_u64 + 10_000_000;
        assert_eq!(steps[2].value, until.to_be_bytes());
        drop(job);
        clock.advance(6 * SECOND);
        let job = take(jobs);
        assert_eq!(job.held.sleep_step("rest", SECOND), Ok(Duration::ZERO));
        assert_eq!(job.held.sleep_step("endless", SECOND), Ok(Duration::MAX));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        job.ack().unwrap();
    });
}

#[test]
fn join_blocks_the_task_until_all_are_done_and_forgives_the_attempt() {
    with_tubes(TubeOptions::new().max_attempts(1), |_, store, jobs, parts| {
        let id = jobs.put("job").unwrap().id;
        let job = take(jobs);
        let ids = [0, 1].map(|n| job.spawn(&format!("part {n}"), parts, "part").unwrap());
        assert_eq!(job.held.join_step("parts", parts, &ids), Ok(false));
        assert!(!job.is_current().unwrap());
        assert_eq!(job.step("late", || Ok::<u8, Error>(1)), Err(Error::NotTaken { id }));
        drop(job);
        let info = jobs.query().task(id).unwrap().info;
        assert_eq!((info.state, info.open_parents, info.attempts), (TaskState::Blocked, 2, 0));
        assert!(info.has_steps);
        assert_eq!(
            (jobs.query().parents(id), parts.query().children(ids[0])),
            (Ok(ids.to_vec()), Ok(vec![id]))
        );
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);

        take(parts).ack().unwrap();
        assert!(jobs.try_take().unwrap().is_none());
        let last = take(parts);
        // A buried child is not over.
        last.bury(None).unwrap();
        assert!(jobs.try_take().unwrap().is_none());
        parts.admin().kick(Filter::new().limit(1)).unwrap();
        take(parts).ack().unwrap();
        let job = take(jobs);
        assert_eq!(job.attempt(), 1);
        let again = [0, 1].map(|n| job.spawn(&format!("part {n}"), parts, "part").unwrap());
        assert_eq!((again, job.held.join_step("parts", parts, &ids)), (ids, Ok(true)));
        assert_eq!(parts.statistics().unwrap().tasks.total, 0);
        job.ack().unwrap();
    });
}

/// The claim of a worker that waits keeps no other task from being taken.
#[test]
fn join_frees_the_sub_queue_and_the_gate_of_its_task() {
    let store = Store::options().clock(ManualClock::new()).open_in_memory().unwrap();
    let options = TubeOptions::new().max_taken(1);
    let jobs = store.create_tube("jobs", options.driver(UTUBETTL)).unwrap();
    let parts = store.create_tube("parts", TubeOptions::new().driver(FIFO)).unwrap();
    for body in ["waits", "next"] {
        jobs.put(Put::new(body).sub_queue("host")).unwrap();
    }
    let job = take(&jobs);
    let part = job.spawn("part", &parts, "part").unwrap();
    assert!(jobs.try_take().unwrap().is_none());
    assert_eq!(job.held.join_step("part done", &parts, &[part]), Ok(false));
    let next = take(&jobs);
    assert_eq!(next.body(), b"next");
    take(&parts).ack().unwrap();
    assert!(jobs.try_take().unwrap().is_none());
    next.ack().unwrap();
    assert_eq!(take(&jobs).body(), b"waits");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn join_of_tasks_that_are_over_keeps_the_claim() {
    with_tubes(TubeOptions::new(), |_, _, jobs, parts| {
        let over = parts.put("part").unwrap().id;
        take(parts).ack().unwrap();
        let id = jobs.put("job").unwrap().id;
        let job = take(jobs);
        assert_eq!(job.held.join_step("parts", parts, &[over]), Ok(true));
        assert_eq!(job.held.join_step("nothing", parts, &[]), Ok(true));
        assert_eq!(job.held.join_step("of another store", parts, &[u64::MAX]), Ok(true));
        assert!(matches!(job.held.join_step("parts", parts, &[]), Err(Error::Invalid { .. })));
        assert_eq!(job.held.join_step("itself", jobs, &[id]), Err(Error::Cycle { id }));
        let unknown = job.held.join_step("unknown", parts, &[99]);
        assert_eq!(unknown, Err(Error::NotFound { id: 99 }));
        assert!(job.is_current().unwrap());
        assert_eq!(job.steps().unwrap().len(), 3);
        // Each name is free again after an error.
        let part = parts.put("part").unwrap().id;
        assert_eq!(job.held.join_step("unknown", parts, &[part, over, part]), Ok(false));
        assert_eq!(jobs.query().parents(id), Ok(vec![part]));
    });
}

#[test]
fn joined_task_that_would_wait_for_itself_is_refused() {
    with_tubes(TubeOptions::new(), |_, store, jobs, parts| {
        let id = jobs.put("job").unwrap().id;
        let child = parts.put(Put::new("child").after(jobs, [id])).unwrap().id;
        let job = take(jobs);
        assert_eq!(job.held.join_step("child", parts, &[child]), Err(Error::Cycle { id }));
        assert_eq!((job.is_current().unwrap(), job.steps().unwrap().len()), (true, 0));
        let temporary = TubeOptions::new().temporary(true);
        let memory = store.create_tube("memory", temporary.driver(FIFO)).unwrap();
        let other = memory.put("x").unwrap().id;
        let refused = job.held.join_step("memory", &memory, &[other]);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        job.ack().unwrap();
        assert_eq!(take(parts).id(), child);
    });
}

#[test]
fn joined_task_follows_its_rule_for_parents() {
    for (rule, buried, gone) in [
        (OnParent::Wait, TaskState::Blocked, TaskState::Buried),
        (OnParent::Release, TaskState::Ready, TaskState::Ready),
        (OnParent::Bury, TaskState::Buried, TaskState::Buried),
    ] {
        with_tubes(TubeOptions::new(), |_, store, jobs, parts| {
            for (is_gone, expected) in [(false, buried), (true, gone)] {
                let id = jobs.put(Put::new("job").on_parent(rule)).unwrap().id;
                let job = jobs.claim(id).unwrap();
                let part = job.spawn("part", parts, "part").unwrap();
                assert_eq!(job.held.join_step("part done", parts, &[part]), Ok(false));
                parts.claim(part).unwrap().bury(None).unwrap();
                if is_gone {
                    parts.admin().truncate().unwrap();
                }
                store.flush().unwrap();
                while store.inner().run(Core::tell_children).unwrap() {}
                let state = jobs.query().task(id).unwrap().info.state;
                let expected = if is_gone && rule != OnParent::Wait { buried } else { expected };
                assert_eq!(state, expected, "{rule} {is_gone}");
                jobs.delete(id).unwrap();
            }
        });
    }
}

#[test]
fn step_of_another_kind_is_refused() {
    with_tubes(TubeOptions::new(), |_, _, jobs, parts| {
        jobs.put("job").unwrap();
        let job = take(jobs);
        job.step("value", || Ok::<u8, Error>(1)).unwrap();
        job.spawn("spawned", parts, "part").unwrap();
        job.held.sleep_step("sleep", SECOND).unwrap();
        job.held.join_step("join", parts, &[]).unwrap();
        drop(job);
        let job = take(jobs);
        let kinds = ["value", "spawned", "sleep", "join"];
        for (name, own) in kinds.into_iter().flat_map(|name| kinds.map(|own| (name, own))) {
            let made = match own {
                "value" => job.step(name, || Ok::<u8, Error>(1)).map(drop),
                "spawned" => job.spawn(name, parts, "part").map(drop),
                "sleep" => job.held.sleep_step(name, SECOND).map(drop),
                _ => job.held.join_step(name, parts, &[]).map(drop),
            };
            if name == own {
                assert_eq!(made, Ok(()));
                job.held.step_names.lock().clear();
            } else {
                let Err(Error::Invalid { what }) = made else { panic!("{name} {own}") };
                assert!(what.contains(&format!("kind {name}")), "{what}");
            }
        }
        assert_eq!((job.steps().unwrap().len(), parts.statistics().unwrap().tasks.ready), (4, 1));
    });
}

/// A medium that keeps its content after each write: what a kill of the process leaves then.
#[derive(Clone, Debug, Default)]
struct Images(Arc<Mutex<Bytes>>);

/// The bytes of a medium, now and after each write.
type Bytes = (Vec<u8>, Vec<Vec<u8>>);

impl Images {
    fn of(bytes: Vec<u8>) -> Images {
        Images(Arc::new(Mutex::new((bytes, Vec::new()))))
    }

    fn open(&self, clock: &ManualClock) -> Store {
        let options = Store::options().clock(clock).cache_size(1 << 20);
        options.open_on(Box::new(self.clone())).unwrap()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let (bytes, images) = &mut *self.0.lock();
        let changed = change(bytes);
        images.push(bytes.clone());
        changed
    }
}

impl Storage for Images {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().0.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        out.copy_from_slice(&self.0.lock().0[offset..offset + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.change(|bytes| bytes.resize(usize::try_from(len).unwrap(), 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let offset = usize::try_from(offset).unwrap();
        self.change(|bytes| bytes[offset..offset + data.len()].copy_from_slice(data));
        Ok(())
    }
}

/// The work of a job: two children, a sleep, and a wait for both. Returns whether it is done.
fn work(job: &Claim, parts: &Tube) -> Result<bool> {
    let ids = [job.spawn("a", parts, "a")?, job.spawn("b", parts, "b")?];
    if job.held.sleep_step("rest", 10 * SECOND)? > Duration::ZERO {
        return Ok(false);
    }
    job.held.join_step("both", parts, &ids)
}

/// Works on all tasks until none is left. Returns how many children were worked on.
fn work_on_all(clock: &ManualClock, jobs: &Tube, parts: &Tube) -> u64 {
    let mut done = 0;
    for _ in 0..100 {
        if let Some(job) = jobs.try_take().unwrap() {
            match work(&job, parts) {
                Ok(true) => drop(job.ack().unwrap()),
                Ok(false) if job.is_current().unwrap() => {
                    _ = job.end(Outcome::snooze(10 * SECOND)).unwrap();
                }
                Ok(false) => {}
                Err(error) => panic!("{error}"),
            }
        } else if let Some(part) = parts.try_take().unwrap() {
            part.ack().unwrap();
            done += 1;
        } else {
            clock.advance(10 * SECOND);
        }
    }
    done
}

/// No kill separates the end of a claim from the step and the edges of its join.
#[test]
fn job_that_waits_goes_on_after_a_kill_at_every_write() {
    let medium = Images::of(Vec::new());
    let clock = ManualClock::new();
    let store = medium.open(&clock);
    let jobs =
        store.create_tube("jobs", TubeOptions::new().max_attempts(2).driver(FIFOTTL)).unwrap();
    let parts = store.create_tube("parts", TubeOptions::new().driver(FIFO)).unwrap();
    jobs.put("job").unwrap();
    medium.0.lock().1.clear();
    assert_eq!(work_on_all(&clock, &jobs, &parts), 2);
    let images = std::mem::take(&mut medium.0.lock().1);
    assert!(images.len() > 7, "{} images", images.len());
    for (at, image) in images.into_iter().enumerate() {
        let clock = ManualClock::new();
        let store = Images::of(image).open(&clock);
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "write {at}");
        let [jobs, parts] = ["jobs", "parts"].map(|name| store.find_tube(name).unwrap());
        // A task without attempts would be buried: those of waits are forgiven.
        assert!(work_on_all(&clock, &jobs, &parts) <= 2, "write {at}");
        let [left, children] = [&jobs, &parts].map(|tube| tube.statistics().unwrap().tasks.total);
        assert_eq!((left, children), (0, 0), "write {at}");
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "write {at}");
    }
}
