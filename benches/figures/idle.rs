//! The activity of an idle store during one minute.

use std::path::Path;
use std::time::Duration;

use tubewell::{FIFOTTL, Put, Store, TubeOptions};

use super::process::ChildProcess;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body};

const SECONDS: u64 = 60;
/// Time from the last operation until a store has finished its idle work.
const IDLE_WORK: Duration = Duration::from_secs(8);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("idle");
    let text = path.to_str().ok_or("the path is not UTF-8")?;
    let answers = ChildProcess::start(&["idle", text, &SECONDS.to_string()])?.answers()?;
    let wakes = answers["wakes"];
    report.note(format!("wake-ups of all threads in {SECONDS} s"), wakes, "");
    report.note(format!("writes in {SECONDS} s"), answers["writes"], "");
    report.note(format!("flushes in {SECONDS} s"), answers["flushes"], "");
    report.note(format!("CPU time in {SECONDS} s"), answers["cpu"], "ms");
    let got = format!("{} writes, {} wake-ups in {SECONDS} s", answers["writes"], short(wakes));
    let met = answers["writes"] == 0.0 && wakes <= SECONDS as f64 / 30.0;
    report.target(
        "idle store without due tasks",
        "no write, at most one wake-up in 30 s",
        got,
        met,
    );
    Ok(())
}

/// The workload of the child process: a store with one task that is due in an hour and one waiting
/// consumer, without calls.
pub fn child(path: &Path, seconds: u64) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new())?;
    for n in 0..100 {
        tube.put(body(n, BODY))?;
        tube.try_take()?.ok_or("no ready task")?.ack()?;
    }
    tube.put(Put::new(body(1, BODY)).delay(Duration::from_secs(3600)))?;
    let consumer = {
        let tube = tube.clone();
        std::thread::spawn(move || tube.take(None).map(|_| ()))
    };
    std::thread::sleep(IDLE_WORK);
    let (counters, (wakes, cpu)) = (store.counters(), thread_activity());
    std::thread::sleep(Duration::from_secs(seconds));
    let (later, (woken, used)) = (store.counters(), thread_activity());
    // One wake-up is that of this thread. Reading the counters wakes no thread.
    println!("wakes {}", woken - wakes - 1.0);
    println!("cpu {}", (used - cpu) / 1e6);
    println!("writes {}", later.writes - counters.writes);
    println!("flushes {}", later.flushes - counters.flushes);
    store.close()?;
    assert!(consumer.join().expect("no panic").is_err(), "closing the store ends the wait");
    Ok(())
}

/// How often the threads of this process have blocked, and their CPU time in nanoseconds.
pub fn thread_activity() -> (f64, f64) {
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
