//! Retry with exponential backoff, priorities and delays: a failing task is retried after growing
//! delays and is buried after six attempts.
//!
//! `cargo run --example retry_backoff`. The clock is a manual one, so that minutes of retries take no
//! time; with the system clock the same loop waits in `take`.

use std::time::Duration;

use tubewell::{Claim, FIFOTTL, ManualClock, Put, State, Store, Tube, TubeOptions};

const FIRST_DELAY: Duration = Duration::from_secs(10);
const LONGEST_DELAY: Duration = Duration::from_secs(600);
const MAX_ATTEMPTS: u32 = 6;

/// Calls a web hook, which fails a number of times before it succeeds.
fn call(body: &[u8], attempts: u32) -> Result<(), &'static str> {
    let failures = match body {
        b"ping" => 0,
        b"invoice" => 3,
        _ => u32::MAX,
    };
    if attempts > failures { Ok(()) } else { Err("no answer") }
}

/// 10 s, 20 s, 40 s and so on. The queue counts the attempts and stores the count with the delay. A
/// program with many workers should add random jitter, so that its retries do not coincide.
fn backoff(attempts: u32) -> Duration {
    let factor = 2u32.saturating_pow(attempts.saturating_sub(1));
    FIRST_DELAY.saturating_mul(factor).min(LONGEST_DELAY)
}

fn attempt(hook: Claim, clock: &ManualClock, log: &mut Vec<String>) -> tubewell::Result<()> {
    let (name, attempts) = (String::from_utf8_lossy(hook.data()).into_owned(), hook.takes());
    let outcome = match call(hook.data(), attempts) {
        Ok(()) => {
            hook.ack()?;
            "done".to_owned()
        }
        Err(_) if attempts >= MAX_ATTEMPTS => {
            hook.bury()?;
            "buried".to_owned()
        }
        Err(why) => {
            hook.release(backoff(attempts))?;
            format!("{why}, again in {:?}", backoff(attempts))
        }
    };
    log.push(format!("{:>5} s: {name} {attempts}: {outcome}", clock.now().as_secs()));
    Ok(())
}

/// The time until the next delayed task is ready. Only a manual clock needs it.
fn next_due(hooks: &Tube) -> tubewell::Result<Option<Duration>> {
    let delayed = hooks.list(State::Delayed, None, 100)?.tasks;
    Ok(delayed.iter().filter_map(|task| task.due_in).min())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory()?;
    let hooks = store.create_tube("hooks", FIFOTTL, TubeOptions::new().pri(100))?;

    hooks.put("invoice")?;
    hooks.put("gone")?;
    hooks.put(Put::new("ping").pri(1))?; // before all other tasks
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
        "    0 s: invoice 1: no answer, again in 10s",
        "    0 s: gone 1: no answer, again in 10s",
        "   10 s: invoice 2: no answer, again in 20s",
        "   10 s: gone 2: no answer, again in 20s",
        "   30 s: invoice 3: no answer, again in 40s",
        "   30 s: gone 3: no answer, again in 40s",
        "   60 s: ping 1: done",
        "   70 s: invoice 4: done",
        "   70 s: gone 4: no answer, again in 80s",
        "  150 s: gone 5: no answer, again in 160s",
        "  310 s: gone 6: buried",
    ];
    if log != expected {
        return Err("the attempts differ from the expected ones".into());
    }

    // After the cause is fixed, kick the task: it is ready immediately.
    hooks.kick(1)?;
    let again = hooks.try_take()?.ok_or("the kicked task is not ready")?;
    println!("attempt {} after the kick", again.takes());
    if again.takes() != MAX_ATTEMPTS + 1 {
        return Err("the count of attempts is wrong".into());
    }
    again.ack()?;
    Ok(())
}
