//! Pauses. A file whose process is killed is repaired when it is opened again, by reading all of
//! it, unless its last commit spared it that. Such a commit costs more than others; so it is made
//! when a pause begins, and of large files only.

use super::{Core, FILE, Timer};

/// A pause of so long, in microseconds, is taken for the begin of a longer one.
const PAUSE: u64 = 5_000_000;

#[derive(Debug, Default)]
pub(super) struct Rest {
    /// When the last commit was, on running time, if it would leave a repair.
    since: Option<u64>,
    /// A timer will look at it.
    timed: bool,
    /// The next commit is to be the last one for a while.
    due: bool,
}

impl Core {
    /// There was a commit of the file like any other.
    pub(crate) fn note_commit(&mut self) {
        self.rest.since = Some(self.now.running);
        self.await_pause();
    }

    /// Whether the commit that begins now is the last one for a while.
    pub(crate) fn begins_to_rest(&mut self) -> bool {
        std::mem::take(&mut self.rest.due)
    }

    /// If there has been a pause since the last commit, has one more made.
    pub(super) fn rest_if_paused(&mut self) {
        self.rest.timed = false;
        let Some(since) = self.rest.since else { return };
        if since.saturating_add(PAUSE) > self.now.running {
            return self.await_pause();
        }
        let lane = &mut self.lanes[FILE];
        // With a commit on its way there is no pause; it will ask anew.
        if lane.is_dirty() || lane.led {
            return;
        }
        self.rest.since = None;
        if lane.engine().is_some_and(|engine| engine.is_slow_to_repair()) {
            self.rest.due = true;
            lane.wanted = true;
            self.outbox.call_writer = true;
        }
    }

    fn await_pause(&mut self) {
        if let Some(since) = self.rest.since
            && !std::mem::replace(&mut self.rest.timed, true)
        {
            self.timers.insert((since.saturating_add(PAUSE), Timer::Rest));
        }
    }
}
