//! The limits of the sub-queues of a tube, and the limits that tubes share.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::NEVER;

use super::bucket::{Bucket, Fill};
use super::cooldown::Cooldowns;
use super::gates::Alarm;
use super::now::Now;
use crate::Rate;
use crate::base::tube_no::TubeNo;
use crate::options::Policies;

/// The limits of the sub-queues of a tube that has others than the default, which is one taken task
/// each.
#[derive(Debug)]
pub(crate) struct SubQueueLimits {
    /// How many tasks of a sub-queue may be taken.
    pub(crate) most: u32,
    /// The names of the sub-queues are names of the limits of the store.
    pub(crate) shared: bool,
    rate: Option<Rate>,
    /// When the buckets were empty and began to fill; `None` if they were full.
    since: Option<u64>,
    /// Until when all sub-queues are shut, on running time: at open the buckets were empty, and all
    /// cooldowns began.
    pub(crate) all_shut_until: u64,
    /// The buckets of the sub-queues of which a task was taken within the last period.
    buckets: HashMap<Arc<str>, Bucket>,
    /// When each of them says nothing any more.
    forgotten_at: BTreeSet<(u64, Arc<str>)>,
    /// The sub-queues without a token, by the time at which they get one, on running time.
    without_token: BTreeSet<(u64, Arc<str>)>,
    /// `None` without a cooldown.
    cooldowns: Option<Box<Cooldowns>>,
    /// Until when sub-queues are paused, on the timeline; `NEVER` without an end.
    pauses: BTreeMap<Arc<str>, u64>,
    /// Those whose pause has an end, by that.
    ends_of_pauses: BTreeSet<(u64, Arc<str>)>,
    /// When the first sub-queue gets a token or ends its cooldown, and when the first pause ends, if takes
    /// wait for that.
    pub(in crate::core) alarms: [Option<Alarm>; 2],
}

impl SubQueueLimits {
    /// `None` for the default limits.
    pub(crate) fn of(policies: &Policies) -> Option<Box<SubQueueLimits>> {
        let is_default = SubQueueLimits::options(policies) == (None, false, None, None);
        (!is_default).then(|| Box::new(SubQueueLimits::new(policies)))
    }

    /// The options that they follow.
    pub(in crate::core) fn options(
        policies: &Policies,
    ) -> (Option<u32>, bool, Option<Rate>, Option<Duration>) {
        let (rate, cooldown) = (policies.sub_queue_rate, policies.sub_queue_cooldown);
        (policies.sub_queue_limit, policies.shared_limits, rate, cooldown)
    }

    pub(crate) fn new(policies: &Policies) -> SubQueueLimits {
        SubQueueLimits {
            most: policies.sub_queue_limit.unwrap_or(1),
            shared: policies.shared_limits,
            rate: policies.sub_queue_rate,
            since: None,
            all_shut_until: 0,
            buckets: HashMap::new(),
            forgotten_at: BTreeSet::new(),
            without_token: BTreeSet::new(),
            cooldowns: policies.sub_queue_cooldown.map(|time| Box::new(Cooldowns::new(time))),
            pauses: BTreeMap::new(),
            ends_of_pauses: BTreeSet::new(),
            alarms: [None; 2],
        }
    }

    /// The store was opened: the buckets are empty now, and the cooldowns begin. The last run may have
    /// used all tokens, and ended a claim of each sub-queue.
    pub(crate) fn begin_run(&mut self, now: u64) {
        self.since = Some(now);
        if let Some(cooldowns) = &mut self.cooldowns {
            cooldowns.begin_run(now);
        }
        self.find_first_opening();
    }

    /// Takes over what was taken, what has ended and what is paused. The policies of the tube have
    /// changed.
    pub(crate) fn succeed(&mut self, old: SubQueueLimits, now: Now) {
        self.since = old.since.filter(|_| old.rate.is_some());
        self.alarms = old.alarms;
        self.pauses = old.pauses;
        self.ends_of_pauses = old.ends_of_pauses;
        if let (Some(cooldowns), Some(old)) = (&mut self.cooldowns, old.cooldowns) {
            cooldowns.succeed(*old, now.running);
        }
        self.find_first_opening();
        let Some(fill) = self.fill() else { return };
        for (sub, bucket) in old.buckets {
            self.keep_bucket(&sub, bucket, &fill, now.running);
        }
    }

    fn fill(&self) -> Option<Fill> {
        self.rate.map(|rate| Fill::new(rate, self.since))
    }

    fn find_first_opening(&mut self) {
        let token = self.fill().map_or(0, |fill| Bucket::default().opens_at(&fill, 0));
        self.all_shut_until = self.cooldowns.as_ref().map_or(0, |it| it.all_end_at()).max(token);
    }

