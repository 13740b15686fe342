//! What a target compares the results with.

/// What a target compares the results with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    Correct,
    /// Wrong in one respect, so that the target must fail (a canary).
    Faulty,
}

impl Oracle {
    /// Faulty if `TUBEWELL_FUZZ_CANARY` is set.
    #[must_use]
    pub fn from_env() -> Oracle {
        match std::env::var_os("TUBEWELL_FUZZ_CANARY") {
            None => Oracle::Correct,
            Some(_) => Oracle::Faulty,
        }
    }

    #[must_use]
    pub fn is_faulty(self) -> bool {
        self == Oracle::Faulty
    }
}
