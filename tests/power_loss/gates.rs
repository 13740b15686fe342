//! Gates in the expected contents: limits of taken tasks, and pauses.

use tubewell::{TubeInfo, TubeOptions};

use crate::image_run::micros;
use crate::rng::Rng;
use crate::state::{Contents, Found, Kind, NEVER, Task};

/// The gates of a tube.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gates {
    /// Far more than a load takes: takes are tested elsewhere.
    pub max_taken: Option<u64>,
    /// When its pause ends, in microseconds; 0 without a pause.
    pub paused_until: u64,
    pub sub_queue_limit: Option<u32>,
    /// The same of its sub-queues, by the index of their names.
    pub sub_queues_paused_until: [u64; SUB_QUEUES.len()],
}

/// Sub-queues that are paused, and the limits that are set. The last one has no tasks.
pub const SUB_QUEUES: [&str; 4] = ["", "x", "y", "no tasks"];

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
        let options = self.gates.max_taken.into_iter().fold(options, TubeOptions::max_taken);
        self.gates.sub_queue_limit.into_iter().fold(options, TubeOptions::sub_queue_limit)
    }

    pub fn is_paused(&self, now: u64) -> bool {
        self.gates.paused_until > now
    }

    pub fn gates_differ(&self, info: &TubeInfo, now: u64) -> bool {
        let until = Some(self.gates.paused_until).filter(|until| *until > now);
        let left = until.filter(|until| *until != NEVER).map(|until| until - now);
        (self.gates.max_taken, until.is_some(), left)
            != (info.max_taken, info.paused, info.resumes_in.map(micros))
            || self.gates.sub_queue_limit != info.sub_queue_limit
    }

    /// The paused sub-queues by name, and what is left of their pauses.
    pub fn paused_sub_queues(&self, now: u64) -> Vec<(&str, Option<u64>)> {
        let all = SUB_QUEUES.into_iter().zip(self.gates.sub_queues_paused_until);
        let paused = all.filter(|(_, until)| *until > now);
        let left = |until| Some(until - now).filter(|_| until != NEVER);
        let mut paused: Vec<_> = paused.map(|(name, until)| (name, left(until))).collect();
        paused.sort_unstable();
        paused
    }

    /// Whether the sub-queue of a task may be paused. The tasks of temporary tubes are not known.
    pub fn may_pause(&self, task: Option<&Task>, now: u64) -> bool {
        let name = task.map(|task| task.sub_queue.as_deref().unwrap_or_default());
        let mut paused = self.paused_sub_queues(now).into_iter();
        paused.any(|(one, _)| name.is_none_or(|name| name == one))
    }

    /// How many tasks of a sub-queue may be taken; 0 if it is paused.
    pub fn limit_of(&self, sub_queue: &str, now: u64) -> usize {
        let is_paused = self.paused_sub_queues(now).iter().any(|(name, _)| *name == sub_queue);
        if is_paused { 0 } else { self.gates.sub_queue_limit.unwrap_or(1) as usize }
    }
}

impl Contents {
    /// Describes the first difference in limits and paused sub-queues from what was found, if any.
    pub fn difference_of_limits(&self, found: &Found, now: u64) -> Option<String> {
        let limits = found.limits.iter().map(|limit| (limit.name.as_str(), limit.most));
        let expected = self.limits.iter().map(|(name, most)| (*name, *most));
        if !limits.eq(expected) {
            return Some(format!("limits {:?}, not {:?}", found.limits, self.limits));
        }
        for (name, kind) in &self.tubes {
            let paused = found.paused_sub_queues.get(*name).map_or(&[][..], Vec::as_slice);
            let paused = paused.iter().map(|one| (one.name.as_str(), one.resumes_in.map(micros)));
            let expected = kind.paused_sub_queues(now);
            if !paused.clone().eq(expected.iter().copied()) {
                let paused: Vec<_> = paused.collect();
                return Some(format!("in {name:?} paused {paused:?}, not {expected:?}"));
            }
        }
        None
    }
}
