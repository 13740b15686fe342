//! The moment of a call, and what falls due.

use tubewell_drivers::NEVER;

use crate::SessionId;

/// The last moment of the timeline; the value after it stands for "never".
pub(crate) const LAST: u64 = NEVER - 1;

/// The moment of a call.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// On the store's time line: ttl and delay. Survives restarts, counts suspend.
    pub(crate) timeline: u64,
    /// On running time: holds, waits, grace.
    pub(crate) running: u64,
    /// The elapsed time that was read last, if any.
    read: Option<u64>,
}

impl Now {
    /// Goes on by as much as the clocks have gone on since they were read last. They never run
    /// backwards, but if one does the moment stands still, and elapsed time counts on from there.
    /// The very last moment is never reached: it stands for never.
    pub(crate) fn go_on(&mut self, elapsed: u64, running: u64) {
        let passed = elapsed.saturating_sub(self.read.unwrap_or(elapsed));
        self.read = Some(elapsed);
        self.timeline = self.timeline.saturating_add(passed).min(LAST);
        self.running = self.running.max(running).min(LAST);
    }
}

/// What falls due on running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    Claim(u64),
    Wait(u64),
    WaitingPut(u32, u64),
    Grace(SessionId),
    Flush(usize),
    /// Nothing has been committed for a while, if so.
    Idle,
}
