//! Priorities, delays and retries: what fails is tried again, later and later, and set aside after
//! too many times.
//!
//! `cargo run --example retry_backoff`. The clock is a manual one, so that an hour of retries takes
//! no time; with the system's clock the same loop would wait in `take`.

use std::time::Duration;

use tubewell::{Claim, FIFOTTL, ManualClock, Put, State, Store, Tube, TubeOptions};

const FIRST_WAIT: Duration = Duration::from_secs(10);
const LONGEST_WAIT: Duration = Duration::from_secs(600);
const MOST_TAKES: u32 = 6;

/// A web hook: its name, and how often it fails before it succeeds.
fn call(body: &[u8], takes: u32) -> Result<(), &'static str> {
    let failures = match body {
        b"ping" => 0,
        b"invoice" => 3,
        _ => u32::MAX,
    };
    if takes > failures { Ok(()) } else { Err("no answer") }
}

/// 10 s, 20 s, 40 s and so on. `takes` is counted by the queue, and is stored along with the delay.
/// In a program with many workers, add a little randomness, lest all retries come at one moment.
fn backoff(takes: u32) -> Duration {
    let factor = 2u32.saturating_pow(takes.saturating_sub(1));
    FIRST_WAIT.saturating_mul(factor).min(LONGEST_WAIT)
}

fn attempt(hook: Claim, clock: &ManualClock, log: &mut Vec<String>) -> tubewell::Result<()> {
    let (name, takes) = (String::from_utf8_lossy(hook.data()).into_owned(), hook.takes());
    let outcome = match call(hook.data(), takes) {
        Ok(()) => {
            hook.ack()?;
            "done".to_owned()
        }
        Err(_) if takes >= MOST_TAKES => {
            hook.bury()?;
            "buried".to_owned()
        }
        Err(why) => {
            hook.release(backoff(takes))?;
            format!("{why}, again in {:?}", backoff(takes))
        }
    };
    log.push(format!("{:>5} s: {name} {takes}: {outcome}", clock.now().as_secs()));
    Ok(())
}

/// Until the next delayed task is ready. Only a clock that is moved by hand needs to know.
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
    hooks.put(Put::new("ping").pri(1))?; // before all others
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
        return Err("that is not what was expected".into());
    }

    // Somebody has repaired what was broken: back with it. It is tried once more, at once.
    hooks.kick(1)?;
    let again = hooks.try_take()?.ok_or("the kicked task is not ready")?;
    println!("take {} after the kick", again.takes());
    if again.takes() != MOST_TAKES + 1 {
        return Err("the takes were counted wrongly".into());
    }
    again.ack()?;
    Ok(())
}
