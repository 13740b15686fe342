//! An ack that frees many children, without other calls and beside durable callers.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tubewell::{FIFO, Put, Store, Tube, TubeOptions};

use super::pair::cycle;
use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, median, millis, timed};

const RUNS: usize = 5;
const CALLERS: usize = 64;
/// Children that one ack frees.
const CHILDREN: u64 = 10_000;
/// Plain acks of a run.
const PLAIN: usize = 25;
/// How long the callers work before the acks.
const WARM_UP: Duration = Duration::from_millis(300);

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for callers in [0, CALLERS] {
        let (mut plain, mut freeing, mut free) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let run = run(setting, callers)?;
            plain.push(run.plain);
            freeing.push(run.freeing);
            free.push(run.free);
        }
        let beside = match callers {
            0 => String::new(),
            callers => format!(", beside {callers} durable callers"),
        };
        let plain = report.spread(format!("ack, durable{beside}"), &plain, "ms");
        let what = format!("ack that frees {CHILDREN} children{beside}");
        let freeing = report.spread(what.as_str(), &freeing, "ms");
        let found = format!("{} ms, a plain one {} ms", short(freeing), short(plain));
        report.target(&what, "a plain one and 2 ms", found, freeing <= plain + 2.0);
        let what = format!("{CHILDREN} children are free after the ack{beside}");
        let free = report.spread(what.as_str(), &free, "ms");
        report.target(&what, "within 1 s", format!("{} ms", short(free)), free <= 1000.0);
    }
    Ok(())
}

/// Times in milliseconds.
struct Run {
    /// The median of the plain acks.
    plain: f64,
    freeing: f64,
    /// From the answer to the ack until no child is blocked.
    free: f64,
}

fn run(setting: &Setting, callers: usize) -> Outcome<Run> {
    let store = Store::open(setting.fresh("children"))?;
    let create = |name| store.create_tube(name, TubeOptions::new().driver(FIFO));
    let (parents, work, load) = (create("parents")?, create("work")?, create("load")?);
    parents.put_many((0..=PLAIN as u64).map(|n| body(n, BODY)))?;
    let mut others = parents.take_many(PLAIN + 1, Duration::ZERO)?;
    let parent = others.pop().ok_or("no ready task")?;
    for first in (0..CHILDREN).step_by(1000) {
        let child = |n| Put::new(body(n, BODY)).after(&parents, [parent.id()]);
        work.put_many((first..first + 1000).map(child))?;
    }
    let measured = beside(callers, &load, || {
        let mut plain = Vec::new();
        for claim in others {
            let (acked, time) = timed(|| claim.ack());
            acked?;
            plain.push(millis(time));
        }
        let (acked, freeing) = timed(|| parent.ack());
        acked?;
        let start = Instant::now();
        while work.statistics()?.tasks.blocked > 0 {
            // Without a load on the processors.
            std::thread::sleep(Duration::from_micros(500));
        }
        let free = millis(start.elapsed());
        Ok(Run { plain: median(&plain), freeing: millis(freeing), free })
    })?;
    assert_eq!(work.statistics()?.tasks.ready, CHILDREN, "all children can be taken");
    store.close()?;
    Ok(measured)
}

/// Does some work while callers put, take and ack tasks of a tube.
fn beside<T>(callers: usize, load: &Tube, work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    let is_over = AtomicBool::new(false);
    let call = |caller: u64| -> Outcome {
        for n in (caller..).step_by(callers) {
            if is_over.load(Ordering::Relaxed) {
                break;
            }
            cycle(load, n)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let call = &call;
        let handles: Vec<_> =
            (0..callers as u64).map(|caller| scope.spawn(move || call(caller))).collect();
        if callers > 0 {
            std::thread::sleep(WARM_UP);
        }
        let measured = work();
        is_over.store(true, Ordering::Relaxed);
        for handle in handles {
            handle.join().expect("no panic")?;
        }
        measured
    })
}
