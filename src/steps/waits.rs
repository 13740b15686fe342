//! Steps that wait: sleeps, and waits for other tasks. The task is given back meanwhile.

use std::time::Duration;

use tubewell_drivers::NEVER;

use crate::core::StepVerb;
use crate::micros::{duration, micros_ceil};
use crate::{Claim, Result, Tube};

impl Claim {
    /// How long the sleep of this name still lasts; zero once it is over. It begins with the first call,
    /// in this attempt or an earlier one, and goes on while the store is closed.
    pub(crate) fn sleep_step(&self, name: &str, time: Duration) -> Result<Duration> {
        let named = self.name_step(name)?;
        let left = self.make(StepVerb::Sleep { name, time: micros_ceil(time) });
        named.keep(left).map(time_left)
    }

    /// As `sleep_step`, as a future that blocks no thread.
    pub(crate) async fn sleep_step_async(&self, name: &str, time: Duration) -> Result<Duration> {
        let named = self.name_step(name)?;
        let left = self.make_async(StepVerb::Sleep { name, time: micros_ceil(time) }).await;
        named.keep(left).map(time_left)
    }

    /// Whether these tasks, of this tube or of others to which they have gone on, are over. If one is
    /// not, the claim has ended when this returns: the task is blocked until they are, and the attempt is
    /// forgiven. In the next attempt the wait of this name is over.
    pub(crate) fn join_step(&self, name: &str, tube: &Tube, ids: &[u64]) -> Result<bool> {
        let named = self.name_step(name)?;
        tube.check_store(&self.handle)?;
        named.keep(self.make(StepVerb::Join { name, of: tube.as_target(), ids }))
    }

    /// As `join_step`, as a future that blocks no thread.
    pub(crate) async fn join_step_async(
        &self,
        name: &str,
        tube: &Tube,
        ids: &[u64],
    ) -> Result<bool> {
        let named = self.name_step(name)?;
        tube.check_store(&self.handle)?;
        named.keep(self.make_async(StepVerb::Join { name, of: tube.as_target(), ids }).await)
    }
}

