//! The activity of an idle store during one minute.

use std::path::Path;
use std::time::Duration;

use tubewell::{FIFOTTL, Put, Store, TubeOptions};

use super::process::ChildProcess;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body};

/// The time for which an idle store is watched.
pub const SECONDS: u64 = 60;
/// Time from the last operation until a store has finished its idle work.
const IDLE_WORK: Duration = Duration::from_secs(8);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    let path = setting.fresh("idle");
    let text = path.to_str().ok_or("the path is not UTF-8")?;
    let answers = ChildProcess::start(&["idle", text, &SECONDS.to_string()])?.answers()?;
    let [wakes, cpu, writes, flushes] =
        ["wakes", "cpu", "writes", "flushes"].map(|name| answers[name]);
    Activity { wakes, cpu, writes, flushes }.report("idle store without due tasks", report);
    Ok(())
}

/// What a store and the threads of its process do while nobody calls it.
pub struct Activity {
    wakes: f64,
    /// In milliseconds.
    cpu: f64,
    writes: f64,
    flushes: f64,
}

impl Activity {
    /// Watches the store and all threads of this process for so many seconds, once the store has
    /// finished its idle work.
    pub fn of_idle(store: &Store, seconds: u64) -> Outcome<Activity> {
        std::thread::sleep(IDLE_WORK);
        let (counters, (wakes, nanos)) = (store.admin().counters()?, thread_activity());
        std::thread::sleep(Duration::from_secs(seconds));
        let (later, (woken, used)) = (store.admin().counters()?, thread_activity());
        Ok(Activity {
            // One wake-up is that of this thread. Reading the counters wakes no thread.
            wakes: woken - wakes - 1.0,
            cpu: (used - nanos) / 1e6,
            writes: (later.writes - counters.writes) as f64,
            flushes: (later.flushes - counters.flushes) as f64,
        })
    }

    /// Reports the activity of a store that was watched for [`SECONDS`].
    pub fn report(&self, what: &str, report: &mut Report) {
        report.note(format!("{what}: wake-ups of all threads in {SECONDS} s"), self.wakes, "");
        report.note(format!("{what}: writes in {SECONDS} s"), self.writes, "");
        report.note(format!("{what}: flushes in {SECONDS} s"), self.flushes, "");
        report.note(format!("{what}: CPU time in {SECONDS} s"), self.cpu, "ms");
        let got = format!("{} writes, {} wake-ups in {SECONDS} s", self.writes, short(self.wakes));
        let met = self.writes == 0.0 && self.wakes <= SECONDS as f64 / 30.0;
        report.target(what, "no write, at most one wake-up in 30 s", got, met);
    }
}

/// The workload of the child process: a store with one task that is due in an hour and one waiting
/// consumer, without calls.
pub fn child(path: &Path, seconds: u64) -> Outcome {
    let store = Store::open(path)?;
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL))?;
    for n in 0..100 {
        tube.put(body(n, BODY))?;
        tube.try_take()?.ok_or("no ready task")?.ack()?;
    }
    tube.put(Put::new(body(1, BODY)).delay(Duration::from_secs(3600)))?;
    let consumer = {
        let tube = tube.clone();
        std::thread::spawn(move || tube.take_timeout(Duration::MAX).map(|_| ()))
    };
    let Activity { wakes, cpu, writes, flushes } = Activity::of_idle(&store, seconds)?;
    println!("wakes {wakes}\ncpu {cpu}\nwrites {writes}\nflushes {flushes}");
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
