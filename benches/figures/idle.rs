//! A store that nobody uses: what it does all the same, in a minute.

use std::path::Path;
use std::time::Duration;

use tubewell::{FIFOTTL, Put, Store, TubeOptions};

use super::child::Process;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body};

const SECONDS: u64 = 60;
/// After the last work, until a store has come to rest.
const SETTLING: Duration = Duration::from_secs(8);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("idle");
    let text = path.to_str().ok_or("a path of letters")?;
    let answers = Process::start(&["idle", text, &SECONDS.to_string()])?.answers()?;
    let wakes = answers["wakes"];
    report.note(format!("wake-ups in {SECONDS} s, of all threads"), wakes, "");
    report.note("writes meanwhile", answers["writes"], "");
    report.note("flushes meanwhile", answers["flushes"], "");
    report.note("CPU time meanwhile", answers["cpu"], "ms");
    let got = format!("{} writes, {} wake-ups in {SECONDS} s", answers["writes"], short(wakes));
    let met = answers["writes"] == 0.0 && wakes <= SECONDS as f64 / 30.0;
    report.mark("idle store without dues", "no write, a wake-up in 30 s", got, met);
    Ok(())
}

/// In a process of its own: a store with a task that is not due for long, a consumer who waits,
/// and nobody who does anything.
pub fn child(path: &Path, seconds: u64) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new())?;
    for n in 0..100 {
        tube.put(body(n, BODY))?;
        tube.try_take()?.ok_or("a task")?.ack()?;
    }
    tube.put(Put::new(body(1, BODY)).delay(Duration::from_secs(3600)))?;
    let consumer = {
        let tube = tube.clone();
        std::thread::spawn(move || tube.take(None).map(|_| ()))
    };
    std::thread::sleep(SETTLING);
    let (counters, (wakes, cpu)) = (store.counters(), of_threads());
    std::thread::sleep(Duration::from_secs(seconds));
    let (later, (woken, used)) = (store.counters(), of_threads());
    // This thread slept once, and asking woke nobody.
    println!("wakes {}", woken - wakes - 1.0);
    println!("cpu {}", (used - cpu) / 1e6);
    println!("writes {}", later.writes - counters.writes);
    println!("flushes {}", later.flushes - counters.flushes);
    store.close()?;
    assert!(consumer.join().expect("no panic").is_err(), "closing ends the wait");
    Ok(())
}

/// How often the threads of this process have gone to sleep, and the nanoseconds they have run.
fn of_threads() -> (f64, f64) {
    let (mut wakes, mut nanos) = (0.0, 0.0);
    for task in std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let read = |name| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        let status = read("status");
        let line = status.lines().find(|line| line.starts_with("voluntary_ctxt_switches:"));
        let number = |text: Option<&str>| text.and_then(|text| text.parse::<f64>().ok());
        wakes += number(line.and_then(|line| line.split_whitespace().nth(1))).unwrap_or(0.0);
        nanos += number(read("schedstat").split_whitespace().next()).unwrap_or(0.0);
    }
    (wakes, nanos)
}
