//! The size of the file while tasks are put and acked at the same rate.

use std::collections::VecDeque;
use std::time::Duration;

use tubewell::{Claim, FIFO, Store, TubeOptions};

use super::report::{Report, short};
use super::setting::{BODY, Outcome, Setting, body, checked, mebibytes};

const DEPTH: u64 = 10_000;

pub fn measure(setting: &Setting, report: &mut Report) -> Outcome {
    for (name, step, tasks) in [("one by one", 1, 8_000_u64), ("100 per batch", 100, 1_000_000)] {
        let path = setting.fresh("steady");
        let store = Store::open(&path)?;
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO))?;
        tube.put_many((0..DEPTH).map(|n| body(n, BODY)))?;
        let mut sizes = VecDeque::new();
        for done in (0..tasks).step_by(step) {
            if done % (tasks / 20) == 0 {
                sizes.push_back(mebibytes(&path));
            }
            let first = DEPTH + done;
            tube.put_many((first..first + step as u64).map(|n| body(n, BODY)))?;
            let claims = tube.take_many(step, Duration::ZERO)?;
            for (claim, n) in claims.iter().zip(done..) {
                assert_eq!(checked(claim.body(), BODY), n);
            }
            Claim::end_many(claims, |_| tubewell::Outcome::done())?
                .into_iter()
                .collect::<Result<Vec<_>, _>>()?;
        }
        sizes.push_back(mebibytes(&path));
        let (early, last) = (sizes[5], sizes[20]);
        report.note(format!("file size after a quarter of {tasks} cycles, {name}"), early, "MiB");
        report.note(format!("file size after {tasks} cycles, {name}"), last, "MiB");
        let got = format!("{} → {} MiB", short(early), short(last));
        let what = format!("file size, {tasks} cycles with {DEPTH} tasks in the tube, {name}");
        report.target(&what, "no growth", got, last <= early);
        store.close()?;
    }
    Ok(())
}
