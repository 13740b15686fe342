//! Whether the store is idle long enough to shrink its file.

#[derive(Debug, Default)]
pub(in crate::core) struct IdleState {
    /// When the last commit was, on running time, if a pause after it would be of use.
    pub(in crate::core) last_commit: Option<u64>,
    /// A timer will look at it.
    pub(in crate::core) timer_set: bool,
    /// It is a pause: the writer is to use it.
    pub(in crate::core) due: bool,
    /// Before this moment a short pause is not used.
    pub(in crate::core) no_short_idle_before: u64,
}
