//! Calls on a tube with metrics, on a disk that fails: the numbers of its days are as before or as
//! after the call, in memory and in the file.

use std::sync::Arc;
use std::time::Duration;

use tubewell::expert::Date;
use tubewell::{FIFO, ManualClock, Result, Store, TubeOptions};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_sampled_faults};
use crate::size::amount;
use crate::support::open;

const DAY: Duration = Duration::from_secs(86_400);

type Call = fn(&Store) -> Result<()>;

const CALLS: [(&str, Call); 5] = [
    ("put", |store| store.find_tube("work")?.put("x").map(drop)),
    ("truncate", |store| store.find_tube("work")?.admin().truncate()),
    ("fewer days", |store| store.find_tube("work")?.admin().alter(with_metrics(2))),
    ("no days", |store| store.find_tube("work")?.admin().alter(with_metrics(0))),
    ("drop", |store| store.drop_tube("work")),
];

fn with_metrics(days: u32) -> TubeOptions {
    TubeOptions::new().metrics(days)
}

/// The tasks of a tube, and its days: how many tasks were put, taken and acked.
#[derive(Clone, Debug, PartialEq)]
struct Contents {
    tasks: Option<u64>,
    days: Vec<(Date, [u64; 3])>,
}

/// The disk of a closed store with a tube that has counted on several days.
fn disk() -> Arc<Disk> {
    let (disk, clock) = (Disk::new(None), ManualClock::new());
    let store = open(&disk, &clock);
    let tube = store.create_tube("work", with_metrics(5).driver(FIFO)).unwrap();
    for _ in 0..4 {
        tube.put_many(["a", "b", "c"]).unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        clock.advance(DAY);
    }
    tube.put("d").unwrap();
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let Ok(tube) = store.find_tube("work") else {
        return Contents { tasks: None, days: Vec::new() };
    };
    let tasks = Some(tube.statistics().unwrap().tasks.total);
    let today = store.today().unwrap();
    let days = match tube.info().unwrap().metrics {
        0 => Vec::new(),
        _ => tube.query().days(today.plus_days(-9)..=today).unwrap(),
    };
    let numbers = days.iter().map(|day| (day.date, [day.puts, day.takes, day.acks]));
    Contents { tasks, days: numbers.collect() }
}

#[test]
fn failed_call_counts_wholly_or_not_at_all() {
    let (disk, mut runs) = (disk(), 0);
    let before = contents(&open(&disk.after_power_cut(), &ManualClock::new()));
    assert_eq!(before.days.len(), 5);
    for (what, call) in CALLS {
        let call = FailingCall::new(&disk, &call, &contents, true);
        // If the numbers of the day cannot be read, a kill forgets what was counted since.
        let uncounted = Contents { days: before.days.clone(), ..call.after().clone() };
        let call = if what == "put" { call.or_after(uncounted) } else { call };
        fail_with_sampled_faults(what, 1, &mut runs, |plan| call.fails(plan));
    }
    assert!(runs > amount(3, 12, 12), "{runs} runs");
}
