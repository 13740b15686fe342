//! The limit by the clock of the machine, of every test.

use std::time::Duration;

/// A test that waits so long for something hangs. The limit is there so that such a test fails instead of
/// waiting forever: on a machine that is ten times too busy no wait comes near it.
pub const HANGS_AFTER: Duration = Duration::from_secs(600);
