//! Retries: a failing task is attempted again after growing delays, and is buried after its last
//! attempt, with the failure. Then an operator looks at it and kicks it.
//!
//! `cargo run --example retries`. The clock is a manual one, so that minutes of retries take no
//! time; with the system clock the same loop waits in `take`.

use std::time::Duration;

use tubewell::{
    Backoff, Claim, Failure, Filter, ManualClock, Put, Store, TaskState, Tube, TubeOptions,
};

/// Calls a web hook, which fails a number of times before it succeeds.
fn call(body: &[u8], attempt: u32) -> Result<(), Failure> {
    let failures = match body {
        b"ping" => 0,
        b"invoice" => 3,
        _ => u32::MAX,
    };
    if attempt > failures {
        return Ok(());
    }
    Err(Failure::new("timeout", "example.org did not answer within 30 s"))
}

/// The tube counts the attempts, delays the task, and buries it after the last one.
fn attempt(hook: Claim, clock: &ManualClock, log: &mut Vec<String>) -> tubewell::Result<()> {
    let (name, attempt) = (String::from_utf8_lossy(hook.body()).into_owned(), hook.attempt());
    let receipt = match call(hook.body(), attempt) {
        Ok(()) => hook.ack()?,
        Err(failure) => hook.fail(failure)?,
    };
    log.push(format!("{:>5} s: {name} {attempt}: {}", clock.now().as_secs(), receipt.state));
    Ok(())
}

/// The time until the next delayed task is ready. Only a manual clock needs it.
fn next_due(hooks: &Tube) -> tubewell::Result<Option<Duration>> {
    let delayed = hooks.query().list(TaskState::Delayed, None, 100)?.items;
    Ok(delayed.iter().filter_map(|task| task.due_in).min())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory()?;
    // 10 s, 20 s, 40 s and so on, at most 10 minutes. A program with many workers should add jitter,
    // so that its retries do not coincide.
    let backoff = Backoff::exponential(Duration::from_secs(10)).cap(Duration::from_secs(600));
    let options = TubeOptions::new().max_attempts(6).backoff(backoff);
    let hooks = store.open_tube("hooks", options)?;

    hooks.put("invoice")?;
    hooks.put("gone")?;
    hooks.put(Put::new("ping").priority(1))?; // before all other tasks
    hooks.put(Put::new("ping").delay(Duration::from_secs(60)))?; // not before a minute has passed

    let mut log = Vec::new();
    loop {
        while let Some(hook) = hooks.try_take()? {
            attempt(hook, &clock, &mut log)?;
        }
        match next_due(&hooks)? {
            Some(due) => clock.advance(due),
            None => break,
        }
    }
    println!("{}", log.join("\n"));

    let expected = [
        "    0 s: ping 1: done",
        "    0 s: invoice 1: delayed",
        "    0 s: gone 1: delayed",
        "   10 s: invoice 2: delayed",
        "   10 s: gone 2: delayed",
        "   30 s: invoice 3: delayed",
        "   30 s: gone 3: delayed",
        "   60 s: ping 1: done",
        "   70 s: invoice 4: done",
        "   70 s: gone 4: delayed",
        "  150 s: gone 5: delayed",
        "  310 s: gone 6: buried",
    ];
    if log != expected {
        return Err("the attempts differ from the expected ones".into());
    }

    // An operator looks at the dead letters, by failure group.
    clock.advance(Duration::from_secs(3600));
    for group in hooks.query().groups()? {
        println!("{} tasks: {}", group.count, group.name);
        for task in
            hooks.query().list(Filter::new().group(&group.name).newest_first(), None, 100)?.items
        {
            let failure = task.failure.ok_or("no failure was recorded")?;
            let ago = failure.ago.as_secs() / 60;
            println!(
                "  {}, attempt {}, {ago} min ago: {}",
                task.id, failure.attempt, failure.message
            );
        }
    }

    // After the cause is fixed, kick the task: it is ready immediately, with all of its attempts.
    hooks.admin().kick(Filter::new().limit(1))?;
    let again = hooks.try_take()?.ok_or("the kicked task is not ready")?;
    println!("taken {} times, attempt {} after the kick", again.takes(), again.attempt());
    if (again.takes(), again.attempt(), again.attempts_left()) != (7, 1, Some(5)) {
        return Err("the count of attempts is wrong".into());
    }
    again.ack()?;
    Ok(())
}
