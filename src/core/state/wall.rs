//! The wall clock of an open store, and how the timeline stands to it.

use super::wall_clock::{SAME_CLOCK, WallClock};

/// The wall clock, and by how much the timeline is ahead of one that was set back.
pub(crate) struct Wall {
    clock: WallClock,
    /// What the clock showed at open, if it is not trusted.
    untrusted_at_open: Option<u64>,
    /// By how much the timeline is ahead of the clock, in microseconds: what the next commit stores; 0 if it
    /// is less than a second.
    stored_lead: u64,
    /// The moment of the timeline at which the clock was last read for that.
    read_at: u64,
    /// The lead at open, if the clock was set back since the last commit.
    set_back: Option<u64>,
}

impl Wall {
    pub(crate) fn new(clock: WallClock) -> Wall {
        Wall { clock, untrusted_at_open: None, stored_lead: 0, read_at: 0, set_back: None }
    }

    /// What was found at open: the lead that the file has, what an untrusted clock showed, and by how much
    /// the clock was set back.
    pub(in crate::core) fn opened(
        &mut self,
        stored_lead: u64,
        untrusted: Option<u64>,
        set_back: Option<u64>,
    ) {
        self.untrusted_at_open = untrusted;
        (self.stored_lead, self.read_at, self.set_back) = (stored_lead, 0, set_back);
    }

    /// What the clock shows at this moment of the timeline, as far as it is trusted.
    pub(in crate::core) fn at(&self, timeline: u64) -> u64 {
        self.clock.at(timeline)
    }

    pub(in crate::core) fn clock(&self) -> &WallClock {
        &self.clock
    }

    /// What the clock shows, or showed at open, if it is not trusted.
    pub(crate) fn untrusted(&self, timeline: u64) -> Option<u64> {
        self.untrusted_at_open.or_else(|| self.clock.untrusted(timeline))
    }

    /// The lead at open, if the clock was set back since the last commit.
    pub(crate) fn set_back(&self) -> Option<u64> {
        self.set_back
    }

    /// The lead to store, if it is another one than the file has. Reads the clock once a second, or if
    /// `now`.
    pub(in crate::core) fn lead_to_store(&mut self, timeline: u64, now: bool) -> Option<u64> {
        if !now && timeline < self.read_at.saturating_add(SAME_CLOCK) {
            return None;
        }
        self.read_at = timeline;
        let lead = timeline.saturating_sub(self.clock.at(timeline));
        let lead = if lead < SAME_CLOCK { 0 } else { lead };
        let stored = self.stored_lead;
        if (lead == 0) == (stored == 0) && lead.abs_diff(stored) < SAME_CLOCK {
            return None;
        }
        self.stored_lead = lead;
        Some(lead)
    }
}