    /// Uses a token of a sub-queue.
    pub(crate) fn use_token(&mut self, sub: &Arc<str>, now: Now) {
        let Some(fill) = self.fill() else { return };
        let now = now.running;
        self.forget_buckets(now);
        let mut bucket = self.buckets.remove(sub).unwrap_or_default();
        self.forgotten_at.remove(&(bucket.is_new_at(&fill), sub.clone()));
        bucket.take(&fill, now);
        self.keep_bucket(sub, bucket, &fill, now);
    }

    fn keep_bucket(&mut self, sub: &Arc<str>, bucket: Bucket, fill: &Fill, now: u64) {
        let opens_at = bucket.opens_at(fill, now);
        if opens_at > now {
            self.without_token.insert((opens_at, sub.clone()));
        }
        self.forgotten_at.insert((bucket.is_new_at(fill), sub.clone()));
        self.buckets.insert(sub.clone(), bucket);
    }

    /// Removes the buckets whose takes are longer ago than a period.
    fn forget_buckets(&mut self, now: u64) {
        while let Some((at, _)) = self.forgotten_at.first()
            && *at <= now
            && let Some((_, sub)) = self.forgotten_at.pop_first()
        {
            self.buckets.remove(&sub);
        }
    }

    /// When a sub-queue has a token, on running time; `None` if it has one now.
    pub(crate) fn token_at(&self, sub: &str, now: Now) -> Option<u64> {
        let fill = self.fill()?;
        let none = Bucket::default();
        let at = self.buckets.get(sub).unwrap_or(&none).opens_at(&fill, now.running);
        Some(at).filter(|at| *at > now.running)
    }

    /// A claim of a sub-queue has ended. Returns whether its cooldown has begun.
    pub(crate) fn begin_cooldown(&mut self, sub: &Arc<str>, now: Now) -> bool {
        let Some(cooldowns) = &mut self.cooldowns else { return false };
        cooldowns.claim_ended(sub, now.running);
        true
    }

    /// When the cooldown of a sub-queue ends, on running time; `None` if it is in none.
    pub(crate) fn cooldown_ends_at(&self, sub: &str, now: Now) -> Option<u64> {
        let at = self.cooldowns.as_ref()?.ends_at(sub);
        Some(at).filter(|at| *at > now.running)
    }

    /// Until when a sub-queue is paused, on the timeline; `None` if it is not.
    pub(crate) fn paused_until(&self, sub: &str, now: Now) -> Option<u64> {
        self.pauses.get(sub).copied().filter(|until| *until > now.timeline)
    }

    /// Whether a pause, the rate or the cooldown of a sub-queue prevents its takes.
    pub(crate) fn is_shut(&self, sub: &str, now: Now) -> bool {
        self.paused_until(sub, now).is_some()
            || self.token_at(sub, now).is_some()
            || self.cooldown_ends_at(sub, now).is_some()
    }

    /// Sets or removes the pause of a sub-queue. Returns the old one.
    pub(crate) fn set_pause(&mut self, sub: &Arc<str>, until: Option<u64>) -> Option<u64> {
        let old = match until {
            Some(until) => self.pauses.insert(sub.clone(), until),
            None => self.pauses.remove(sub),
        };
        if let Some(old) = old {
            self.ends_of_pauses.remove(&(old, sub.clone()));
        }
        if let Some(until) = until.filter(|until| *until != NEVER) {
            self.ends_of_pauses.insert((until, sub.clone()));
        }
        old
    }

    /// The paused sub-queues, by name, and until when they are.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = (&Arc<str>, u64)> {
        self.pauses.iter().map(|(sub, until)| (sub, *until))
    }

    /// Whether takes wait for a sub-queue that has opened.
    pub(crate) fn alarm_is_due(&self, now: Now) -> bool {
        self.alarms.iter().flatten().any(|alarm| alarm.is_due(now))
    }

    /// Whether there are sub-queues to open, or takes to serve.
    pub(crate) fn has_opened(&self, now: Now) -> bool {
        self.alarm_is_due(now)
            || self.without_token.first().is_some_and(|(at, _)| *at <= now.running)
            || self.ends_of_pauses.first().is_some_and(|(end, _)| *end <= now.timeline)
            || self.first_cooldown().is_some_and(|(end, _)| end <= now.running)
    }

    fn first_cooldown(&self) -> Option<(u64, &Arc<str>)> {
        self.cooldowns.as_ref()?.first()
    }

    /// The first sub-queue that has got a token, or whose pause or cooldown has elapsed, and is not
    /// offered to takes again yet.
    pub(crate) fn first_opened(&self, now: Now) -> Option<Opened> {
        let token = self.without_token.first().filter(|(at, _)| *at <= now.running);
        let pause = self.ends_of_pauses.first().filter(|(end, _)| *end <= now.timeline);
        let cooldown = self.first_cooldown().filter(|(end, _)| *end <= now.running);
        match (token, pause, cooldown) {
            (Some((at, sub)), ..) => Some(Opened::HasToken(*at, sub.clone())),
            (_, Some((_, sub)), _) => Some(Opened::PauseElapsed(sub.clone())),
            (.., Some((_, sub))) => Some(Opened::CooldownElapsed(sub.clone())),
            _ => None,
        }
    }

    /// A sub-queue that has got a token is offered to takes again.
    pub(crate) fn remove_without_token(&mut self, at: u64, sub: &Arc<str>) {
        self.without_token.remove(&(at, sub.clone()));
    }

    /// A sub-queue whose cooldown has elapsed is offered to takes again.
    pub(crate) fn remove_cooldown(&mut self, sub: &Arc<str>) {
        if let Some(cooldowns) = &mut self.cooldowns {
            cooldowns.remove(sub);
        }
    }

    /// When the next sub-queue gets a token or ends its cooldown, and when the next pause ends.
    pub(in crate::core) fn next_openings(&self, now: Now) -> [Option<Alarm>; 2] {
        let all = Some(self.all_shut_until).filter(|at| *at > now.running);
        let token = self.without_token.first().map(|(at, _)| *at);
        let cooldown = self.first_cooldown().map(|(end, _)| end);
        let next = [all, token, cooldown].into_iter().flatten().min().filter(|at| *at != NEVER);
        let end = self.ends_of_pauses.first().map(|(end, _)| *end);
        [next.map(Alarm::Running), end.map(Alarm::Timeline)]
    }
}

