//! Rates of takes, and the task that a take gets.

use std::time::Duration;

use tubewell::Rate;

use super::{Policy, Simulation, Status};
use crate::model::Micros;

/// At most `count` takes in any period.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limit {
    pub(super) count: u32,
    pub(super) period: Micros,
}

/// A take that was answered.
pub(super) struct Take {
    pub(super) tube: usize,
    pub(super) sub_queue: &'static str,
    pub(super) at: Micros,
}

impl Simulation {
    /// The task that a take gets.
    pub(super) fn next(&self, nth: usize) -> Option<u64> {
        let policy = self.policies[nth];
        let allows = |rate: Option<Limit>, takes: Vec<Micros>| {
            rate.is_none_or(|it| it.allows_take(&takes, self.filling_since, self.world.now))
        };
        if !allows(policy.rate, self.takes_of(nth, None)) {
            return None;
        }
        let taken = self.tasks.values().filter(|it| it.tube == nth && it.status == Status::Taken);
        let busy: Vec<&str> = taken.map(|task| task.sub_queue).collect();
        self.ready(nth).into_iter().find(|id| {
            let name = self.tasks[id].sub_queue;
            let takes = self.takes_of(nth, Some(name));
            !busy.contains(&name) && allows(policy.sub_queue_rate, takes)
        })
    }

    /// When tasks of a tube, or of one of its sub-queues, were taken.
    fn takes_of(&self, nth: usize, name: Option<&str>) -> Vec<Micros> {
        let takes = self.takes.iter().filter(|take| take.tube == nth);
        let takes = takes.filter(|take| name.is_none_or(|name| take.sub_queue == name));
        takes.map(|take| take.at).collect()
    }

    /// Asserts that the last period has no more takes than the rates allow.
    pub(super) fn check_rates(&self, nth: usize, name: &str) {
        let Policy { rate, sub_queue_rate, .. } = self.policies[nth];
        for (rate, name) in [(rate, None), (sub_queue_rate, Some(name))] {
            let Some(limit) = rate else { continue };
            let takes = self.takes_of(nth, name);
            assert!(
                limit.used(&takes, self.world.now) <= limit.count.into(),
                "{limit:?}: {takes:?}"
            );
        }
    }
}

impl Limit {
    pub(super) fn rate(self) -> Rate {
        Rate::per(self.count, Duration::from_micros(self.period))
    }

    /// How many takes the period before this time has.
    fn used(self, takes: &[Micros], at: Micros) -> u64 {
        takes.iter().filter(|take| **take + self.period > at).count() as u64
    }

    /// Whether a take is allowed at this time. `since`: the bucket was empty then.
    fn allows_take(self, takes: &[Micros], since: Option<Micros>, at: Micros) -> bool {
        let (used, count) = (self.used(takes, at), u64::from(self.count));
        let filled = |since: Micros| since + (self.period * (used + 1)).div_ceil(count);
        used < count && since.is_none_or(|since| filled(since) <= at)
    }
}
