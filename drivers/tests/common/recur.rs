//! A schedule for the tests of the drivers. Not in `mod.rs`, since few targets use it.

use std::sync::Arc;

use tubewell_drivers::{Recur, RecurRule};

/// A schedule that has not run, whose next run is at 300, with nothing that can be left out.
pub fn plain_recur(rule: RecurRule) -> Recur {
    Recur {
        rule,
        next: 300,
        fired: None,
        last: None,
        runs: 0,
        skipped: 0,
        times: None,
        missed: 1,
        within: None,
        skips_overlap: false,
        priority: None,
        ttl: None,
        ttr: None,
        delay: 0,
        tags: Arc::default(),
        starting: None,
        covered: None,
    }
}
