//! What a store says of its work and of its clocks.

use std::time::Duration;

/// The reads, writes and flushes of the storage since the store was opened, the open included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Counters {
    /// The number of the last commit, over all runs of the store.
    pub commits: u64,
    /// The number of the last commit in the file when it was opened. If a
    /// [receipt](crate::Receipt::commit) of an earlier run has a higher number, the file has lost
    /// that commit. For a flushed change this means that the file was damaged and the engine
    /// returned to an earlier commit, or that the file is an old copy. A crash may lose the commit
    /// of a relaxed change, and a power cut that of a written one, without any damage.
    pub opened_at: u64,
    /// Rows that the commits of this run wrote or removed, without the engine's own rows.
    pub rows: u64,
    /// How many commits waited for a checkpoint in progress because the journal was full, or the
    /// commit too large for it: the database could not keep pace with the changes. Such a wait
    /// usually lasts at most as long as a checkpoint: two flushes or more, and the writes of up to
    /// 16,384 rows. In rare cases it lasts as long as two. While the closure of a `transact` runs, no
    /// checkpoint begins, and the wait lasts until the closure has ended, too.
    pub journal_waits: u64,
    /// The number of flushes (fsync).
    pub flushes: u64,
    /// The number of writes.
    pub writes: u64,
    /// The bytes in these writes.
    pub bytes_written: u64,
    /// The number of reads that were not in the cache.
    pub reads: u64,
}

/// Two clocks, each as the time since the beginning of 1970, UTC.
///
/// They differ by as much as the wall clock was set while the store was open, or set back. They also
/// differ while the wall clock is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct ClockReport {
    /// The store's timeline, by which ttls and delays elapse.
    pub timeline: Duration,
    /// The wall clock, now.
    pub wall: Duration,
    /// The wall clock when the store was opened, if it was too far ahead to be trusted: the timeline
    /// continued from the last commit instead, as if no time had passed. Or the wall clock now, if it was
    /// set so far ahead since: moments and cron expressions do not follow it. If the clock is right, open
    /// the store with [`trust_wall_clock`](crate::StoreOptions::trust_wall_clock).
    pub untrusted: Option<Duration>,
    /// By how much the wall clock was behind the timeline when the store was opened, if it was set back
    /// since the last commit: how long the store was closed is not known, and counts as no time. Delays,
    /// ttls and pauses go on from the clock as it is.
    pub set_back: Option<Duration>,
}
