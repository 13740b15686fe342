//! Gates in the expected contents: limits of taken tasks, and pauses.

use tubewell::{TubeInfo, TubeOptions};

use crate::image_run::micros;
use crate::rng::Rng;
use crate::state::{Kind, NEVER};

/// The gates of a tube.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Far more than a load takes: takes are tested elsewhere.
    pub max_taken: Option<u64>,
    /// When its pause ends, in microseconds; 0 without a pause.
    pub paused_until: u64,
}

impl Gates {
    /// Another limit than before.
    pub fn change_limit(&mut self, rng: &mut Rng) {
        let before = self.max_taken;
        while self.max_taken == before {
            self.max_taken = (!rng.one_in(3)).then(|| 10_000 + rng.below(100));
        }
    }
}

impl Kind {
    pub fn with_gates(&self, options: TubeOptions) -> TubeOptions {
        self.gates.max_taken.into_iter().fold(options, TubeOptions::max_taken)
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.gates.paused_until > now
    }

    pub fn gates_differ(&self, info: &TubeInfo, now: u64) -> bool {
        let until = Some(self.gates.paused_until).filter(|until| *until > now);
        let left = until.filter(|until| *until != NEVER).map(|until| until - now);
        (self.gates.max_taken, until.is_some(), left)
            != (info.max_taken, info.paused, info.resumes_in.map(micros))
    }
}
