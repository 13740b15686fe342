//! The state of the idle detection: whether the store has been idle long enough to shrink its file.

/// Idle periods, and what they may release: the free space inside the file.
#[derive(Debug, Default)]
pub(in crate::core) struct IdleState {
    /// When the last commit ended, on running time. `None` after a long idle period has been found.
    pub(in crate::core) last_commit: Option<u64>,
    /// The idle timer is set.
    pub(in crate::core) timer_set: bool,
    /// An idle period has begun in which the writer thread may shrink the file.
    pub(in crate::core) due: bool,
    /// A short idle period is used only from this moment on, on running time.
    pub(in crate::core) short_idle_allowed_at: u64,
    /// Estimate of the bytes that this run has freed inside the file. Puts may use them when the
    /// disk is full.
    pub(in crate::core) free_in_file: u64,
}
