//! A process that is stopped while it holds a task, and goes on when the hold may be over.

use std::io::Write;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tubewell::{Error, FIFOTTL, Put, Store, TubeOptions};

use crate::dice::{Dice, Since};
use crate::parent::{Child, Job, Reports};

/// The child: one thread takes a task and acks it when told to, another waits for it to come free.
pub fn hold(job: &Job, reports: &Reports, ttr: Duration) {
    let store = Store::open(&job.path).unwrap();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    tube.put(Put::new("once").ttr(ttr)).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| match tube.take(None) {
            Ok(Some(claim)) => match claim.ack() {
                Ok(_) => reports.line("second done"),
                Err(error) => reports.line(&format!("second refused {error}")),
            },
            Ok(None) => panic!("a wait for ever has ended"),
            Err(Error::Closed) => {}
            Err(other) => panic!("take: {other}"),
        });
        reports.line("held");
        std::io::stdin().read_line(&mut String::new()).unwrap();
        match claim.ack() {
            Ok(_) => {
                reports.line("first done");
                // Nobody else will: the second waits for a task that never comes.
                store.close().unwrap();
            }
            Err(Error::NotTaken { .. }) => reports.line("first refused"),
            Err(other) => panic!("ack: {other}"),
        }
        second.join().unwrap();
    });
    store.close().unwrap();
}

/// The parent: true if the second holder finished the task.
pub fn round(path: PathBuf, dice: &mut Dice, round: u64) -> bool {
    let ttr = 300;
    let pause = match round % 3 {
        0 => dice.of(0..50),
        1 => ttr + dice.of(10..100),
        // About when the hold ends.
        _ => dice.of(ttr - 60..ttr),
    };
    let task = format!("hold:{ttr}");
    let job = Job { task, path: path.clone(), seed: 0, life: round };
    let begun = Since::now();
    let mut child = Child::start(&job);
    assert_eq!(child.line(Duration::from_secs(60)).as_deref(), Some("held"));
    let pid = Pid::from_raw(i32::try_from(child.pid()).unwrap()).unwrap();
    kill_process(pid, Signal::STOP).unwrap();
    let stopped = Since::now();
    let early = child.line(Duration::from_millis(pause));
    // On a busy machine the hold may be over before the process is stopped.
    assert!(early.as_deref().is_none_or(|line| line == "second done"), "{early:?}");
    let over = stopped.over(Duration::from_millis(ttr));
    kill_process(pid, Signal::CONT).unwrap();
    child.pipe.take().unwrap().write_all(b"go\n").unwrap();
    let lines = child.wait();
    let in_time = !begun.over(Duration::from_millis(ttr));
    let told = |line: &str| lines.iter().any(|it| it == line);
    let (first, second) = (told("first done"), told("second done"));
    assert!(first != second, "finished by both or by nobody: {lines:?}");
    assert!(told("first refused") == second, "{lines:?}");
    assert!(!(over && first), "an ack was accepted after the hold had ended: {lines:?}");
    assert!(!in_time || first, "a hold ended too early: {lines:?}");
    let store = Store::open(&path).unwrap();
    assert_eq!(store.verify().unwrap(), [""; 0]);
    assert_eq!(store.tube("work").unwrap().statistics().unwrap().tasks.total, 0);
    second
}
