//! Cases of other job systems: how jobs end, and what follows for their tasks.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tubewell::worker::{Ended, Job};
use tubewell::{
    Backoff, EventKind, FIFOTTL, Failure, Filter, OnKey, Outcome, Put, Result, TaskState, Tube,
    TubeOptions,
};

use super::support::*;

/// A call of a handler on its own task, which has the key `key`.
type Again = fn(&Tube, &Tube, u64) -> Result<()>;

const AGAIN: [(&str, Again); 4] = [
    ("revoke", |tube, _, id| tube.admin().revoke(id).map(drop)),
    ("move", |tube, other, id| tube.admin().move_to(other, id).map(drop)),
    ("requeue", |tube, _, _| tube.requeue("key", "again").map(drop)),
    ("replace", |tube, _, _| {
        tube.put(Put::new("again").key("key").on_key(OnKey::Replace)).map(drop)
    }),
];

/// Q323
#[test]
fn task_that_its_handler_has_moved_or_put_again_is_not_done() {
    in_every_form(|form| {
        for (name, again) in AGAIN {
            let case = Case::new();
            let other = case.another("other");
            case.tube.put(Put::new("x").key("key")).unwrap();
            let tube = case.tube.clone();
            let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
                again(&tube, &other, job.id()).unwrap();
            });
            assert_eq!((tally.lost, tally.done), (1, 0), "{name}");
            let task = case.store.by_key("key").unwrap().unwrap();
            assert_eq!(task.state, TaskState::Ready, "{name}");
            assert_eq!(case.tube.statistics().unwrap().calls.ack, 0, "{name}");
        }
    });
}

/// T057
#[test]
fn job_that_ends_well_is_a_take_and_an_ack() {
    in_every_form(|form| {
        let case = Case::new();
        let events = case.store.events(Filter::new().tube("case"), 100).unwrap();
        let id = case.put("x");
        form.work(&case, &case.tube, 1, |_: &Job| ());
        let kinds = [EventKind::Put, EventKind::Take, EventKind::Ack];
        for kind in kinds {
            let event = events.recv().unwrap();
            assert_eq!((event.id, event.kind), (id, kind));
            let owner = (kind != EventKind::Put).then_some("worker");
            assert_eq!(event.owner.as_deref(), owner, "{kind:?}");
        }
        case.put("y");
        assert_eq!(events.recv().unwrap().kind, EventKind::Put);
    });
}

/// Q324
/// Difference: Rust does not record where an error was made, so a failure has no location.
#[test]
fn long_message_of_a_panic_is_cut() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        case.put("text");
        case.put("value");
        let (tally, reports) = form.work(&case, &case.tube, 2, |job: &Job| -> () {
            assert!(job.body() == b"value", "{}", "é".repeat(50_000));
            std::panic::panic_any(7);
        });
        assert_eq!(tally.panicked, 2);
        for report in &reports {
            let (id, end, state, failure) = ended(report);
            let (group, message) = failure.unwrap();
            assert_eq!((end, state, &*group), (Ended::Panicked, TaskState::Buried, "panic"));
            let stored = case.tube.query().task(id).unwrap().info.failure.unwrap();
            assert_eq!((&stored.group, &stored.message), (&group, &message));
            assert!(id == 1 || message == "é".repeat(5_000), "{}", message.len());
        }
        assert_eq!(case.tube.query().groups().unwrap()[0].count, 2);
    });
}

/// The kinds of jobs that an old version of the application knows,
#[derive(Serialize, Deserialize)]
enum OldJob {
    Mail,
}

/// and those of a new one.
#[derive(Serialize, Deserialize)]
enum NewJob {
    Mail,
    Film,
}

/// Q325 T062
#[test]
fn task_of_an_unknown_type_waits_buried_for_a_worker_that_knows_the_type() {
    in_every_form(|form| {
        let case = Case::new();
        let (old, new) = (case.tube.typed::<OldJob>(), case.tube.typed::<NewJob>());
        let film = new.put(&NewJob::Film).unwrap().id;
        new.put(&NewJob::Mail).unwrap();
        let mail = |job: &Job<OldJob>| assert!(matches!(job.value(), OldJob::Mail));
        let (tally, _) = form.work(&case, &old, 2, mail);
        assert_eq!((tally.undecodable, tally.done), (1, 1));
        let info = case.tube.query().task(film).unwrap().info;
        assert_eq!((info.state, &*info.failure.unwrap().group), (TaskState::Buried, "undecodable"));
        case.tube.kick(film).unwrap();
        let film = |job: &Job<NewJob>| assert!(matches!(job.value(), NewJob::Film));
        assert_eq!(form.work(&case, &new, 1, film).0.done, 1);
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
    });
}

/// Retries a known error, and nothing else.
fn retry_known(job: &Job) -> Result<Outcome, Failure> {
    match job.body() {
        b"good" => Ok(Outcome::done()),
        b"known" => Err(Failure::new("known", "try again")),
        _ => Ok(Outcome::bury(Failure::new("unknown", "no retry helps"))),
    }
}

