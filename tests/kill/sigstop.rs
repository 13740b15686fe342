//! A process that holds a claim is stopped with SIGSTOP and continued at about the time at which
//! the claim expires.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tubewell::{Error, FIFOTTL, Put, Store, TubeOptions};

use crate::executor::HANGS_AFTER;
use crate::process::{ChildProcess, Job, ReportWriter};
use crate::rng::Rng;

/// The child. One thread takes the task and acks it after a line on stdin; a second thread waits
/// until the task is ready again.
pub fn hold_claim(job: &Job, reports: &ReportWriter, ttr: Duration) {
    let store = Store::open(&job.path).unwrap();
    let tube = store.open_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    tube.put(Put::new("once").ttr(ttr)).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| match tube.take() {
            Ok(claim) => match claim.ack() {
                Ok(_) => reports.write("second done"),
                Err(error) => reports.write(&format!("second refused {error}")),
            },
            Err(Error::Closed) => {}
            Err(other) => panic!("take: {other}"),
        });
        reports.write("claimed");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        match claim.ack() {
            Ok(_) => {
                reports.write("first done");
                // The second take gets no task any more; closing the store ends it.
                store.close().unwrap();
            }
            Err(Error::NotTaken { .. }) => reports.write("first refused"),
            Err(other) => panic!("ack: {other}"),
        }
        second.join().unwrap();
    });
    store.close().unwrap();
}

/// The parent. Returns whether the second holder acked the task.
pub fn run_round(path: PathBuf, rng: &mut Rng, round: u64) -> bool {
    let ttr = 300;
    let stop_millis = match round % 3 {
        0 => rng.range(0..50),
        1 => ttr + rng.range(10..100),
        // About the time at which the claim expires.
        _ => rng.range(ttr - 60..ttr),
    };
    let mode = format!("claim:{ttr}");
    let job = Job { mode, path: path.clone(), seed: 0, run: round };
    let started = Stopwatch::start();
    let mut child = ChildProcess::start(&job);
    assert_eq!(child.next_line(HANGS_AFTER).as_deref(), Some("claimed"));
    let pid = Pid::from_raw(i32::try_from(child.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = Stopwatch::start();
    let early = child.next_line(Duration::from_millis(stop_millis));
    // On a busy machine the claim may expire before the process is stopped.
    assert!(early.as_deref().is_none_or(|line| line == "second done"), "{early:?}");
    let expired = stopped.has_passed(Duration::from_millis(ttr));
    kill_process(pid, Signal::CONT).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let lines = child.wait();
    let in_time = !started.has_passed(Duration::from_millis(ttr));
    let reported = |line: &str| lines.iter().any(|it| it == line);
    let (first, second) = (reported("first done"), reported("second done"));
    assert!(first != second, "acked by both holders or by none: {lines:?}");
    assert!(reported("first refused") == second, "{lines:?}");
    assert!(!(expired && first), "an ack was accepted after the claim had expired: {lines:?}");
    assert!(!in_time || first, "a claim expired too early: {lines:?}");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.total, 0);
    second
}

/// Elapsed real time.
#[derive(Clone, Copy, Debug)]
struct Stopwatch(Instant);

impl Stopwatch {
    #[expect(clippy::disallowed_methods, reason = "another process is stopped for real time")]
    fn start() -> Stopwatch {
        Stopwatch(Instant::now())
    }

    fn has_passed(self, limit: Duration) -> bool {
        self.0.elapsed() >= limit
    }
}
