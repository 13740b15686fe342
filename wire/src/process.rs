//! In which process a value was made: a fork has a copy of it, without the threads that work for it.

/// The process in which this was made. To ask for it costs about a nanosecond where the system tells of
/// forks, and a system call otherwise.
#[derive(Clone, Debug)]
pub struct HomeProcess {
    id: u32,
    guard: forkguard::Guard,
}

impl HomeProcess {
    /// The process that calls.
    ///
    /// # Panics
    /// The system has no memory to note who is told of forks; see `pthread_atfork`.
    #[must_use]
    pub fn current() -> HomeProcess {
        HomeProcess { id: std::process::id(), guard: forkguard::new() }
    }

    /// Whether the caller runs in that process, and not in a fork of it.
    #[inline]
    #[must_use]
    pub fn is_here(&self) -> bool {
        // The guard notes what it has found, so a copy is asked.
        !self.guard.clone().detected_fork()
    }

    /// The id of that process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.id
    }
}
