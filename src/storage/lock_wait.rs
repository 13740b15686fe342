//! Waiting for the lock of a file whose owner is about to release it.
//!
//! A process that was killed may leave the lock behind for a moment: a child that it had forked
//! shares the lock until it executes its program. A supervisor that restarts a killed worker meets
//! that lock. The operating system sends no event when a lock becomes free, so the open is retried.

use std::time::Duration;

use crate::Error;
use crate::base::clock::Clock;
use crate::base::micros::micros_ceil;
use crate::base::sync::{Condvar, Mutex};

/// How long an open is retried before it fails with `InUse`.
const LOCK_WAIT: Duration = Duration::from_secs(1);
/// The pause before the first retry; it doubles from retry to retry,
const FIRST_PAUSE: Duration = Duration::from_millis(1);
/// up to this.
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// Calls `open` until it returns something other than `InUse`, for [`LOCK_WAIT`] at most.
pub(super) fn retry_while_in_use<T>(open: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    retry_for(LOCK_WAIT, open)
}

fn retry_for<T>(longest: Duration, mut open: impl FnMut() -> Result<T, Error>) -> Result<T, Error> {
    let clock = Clock::system();
    let mut give_up = None;
    let mut pause = FIRST_PAUSE;
    loop {
        match open() {
            Err(Error::InUse { .. })
                if *give_up.get_or_insert_with(|| clock.running() + micros_ceil(longest))
                    > clock.running() =>
            {
                wait(pause);
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
            outcome => return outcome,
        }
    }
}

/// Blocks this thread. No other thread knows the condition variable, so only the time ends it.
fn wait(pause: Duration) {
    let never = Mutex::new(());
    Condvar::new().wait_for(&mut never.lock(), pause);
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use super::*;

    fn in_use() -> Error {
        Error::InUse { path: "jobs".into() }
    }

    #[test]
    fn open_is_retried_until_the_lock_is_free() {
        let mut locked = 5;
        let opened = retry_while_in_use(|| {
            locked -= 1;
            if locked > 0 { Err(in_use()) } else { Ok("store") }
        });
        assert_eq!((opened, locked), (Ok("store"), 0));
    }

    #[test]
    fn open_of_a_held_lock_fails_after_the_wait_and_not_before() {
        let clock = Clock::system();
        let begin = clock.running();
        let longest = Duration::from_millis(30);
        let mut tries = 0;
        let refused = retry_for(longest, || {
            tries += 1;
            Err::<(), _>(in_use())
        });
        assert_eq!(refused, Err(in_use()));
        assert!(clock.running() - begin >= micros_ceil(longest));
        assert!(tries >= 2);
    }

    #[test]
    fn other_errors_are_returned_without_a_retry() {
        let mut tries = 0;
        let refused = retry_while_in_use(|| {
            tries += 1;
            Err::<(), _>(Error::Closed)
        });
        assert_eq!((refused, tries), (Err(Error::Closed), 1));
    }
}
