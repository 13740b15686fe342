//! Runs the recorded scenarios on the public interface.
//!
//! The scenarios are in `tests/vectors`, or in the directory named by `TUBEWELL_VECTORS`.
//! `tests/vectors/FORMAT.md` describes their format. The test runs every scenario of every
//! `.json` file. It reports the first differing step of a scenario and continues with the next
//! scenario. It fails if a scenario differs, if a file cannot be read, if a field or a verb is
//! unknown, or if there are no scenarios.
//!
//! The recordings leave these points open. They are interpreted as follows:
//!
//! * A step without `task`, and a task whose put was rejected, name a task that does not exist.
//! * `ack`, `release`, `touch`, `bury`, `delete` and `put` return a receipt, which has no data. For
//!   these the data of the put is compared; for `take`, `take_result` and `peek` the returned data.
//! * A negative time is zero.
//! * A blocking take is polled only after it has called its waker.

use crate::executor;

mod recorded;
mod run;
mod scenario;
mod waiter;

use std::path::{Path, PathBuf};

#[test]
fn recorded_scenarios() {
    let vectors = std::env::var_os("TUBEWELL_VECTORS").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("vectors"),
        PathBuf::from,
    );
    let outcome = run::run_dir(&vectors).unwrap();
    println!("{} scenarios", outcome.scenarios);
    assert!(outcome.scenarios > 0, "no scenarios in {}", vectors.display());
    assert_eq!(outcome.failed, 0);
}