fn time_left(micros: u64) -> Duration {
    if micros == NEVER { Duration::MAX } else { duration(micros) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::Core;
    use crate::{
        Error, FIFO, FIFOTTL, ManualClock, OnParent, Put, State, StepKind, Store, TubeOptions,
        UTUBETTL,
    };

    const SECOND: Duration = Duration::from_secs(1);

    fn with_tubes(options: TubeOptions, check: impl Fn(&ManualClock, &Store, &Tube, &Tube)) {
        for driver in [FIFO, FIFOTTL, UTUBETTL] {
            let clock = ManualClock::new();
            let store = Store::options().clock(&clock).open_in_memory().unwrap();
            let jobs = store.create_tube("jobs", driver, options.clone()).unwrap();
            let parts = store.create_tube("parts", FIFO, TubeOptions::new()).unwrap();
            check(&clock, &store, &jobs, &parts);
            assert_eq!(store.verify().unwrap(), [""; 0]);
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
            assert_eq!(job.sleep_step("rest", 10 * SECOND), Ok(10 * SECOND));
            assert!(matches!(job.sleep_step("rest", SECOND), Err(Error::Invalid { .. })));
            drop(job);
            clock.advance(4 * SECOND);
            let job = take(jobs);
            assert_eq!(job.sleep_step("rest", SECOND), Ok(6 * SECOND));
            assert_eq!(job.sleep_step("none", Duration::ZERO), Ok(Duration::ZERO));
            assert_eq!(job.sleep_step("endless", Duration::MAX), Ok(Duration::MAX));
            let steps = job.steps().unwrap();
            assert!(steps.iter().all(|step| step.kind == StepKind::Sleep));
            let until = 1_767_225_600_000_000_u64 + 10_000_000;
            assert_eq!(steps[2].value, until.to_be_bytes());
            drop(job);
            clock.advance(6 * SECOND);
            let job = take(jobs);
            assert_eq!(job.sleep_step("rest", SECOND), Ok(Duration::ZERO));
            assert_eq!(job.sleep_step("endless", SECOND), Ok(Duration::MAX));
            assert_eq!(store.verify().unwrap(), [""; 0]);
            job.ack().unwrap();
        });
    }

    #[test]
    fn join_blocks_the_task_until_all_are_done_and_forgives_the_attempt() {
        with_tubes(TubeOptions::new().max_attempts(1), |_, store, jobs, parts| {
            let id = jobs.put("job").unwrap().id;
            let job = take(jobs);
            let ids = [0, 1].map(|n| job.spawn(&format!("part {n}"), parts, "part").unwrap());
            assert_eq!(job.join_step("parts", parts, &ids), Ok(false));
            assert!(!job.is_current());
            assert_eq!(job.step("late", || Ok::<u8, Error>(1)), Err(Error::NotTaken { id }));
            drop(job);
            let info = jobs.peek(id).unwrap().info;
            assert_eq!((info.state, info.open_parents, info.attempts), (State::Blocked, 2, 0));
            assert_eq!(info.steps, 3);
            assert_eq!(
                (jobs.parents(id), parts.children(ids[0])),
                (Ok(ids.to_vec()), Ok(vec![id]))
            );
            assert_eq!(store.verify().unwrap(), [""; 0]);

            take(parts).ack().unwrap();
            assert!(jobs.try_take().unwrap().is_none());
            let last = take(parts);
            // A buried child is not over.
            last.bury().unwrap();
            assert!(jobs.try_take().unwrap().is_none());
            parts.kick(1).unwrap();
            take(parts).ack().unwrap();
            let job = take(jobs);
            assert_eq!(job.attempt(), 1);
            let again = [0, 1].map(|n| job.spawn(&format!("part {n}"), parts, "part").unwrap());
            assert_eq!((again, job.join_step("parts", parts, &ids)), (ids, Ok(true)));
            assert_eq!(parts.statistics().unwrap().tasks.total, 0);
            job.ack().unwrap();
        });
    }

    #[test]
    fn join_of_tasks_that_are_over_keeps_the_claim() {
        with_tubes(TubeOptions::new(), |_, _, jobs, parts| {
            let over = parts.put("part").unwrap().id;
            take(parts).ack().unwrap();
            let id = jobs.put("job").unwrap().id;
            let job = take(jobs);
            assert_eq!(job.join_step("parts", parts, &[over]), Ok(true));
            assert_eq!(job.join_step("nothing", parts, &[]), Ok(true));
            assert_eq!(job.join_step("of another store", parts, &[u64::MAX]), Ok(true));
            assert!(matches!(job.join_step("parts", parts, &[]), Err(Error::Invalid { .. })));
            assert_eq!(job.join_step("itself", jobs, &[id]), Err(Error::Cycle { id }));
            let unknown = job.join_step("unknown", parts, &[99]);
            assert_eq!(unknown, Err(Error::NotFound { id: 99 }));
            assert!(job.is_current());
            assert_eq!(job.steps().unwrap().len(), 3);
            // Each name is free again after an error.
            let part = parts.put("part").unwrap().id;
            assert_eq!(job.join_step("unknown", parts, &[part, over, part]), Ok(false));
            assert_eq!(jobs.parents(id), Ok(vec![part]));
        });
    }

    #[test]
    fn joined_task_that_would_wait_for_itself_is_refused() {
        with_tubes(TubeOptions::new(), |_, store, jobs, parts| {
            let id = jobs.put("job").unwrap().id;
            let child = parts.put(Put::new("child").after(jobs, [id])).unwrap().id;
            let job = take(jobs);
            assert_eq!(job.join_step("child", parts, &[child]), Err(Error::Cycle { id }));
            assert_eq!((job.is_current(), job.steps().unwrap().len()), (true, 0));
            let temporary = TubeOptions::new().temporary(true);
            let memory = store.create_tube("memory", FIFO, temporary).unwrap();
            let other = memory.put("x").unwrap().id;
            let refused = job.join_step("memory", &memory, &[other]);
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            job.ack().unwrap();
            assert_eq!(take(parts).id(), child);
        });
    }

    #[test]
    fn joined_task_follows_its_rule_for_parents() {
        for (rule, buried, gone) in [
            (OnParent::Wait, State::Blocked, State::Buried),
            (OnParent::Release, State::Ready, State::Ready),
            (OnParent::Bury, State::Buried, State::Buried),
        ] {
            with_tubes(TubeOptions::new(), |_, store, jobs, parts| {
                for (is_gone, expected) in [(false, buried), (true, gone)] {
                    let id = jobs.put(Put::new("job").on_parent(rule)).unwrap().id;
                    let job = jobs.claim(id).unwrap();
                    let part = job.spawn("part", parts, "part").unwrap();
                    assert_eq!(job.join_step("part done", parts, &[part]), Ok(false));
                    parts.claim(part).unwrap().bury().unwrap();
                    if is_gone {
                        parts.truncate().unwrap();
                    }
                    store.flush().unwrap();
                    while store.inner().run(Core::tell_children).unwrap() {}
                    let state = jobs.peek(id).unwrap().info.state;
                    let expected =
                        if is_gone && rule != OnParent::Wait { buried } else { expected };
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
            job.sleep_step("sleep", SECOND).unwrap();
            job.join_step("join", parts, &[]).unwrap();
            drop(job);
            let job = take(jobs);
            let kinds = ["value", "spawned", "sleep", "join"];
            for (name, own) in kinds.into_iter().flat_map(|name| kinds.map(|own| (name, own))) {
                let made = match own {
                    "value" => job.step(name, || Ok::<u8, Error>(1)).map(drop),
                    "spawned" => job.spawn(name, parts, "part").map(drop),
                    "sleep" => job.sleep_step(name, SECOND).map(drop),
                    _ => job.join_step(name, parts, &[]).map(drop),
                };
                if name == own {
                    assert_eq!(made, Ok(()));
                    job.step_names.lock().clear();
                } else {
                    let Err(Error::Invalid { what }) = made else { panic!("{name} {own}") };
                    assert!(what.contains(&format!("kind {name}")), "{what}");
                }
            }
            assert_eq!(
                (job.steps().unwrap().len(), parts.statistics().unwrap().tasks.ready),
                (4, 1)
            );
        });
    }
}
