//! The cooldowns of the sub-queues of a tube: for a time after the end of a claim, no task of its
//! sub-queue may be taken. All times are microseconds of running time.
//!
//! Invariant: a sub-queue whose last end is not longer ago than a cooldown is listed, both by name and
//! by time.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use crate::base::micros::micros_ceil;

/// The sub-queues that may be in their cooldown.
#[derive(Debug)]
pub(crate) struct Cooldowns {
    time: u64,
    /// When the store was opened: the last run may have ended a claim of any sub-queue just before.
    /// `None` if the tube was created, or got its cooldown, in this run.
    since: Option<u64>,
    /// When the last claim of a sub-queue ended.
    ended_at: HashMap<Arc<str>, u64>,
    by_time: BTreeSet<(u64, Arc<str>)>,
}

impl Cooldowns {
    pub(super) fn new(time: Duration) -> Cooldowns {
        Cooldowns {
            time: micros_ceil(time),
            since: None,
            ended_at: HashMap::new(),
            by_time: BTreeSet::new(),
        }
    }

    /// The store was opened at this time.
    pub(super) fn begin_run(&mut self, now: u64) {
        self.since = Some(now);
    }

    /// Takes over the cooldowns that have not ended. They last as long as the new time says.
    pub(super) fn succeed(&mut self, old: Cooldowns, now: u64) {
        let lasts = |began: &u64| began.saturating_add(old.time) > now;
        self.since = old.since.filter(lasts);
        for (sub, at) in old.ended_at.into_iter().filter(|(_, at)| lasts(at)) {
            self.claim_ended(&sub, at);
        }
    }

    /// Begins the cooldown of a sub-queue again.
    pub(super) fn claim_ended(&mut self, sub: &Arc<str>, now: u64) {
        if let Some(before) = self.ended_at.insert(sub.clone(), now) {
            self.by_time.remove(&(before, sub.clone()));
        }
        self.by_time.insert((now, sub.clone()));
    }

    /// When the cooldown ends in which all sub-queues are after an open; 0 if they are in none.
    pub(super) fn all_end_at(&self) -> u64 {
        self.since.map_or(0, |since| since.saturating_add(self.time))
    }

    /// When the cooldown of a sub-queue ends or has ended.
    pub(super) fn ends_at(&self, sub: &str) -> u64 {
        let own = self.ended_at.get(sub).map_or(0, |at| at.saturating_add(self.time));
        own.max(self.all_end_at())
    }

    /// The listed sub-queue whose cooldown ends first, and when.
    pub(super) fn first(&self) -> Option<(u64, &Arc<str>)> {
        self.by_time.first().map(|(at, sub)| (at.saturating_add(self.time), sub))
    }

    /// A sub-queue whose cooldown has ended is offered to takes again.
    pub(super) fn remove(&mut self, sub: &Arc<str>) {
        if let Some(at) = self.ended_at.remove(sub) {
            self.by_time.remove(&(at, sub.clone()));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cooldowns(micros: u64) -> Cooldowns {
        Cooldowns::new(Duration::from_micros(micros))
    }

    #[test]
    fn cooldown_begins_again_with_each_end_of_a_claim() {
        let (mut cooldowns, [x, y]) = (cooldowns(100), ["x", "y"].map(Arc::from));
        assert_eq!((cooldowns.ends_at("x"), cooldowns.first()), (0, None));
        cooldowns.claim_ended(&x, 7);
        cooldowns.claim_ended(&y, 9);
        assert_eq!(cooldowns.first(), Some((107, &x)));
        cooldowns.claim_ended(&x, 50);
        assert_eq!(cooldowns.first(), Some((109, &y)));
        cooldowns.remove(&y);
        assert_eq!((cooldowns.ends_at("x"), cooldowns.ends_at("y")), (150, 0));
        assert_eq!(cooldowns.first(), Some((150, &x)));
    }

    #[test]
    fn all_sub_queues_are_in_their_cooldown_after_an_open() {
        let (mut cooldowns, x) = (cooldowns(100), Arc::from("x"));
        cooldowns.begin_run(5);
        cooldowns.claim_ended(&x, 20);
        assert_eq!((cooldowns.ends_at("x"), cooldowns.ends_at("y")), (120, 105));
        assert_eq!(cooldowns.all_end_at(), 105);
    }

    #[test]
    fn only_cooldowns_that_last_get_the_altered_time() {
        let [x, y] = ["x", "y"].map(Arc::from);
        for (time, ends) in [(50, [0, 60]), (100, [0, 110]), (1000, [0, 1010])] {
            let mut old = cooldowns(100);
            old.begin_run(0);
            old.claim_ended(&x, 0);
            old.claim_ended(&y, 10);
            let mut new = cooldowns(time);
            new.succeed(old, 100);
            assert_eq!([new.ends_at("x"), new.ends_at("y")], ends);
        }
    }

    #[test]
    fn times_at_the_end_of_the_clock_do_not_overflow() {
        let (mut cooldowns, x) = (cooldowns(100), Arc::from("x"));
        cooldowns.claim_ended(&x, u64::MAX - 1);
        assert_eq!(cooldowns.ends_at("x"), u64::MAX);
    }
}
