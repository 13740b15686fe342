//! Retries: a failing task is attempted again after growing delays, and is buried after its last
//! attempt, with the failure. Then an operator looks at it and kicks it.
//!
//! `cargo run --example retries`. The clock is a manual one, so that minutes of retries take no
//! time. With the system clock, a program calls `Worker::start` once.

use std::sync::mpsc;
use std::time::Duration;

use tubewell::worker::Report;
use tubewell::{
    Backoff, Failure, Filter, Job, ManualClock, Outcome, Put, Store, TubeOptions, Worker,
};

/// Calls a web hook, which fails a number of times before it succeeds.
fn call(hook: &Job) -> Result<(), Failure> {
    let failures = match hook.body() {
        b"ping" => 0,
        b"invoice" => 3,
        _ => u32::MAX,
    };
    if hook.attempt() > failures {
        return Ok(());
    }
    Err(Failure::new("timeout", "example.org did not answer within 30 s"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory()?;
    // The tube counts the attempts, delays the task, and buries it after the last one: 10 s, 20 s, 40 s
    // and so on, at most 10 minutes. A program with many workers should add jitter, so that its retries
    // do not coincide.
    let backoff = Backoff::exponential(Duration::from_secs(10)).cap(Duration::from_secs(600));
    let options = TubeOptions::new().max_attempts(6).backoff(backoff);
    let hooks = store.open_tube("hooks", options)?;

    // The tasks 0 to 3.
    hooks.put("invoice")?;
    hooks.put("gone")?;
    hooks.put(Put::new("ping").priority(1))?; // before all other tasks
    hooks.put(Put::new("ping").delay(Duration::from_secs(60)))?; // not before a minute has passed

    let (log, lines) = mpsc::channel();
    while clock.now() <= Duration::from_secs(600) {
        let (log, now) = (log.clone(), clock.now().as_secs());
        let worker = Worker::new(&store).on(&hooks, call).watch(move |report| {
            if let Report::Ended { id, attempt, state, .. } = report {
                log.send(format!("{now:>5} s: task {id}, attempt {attempt}: {state}"))
                    .unwrap_or_default();
            }
        });
        worker.run_until_idle()?;
        clock.advance(Duration::from_secs(10));
    }
    let log: Vec<String> = lines.try_iter().collect();
    println!("{}", log.join("\n"));

    let expected = [
        "    0 s: task 2, attempt 1: done",
        "    0 s: task 0, attempt 1: delayed",
        "    0 s: task 1, attempt 1: delayed",
        "   10 s: task 0, attempt 2: delayed",
        "   10 s: task 1, attempt 2: delayed",
        "   30 s: task 0, attempt 3: delayed",
        "   30 s: task 1, attempt 3: delayed",
        "   60 s: task 3, attempt 1: done",
        "   70 s: task 0, attempt 4: done",
        "   70 s: task 1, attempt 4: delayed",
        "  150 s: task 1, attempt 5: delayed",
        "  310 s: task 1, attempt 6: buried",
    ];
    if log != expected {
        return Err("the attempts differ from the expected ones".into());
    }

    // An operator looks at the dead letters, by failure group.
    clock.advance(Duration::from_secs(3300));
    for group in hooks.query().groups()? {
        println!("{} tasks: {}", group.count, group.name);
        let dead = Filter::new().group(&group.name).newest_first();
        for task in hooks.query().list(dead, None, 100)?.items {
            let failure = task.failure.ok_or("no failure was recorded")?;
            let ago = failure.ago.as_secs() / 60;
            println!(
                "  {}, attempt {}, {ago} min ago: {}",
                task.id, failure.attempt, failure.message
            );
        }
    }

    // After the cause is fixed, kick the tasks: they are ready immediately, with all of their attempts.
    hooks.admin().kick(Filter::new().group("timeout"))?;
    let fixed = |hook: &Job| {
        let (takes, attempt) = (hook.takes(), hook.attempt());
        println!("taken {takes} times, attempt {attempt} after the kick");
        match (takes, attempt, hook.attempts_left()) {
            (7, 1, Some(5)) => Outcome::done(),
            _ => Outcome::bury(Failure::new("attempts", "their count is wrong")),
        }
    };
    match Worker::new(&store).on(&hooks, fixed).run_until_idle()?.done {
        1 => Ok(()),
        _ => Err("the kicked task is not done".into()),
    }
}