/// Q329
/// Difference: there is no list of errors to retry. An error is retried while the budget of the
/// task lasts, and a handler returns `Outcome::Bury` for one that is not.
#[test]
fn handler_decides_which_errors_are_retried() {
    in_every_form(|form| {
        for attempts in [1, 3] {
            let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(attempts));
            let [good, known, unknown] = ["good", "known", "unknown"].map(|body| case.put(body));
            let jobs = 2 + u64::from(attempts);
            let (tally, reports) = form.work(&case, &case.tube, jobs, retry_known);
            let ends = (tally.done, tally.failed, tally.buried);
            assert_eq!(ends, (1, u64::from(attempts), 1));
            // Each end is reported once.
            let of = |id| reports.iter().filter(|report| ended(report).0 == id).count();
            assert_eq!([good, known, unknown].map(of), [1, attempts as usize, 1]);
            assert_eq!(case.state(good), None);
            for (id, group) in [(known, "known"), (unknown, "unknown")] {
                let info = case.tube.query().task(id).unwrap().info;
                assert_eq!((info.state, &*info.failure.unwrap().group), (TaskState::Buried, group));
            }
        }
    });
}

/// The delays of a task after each of its first five attempts, in milliseconds. Each attempt ends
/// with what `fail` returns.
fn delays(
    form: Form,
    options: TubeOptions,
    fail: fn(&Job) -> Result<Outcome, Failure>,
) -> Vec<u64> {
    let case = Case::with(FIFOTTL, options);
    // Another task, with attempts of its own.
    case.put("beside");
    form.work(&case, &case.tube, 1, |_: &Job| Outcome::snooze(secs(u64::from(u32::MAX))));
    let id = case.put("x");
    let delays = (0..5).map(|_| {
        assert_eq!(form.work(&case, &case.tube, 1, fail).0.failed, 1);
        let delay = case.tube.query().task(id).unwrap().info.due_in.unwrap();
        case.clock.advance(delay);
        u64::try_from(delay.as_millis()).unwrap()
    });
    delays.collect()
}

/// Q330
/// Difference: the jitter is taken off the delay, and depends on the id and the attempt only.
#[test]
fn failed_job_is_delayed_by_the_backoff_of_its_tube() {
    in_every_form(|form| {
        let fail = |_: &Job| Err(Failure::new("group", "message"));
        let with = |backoff| delays(form, TubeOptions::new().backoff(backoff), fail);
        let ten = Backoff::exponential(secs(10));
        assert_eq!(with(ten.factor(10.0)), [10_000, 100_000, 1_000_000, 10_000_000, 100_000_000]);
        assert_eq!(with(ten.factor(3.0)), [10_000, 30_000, 90_000, 270_000, 810_000]);
        assert_eq!(with(ten), [10_000, 20_000, 40_000, 80_000, 160_000]);
        for (backoff, share) in [(ten.factor(1.0), 30_u32), (Backoff::exponential(secs(100)), 20)] {
            let full = with(backoff);
            let less = with(backoff.jitter(f64::from(share) / 100.0));
            for (full, less) in full.iter().zip(&less) {
                assert!(
                    less <= full && *less >= full * u64::from(100 - share) / 100,
                    "{less} of {full}"
                );
            }
            assert_ne!(full, less);
        }
    });
}

/// Q330
/// Difference: no backoff grows by a sum. A handler that wants one computes the delay.
#[test]
fn handler_can_compute_the_delay_of_the_next_attempt() {
    in_every_form(|form| {
        let fail = |job: &Job| {
            let delay = secs(2 * u64::from(job.attempt()));
            Ok(Outcome::fail_in(delay, Failure::new("group", "message")))
        };
        let options = TubeOptions::new().backoff(Backoff::constant(secs(60)));
        assert_eq!(delays(form, options, fail), [2_000, 4_000, 6_000, 8_000, 10_000]);
    });
}

/// Releases its task for 10 to 20 seconds, three times for each of two errors, and fails then. The
/// body counts them.
fn release_or_fail(job: &Job<[u32; 2]>) -> Result<Outcome> {
    const GROUPS: [&str; 2] = ["busy", "slow"];
    let mut counts = *job.value();
    let error = job.takes() as usize % 2;
    if counts[error] == 3 {
        return Ok(Outcome::fail(Failure::new(GROUPS[error], "still")));
    }
    counts[error] += 1;
    job.checkpoint(counts)?;
    Ok(Outcome::release_in(secs(10 + u64::from(job.takes()) * 7 % 11)))
}

/// Q331
/// Difference: counters of errors are the handler's, for instance in the body.
#[test]
fn handler_can_release_its_task_for_a_while_and_count_that_in_the_body() {
    in_every_form(|form| {
        let case = Case::new();
        let counted = case.tube.typed::<[u32; 2]>();
        let id = counted.put([0, 0]).unwrap().id;
        for _ in 0..6 {
            assert_eq!(form.work(&case, &counted, 1, release_or_fail).0.released, 1);
            let delay = case.tube.query().task(id).unwrap().info.due_in.unwrap();
            assert!((secs(10)..=secs(20)).contains(&delay), "{delay:?}");
            case.clock.advance(delay);
        }
        assert_eq!(counted.query().task(id).unwrap().value().unwrap(), [3, 3]);
        let (tally, reports) = form.work(&case, &counted, 1, release_or_fail);
        assert_eq!((tally.failed, ended(&reports[0]).3.unwrap().0), (1, "slow".to_owned()));
    });
}

/// Q331
/// Difference: a delay has no upper limit. One that the driver does not have fails the attempt.
#[test]
fn longest_delay_is_accepted() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let (tally, _) =
            form.work(&case, &case.tube, 1, |_: &Job| Outcome::release_in(Duration::MAX));
        assert_eq!((tally.released, case.state(id)), (1, Some(TaskState::Delayed)));
    });
}