/// Why a sub-queue may be takeable again.
#[derive(Clone, Debug)]
pub(crate) enum Opened {
    /// It has got a token at this time.
    HasToken(u64, Arc<str>),
    PauseElapsed(Arc<str>),
    CooldownElapsed(Arc<str>),
}

/// The limits of the store, which tubes share.
#[derive(Debug, Default)]
pub(crate) struct SharedLimits {
    /// How many tasks may be taken, by name.
    pub(crate) most: BTreeMap<Arc<str>, u32>,
    /// How many are taken, or have an end that is not yet visible.
    pub(crate) taken: BTreeMap<Arc<str>, u64>,
    /// The tubes that were not offered a task of a name since its limit was reached, each with the limit
    /// that it has for names without one.
    refused: HashMap<Arc<str>, BTreeSet<(u32, TubeNo)>>,
}

impl SharedLimits {
    pub(crate) fn add_holder(&mut self, sub: &Arc<str>) {
        *self.taken.entry(sub.clone()).or_default() += 1;
    }

    pub(crate) fn remove_holders(&mut self, sub: &str, holders: u64) {
        if let Some(taken) = self.taken.get_mut(sub) {
            *taken = taken.saturating_sub(holders);
            if *taken == 0 {
                self.taken.remove(sub);
            }
        }
    }

    /// A tube was not offered a task, since the limit is reached. It is offered one once that is free.
    pub(crate) fn refuse(&mut self, sub: &Arc<str>, otherwise: u32, tube: TubeNo) {
        self.refused.entry(sub.clone()).or_default().insert((otherwise, tube));
    }

    /// The tubes that were refused a task of a name whose limit has room for it now. They are refused no
    /// more.
    pub(crate) fn take_freed(&mut self, sub: &str) -> Vec<TubeNo> {
        let taken = self.taken_of(sub);
        let Some(refused) = self.refused.get_mut(sub) else { return Vec::new() };
        let freed = match (self.most.get(sub), u32::try_from(taken)) {
            (Some(most), _) if taken >= u64::from(*most) => return Vec::new(),
            (Some(_), _) => std::mem::take(refused),
            (None, Ok(taken)) => refused.split_off(&(taken.saturating_add(1), TubeNo(0))),
            (None, Err(_)) => return Vec::new(),
        };
        if refused.is_empty() {
            self.refused.remove(sub);
        }
        freed.into_iter().map(|(_, tube)| tube).collect()
    }

    /// The names whose limit has room for a tube that is still noted as refused: none.
    pub(in crate::core) fn wrongly_refused(&self) -> impl Iterator<Item = &Arc<str>> {
        let is_wrong = |(sub, tubes): &(&Arc<str>, &BTreeSet<(u32, TubeNo)>)| {
            tubes.iter().any(|(otherwise, _)| !self.is_full(sub, *otherwise))
        };
        self.refused.iter().filter(is_wrong).map(|(sub, _)| sub)
    }

    /// Whether as many tasks are taken as may be. `otherwise`: the limit of a name that has none.
    pub(crate) fn is_full(&self, sub: &str, otherwise: u32) -> bool {
        self.taken_of(sub) >= u64::from(self.limit_of(sub, otherwise))
    }

    pub(crate) fn taken_of(&self, sub: &str) -> u64 {
        self.taken.get(sub).copied().unwrap_or(0)
    }

    pub(crate) fn limit_of(&self, sub: &str, otherwise: u32) -> u32 {
        self.most.get(sub).copied().unwrap_or(otherwise)
    }
}
