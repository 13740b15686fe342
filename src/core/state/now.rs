//! The time of a call, and the timers on running time.

use tubewell_drivers::NEVER;

use super::buffers::Buffer;
use super::wait_keys::WatchKey;
use crate::SessionId;
use crate::base::tube_no::TubeNo;

/// The last moment of either clock. The value after it stands for "never".
pub(crate) const LAST: u64 = NEVER - 1;

/// How long one clock is read for both, in microseconds: running time is wrong by as much if the machine is
/// suspended meanwhile.
const TOGETHER: u64 = 10_000;

/// The time of a call, in microseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// On the store's timeline, which ttl and delay use. Survives restarts and includes suspends.
    pub(crate) timeline: u64,
    /// On running time, which claims, waits and session grace use.
    pub(crate) running: u64,
    /// The elapsed time of the last call, if there was one.
    last_elapsed: Option<u64>,
    /// Until when running time is elapsed time: that of the last call which has read both clocks, and a little
    /// more.
    together_until: u64,
}

impl Now {
    /// Advances both times by as much as the clocks have advanced since the last call. If a clock
    /// runs backwards, its time stands still. The timeline then counts on from the new elapsed
    /// time. Neither time reaches `NEVER`.
    pub(crate) fn advance(&mut self, elapsed: u64, running: u64) {
        let passed = elapsed.saturating_sub(self.last_elapsed.unwrap_or(elapsed));
        self.last_elapsed = Some(elapsed);
        self.timeline = self.timeline.saturating_add(passed).min(LAST);
        self.running = self.running.max(running).min(LAST);
        self.together_until = elapsed.saturating_add(TOGETHER);
    }

    /// Advances both times by what the elapsed time has advanced, if a call has read both clocks shortly
    /// before: a suspend in between, which running time leaves out, cannot have been long. Otherwise returns
    /// false.
    pub(crate) fn advance_both(&mut self, elapsed: u64) -> bool {
        let Some(last) = self.last_elapsed else { return false };
        if elapsed < last || elapsed >= self.together_until {
            return false;
        }
        self.last_elapsed = Some(elapsed);
        self.timeline = self.timeline.saturating_add(elapsed - last).min(LAST);
        self.running = self.running.saturating_add(elapsed - last).min(LAST);
        true
    }
}

/// A timer on running time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// The claim on this task expires.
    Claim(u64),
    /// The take of this arrival times out.
    WaitingTake(u64),
    /// The put of this tube and arrival times out.
    WaitingPut(TubeNo, u64),
    /// This watch times out.
    Watch(WatchKey),
    /// The grace period of this session ends.
    Grace(SessionId),
    /// The active edits of this write buffer must be flushed.
    Flush(Buffer),
    /// Checks whether the store is idle.
    Idle,
}
